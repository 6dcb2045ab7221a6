//! The list of all tools.

use std::sync::Arc;

use super::{
    Tool, ToolError, edit::Edit, glob::Glob, grep_search::GrepSearch,
    list_directory::ListDirectory, read_file::ReadFile, run_shell_command::RunShellCommand,
    todo_write::TodoWrite, write_file::WriteFile,
};

/// All tools, in the order in which the model is told of them.
#[must_use]
pub fn registry() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ListDirectory),
        Arc::new(ReadFile),
        Arc::new(Glob),
        Arc::new(GrepSearch),
        Arc::new(Edit),
        Arc::new(WriteFile),
        Arc::new(RunShellCommand),
        Arc::new(TodoWrite),
    ]
}

/// Names that other programs know our tools by, beside our own.
const OTHER_NAMES: [(&str, &[&str]); 8] = [
    ("list_directory", &["ListFiles", "ListFilesTool", "LSTool"]),
    ("read_file", &["ReadFile", "ReadFileTool"]),
    ("glob", &["Glob", "GlobTool", "FindFiles"]),
    ("grep_search", &["Grep", "GrepTool", "SearchText"]),
    ("edit", &["Edit", "EditTool"]),
    ("write_file", &["WriteFile", "WriteFileTool"]),
    ("run_shell_command", &["Shell", "ShellTool", "Bash"]),
    ("todo_write", &["TodoWrite", "TodoWriteTool"]),
];

/// Our name of a tool that a person or a program may call otherwise; of another, its own.
#[must_use]
pub fn our_name(name: &str) -> &str {
    let known = OTHER_NAMES
        .iter()
        .find(|(_, others)| others.contains(&name));
    known.map_or(name, |(ours, _)| ours)
}

/// The tool of that name.
///
/// # Errors
/// There is none; the text tells the model which there are.
pub fn find<'t>(tools: &'t [Arc<dyn Tool>], name: &str) -> Result<&'t Arc<dyn Tool>, ToolError> {
    tools
        .iter()
        .find(|tool| tool.spec().name == name)
        .ok_or_else(|| {
            let names: Vec<_> = tools.iter().map(|tool| tool.spec().name).collect();
            ToolError::new(
                "unknown_tool",
                format!(
                    "There is no tool `{name}`. The tools are: {}.",
                    names.join(", ")
                ),
            )
        })
}
