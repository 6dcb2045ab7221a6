//! `edit`: one exact piece of text of a file for another.
//!
//! It works on bytes, so what it does not touch stays as it is, whatever its encoding.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use memchr::memmem;
use serde::Deserialize;
use serde_json::json;
use wire::limits::TOOL_FILE_BYTES_MAX;

use super::{
    Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, blocking,
    diff::{self, Diff},
    editor, file,
    replace::{self, Before},
    wording,
};
use crate::model::ToolSpec;

/// See the module.
#[derive(Debug)]
pub(super) struct Edit;

#[derive(Debug, Deserialize)]
struct Args {
    file_path: String,
    old_string: String,
    new_string: String,
    replace_all: Option<bool>,
}

/// What a call would do.
#[derive(Debug)]
struct Plan {
    place: PathBuf,
    shown: String,
    before: Before,
    content: Vec<u8>,
    n_places: usize,
    diff: Diff,
}

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".into(),
            description: "Replaces a piece of text in a file. old_string has to be in the file \
                          exactly as given, white space included, and only once, unless \
                          replace_all is true: give enough lines around the change to make it \
                          unique. An empty old_string creates a file that does not exist yet."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, relative to the project root or absolute."
                    },
                    "old_string": {
                        "type": "string",
                        "description": "The text to replace, exactly as it is in the file."
                    },
                    "new_string": {
                        "type": "string",
                        "description": "The text to put in its place; may be empty."
                    },
                    "replace_all": {
                        "type": "boolean",
                        "description": "Replace every place where old_string is found."
                    }
                },
                "required": ["file_path", "old_string", "new_string"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Edit
    }

    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError> {
        let args: Args = args::parse(self, args)?;
        Ok(plan(&args, workspace, None)?.into_preview())
    }

    fn edited_file(&self, args: &str, workspace: &Workspace) -> Option<PathBuf> {
        let args: Args = args::parse(self, args).ok()?;
        workspace.resolve_for_change(&args.file_path).ok()
    }

    fn preview_edited(
        &self,
        args: &str,
        workspace: &Workspace,
        edited: Vec<u8>,
    ) -> Result<Preview, ToolError> {
        let args: Args = args::parse(self, args)?;
        Ok(plan(&args, workspace, Some(edited))?.into_preview())
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let args: Args = args::parse(self, args)?;
            let place = context.workspace.resolve_for_change(&args.file_path)?;
            let edited = editor::text_of(context, &place).await;
            let workspace = context.workspace.clone();
            let plan = blocking::change(context, move |_| plan(&args, &workspace, edited)).await?;
            if editor::write(context, &plan.place, &plan.shown, &plan.content).await? {
                return Ok(plan.into_output());
            }
            blocking::change(context, move |cancel| {
                replace::replace(&plan.place, &plan.shown, &plan.content, plan.before, cancel)?;
                Ok(plan.into_output())
            })
            .await
        })
    }
}

/// `edited` is the file's text in an editor, where one has it.
fn plan(args: &Args, workspace: &Workspace, edited: Option<Vec<u8>>) -> Result<Plan, ToolError> {
    let place = workspace.resolve_for_change(&args.file_path)?;
    let shown = workspace.shown(&place);
    let Some(old) = file::load_edited(&place, &shown, edited)? else {
        return plan_new(args, place, shown);
    };
    if args.old_string.is_empty() {
        return Err(ToolError::new(
            "invalid_args",
            format!(
                "`{shown}` exists, and an empty old_string only creates new files. Give the text \
                 to replace, or use write_file to replace the whole file."
            ),
        ));
    }
    if args.old_string == args.new_string {
        return Err(ToolError::new(
            "invalid_args",
            "old_string and new_string are the same; nothing would change.",
        ));
    }
    if file::is_binary(&old.bytes) {
        return Err(ToolError::new(
            "not_text",
            format!("`{shown}` is a binary file and was not changed."),
        ));
    }
    replace::check_writable(&place, &shown)?;
    let (content, n_places) = exchange(args, &shown, &old.bytes)?;
    let diff = diff::unified(&shown, Some(&old.bytes), &content);
    Ok(Plan {
        place,
        shown,
        before: Before::File(old.stamp),
        content,
        n_places,
        diff,
    })
}

