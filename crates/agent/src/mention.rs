//! Pictures of the workspace that a prompt mentions as `@path`.
//!
//! Other files are left to the model, which reads them where it wants to know them.

use std::{sync::Arc, thread};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wire::limits::{MODEL_IMAGES_BYTES_MAX, PROMPT_IMAGES_MAX};

use crate::{
    image::Image,
    message::Prompt,
    tool::{Workspace, file},
};

/// Endings of names that are taken for those of pictures.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// A prompt with the pictures that its text mentions. What is mentioned and cannot be shown is said;
/// what does not exist is no mention.
pub async fn with_pictures(
    text: &str,
    workspace: &Arc<Workspace>,
    cancel: &CancellationToken,
) -> Prompt {
    if mentions(text).next().is_none() {
        return text.into();
    }
    let (answer, read) = oneshot::channel();
    let (said, workspace) = (text.to_owned(), Arc::clone(workspace));
    // A disk may hang, and the prompt can still be cancelled.
    let reading = thread::Builder::new()
        .name("mentions".to_owned())
        .spawn(move || {
            // Dropped: whoever asked does not wait any more.
            _ = answer.send(prompt(&said, &workspace));
        });
    if reading.is_err() {
        return text.into();
    }
    tokio::select! {
        read = read => read.unwrap_or_else(|_| text.into()),
        () = cancel.cancelled() => text.into(),
    }
}

/// The paths of pictures that a text mentions.
fn mentions(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter_map(|word| {
        let path = word.strip_prefix('@')?;
        // A mention may end a sentence, or a clause.
        let path = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']);
        let lower = path.to_ascii_lowercase();
        ENDINGS
            .iter()
            .any(|ending| lower.ends_with(ending))
            .then_some(path)
    })
}

fn prompt(text: &str, workspace: &Workspace) -> Prompt {
    let mut prompt = Prompt::from(text);
    let mut n_bytes = 0;
    for path in mentions(text) {
        match picture(path, workspace) {
            Ok(None) => {}
            Ok(Some(image)) => {
                n_bytes += image.bytes().len();
                if prompt.images.len() == PROMPT_IMAGES_MAX || n_bytes > MODEL_IMAGES_BYTES_MAX {
                    prompt.push_text(&format!("[{path} is not shown: too many images]"));
                } else {
                    prompt.push_image(image, Some(path));
                }
            }
            Err(why) => prompt.push_text(&format!("[{path} is not shown: {why}]")),
        }
    }
    prompt
}

/// The picture at a path; `None` where nothing is.
fn picture(path: &str, workspace: &Workspace) -> Result<Option<Image>, String> {
    let place = workspace.resolve(path).map_err(|error| error.to_string())?;
    let loaded = match file::load(&place, path) {
        Ok(loaded) => loaded,
        Err(error) if error.kind == "not_found" => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    Image::new(loaded.bytes)
        .map(Some)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_mentioned_by_a_word_of_its_own() {
        let text = "compare @a.png, @dir/b.JPEG and (@c.gif) with a@d.png and @e.rs: @f.webp.";
        let found: Vec<_> = mentions(text).collect();
        assert_eq!(found, ["a.png", "dir/b.JPEG", "f.webp"]);
    }
}
