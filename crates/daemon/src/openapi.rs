//! The OpenAPI document of the routes, made from their table and from the types of their answers.

use serde_json::{Map, Value, json};

use crate::table::{ROUTES, Route};

/// The document, as `spec/openapi.json` holds it.
#[must_use]
pub fn document() -> String {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route);
    }
    let mut schemas = wire::schema::http();
    schemas.insert("Error".to_owned(), error());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "onrecord",
            "version": "1",
            "description": "Sessions of a coding agent over HTTP and server-sent events. docs/daemon.md describes it.",
        },
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    });
    format!("{document:#}\n")
}

fn operation(route: &Route) -> Value {
    let mut responses = Map::new();
    responses.insert(route.good.to_string(), good(route));
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "Why it was not done",
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Error"}},
                "text/html": {"schema": {"type": "string"}},
            },
        }),
    );
    let mut operation = json!({"summary": route.summary, "responses": responses});
    let parameters: Vec<Value> = in_path(route.path)
        .chain(route.query.iter().map(|name| in_query(name)))
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !route.body.is_empty() {
        operation["requestBody"] = body(route);
    }
    operation
}

fn good(route: &Route) -> Value {
    if route.good == 204 {
        return json!({"description": "Done"});
    }
    let schema = match route.answer {
        Some(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        None => json!({"type": "object"}),
    };
    let content = match route.path {
        "/session/{id}/events" => json!({"text/event-stream": {"schema": {
            "type": "object",
            "required": ["event", "data"],
            "properties": {
                "id": {"type": "string"},
                "event": {"type": "string"},
                "data": {"type": "string"},
            },
        }}}),
        "/metrics" => json!({"application/openmetrics-text": {"schema": {"type": "string"}}}),
        "/session/{id}/export" => json!({
            "application/json": {"schema": {"type": "object"}},
            "application/jsonl": {"schema": {"type": "string"}},
            "text/markdown": {"schema": {"type": "string"}},
        }),
        _ => json!({"application/json": {"schema": schema}}),
    };
    json!({"description": "Good", "content": content})
}

fn in_path(path: &str) -> impl Iterator<Item = Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "schema": {"type": "string", "minLength": 1},
        })
    })
}

fn in_query(name: &str) -> Value {
    json!({"name": name, "in": "query", "required": false, "schema": {"type": "string"}})
}

fn body(route: &Route) -> Value {
    let required: Vec<&str> = route
        .body
        .iter()
        .filter(|(_, kind)| kind.ends_with('!'))
        .map(|(name, _)| *name)
        .collect();
    let fields: Map<String, Value> = route
        .body
        .iter()
        .map(|(name, kind)| {
            (
                (*name).to_owned(),
                json!({"type": kind.trim_end_matches('!')}),
            )
        })
        .collect();
    let mut schema = json!({"type": "object", "properties": fields});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({
        "required": !required.is_empty(),
        "content": {"application/json": {"schema": schema}},
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"type": "string", "description": "For people"},
            "code": {"type": ["string", "integer"], "description": "For programs"},
        },
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_in_spec_is_fresh() {
        let kept = include_str!("../../../spec/openapi.json");
        assert!(
            serde_json::from_str::<serde_json::Value>(kept).expect("it is JSON")
                == serde_json::from_str::<serde_json::Value>(&super::document())
                    .expect("it is JSON"),
            "spec/openapi.json is stale; `cargo xtask export` writes it"
        );
    }
}