fn plan_new(args: &Args, place: PathBuf, shown: String) -> Result<Plan, ToolError> {
    if !args.old_string.is_empty() {
        return Err(ToolError::new(
            "not_found",
            format!(
                "`{shown}` does not exist. Use list_directory or glob to find the file, or give \
                 an empty old_string to create it."
            ),
        ));
    }
    let content = args.new_string.clone().into_bytes();
    check_size(content.len(), &shown)?;
    let diff = diff::unified(&shown, None, &content);
    Ok(Plan {
        place,
        shown,
        before: Before::Nothing,
        content,
        n_places: 0,
        diff,
    })
}

fn check_size(n_bytes: usize, shown: &str) -> Result<(), ToolError> {
    if n_bytes as u64 <= TOOL_FILE_BYTES_MAX {
        return Ok(());
    }
    Err(ToolError::new(
        "too_large",
        format!("`{shown}` would have more than {TOOL_FILE_BYTES_MAX} bytes and was not written."),
    ))
}

/// The file's content after the change, and the number of places changed.
fn exchange(args: &Args, shown: &str, bytes: &[u8]) -> Result<(Vec<u8>, usize), ToolError> {
    let (old, new) = wanted(args, bytes);
    let n_places = memmem::find_iter(bytes, &old).count();
    if n_places == 0 {
        return Err(ToolError::new(
            "no_match",
            format!(
                "old_string was not found in `{shown}`. It has to match exactly, white space \
                 included; read the file again and copy the text from there."
            ),
        ));
    }
    if !args.replace_all.unwrap_or(false) {
        let n_places = n_places + usize::from(n_places == 1 && overlaps_itself(bytes, &old));
        if n_places > 1 {
            return Err(ToolError::new(
                "not_unique",
                format!(
                    "old_string was found {n_places} times in `{shown}`. Give more of the lines \
                     around it so that it is found once, or set replace_all to true."
                ),
            ));
        }
    }
    check_size(
        bytes.len() + n_places.saturating_mul(new.len()) - n_places * old.len(),
        shown,
    )?;
    let mut content = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for start in memmem::find_iter(bytes, &old) {
        content.extend_from_slice(&bytes[at..start]);
        content.extend_from_slice(&new);
        at = start + old.len();
    }
    content.extend_from_slice(&bytes[at..]);
    Ok((content, n_places))
}

/// Whether the text is found a second time from within its first place.
fn overlaps_itself(bytes: &[u8], old: &[u8]) -> bool {
    memmem::find(bytes, old).is_some_and(|at| memmem::find(&bytes[at + 1..], old).is_some())
}

/// Old and new text with the line ends of the file. Models write `\n`, whatever the file has.
fn wanted(args: &Args, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (old, new) = (args.old_string.as_bytes(), args.new_string.as_bytes());
    let n_lines = memchr::memchr_iter(b'\n', bytes).count();
    let n_crlf = memmem::find_iter(bytes, b"\r\n").count();
    let all_crlf = n_lines > 0 && n_crlf == n_lines;
    let found_as_given = memmem::find(bytes, old).is_some();
    if all_crlf || (n_crlf > 0 && !found_as_given) {
        (with_crlf(old), with_crlf(new))
    } else {
        (old.to_vec(), new.to_vec())
    }
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut last = 0;
    for &byte in text {
        if byte == b'\n' && last != b'\r' {
            out.push(b'\r');
        }
        out.push(byte);
        last = byte;
    }
    out
}

impl Plan {
    fn into_preview(self) -> Preview {
        Preview::Edit {
            path: self.place,
            diff: self.diff.text,
            texts: self.diff.texts,
        }
    }

    fn into_output(self) -> Output {
        let Self {
            place,
            shown,
            before,
            content: _,
            n_places,
            diff,
        } = self;
        let (n_added, n_removed) = (diff.n_added, diff.n_removed);
        let text = match before {
            Before::Nothing => format!(
                "Created `{shown}` with {}.",
                wording::counted(n_added, "line")
            ),
            Before::File(_) => format!(
                "Changed `{shown}` in {}: {}.",
                wording::counted(n_places, "place"),
                wording::changed(n_added, n_removed)
            ),
        };
        let display = Display::Diff {
            path: place,
            diff: diff.text,
            texts: diff.texts,
            n_added,
            n_removed,
        };
        Output { text, display }
    }
}
