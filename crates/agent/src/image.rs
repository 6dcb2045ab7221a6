//! Pictures of a prompt: what is taken for one, and those of a stored session.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use transcript::reader::Loaded;
use wire::limits::{IMAGE_BYTES_MAX, MODEL_IMAGES_BYTES_MAX};

use crate::message::Message;

/// A picture, as a model is sent it. Cheap to clone.
#[derive(Clone)]
pub struct Image {
    mime_type: &'static str,
    bytes: Arc<[u8]>,
}

/// Why something is no picture for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It is none of the formats that models take.
    #[error("it is no PNG, JPEG, GIF or WebP")]
    Format,
    /// It is larger than [`IMAGE_BYTES_MAX`].
    #[error("it is larger than {} MiB", IMAGE_BYTES_MAX >> 20)]
    TooLarge,
}

impl Image {
    /// A picture in one of the formats that models take; its first bytes say which.
    ///
    /// # Errors
    /// It is in none of them, or too large.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, ImageError> {
        let bytes = bytes.into();
        let mime_type = format_of(&bytes).ok_or(ImageError::Format)?;
        if bytes.len() > IMAGE_BYTES_MAX {
            return Err(ImageError::TooLarge);
        }
        Ok(Self { mime_type, bytes })
    }

    /// Such as `image/png`.
    #[must_use]
    pub fn mime_type(&self) -> &'static str {
        self.mime_type
    }

    /// What it is made of.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Its bytes as base64.
    #[must_use]
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("mime_type", &self.mime_type)
            .field("n_bytes", &self.bytes.len())
            .finish()
    }
}

fn format_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The pictures of one record, as far as they are there.
#[derive(Debug, Default)]
pub(crate) struct OfRecord {
    pub(crate) images: Vec<Image>,
    /// Those that cannot be read, or that an old message may not show any more.
    pub(crate) n_absent: usize,
}

/// The pictures of a stored session by their records: the newest, as many as a model is sent.
pub(crate) fn stored(loaded: &Loaded) -> BTreeMap<&str, OfRecord> {
    let mut room = MODEL_IMAGES_BYTES_MAX as u64;
    let mut all = BTreeMap::new();
    for record in loaded.records.iter().rev() {
        let media = record.media();
        if media.is_empty() {
            continue;
        }
        let n_bytes = media
            .iter()
            .fold(0_u64, |sum, medium| sum.saturating_add(medium.bytes));
        // One that has no room takes it from all before it: what a model sees is the end.
        let left = room.checked_sub(n_bytes);
        room = left.unwrap_or_default();
        let mut found = OfRecord::default();
        for medium in &media {
            let image = left
                .is_some()
                .then(|| loaded.media_dir.read(medium).ok())
                .flatten()
                .and_then(|bytes| Image::new(bytes).ok());
            match image {
                Some(image) => found.images.push(image),
                None => found.n_absent += 1,
            }
        }
        all.insert(record.uuid.as_str(), found);
    }
    all
}

/// Takes the oldest pictures out of a conversation that holds more than a model is sent.
pub(crate) fn keep_newest(messages: &mut [Message]) {
    let mut room = MODEL_IMAGES_BYTES_MAX;
    for message in messages.iter_mut().rev() {
        if let Message::User(prompt) = message {
            let n_bytes = prompt.images.iter().map(|image| image.bytes.len()).sum();
            match room.checked_sub(n_bytes) {
                Some(left) => room = left,
                None => {
                    room = 0;
                    prompt.forget_images();
                }
            }
        }
    }
}

/// What is said in place of pictures that are not shown.
pub(crate) fn absent(n_images: usize) -> String {
    let (images, are) = if n_images == 1 {
        ("image", "is")
    } else {
        ("images", "are")
    };
    format!("[{n_images} {images} of this message {are} not shown any more]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Prompt;

    #[test]
    fn the_first_bytes_say_what_a_picture_is() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n."[..], Ok("image/png")),
            (b"\xff\xd8\xff\xe0", Ok("image/jpeg")),
            (b"GIF89a..", Ok("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Ok("image/webp")),
            (b"RIFF\x10\0\0\0WAVEfmt ", Err(ImageError::Format)),
            (b"<svg/>", Err(ImageError::Format)),
            (b"", Err(ImageError::Format)),
        ] {
            let image = Image::new(bytes).map(|image| image.mime_type());
            assert_eq!(image, expected, "{bytes:?}");
        }
        let mut large = vec![0; IMAGE_BYTES_MAX + 1];
        large[..3].copy_from_slice(b"\xff\xd8\xff");
        assert_eq!(Image::new(large).unwrap_err(), ImageError::TooLarge);
    }

    #[test]
    fn a_conversation_keeps_its_newest_pictures() {
        let mut bytes = vec![0; IMAGE_BYTES_MAX];
        bytes[..3].copy_from_slice(b"\xff\xd8\xff");
        let image = Image::new(bytes).unwrap();
        let message = || {
            let mut prompt = Prompt::from("look");
            prompt.push_image(image.clone(), None);
            Message::User(prompt)
        };
        let mut messages = [message(), message()];
        keep_newest(&mut messages);
        let kept = messages.map(|message| match message {
            Message::User(prompt) => (prompt.images.len(), prompt.text),
            Message::Assistant(_) | Message::ToolResults(_) => unreachable!(),
        });
        let named = "look\n[image 1: image/jpeg, 20971520 bytes]";
        assert_eq!(
            kept,
            [
                (
                    0,
                    format!("{named}\n[1 image of this message is not shown any more]")
                ),
                (1, named.to_owned())
            ]
        );
    }
}
