//! What differs between two sessions.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// One thing that differs.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    /// Where: the kind of message and the way to the field; `+kind` is a message that only we send,
    /// `-kind` one that only Qwen Code sends. So are `….+field` and `….-field`; `….order` is the order
    /// of an object's fields.
    pub(super) place: String,
    pub(super) theirs: Value,
    pub(super) ours: Value,
}

/// Compares messages in their order, field by field.
///
/// Ids may be any, but the same where theirs are the same; times may be any.
pub(super) fn compare(theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let mut comparison = Comparison::default();
    for (theirs, ours) in aligned(theirs, ours) {
        match (theirs, ours) {
            (Some(theirs), Some(ours)) => comparison.values(&kind(theirs), "", theirs, ours),
            (Some(theirs), None) => {
                comparison.note(format!("-{}", kind(theirs)), theirs, &Value::Null);
            }
            (None, Some(ours)) => comparison.note(format!("+{}", kind(ours)), &Value::Null, ours),
            (None, None) => {}
        }
    }
    comparison.differences
}

/// The kind of a message: its type, or what says more.
pub(super) fn kind(message: &Value) -> String {
    let at = match message["type"].as_str() {
        Some("system") => &message["subtype"],
        Some("stream_event") => &message["event"]["type"],
        Some("control_request") => &message["request"]["subtype"],
        Some("user") if message["message"]["content"][0]["type"] == "text" => {
            return "prompt".to_owned();
        }
        _ => &message["type"],
    };
    at.as_str().unwrap_or("nothing").to_owned()
}

