//! What was said in a stored session, step by step, for clients that show it again.

use transcript::reader::{Loaded, Type};

use crate::{
    from_record::block,
    image::{self, Image},
    message::{Block, ToolResult},
    tool::{Todo, todo_write},
};

/// One step of a stored session.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The record that holds it.
    pub record_uuid: String,
    /// When it was recorded, RFC 3339; `None` where the record does not say.
    pub time: Option<String>,
    /// What was said.
    pub said: Said,
}

/// What was said.
#[derive(Debug, Clone)]
pub enum Said {
    /// By the person.
    Prompt(String),
    /// A picture that the prompt before it names.
    Image(Image),
    /// By the model.
    Block(Block),
    /// By a tool.
    Result(ToolResult),
}

/// The steps of the active chain, oldest first.
#[must_use]
pub fn replay(loaded: &Loaded) -> Vec<Replayed> {
    let mut steps: Vec<Replayed> = Vec::new();
    let mut images = image::stored(loaded);
    for stored in &loaded.records {
        let speaks = matches!(stored.kind, Type::User | Type::Assistant | Type::ToolResult);
        if !speaks || stored.subtype.as_deref() == Some("realtime_message") {
            continue;
        }
        let Some(content) = stored.content() else {
            continue;
        };
        let of_model = content.role == "model";
        for part in content.parts {
            let said = if of_model {
                block(part).map(Said::Block)
            } else if let Some(response) = part.function_response {
                let (text, is_error) = match (response.response.output, response.response.error) {
                    (_, Some(error)) => (error, true),
                    (Some(output), None) => (output, false),
                    (None, None) => (String::new(), false),
                };
                Some(Said::Result(ToolResult {
                    call_id: response.id.unwrap_or_default(),
                    name: response.name,
                    text,
                    is_error,
                }))
            } else {
                part.text.map(Said::Prompt)
            };
            steps.extend(said.map(|said| Replayed {
                record_uuid: stored.uuid.clone(),
                time: stored.timestamp.clone(),
                said,
            }));
        }
        let Some(of_record) = images.remove(stored.uuid.as_str()) else {
            continue;
        };
        if let (1.., Some(Said::Prompt(text))) = (
            of_record.n_absent,
            steps.last_mut().map(|step| &mut step.said),
        ) {
            text.push('\n');
            text.push_str(&image::absent(of_record.n_absent));
        }
        steps.extend(of_record.images.into_iter().map(|image| Replayed {
            record_uuid: stored.uuid.clone(),
            time: stored.timestamp.clone(),
            said: Said::Image(image),
        }));
    }
    steps
}

/// The plan that the steps leave behind: the one that the last good call of `todo_write` wrote down.
#[must_use]
pub fn last_plan(steps: &[Replayed]) -> Option<Vec<Todo>> {
    let (at, call_id) = steps
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, step)| match &step.said {
            Said::Result(result) if result.name == todo_write::NAME && !result.is_error => {
                Some((at, &result.call_id))
            }
            Said::Result(_) | Said::Prompt(_) | Said::Image(_) | Said::Block(_) => None,
        })?;
    steps[..at].iter().rev().find_map(|step| match &step.said {
        Said::Block(Block::Call(call)) if call.id == *call_id => {
            todo_write::of_args(call.args.get())
        }
        Said::Block(_) | Said::Result(_) | Said::Prompt(_) | Said::Image(_) => None,
    })
}
