//! The published schemas of `stream-json`, as a check of what programs really say.
//!
//! Clients have to ignore keys that they do not know. This check does not: a key that is not in the
//! schema is one that nobody described.

use std::{collections::BTreeSet, sync::LazyLock};

use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

/// What may lie below one value: keywords whose schemas are about the same value.
const IN_PLACE: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// A schema of `spec/`.
#[derive(Debug)]
pub struct Schema {
    schema: Value,
    validator: Validator,
}

/// What onrecord writes; unknown keys are wrong.
pub static OUTPUT: LazyLock<Schema> = LazyLock::new(|| Schema::strict(OUTPUT_TEXT));

/// What onrecord reads; unknown keys are wrong.
pub static INPUT: LazyLock<Schema> =
    LazyLock::new(|| Schema::strict(include_str!("../../../spec/stream-json-input.schema.json")));

const OUTPUT_TEXT: &str = include_str!("../../../spec/stream-json.schema.json");

impl Schema {
    fn strict(text: &str) -> Self {
        let mut schema = parsed(text);
        let whole = schema.clone();
        close(&mut schema, &whole, false);
        Self::new(schema)
    }

    /// What onrecord writes, for the lines of another program: unknown keys are right, and `ours`
    /// may be absent.
    #[must_use]
    pub fn of_others(ours: &[&str]) -> Self {
        let mut schema = parsed(OUTPUT_TEXT);
        forgo(&mut schema, ours);
        Self::new(schema)
    }

    fn new(schema: Value) -> Self {
        let validator = jsonschema::validator_for(&schema).expect("the published schema is one");
        Self { schema, validator }
    }

    /// Checks one message.
    ///
    /// # Errors
    /// What is wrong with it, a line for each thing.
    pub fn check(&self, message: &Value) -> Result<(), String> {
        let mut wrong = Vec::new();
        for error in self.validator.iter_errors(message) {
            explain(&error, &mut wrong);
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("{}\nin {message}", wrong.join("\n")))
    }

    /// Everything that the schema names: keys by their path and, where a value is fixed, `path=value`.
    /// Paths begin with the `type` of their message.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.messages(&self.schema, &mut names);
        names
    }

    fn messages(&self, schema: &Value, names: &mut BTreeSet<String>) {
        let choices = IN_PLACE.iter().filter_map(|key| schema[key].as_array());
        for choice in choices.flatten() {
            match choice["properties"]["type"]["const"].as_str() {
                Some(kind) => self.name(choice, kind, names),
                None => self.messages(resolved(choice, &self.schema), names),
            }
        }
    }

    fn name(&self, schema: &Value, path: &str, names: &mut BTreeSet<String>) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            if let Some(value) = property.get("const") {
                names.insert(format!("{path}={}", plain(value)));
            } else {
                names.insert(path.clone());
            }
            self.name(property, &path, names);
        }
        if let Some(items) = schema.get("items") {
            self.name(items, path, names);
        }
        if schema.get("$ref").is_some() {
            self.name(resolved(schema, &self.schema), path, names);
        }
        let choices = IN_PLACE.iter().filter_map(|key| schema[key].as_array());
        for choice in choices.flatten() {
            self.name(choice, path, names);
        }
    }

    /// Of [`Schema::names`] those that a message holds.
    #[must_use]
    pub fn names_in(&self, message: &Value) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        if let Some(kind) = message["type"].as_str() {
            paths(message, kind, &mut names);
        }
        let known = self.names();
        names.retain(|name| known.contains(name));
        names
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the published schema is JSON")
}

