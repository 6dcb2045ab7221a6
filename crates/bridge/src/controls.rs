//! What may be changed of a session beside its turns: model, approval mode, title.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use wire::{
    http::{ModeSet, TitleSet},
    limits::CHILD_ANSWER_WAIT_MAX,
};

use crate::{
    Caller, Error,
    channel::is_unknown_method,
    entry::{About, Entry, Held, Title},
};

impl Held<'_> {
    /// Tells of an approval mode.
    pub(crate) fn tell_mode(&mut self, previous: Option<&str>, next: &str, about: &About) {
        let data = json!({
            "sessionId": self.entry.id,
            "previous": previous,
            "next": next,
            "persisted": false,
        });
        self.publish("approval_mode_changed", &data, about);
    }

    /// Takes a title and tells of it. That it is not saved is said (R27).
    pub(crate) fn set_title(&mut self, title: Title, persisted: Option<bool>, about: &About) {
        let mut data = json!({
            "sessionId": self.entry.id,
            "displayName": title.text,
            "titleSource": title.source,
        });
        if persisted == Some(false) {
            data["persisted"] = json!(false);
        }
        self.title = Some(title);
        self.publish("session_metadata_updated", &data, about);
    }
}

/// Switches the model; the agent's answer as it is.
pub(crate) async fn set_model(
    entry: Arc<Entry>,
    caller: Caller,
    model: String,
) -> Result<Box<RawValue>, Error> {
    drop(entry.hold_for(&caller)?);
    let about = About::caller(&caller);
    let params = json!({"sessionId": entry.id, "modelId": model});
    let option = json!({"sessionId": entry.id, "configId": "model", "value": model});
    let ways = [
        ("session/set_model", &params),
        ("session/set_config_option", &option),
    ];
    match ask_first_known(&entry, &ways).await {
        Ok((_, answer)) => {
            let data = json!({"sessionId": entry.id, "modelId": model});
            let name =
                json!({"key": "model.name", "value": switched_name(&answer).unwrap_or(model)});
            let mut held = entry.hold();
            held.publish("model_switched", &data, &about);
            held.publish("settings_changed", &name, &about);
            Ok(answer)
        }
        Err(error) => {
            let data = json!({
                "sessionId": entry.id,
                "requestedModelId": model,
                "error": words_of(&error),
            });
            entry.hold().publish("model_switch_failed", &data, &about);
            Err(error)
        }
    }
}

/// The plain name of the model, where the agent says it.
fn switched_name(answer: &RawValue) -> Option<String> {
    let answer: Value = serde_json::from_str(answer.get()).ok()?;
    let name = answer.pointer("/_meta/qwenModelSwitch/modelId")?;
    Some(name.as_str()?.to_owned())
}

/// What the agent says of a failure.
fn words_of(error: &Error) -> String {
    let Error::Agent(rpc) = error else {
        return error.to_string();
    };
    let data = rpc.data.as_ref();
    let data: Option<Value> = data.and_then(|data| serde_json::from_str(data.get()).ok());
    let details = data.as_ref().and_then(|data| data.get("details"));
    let details = details.and_then(Value::as_str);
    details.unwrap_or(&rpc.message).to_owned()
}

/// Sets the approval mode.
pub(crate) async fn set_mode(
    entry: Arc<Entry>,
    caller: Caller,
    mode: String,
) -> Result<ModeSet, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Set {
        previous: Option<String>,
        current: Option<String>,
    }
    drop(entry.hold_for(&caller)?);
    let known = entry.view().current_approval_mode;
    let params = json!({"sessionId": entry.id, "mode": mode});
    let plain = json!({"sessionId": entry.id, "modeId": mode});
    let ways = [
        ("qwen/control/session/approval_mode", &params),
        ("session/set_mode", &plain),
    ];
    let (_, answer) = ask_first_known(&entry, &ways).await?;
    let set: Set = serde_json::from_str(answer.get()).unwrap_or_default();
    let previous = set.previous.or(known);
    let mode = set.current.unwrap_or(mode);
    entry
        .hold()
        .tell_mode(previous.as_deref(), &mode, &About::caller(&caller));
    Ok(ModeSet {
        session_id: entry.id.clone(),
        previous: previous.unwrap_or_else(|| mode.clone()),
        mode,
        persisted: false,
    })
}

/// Gives a title, or reads it.
pub(crate) async fn set_title(
    entry: Arc<Entry>,
    caller: Caller,
    title: Option<String>,
) -> Result<TitleSet, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Set {
        persisted: Option<bool>,
    }
    let read = entry.hold_for(&caller)?.title.clone();
    let Some(text) = title else {
        return Ok(TitleSet {
            session_id: entry.id.clone(),
            display_name: read.map(|title| title.text),
            persisted: None,
        });
    };
    let params = json!({"sessionId": entry.id, "displayName": text, "titleSource": "manual"});
    let answer = entry
        .channel
        .ask("qwen/control/session/title", &params, CHILD_ANSWER_WAIT_MAX)
        .await;
    let set: Set = match answer {
        Ok(answer) => serde_json::from_str(answer.get()).unwrap_or_default(),
        // An agent without titles: the name is known here alone, and nobody says that it is saved.
        Err(error) if is_unknown_method(&error) => Set::default(),
        Err(error) => return Err(error),
    };
    let title = Title {
        text: text.clone(),
        source: Some("manual".to_owned()),
    };
    entry
        .hold()
        .set_title(title, set.persisted, &About::caller(&caller));
    Ok(TitleSet {
        session_id: entry.id.clone(),
        display_name: Some(text),
        persisted: set.persisted,
    })
}

/// Asks in the first of several ways that the agent knows; which one it was, and its answer.
async fn ask_first_known(
    entry: &Entry,
    ways: &[(&str, &Value)],
) -> Result<(usize, Box<RawValue>), Error> {
    let mut refused = Error::AgentGone;
    for (at, (method, params)) in ways.iter().enumerate() {
        match entry
            .channel
            .ask(method, params, CHILD_ANSWER_WAIT_MAX)
            .await
        {
            Ok(answer) => return Ok((at, answer)),
            Err(error) if is_unknown_method(&error) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}
