//! The JSON Schema of `stream-json`, made from the types that write and read it.
//!
//! `cargo xtask export` writes it into `spec/`. What clients may rely on is in it: what is always
//! there is required, what has few values names them. A later version may add fields and kinds.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, value::RawValue};

use crate::http;
use crate::stream_json::{
    Message,
    command::Command,
    control::{HostRequest, McpAnswer, Permission},
};

/// The schema of what we say: a line of standard output or of a second output, an element of the
/// array of `json`.
#[must_use]
pub fn output() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(absent_is_never_null));
    pretty::<Message>(settings, "A line of stream-json that onrecord writes")
}

/// The schema of what we understand: a line of standard input, or of the file of `--input-file`.
#[must_use]
pub fn input() -> String {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    pretty::<InputLine>(settings, "A line of stream-json that onrecord reads")
}

/// The schemas of the daemon's answers, by their names, as OpenAPI refers to them.
#[must_use]
pub fn http() -> serde_json::Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(absent_is_never_null));
    settings.definitions_path = "/components/schemas".into();
    let mut generator = plain(settings).into_generator();
    generator.subschema_for::<HttpAnswers>();
    let mut schemas = generator.take_definitions(true);
    schemas.remove("HttpAnswers");
    schemas
}

/// Every answer that has a shape of its own.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the shapes alone count")]
struct HttpAnswers {
    opened: http::Opened,
    loaded: http::Loaded,
    accepted: http::Accepted,
    session_row: http::SessionRow,
    live_state: http::LiveState,
    pending_prompts: http::PendingPrompts,
    turn: http::Turn,
    mode_set: http::ModeSet,
    title_set: http::TitleSet,
    heartbeat: http::Heartbeat,
    health: http::Health,
}

fn plain(settings: SchemaSettings) -> SchemaSettings {
    settings
        .with_transform(RecursiveTransform(plain_integers))
        .with_transform(RecursiveTransform(no_default))
}

fn pretty<T: JsonSchema>(settings: SchemaSettings, title: &str) -> String {
    let mut schema = plain(settings).into_generator().into_root_schema_for::<T>();
    let head = schema.ensure_object();
    head.shift_insert(0, "title".to_owned(), title.into());
    if let Some(dialect) = head.shift_remove("$schema") {
        head.shift_insert(0, "$schema".to_owned(), dialect);
    }
    let defs = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for (name, def) in defs.into_iter().flatten() {
        if let Some(def) = def.as_object_mut() {
            def.shift_insert(0, "title".to_owned(), name.as_str().into());
        }
    }
    format!("{:#}\n", schema.to_value())
}

/// What is skipped where it is not known is never written as `null`.
fn absent_is_never_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required: Vec<&str> = required
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(property) = property.as_object_mut()
            && !required.contains(&name.as_str())
        {
            without_null(property);
        }
    }
}

fn without_null(property: &mut serde_json::Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|word| word != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            property.insert("type".to_owned(), one);
        }
    }
    let choices = property.get_mut("anyOf").and_then(Value::as_array_mut);
    let Some(choices) = choices else { return };
    choices.retain(|choice| choice["type"] != "null");
    if let [Value::Object(one)] = choices.as_slice() {
        let one = one.clone();
        property.remove("anyOf");
        property.extend(one);
    }
}

/// The size of an integer in memory says nothing to a client.
fn plain_integers(schema: &mut Schema) {
    let is_of_rust = |format: &Value| {
        let format = format.as_str().unwrap_or_default();
        format.starts_with("uint") || format.starts_with("int")
    };
    if schema.get("format").is_some_and(is_of_rust) {
        schema.remove("format");
    }
}

/// A field that may be absent says so by not being required.
fn no_default(schema: &mut Schema) {
    schema.remove("default");
}

/// A line that we read.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone counts")]
enum InputLine {
    /// On standard input, with `--input-format stream-json`.
    Host(HostLine),
    /// In the file of `--input-file`.
    Beside(Command),
}

/// A line of the program that drives a session. A line with another `type` is ignored.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(dead_code, reason = "the shape alone counts")]
enum HostLine {
    /// A prompt.
    User {
        /// Ignored: there is one session.
        session_id: Option<String>,
        /// The prompt.
        message: Prompt,
        /// Ignored.
        parent_tool_use_id: Option<String>,
    },
    /// A request, answered by a `control_response` with its id.
    ControlRequest {
        /// Its id, of the host's choice.
        request_id: String,
        /// What is asked. Another `subtype` is answered by an error.
        request: HostRequest,
    },
    /// The answer to a request of ours.
    ControlResponse {
        /// The answer.
        response: HostResponse,
    },
    /// Withdraws a request. By then it is answered, so nothing happens.
    ControlCancelRequest {
        /// Of the request; absent for all.
        request_id: Option<String>,
    },
}

/// The `message` of a prompt.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the shape alone counts")]
struct Prompt {
    /// Ignored; `user`.
    role: Option<String>,
    /// What is said. An empty text is ignored.
    content: Content,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone counts")]
enum Content {
    /// A text.
    Text(String),
    /// Blocks, joined with line feeds.
    Blocks(Vec<ContentBlock>),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone counts")]
enum ContentBlock {
    /// A text.
    Text(TextBlock),
    /// Another block: the model is given its JSON.
    Other(BTreeMap<String, Value>),
}

/// A block of text.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the shape alone counts")]
struct TextBlock {
    /// Always `text`.
    #[schemars(extend("const" = "text"))]
    r#type: String,
    /// The text.
    text: String,
}

#[derive(JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
#[expect(dead_code, reason = "the shape alone counts")]
enum HostResponse {
    /// The request was served.
    Success {
        /// Of the request.
        request_id: String,
        /// The answer.
        response: HostAnswer,
    },
    /// The request was not served.
    Error {
        /// Of the request.
        request_id: String,
        /// Why: a text, or anything, which is then told as JSON.
        error: Option<Box<RawValue>>,
    },
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone counts")]
enum HostAnswer {
    /// To `can_use_tool`.
    Permission(Permission),
    /// To `mcp_message`.
    Mcp(McpAnswer),
}
