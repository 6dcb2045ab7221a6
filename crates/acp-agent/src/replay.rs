//! How a stored session looks to a client.

use agent::{
    message::Block,
    replay::{Replayed, Said, last_plan},
};
use serde_json::{Map, Value, json};

use crate::{
    protocol::update::{Chunk, Picture, Shown, ToolCall, Update},
    to_acp::{kind_of, named, shown, title_of},
};

/// The update that shows a step again.
pub(crate) fn update(step: &Replayed) -> Update<'_> {
    let chunk = |text| Chunk {
        meta: Some(Value::Object(meta(step))),
        ..Chunk::new(text)
    };
    match &step.said {
        Said::Prompt(text) => Update::UserMessageChunk(chunk(text)),
        Said::Image(image) => Update::UserMessageChunk(Chunk {
            content: Shown::Image(Picture::new(image)),
            meta: Some(Value::Object(meta(step))),
        }),
        Said::Block(Block::Text(text)) => Update::AgentMessageChunk(chunk(text)),
        Said::Block(Block::Thought(text)) => Update::AgentThoughtChunk(chunk(text)),
        Said::Block(Block::Call(call)) => Update::ToolCall(ToolCall {
            tool_call_id: &call.id,
            title: Some(title_of(call)),
            kind: Some(kind_of(&call.name)),
            status: Some("pending"),
            raw_input: Some(&call.args),
            meta: with_name(step, &call.name),
            ..ToolCall::default()
        }),
        Said::Result(result) => Update::ToolChanged(ToolCall {
            tool_call_id: &result.call_id,
            status: Some(if result.is_error {
                "failed"
            } else {
                "completed"
            }),
            content: Some(vec![shown(&result.text)]),
            raw_output: Some(&result.text),
            meta: with_name(step, &result.name),
            ..ToolCall::default()
        }),
    }
}

fn meta(step: &Replayed) -> Map<String, Value> {
    let mut meta = Map::new();
    let time = step.time.as_ref().and_then(|time| time.parse().ok());
    if let Some(time) = time.map(jiff::Timestamp::as_millisecond) {
        meta.insert("timestamp".to_owned(), json!(time));
    }
    meta.insert(
        "qwenTranscript".to_owned(),
        json!({"sourceRecordIds": [step.record_uuid]}),
    );
    meta.insert("qwen.session.recordId".to_owned(), json!(step.record_uuid));
    meta
}

fn with_name(step: &Replayed, tool_name: &str) -> Map<String, Value> {
    let mut meta = meta(step);
    meta.extend(named(tool_name));
    meta
}

/// Steps as one value within an answer, as many as fit; the newest are kept. The plan that they leave
/// behind comes last.
pub(crate) fn bulk(steps: &[Replayed], updates_max: usize, bytes_max: usize) -> Value {
    let plan = last_plan(steps).and_then(|todos| serde_json::to_value(Update::plan(&todos)).ok());
    let updates_max = updates_max - usize::from(plan.is_some());
    let mut updates = Vec::new();
    let mut n_bytes = plan.as_ref().map_or(0, |plan| plan.to_string().len());
    for step in steps.iter().rev().take(updates_max) {
        let Ok(value) = serde_json::to_value(update(step)) else {
            continue;
        };
        n_bytes += value.to_string().len();
        if n_bytes > bytes_max {
            break;
        }
        updates.push(value);
    }
    updates.reverse();
    let is_partial = updates.len() < steps.len();
    updates.extend(plan);
    let mut replay = json!({"v": 1, "updates": updates});
    if is_partial {
        replay["partial"] = json!(true);
        replay["hasMore"] = json!(true);
    }
    replay
}