/// Pairs messages of the same kind, so that as many as can be are paired and none is out of order.
fn aligned<'a>(
    theirs: &'a [Value],
    ours: &'a [Value],
) -> Vec<(Option<&'a Value>, Option<&'a Value>)> {
    // n_paired[i][j]: pairs among theirs from i on and ours from j on.
    let mut n_paired = vec![vec![0; ours.len() + 1]; theirs.len() + 1];
    for i in (0..theirs.len()).rev() {
        for j in (0..ours.len()).rev() {
            n_paired[i][j] = if kind(&theirs[i]) == kind(&ours[j]) {
                n_paired[i + 1][j + 1] + 1
            } else {
                n_paired[i + 1][j].max(n_paired[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < theirs.len() || j < ours.len() {
        let both = i < theirs.len() && j < ours.len();
        if both && kind(&theirs[i]) == kind(&ours[j]) {
            pairs.push((Some(&theirs[i]), Some(&ours[j])));
            (i, j) = (i + 1, j + 1);
        } else if j == ours.len() || (both && n_paired[i + 1][j] >= n_paired[i][j + 1]) {
            pairs.push((Some(&theirs[i]), None));
            i += 1;
        } else {
            pairs.push((None, Some(&ours[j])));
            j += 1;
        }
    }
    pairs
}

#[derive(Default)]
struct Comparison {
    differences: Vec<Difference>,
    /// Our id for each of theirs, and theirs for each of ours.
    ids: [HashMap<String, String>; 2],
}

impl Comparison {
    fn note(&mut self, place: String, theirs: &Value, ours: &Value) {
        self.differences.push(Difference {
            place,
            theirs: theirs.clone(),
            ours: ours.clone(),
        });
    }

    /// Compares the names of fields, and the order of those that both have.
    fn names(&mut self, place: &str, theirs: &Map<String, Value>, ours: &Map<String, Value>) {
        for (key, theirs) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
            self.note(format!("{place}.-{key}"), theirs, &Value::Null);
        }
        for (key, ours) in ours.iter().filter(|(key, _)| !theirs.contains_key(*key)) {
            self.note(format!("{place}.+{key}"), &Value::Null, ours);
        }
        let common = |names: &Map<String, Value>, others: &Map<String, Value>| -> Vec<String> {
            let common = names.keys().filter(|key| others.contains_key(*key));
            common.cloned().collect()
        };
        let (theirs, ours) = (common(theirs, ours), common(ours, theirs));
        if theirs != ours {
            self.note(format!("{place}.order"), &json!(theirs), &json!(ours));
        }
    }

    /// Compares what stands under `key` at `place`.
    fn values(&mut self, place: &str, key: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                self.names(place, theirs, ours);
                for (key, theirs) in theirs {
                    if let Some(ours) = ours.get(key) {
                        self.values(&format!("{place}.{key}"), key, theirs, ours);
                    }
                }
            }
            (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
                for (theirs, ours) in theirs.iter().zip(ours) {
                    self.values(place, key, theirs, ours);
                }
            }
            (Value::Number(_), Value::Number(_)) if is_time(key) => {}
            (Value::String(theirs_id), Value::String(ours_id)) if is_id(key, theirs_id) => {
                let [ours_of, theirs_of] = &mut self.ids;
                let ours_before = ours_of.entry(theirs_id.clone()).or_insert(ours_id.clone());
                let theirs_before = theirs_of
                    .entry(ours_id.clone())
                    .or_insert(theirs_id.clone());
                let is_same = ours_before == ours_id && theirs_before == theirs_id;
                if !is_same || !is_id(key, ours_id) {
                    self.note(place.to_owned(), theirs, ours);
                }
            }
            _ if theirs == ours => {}
            _ => self.note(place.to_owned(), theirs, ours),
        }
    }
}

fn is_time(key: &str) -> bool {
    key.ends_with("_ms") || key.ends_with("Ms")
}

fn is_id(key: &str, text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
        || (matches!(key, "id" | "tool_use_id") && text.starts_with("call_"))
}

#[test]
fn every_kind_of_difference_is_found() {
    const ONE: &str = "123e4567-e89b-42d3-a456-426614174000";
    const TWO: &str = "223e4567-e89b-42d3-a456-426614174000";
    let message =
        |id: &str, text: &str| json!({"type": "assistant", "uuid": id, "text": text, "n_ms": 1});
    let theirs = [message(ONE, "a"), message(TWO, "b")];
    assert_eq!(compare(&theirs, &theirs), []);
    let others = [message(TWO, "a"), message(ONE, "b")];
    assert_eq!(compare(&theirs, &others), [], "ids may be any");
    let places = |ours: &[Value]| -> Vec<String> {
        compare(&theirs, ours)
            .into_iter()
            .map(|found| found.place)
            .collect()
    };
    let mut late = theirs.clone();
    late[0]["n_ms"] = json!(2);
    assert_eq!(places(&late), [""; 0], "times may be any");
    assert_eq!(
        places(&[message(ONE, "a"), message(ONE, "b")]),
        ["assistant.uuid"]
    );
    assert_eq!(
        places(&[message(ONE, "a"), message("no id", "b")]),
        ["assistant.uuid"]
    );
    assert_eq!(
        places(&[message(ONE, "a"), message(TWO, "x")]),
        ["assistant.text"]
    );
    assert_eq!(places(&theirs[..1]), ["-assistant"]);
    let result = json!({"type": "result"});
    let more = [theirs[0].clone(), result, theirs[1].clone()];
    assert_eq!(places(&more), ["+result"]);
    let mut another_order = theirs.clone();
    another_order[0] = json!({"type": "assistant", "text": "a", "uuid": ONE, "n_ms": 1});
    assert_eq!(places(&another_order), ["assistant.order"]);
    another_order[0] = json!({"type": "assistant", "uuid": ONE, "n_ms": 1, "more": 1});
    assert_eq!(
        places(&another_order),
        ["assistant.-text", "assistant.+more"]
    );
    another_order[0] = json!({"type": "assistant", "uuid": ONE, "text": "a", "n_ms": "1"});
    assert_eq!(places(&another_order), ["assistant.n_ms"]);
}
