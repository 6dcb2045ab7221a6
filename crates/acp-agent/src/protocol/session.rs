//! Requests about sessions and their answers.

use std::path::PathBuf;

use agent::{
    approval::Mode,
    image::{Image, ImageError},
    message,
};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use wire::limits::{IMAGE_BYTES_MAX, MODEL_IMAGES_BYTES_MAX, PROMPT_IMAGES_MAX};

use super::or_default;

/// Programs differ about the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Params of `session/new`, `load`, `resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Open {
    /// Of `load` and `resume`.
    pub(crate) session_id: Option<String>,
    pub(crate) cwd: PathBuf,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mcp_servers: Vec<Value>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Map<String, Value>>,
}

impl Open {
    /// The id that a new session is asked to have.
    pub(crate) fn wished_id(&self) -> Option<&str> {
        self.meta.as_ref()?.get("qwen-code/sessionId")?.as_str()
    }

    /// Whether what was said before comes within the answer instead of as updates before it.
    pub(crate) fn wants_bulk_replay(&self) -> bool {
        let mode = self
            .meta
            .as_ref()
            .and_then(|meta| meta.get("qwen.session.loadReplayMode"));
        mode.and_then(Value::as_str) == Some("bulk")
    }
}

/// Params that name a session only.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Named {
    pub(crate) session_id: String,
}

/// Params of `qwen/status/session/transcript`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    pub(crate) session_id: String,
    /// Updates.
    pub(crate) limit: Option<u64>,
    /// What the page before gave.
    pub(crate) cursor: Option<String>,
    /// `backward` begins at the end.
    pub(crate) direction: Option<String>,
}

/// Params of `$/cancel_request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Withdrawn {
    /// Of a request that is not answered yet.
    pub(crate) request_id: Box<RawValue>,
}

/// Params of `session/list`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct List {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) cursor: Option<String>,
}

/// Params of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<Content>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Map<String, Value>>,
}

impl Prompt {
    /// The one line of text that is all of it; what could be a command to the session.
    pub(crate) fn line(&self) -> Option<&str> {
        match self.prompt.as_slice() {
            [Content::Text { text }] => Some(text.trim()).filter(|text| !text.contains('\n')),
            _ => None,
        }
    }

    /// The daemon's id of this prompt.
    pub(crate) fn prompt_id(&self) -> Option<String> {
        let invocation = self.meta.as_ref()?.get("qwen-code/invocation")?;
        Some(invocation.get("promptId")?.as_str()?.to_owned())
    }

    /// Go on with the turn that was left before it was done.
    pub(crate) fn continues(&self) -> bool {
        let asked = |key| self.meta.as_ref().and_then(|meta| meta.get(key));
        asked("qwen.daemon.continueLastTurn") == Some(&Value::Bool(true))
    }

    /// The prompt for the model. What is neither text nor a picture is named where it stands.
    ///
    /// # Errors
    /// A picture cannot be taken; names the mend.
    pub(crate) fn said(&self) -> Result<message::Prompt, String> {
        let mut said = message::Prompt::default();
        let mut n_bytes = 0;
        for (at, content) in self.prompt.iter().enumerate() {
            let picture = content
                .picture()
                .map_err(|why| format!("`prompt[{at}]`: {why}"))?;
            let Some(picture) = picture else {
                said.push_text(&content.text());
                continue;
            };
            n_bytes += picture.bytes().len();
            if said.images.len() == PROMPT_IMAGES_MAX || n_bytes > MODEL_IMAGES_BYTES_MAX {
                return Err(format!(
                    "a prompt takes {PROMPT_IMAGES_MAX} images of {} MiB together: send fewer, or smaller ones",
                    MODEL_IMAGES_BYTES_MAX >> 20
                ));
            }
            said.push_image(picture, content.name());
        }
        Ok(said)
    }
}

/// A block of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Content {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        mime_type: Option<String>,
        uri: Option<String>,
        /// Base64.
        data: Option<String>,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        mime_type: Option<String>,
    },
    ResourceLink {
        uri: String,
        name: Option<String>,
    },
    Resource {
        resource: Resource,
    },
    #[serde(other)]
    Unknown,
}

/// An embedded file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    uri: String,
    text: Option<String>,
    /// Base64.
    blob: Option<String>,
    mime_type: Option<String>,
}

