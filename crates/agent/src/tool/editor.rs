//! Files as an editor holds them, perhaps changed and not yet saved.

use std::{fmt, path::Path};

use futures_util::future::BoxFuture;

use super::{Context, ToolError};

/// An editor that offers its files to the tools. What it says of a failure is told to the model.
pub trait Editor: Send + Sync + fmt::Debug {
    /// Whether it can be asked for what a file holds.
    fn reads(&self) -> bool;

    /// Whether files are to be written through it.
    fn writes(&self) -> bool;

    /// What a file holds.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>>;

    /// Replaces what a file holds.
    fn write<'a>(&'a self, path: &'a Path, content: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// A file's text in the editor. `None` where it is to be read from the disk: there is no editor, or it
/// does not have the file.
pub(super) async fn text_of(context: &Context, place: &Path) -> Option<Vec<u8>> {
    let editor = context.editor.as_ref().filter(|editor| editor.reads())?;
    tokio::select! {
        text = editor.read(place) => text.ok().map(String::into_bytes),
        () = context.cancel.cancelled() => None,
    }
}

/// Writes a file through the editor. `false` where it is to be written to the disk: no editor wants
/// it, or it is no text.
pub(super) async fn write(
    context: &Context,
    place: &Path,
    shown: &str,
    content: &[u8],
) -> Result<bool, ToolError> {
    let Some(editor) = context.editor.as_ref().filter(|editor| editor.writes()) else {
        return Ok(false);
    };
    let Ok(text) = std::str::from_utf8(content) else {
        return Ok(false);
    };
    make_parent(place, shown)?;
    // A cancel waits for the answer: what has become of the file must be told truly.
    let written = editor.write(place, text).await;
    written
        .map(|()| true)
        .map_err(|error| ToolError::new("io", format!("`{shown}` was not written: {error}.")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a folder of the workspace, where a file is to be"
)]
fn make_parent(place: &Path, shown: &str) -> Result<(), ToolError> {
    let made = place.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.map_err(|error| ToolError::io(&format!("The folder of `{shown}` cannot be made"), &error))
}
