//! Arguments of a call: from the model's JSON text to a tool's own type.
//!
//! Every refusal names the fields that the tool takes, so that the model can mend its call.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Tool, ToolError};

/// Reads the arguments of a call.
///
/// Fields that the tool does not know are passed over, however deep they are.
pub(super) fn parse<T: DeserializeOwned>(tool: &dyn Tool, args: &str) -> Result<T, ToolError> {
    // Serde would also take an array for a struct, field by field.
    if !args.trim_start().starts_with('{') {
        return Err(refused(tool, "they have to be one JSON object"));
    }
    serde_json::from_str(args).map_err(|error| refused(tool, &error.to_string()))
}

/// The refusal of a call's arguments.
pub(super) fn refused(tool: &dyn Tool, reason: &str) -> ToolError {
    let spec = tool.spec();
    ToolError::new(
        "invalid_args",
        format!(
            "The arguments of `{}` were not understood: {reason}. Send {{{}}}.",
            spec.name,
            fields(&spec.parameters)
        ),
    )
}

/// The fields of a schema in one line, optional ones marked.
fn fields(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|known| known == name))
    };
    let fields = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| {
            let optional = if required(name) { "" } else { "?" };
            let mut kind = field["type"].as_str().unwrap_or("any").to_owned();
            if kind == "array" {
                kind = format!("{}[]", field["items"]["type"].as_str().unwrap_or("any"));
            }
            format!("\"{name}\"{optional}: {kind}")
        });
    fields.collect::<Vec<_>>().join(", ")
}