impl Content {
    /// The picture that it holds, if it is one.
    fn picture(&self) -> Result<Option<Image>, String> {
        let data = match self {
            Self::Image { data, .. } => data,
            Self::Resource { resource } => &resource.blob,
            Self::Text { .. } | Self::Audio { .. } | Self::ResourceLink { .. } | Self::Unknown => {
                return Ok(None);
            }
        };
        let Some(data) = data.as_deref().filter(|data| !data.is_empty()) else {
            return Ok(None);
        };
        let what = if matches!(self, Self::Image { .. }) {
            "image"
        } else {
            "embedded file"
        };
        let too_large = || {
            format!(
                "the {what} is larger than {} MiB; send a smaller one",
                IMAGE_BYTES_MAX >> 20
            )
        };
        if data.len() / 4 * 3 > IMAGE_BYTES_MAX + 3 {
            return Err(too_large());
        }
        let bytes = BASE64
            .decode(data)
            .map_err(|error| format!("the data is no base64: {error}"))?;
        match Image::new(bytes) {
            Ok(image) => Ok(Some(image)),
            Err(ImageError::Format) => Ok(None),
            Err(ImageError::TooLarge) => Err(too_large()),
        }
    }

    /// Where it comes from, if it says so.
    fn name(&self) -> Option<&str> {
        let uri = match self {
            Self::Image { uri, .. } => uri.as_deref()?,
            Self::Resource { resource } => &resource.uri,
            Self::Text { .. } | Self::Audio { .. } | Self::ResourceLink { .. } | Self::Unknown => {
                return None;
            }
        };
        Some(path_of(uri).unwrap_or(uri))
    }

    fn text(&self) -> String {
        let or_unknown = |kind: &Option<String>| kind.as_deref().unwrap_or("unknown").to_owned();
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { mime_type, .. } => {
                let name = self
                    .name()
                    .map_or_else(String::new, |name| format!(" {name}"));
                format!(
                    "[image{name} of type {}: not shown, for it is no PNG, JPEG, GIF or WebP]",
                    or_unknown(mime_type)
                )
            }
            Self::Audio { mime_type } => format!(
                "[audio of type {}: the model does not hear audio]",
                or_unknown(mime_type)
            ),
            // A link is a mention: the model reads the file where it wants to know it.
            Self::ResourceLink { uri, name } => match path_of(uri) {
                Some(path) => format!("@{path}"),
                None => format!("{} ({uri})", name.as_deref().unwrap_or("resource")),
            },
            Self::Resource { resource } => resource.text(),
            Self::Unknown => "[content of a kind that is not understood]".to_owned(),
        }
    }
}

impl Resource {
    fn text(&self) -> String {
        let name = path_of(&self.uri).unwrap_or(&self.uri);
        match &self.text {
            Some(text) => format!("Content of {name}:\n```\n{text}\n```"),
            None => format!(
                "[{name}: content of type {} that is no text]",
                self.mime_type.as_deref().unwrap_or("unknown")
            ),
        }
    }
}

fn path_of(uri: &str) -> Option<&str> {
    uri.strip_prefix("file://")
}

/// Params of `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetMode {
    pub(crate) session_id: String,
    pub(crate) mode_id: String,
}

/// Params of `session/set_model`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetModel {
    pub(crate) session_id: String,
    pub(crate) model_id: String,
}

/// Params of `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOption {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: String,
}

/// Params of `qwen/control/session/approval_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalMode {
    pub(crate) session_id: String,
    pub(crate) mode: String,
}

/// Params of `qwen/control/session/title`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetTitle {
    pub(crate) session_id: String,
    pub(crate) display_name: String,
    pub(crate) title_source: Option<String>,
}

/// Params of `qwen/control/session/close`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Close {
    pub(crate) session_id: String,
    pub(crate) drain_timeout_ms: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) require_flush: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) only_if_unheld: bool,
}

impl Close {
    /// A close that asks for nothing more.
    pub(crate) fn plain(session_id: String) -> Self {
        Self {
            session_id,
            drain_timeout_ms: None,
            require_flush: false,
            only_if_unheld: false,
        }
    }
}

/// Params of reads about a workspace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Workspace {
    pub(crate) cwd: Option<String>,
}

/// What a client may choose in a session: modes, models, and both as options.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Choices {
    models: Value,
    modes: Value,
    pub(crate) config_options: Value,
}