fn paths(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = format!("{path}.{key}");
                names.insert(format!("{path}={}", plain(value)));
                paths(value, &path, names);
                names.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, path, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => String::new(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The schema that a `$ref` names; without one, the schema itself.
fn resolved<'a>(schema: &'a Value, whole: &'a Value) -> &'a Value {
    let Some(reference) = schema["$ref"].as_str() else {
        return schema;
    };
    let target = whole.pointer(reference.trim_start_matches('#'));
    target.expect("a reference names a part of the schema")
}

/// Makes keys that are not described wrong, wherever a value is an object with described keys.
fn close(schema: &mut Value, whole: &Value, in_place: bool) {
    let is_closed = !in_place && describes_keys(schema, whole);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if is_closed {
        object.insert("unevaluatedProperties".to_owned(), false.into());
    }
    for (key, below) in object {
        match key.as_str() {
            "properties" => each(below, |schema| close(schema, whole, false)),
            // A definition is used in place of a reference, which is closed itself.
            "$defs" => each(below, |schema| close(schema, whole, true)),
            "items" | "additionalProperties" => close(below, whole, false),
            word if IN_PLACE.contains(&word) => {
                for choice in below.as_array_mut().into_iter().flatten() {
                    close(choice, whole, true);
                }
            }
            _ => {}
        }
    }
}

fn each(object: &mut Value, change: impl Fn(&mut Value)) {
    let schemas = object.as_object_mut().into_iter().flat_map(Map::values_mut);
    schemas.for_each(change);
}

fn describes_keys(schema: &Value, whole: &Value) -> bool {
    let choices = IN_PLACE.iter().filter_map(|key| schema[key].as_array());
    schema.get("properties").is_some()
        || (schema.get("$ref").is_some() && describes_keys(resolved(schema, whole), whole))
        || choices
            .flatten()
            .any(|choice| describes_keys(choice, whole))
}

/// Makes keys optional, wherever they are.
fn forgo(schema: &mut Value, keys: &[&str]) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(required)) = object.get_mut("required") {
                required.retain(|key| key.as_str().is_none_or(|key| !keys.contains(&key)));
            }
            object.values_mut().for_each(|below| forgo(below, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forgo(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Of choices the one is explained that the message meant: the one whose fixed values it has.
fn explain(error: &ValidationError<'_>, wrong: &mut Vec<String>) {
    let (ValidationErrorKind::OneOfNotValid { context: choices }
    | ValidationErrorKind::AnyOf { context: choices }) = error.kind()
    else {
        wrong.push(format!("{}: {error}", error.instance_path()));
        return;
    };
    let is_meant = |errors: &&Vec<ValidationError<'_>>| {
        !errors
            .iter()
            .any(|error| matches!(error.kind(), ValidationErrorKind::Constant { .. }))
    };
    match choices.iter().find(is_meant) {
        Some(errors) => errors.iter().for_each(|error| explain(error, wrong)),
        None => wrong.push(format!("{}: {error}", error.instance_path())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{INPUT, OUTPUT, Schema};

    #[test]
    fn a_key_that_nobody_described_is_wrong_at_every_depth() {
        let usage = json!({"input_tokens": 1, "output_tokens": 1});
        let message = json!({
            "type": "assistant", "uuid": "u", "session_id": "s", "parent_tool_use_id": null,
            "message": {
                "id": "u", "type": "message", "role": "assistant", "model": "m",
                "content": [{"type": "text", "text": "t"}], "stop_reason": null, "usage": usage,
            },
        });
        assert_eq!(OUTPUT.check(&message), Ok(()));
        for path in ["", "/message", "/message/content/0", "/message/usage"] {
            let mut message = message.clone();
            let place = message.pointer_mut(path).unwrap().as_object_mut().unwrap();
            place.insert("extra".to_owned(), 1.into());
            let wrong = OUTPUT.check(&message).unwrap_err();
            assert!(wrong.contains("'extra'"), "{path}: {wrong}");
            assert_eq!(Schema::of_others(&[]).check(&message), Ok(()));
        }
    }

    #[test]
    fn a_key_that_is_missing_is_wrong_unless_it_is_ours() {
        let result = json!({
            "type": "result", "subtype": "success", "uuid": "u", "session_id": "s",
            "is_error": false, "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1,
            "result": "r", "usage": {"input_tokens": 1, "output_tokens": 1},
            "permission_denials": [],
        });
        let wrong = OUTPUT.check(&result).unwrap_err();
        assert!(
            wrong.contains("\"recording\" is a required property"),
            "{wrong}"
        );
        assert_eq!(Schema::of_others(&["recording"]).check(&result), Ok(()));
    }

    #[test]
    fn what_a_schema_names_is_found_in_messages() {
        let names = OUTPUT.names();
        for name in [
            "system.subtype=retry",
            "system.data.delay_ms",
            "assistant.message.content.type=tool_use",
            "stream_event.event.delta.type=text_delta",
            "control_response.response.response.subtype=get_usage_info",
        ] {
            assert!(names.contains(name), "{name} is not in {names:#?}");
        }
        let retry = json!({"type": "system", "subtype": "retry", "data": {"delay_ms": 1, "x": 2}});
        let expected = [
            "system.data",
            "system.data.delay_ms",
            "system.subtype=retry",
            "system.type=system",
        ];
        assert_eq!(Vec::from_iter(OUTPUT.names_in(&retry)), expected);
        assert!(
            INPUT
                .names()
                .contains("control_request.request.subtype=set_model")
        );
        assert!(INPUT.names().contains("submit.text"));
    }
}
