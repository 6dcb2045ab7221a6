//! `write_file`: a whole file at once.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
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
pub(super) struct WriteFile;

#[derive(Debug, Deserialize)]
struct Args {
    file_path: String,
    content: String,
}

/// What a call would do.
#[derive(Debug)]
struct Plan {
    place: PathBuf,
    shown: String,
    before: Before,
    is_same: bool,
    diff: Diff,
}

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".into(),
            description: "Writes a file with exactly the content given. A file that exists is \
                          replaced as a whole; missing folders are made. To change a part of a \
                          file use edit."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, relative to the project root or absolute."
                    },
                    "content": {
                        "type": "string",
                        "description": "All of the file's content."
                    }
                },
                "required": ["file_path", "content"]
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
            let (plan, args) = blocking::change(context, move |_| {
                Ok((plan(&args, &workspace, edited)?, args))
            })
            .await?;
            let content = args.content.as_bytes();
            if plan.is_same || editor::write(context, &plan.place, &plan.shown, content).await? {
                return Ok(plan.into_output());
            }
            blocking::change(context, move |cancel| {
                let content = args.content.as_bytes();
                replace::replace(&plan.place, &plan.shown, content, plan.before, cancel)?;
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
    if args.content.len() as u64 > TOOL_FILE_BYTES_MAX {
        return Err(ToolError::new(
            "too_large",
            format!("The content has more than {TOOL_FILE_BYTES_MAX} bytes and was not written."),
        ));
    }
    let old = file::load_edited(&place, &shown, edited)?;
    replace::check_writable(&place, &shown)?;
    let diff = diff::unified(
        &shown,
        old.as_ref().map(|old| old.bytes.as_slice()),
        args.content.as_bytes(),
    );
    let is_same = old
        .as_ref()
        .is_some_and(|old| old.bytes == args.content.as_bytes());
    let before = old.map_or(Before::Nothing, |old| Before::File(old.stamp));
    Ok(Plan {
        place,
        shown,
        before,
        is_same,
        diff,
    })
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
            is_same,
            diff,
        } = self;
        let (n_added, n_removed) = (diff.n_added, diff.n_removed);
        let text = match before {
            _ if is_same => format!("`{shown}` already has exactly this content."),
            Before::Nothing => format!(
                "Created `{shown}` with {}.",
                wording::counted(n_added, "line")
            ),
            Before::File(_) => {
                format!(
                    "Replaced `{shown}`: {}.",
                    wording::changed(n_added, n_removed)
                )
            }
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