impl Choices {
    pub(crate) fn new(mode: Mode, model: &str, models: &[String]) -> Self {
        let known = models.iter().any(|known| known == model);
        let names = || {
            models
                .iter()
                .map(String::as_str)
                .chain((!known).then_some(model))
        };
        let modes = Mode::ALL.map(|mode| {
            let (name, description) = words_of(mode);
            (mode.as_str(), name, description)
        });
        let model_rows: Vec<Value> = names()
            .map(|name| json!({"modelId": name, "name": name}))
            .collect();
        let model_options: Vec<Value> = names()
            .map(|name| json!({"value": name, "name": name}))
            .collect();
        let mode_rows = modes.map(
            |(id, name, description)| json!({"id": id, "name": name, "description": description}),
        );
        let mode_options = modes.map(
            |(id, name, description)| json!({"value": id, "name": name, "description": description}),
        );
        Self {
            models: json!({"currentModelId": model, "availableModels": model_rows}),
            modes: json!({"currentModeId": mode.as_str(), "availableModes": mode_rows}),
            config_options: json!([
                {
                    "id": "mode",
                    "name": "Mode",
                    "description": "How much runs without asking",
                    "category": "mode",
                    "type": "select",
                    "currentValue": mode.as_str(),
                    "options": mode_options,
                },
                {
                    "id": "model",
                    "name": "Model",
                    "description": "Who answers",
                    "category": "model",
                    "type": "select",
                    "currentValue": model,
                    "options": model_options,
                },
            ]),
        }
    }
}

fn words_of(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Plan => ("Plan", "Reads only; changes nothing and runs nothing"),
        Mode::Default => ("Default", "Asks before edits and commands"),
        Mode::AutoEdit => ("Auto Edit", "Edits inside the project run without asking"),
        Mode::Auto => ("Auto", "Edits inside the project run without asking"),
        Mode::Yolo => ("YOLO", "Everything runs without asking"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{Open, Prompt};

    #[test]
    fn a_session_of_no_servers_may_say_so_by_null() {
        let open: Open = from_value(json!({"cwd": "/w", "mcpServers": null})).expect("it is one");
        assert!(open.mcp_servers.is_empty());
    }

    #[test]
    fn a_prompt_of_every_kind_of_content_becomes_text_in_its_order() {
        let prompt: Prompt = from_value(json!({"sessionId": "s", "prompt": [
            {"type": "text", "text": "look at"},
            {"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"},
            {"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "b"}},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "hologram", "x": 1},
        ]}))
        .expect("it is one");
        let said = prompt.said().expect("nothing is wrong with it");
        assert_eq!(
            said.text,
            "look at\n@/w/a.rs\nContent of /w/b.txt:\n```\nb\n```\n\
             [image of type image/png: not shown, for it is no PNG, JPEG, GIF or WebP]\n\
             [content of a kind that is not understood]"
        );
    }

    const PNG: &str = "iVBORw0KGgo";

    fn said(content: serde_json::Value) -> Result<agent::message::Prompt, String> {
        from_value::<Prompt>(json!({"sessionId": "s", "prompt": content}))
            .expect("it is one")
            .said()
    }

    #[test]
    fn pictures_are_taken_by_what_they_are_and_named_in_their_place() {
        let said = said(json!([
            {"type": "image", "mimeType": "image/jpeg", "data": PNG},
            {"type": "text", "text": "and"},
            {"type": "resource", "resource": {"uri": "file:///w/b.png", "blob": format!("{PNG}=")}},
        ]))
        .expect("nothing is wrong with it");
        assert_eq!(
            said.text,
            "[image 1: image/png, 8 bytes]\nand\n[image 2 (/w/b.png): image/png, 8 bytes]"
        );
        assert_eq!(said.images.len(), 2);
    }

    #[test]
    fn a_picture_that_cannot_be_taken_is_refused_with_the_mend() {
        let image = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
        let why = said(json!([image("%%%")])).expect_err("it is none");
        assert!(
            why.starts_with("`prompt[0]`: the data is no base64"),
            "{why}"
        );
        let why = said(json!([image(&"A".repeat(28 << 20))])).expect_err("it is too large");
        assert!(why.contains("larger than 20 MiB"), "{why}");
        let many = vec![image(PNG); 21];
        let why = said(json!(many)).expect_err("they are too many");
        assert!(why.contains("20 images"), "{why}");
    }
}
