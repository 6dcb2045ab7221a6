//! `read_file`: a text file, or some lines of it.

use std::{borrow::Cow, ops::Range};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use wire::limits::TOOL_RESULT_BYTES_MAX;

use super::{
    Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, blocking, cut,
    editor, file, wording,
};
use crate::model::ToolSpec;

/// Room for the notes below the content.
const NOTES_BYTES_MAX: usize = 1 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct ReadFile;

#[derive(Debug, Deserialize)]
struct Args {
    file_path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".into(),
            description: "Reads a text file and gives its content as it is. A long file is cut at \
                          a line and the result says where to go on; give offset and limit to \
                          read a part of it."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, relative to the project root or absolute."
                    },
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "Number of lines to pass over before the first one given."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Number of lines to give."
                    }
                },
                "required": ["file_path"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError> {
        let args: Args = args::parse(self, args)?;
        let place = workspace.resolve(&args.file_path)?;
        Ok(Preview::Read(format!("Read {}", workspace.shown(&place))))
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let args: Args = args::parse(self, args)?;
            if args.limit == Some(0) {
                return Err(args::refused(self, "limit has to be at least 1"));
            }
            let place = context.workspace.resolve(&args.file_path)?;
            let shown = context.workspace.shown(&place);
            let edited = editor::text_of(context, &place).await;
            blocking::read(context, move |_| {
                let bytes = match edited {
                    Some(bytes) => bytes,
                    None => file::load(&place, &shown)?.bytes,
                };
                let offset = args.offset.unwrap_or(0);
                Ok(show(&shown, &bytes, offset, args.limit))
            })
            .await
        })
    }
}

fn show(shown: &str, bytes: &[u8], offset: u64, limit: Option<u64>) -> Output {
    if file::is_binary(bytes) {
        let text = format!(
            "[`{shown}` is a binary file of {} bytes; its content is not shown.]",
            bytes.len()
        );
        return said(text.clone(), text);
    }
    let (text, n_replaced) = decode(bytes);
    if text.is_empty() {
        return said(
            format!("[`{shown}` is empty.]"),
            format!("Read {shown}, which is empty."),
        );
    }
    let part = Part::of(&text, offset, limit);
    let mut out = text[part.bytes.clone()].to_owned();
    let mut note = |text: String| {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&text);
        out.push('\n');
    };
    if let Some(n_left_out) = part.n_line_bytes_left_out {
        note(format!(
            "[The last line shown is longer by {n_left_out} bytes.]"
        ));
    }
    if part.lines.is_empty() {
        note(format!(
            "[`{shown}` has {}; offset {offset} is after its end.]",
            wording::counted(part.n_lines, "line")
        ));
    } else if part.lines.start > 0 || part.lines.end < part.n_lines {
        let mut text = format!(
            "[Lines {} to {} of {} are shown.",
            part.lines.start + 1,
            part.lines.end,
            part.n_lines
        );
        if part.lines.end < part.n_lines {
            text.push_str(&format!(" Read on with offset {}.", part.lines.end));
        }
        note(format!("{text}]"));
    }
    if n_replaced > 0 {
        note(format!(
            "[Not all of the file is UTF-8: {} shown as \u{fffd}.]",
            wording::counted(n_replaced, "place")
        ));
    }
    let n_shown = part.lines.end - part.lines.start;
    said(
        out,
        format!(
            "Read {n_shown} of {} of {shown}.",
            wording::counted(part.n_lines, "line")
        ),
    )
}

fn said(text: String, display: String) -> Output {
    Output {
        text,
        display: Display::Text(display),
    }
}

/// Text of a file, and the number of places that are no UTF-8.
fn decode(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    let n_replaced = bytes
        .utf8_chunks()
        .filter(|chunk| !chunk.invalid().is_empty())
        .count();
    (String::from_utf8_lossy(bytes), n_replaced)
}

/// The lines to show.
#[derive(Debug)]
struct Part {
    bytes: Range<usize>,
    lines: Range<u64>,
    n_lines: u64,
    /// Set where the last line shown does not fit as a whole.
    n_line_bytes_left_out: Option<usize>,
}

impl Part {
    /// Takes whole lines as far as they fit into a result; only a first line is cut in itself.
    fn of(text: &str, offset: u64, limit: Option<u64>) -> Self {
        let bytes_max = TOOL_RESULT_BYTES_MAX - NOTES_BYTES_MAX;
        let end_line = limit.map_or(u64::MAX, |limit| offset.saturating_add(limit));
        let mut part = Self {
            bytes: 0..0,
            lines: 0..0,
            n_lines: 0,
            n_line_bytes_left_out: None,
        };
        let mut at = 0;
        let mut full = false;
        for line in text.split_inclusive('\n') {
            let number = part.n_lines;
            part.n_lines += 1;
            let start = at;
            at += line.len();
            if number < offset || number >= end_line || full {
                continue;
            }
            if part.lines.is_empty() {
                part.bytes = start..start;
                part.lines = number..number;
            }
            if at - part.bytes.start <= bytes_max {
                part.bytes.end = at;
                part.lines.end = number + 1;
                continue;
            }
            full = true;
            if part.lines.is_empty() {
                part.bytes.end = start + cut::floor(line, bytes_max);
                part.lines.end = number + 1;
                part.n_line_bytes_left_out = Some(at - part.bytes.end);
            }
        }
        part
    }
}
