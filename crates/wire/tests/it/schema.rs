//! The published schemas are those of the types.

use std::{fs, path::Path};

use wire::schema;

fn assert_fresh(name: &str, schema: &str) {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec");
    let published = fs::read_to_string(spec.join(name)).unwrap_or_default();
    assert!(
        published == schema,
        "spec/{name} is not what the types of `wire` say; `cargo xtask export` writes it"
    );
}

#[test]
fn the_published_schema_of_what_we_say_is_fresh() {
    assert_fresh("stream-json.schema.json", &schema::output());
}

#[test]
fn the_published_schema_of_what_we_understand_is_fresh() {
    assert_fresh("stream-json-input.schema.json", &schema::input());
}
