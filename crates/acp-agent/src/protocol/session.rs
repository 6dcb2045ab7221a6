//! Requests about sessions and their answers.

use std::path::PathBuf;

use agent::approval::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::or_default;

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

    /// The prompt as text for the model. What is no text is named where it stands.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<String> = self.prompt.iter().map(Content::text).collect();
        parts.join("\n")
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
    mime_type: Option<String>,
}

impl Content {
    fn text(&self) -> String {
        let or_unknown = |kind: &Option<String>| kind.as_deref().unwrap_or("unknown").to_owned();
        match self {
            Self::Text { text } => text.clone(),
            Self::Image { mime_type, uri } => match uri {
                Some(uri) => format!("[image {uri}: the model is not shown images]"),
                None => format!(
                    "[image of type {}: the model is not shown images]",
                    or_unknown(mime_type)
                ),
            },
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
        assert_eq!(
            prompt.text(),
            "look at\n@/w/a.rs\nContent of /w/b.txt:\n```\nb\n```\n\
             [image of type image/png: the model is not shown images]\n\
             [content of a kind that is not understood]"
        );
    }
}
