//! The file tools: what they answer, what they refuse, and that nothing is ever half written.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

mod edit;
mod read;
mod search;
mod todo_write;
mod workspace;
mod write;

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, sync::Arc};

use agent::tool::{Context, Output, Preview, ToolError, Workspace, find, registry};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Names the test that a copy of this program runs by itself.
const ALONE: &str = "ONRECORD_TEST_ALONE";

/// Whether this process is the copy that runs this test by itself.
pub(crate) fn is_alone(test: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|name| name == test)
}

/// Makes `command`, which starts a copy of this program, run one test by itself.
pub(crate) fn alone(test: &str, mut command: Command) -> Command {
    command
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, test);
    command
}

/// Runs a test in a copy of this program, which `command` starts.
pub(crate) fn run_alone(test: &str, command: Command) {
    let out = alone(test, command).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Runs async work where no test macro does.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

struct Place {
    dir: TempDir,
    root: PathBuf,
    context: Context,
}

impl Place {
    fn new() -> Self {
        Self::allowing(Vec::new())
    }

    fn allowing(allowed: Vec<PathBuf>) -> Self {
        let dir = TempDir::new().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("project");
        fs::create_dir(&root).unwrap();
        let context = Context {
            editor: None,
            workspace: Arc::new(Workspace {
                root: root.clone(),
                allowed,
                data_root: None,
                open_files: None,
            }),
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
        };
        Self { dir, root, context }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (path, content) in files {
            place.put(path, content);
        }
        place
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.root.join(path)).unwrap()
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// Everything below the folder that holds the project, with content and links.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                let content = if kind.is_dir() {
                    folders.push(path.clone());
                    Vec::new()
                } else if kind.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    b"special".to_vec()
                };
                found.insert(path, content);
            }
        }
        found
    }

    async fn run(&self, tool: &str, args: Value) -> Result<Output, ToolError> {
        let tools = registry();
        find(&tools, tool)
            .unwrap()
            .run(&args.to_string(), &self.context)
            .await
    }

    fn preview(&self, tool: &str, args: &Value) -> Result<Preview, ToolError> {
        let tools = registry();
        find(&tools, tool)
            .unwrap()
            .preview(&args.to_string(), &self.context.workspace)
    }

    async fn answer(&self, tool: &str, args: Value) -> String {
        self.run(tool, args).await.unwrap().text
    }

    async fn refusal(&self, tool: &str, args: Value) -> (&'static str, String) {
        let error = self.run(tool, args).await.unwrap_err();
        (error.kind, error.message)
    }
}

#[test]
fn every_tool_says_what_it_takes_as_a_json_schema() {
    for tool in registry() {
        let spec = tool.spec();
        assert!(spec.description.len() > 40, "{}", spec.name);
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        let properties = spec.parameters["properties"].as_object().unwrap();
        for name in spec.parameters["required"].as_array().unwrap() {
            assert!(
                properties.contains_key(name.as_str().unwrap()),
                "{}",
                spec.name
            );
        }
        assert!(
            properties
                .values()
                .all(|field| field["description"].is_string())
        );
    }
}

#[tokio::test]
async fn arguments_that_are_wrong_are_answered_with_what_to_send() {
    let place = Place::new();
    let tools = registry();
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let deep_field = format!(r#"{{"file_path":{deep}}}"#);
    for (args, word) in [
        ("", "one JSON object"),
        ("null", "one JSON object"),
        ("[\"a\"]", "one JSON object"),
        ("\"a\"", "one JSON object"),
        ("{\"file_path\":", "EOF"),
        ("{}", "missing field `file_path`"),
        ("{\"file_path\":7}", "invalid type: integer `7`"),
        ("{\"file_path\":\"a\",\"limit\":-1}", "invalid value"),
        ("{\"file_path\":\"\\ud83d\"}", "hex escape"),
        (deep.as_str(), "one JSON object"),
        (deep_field.as_str(), "invalid type"),
    ] {
        let tool = find(&tools, "read_file").unwrap();
        let error = tool.run(args, &place.context).await.unwrap_err();
        assert_eq!(error.kind, "invalid_args", "{args}");
        assert!(error.message.contains(word), "{}", error.message);
        let fields = r#"Send {"file_path": string, "offset"?: integer, "limit"?: integer}."#;
        assert!(error.message.ends_with(fields), "{}", error.message);
        let preview = tool.preview(args, &place.context.workspace).unwrap_err();
        assert_eq!(preview.kind, "invalid_args");
    }
}

/// case-E05
#[tokio::test]
async fn fields_that_are_not_known_are_passed_over_however_deep() {
    let place = Place::with(&[("a.txt", "text")]);
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let tools = registry();
    let args = format!(r#"{{"more":{deep},"file_path":"a.txt"}}"#);
    let out = find(&tools, "read_file")
        .unwrap()
        .run(&args, &place.context)
        .await
        .unwrap();
    assert_eq!(out.text, "text");
}

#[test]
fn an_unknown_tool_is_answered_with_those_there_are() {
    let error = find(&registry(), "shell").unwrap_err();
    assert_eq!(error.kind, "unknown_tool");
    assert!(
        error.message.contains("run_shell_command"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_cancelled_write_changes_nothing() {
    let place = Place::with(&[("a.txt", "old")]);
    let before = place.everything();
    place.context.cancel.cancel();
    let calls = [
        (
            "write_file",
            json!({ "file_path": "a.txt", "content": "new" }),
        ),
        (
            "write_file",
            json!({ "file_path": "new/b.txt", "content": "new" }),
        ),
        (
            "edit",
            json!({ "file_path": "a.txt", "old_string": "old", "new_string": "new" }),
        ),
        ("read_file", json!({ "file_path": "a.txt" })),
        ("list_directory", json!({ "path": "." })),
        ("glob", json!({ "pattern": "*" })),
        ("grep_search", json!({ "pattern": "old" })),
    ];
    for (tool, args) in calls {
        assert_eq!(place.refusal(tool, args).await.0, "cancelled", "{tool}");
    }
    assert_eq!(place.everything(), before);
}

#[tokio::test]
async fn previews_say_what_would_happen_and_do_nothing() {
    let place = Place::with(&[("a.txt", "old\n")]);
    let before = place.everything();
    let calls = [
        ("read_file", json!({ "file_path": "a.txt" }), "Read a.txt"),
        ("list_directory", json!({ "path": "." }), "List ."),
        ("glob", json!({ "pattern": "*.txt" }), "Find *.txt in ."),
        (
            "grep_search",
            json!({ "pattern": "old" }),
            "Search . for old",
        ),
        (
            "write_file",
            json!({ "file_path": "a.txt", "content": "new\n" }),
            "-old\\n+new\\n",
        ),
        (
            "write_file",
            json!({ "file_path": "new/b.txt", "content": "new\n" }),
            "+new\\n",
        ),
        (
            "edit",
            json!({ "file_path": "a.txt", "old_string": "old", "new_string": "new" }),
            "-old\\n+new\\n",
        ),
        (
            "run_shell_command",
            json!({ "command": "rm a.txt" }),
            "rm a.txt",
        ),
    ];
    for (tool, args, word) in calls {
        let preview = format!("{:?}", place.preview(tool, &args).unwrap());
        assert!(preview.contains(word), "{tool}: {preview}");
    }
    assert_eq!(place.everything(), before);
}
