//! `todo_write`: the model's plan, told whole with every call, so that nothing of it is held here.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::limits::{TODO_ITEMS_MAX, TODO_TEXT_BYTES_MAX};

use super::{Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, wording};
use crate::model::ToolSpec;

/// The tool's name.
pub(crate) const NAME: &str = "todo_write";

/// See the module.
#[derive(Debug)]
pub(super) struct TodoWrite;

/// One item of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Names it in later calls; unique in its plan.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far an item of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

impl TodoStatus {
    /// The word in calls and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

#[derive(Debug, Deserialize)]
struct Args {
    todos: Vec<Todo>,
}

impl Tool for TodoWrite {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.into(),
            description: "Writes down the plan for a task of several steps, for yourself and for \
                          the user, who sees it. Every call replaces the whole list, so send all \
                          items each time. Mark an item `in_progress` when you begin it and \
                          `completed` as soon as it is done. Not needed for simple tasks."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The whole list, in the order of the work.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {
                                    "type": "string",
                                    "description": "Unique in the list; kept for the same item."
                                },
                                "content": {
                                    "type": "string",
                                    "description": "What is to be done, in a few words."
                                },
                                "status": {
                                    "type": "string",
                                    "enum": ["pending", "in_progress", "completed"],
                                    "description": "How far it is."
                                }
                            },
                            "required": ["id", "content", "status"]
                        }
                    }
                },
                "required": ["todos"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn preview(&self, args: &str, _workspace: &Workspace) -> Result<Preview, ToolError> {
        let todos = self.parse(args)?;
        Ok(Preview::Read(format!(
            "Plan: {}",
            wording::counted(todos.len() as u64, "item")
        )))
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        _context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let todos = self.parse(args)?;
            Ok(Output {
                text: summary(&todos),
                display: Display::Plan(todos.into()),
            })
        })
    }
}

impl TodoWrite {
    fn parse(&self, args: &str) -> Result<Vec<Todo>, ToolError> {
        let Args { todos } = args::parse(self, args)?;
        check(&todos).map_err(|reason| args::refused(self, &reason))?;
        Ok(todos)
    }
}

/// The plan that a call with these arguments wrote down; `None` where they are wrong.
pub(crate) fn of_args(args: &str) -> Option<Vec<Todo>> {
    TodoWrite.parse(args).ok()
}

fn check(todos: &[Todo]) -> Result<(), String> {
    if todos.len() > TODO_ITEMS_MAX {
        return Err(format!(
            "`todos` has {} items, at most {TODO_ITEMS_MAX} are taken",
            todos.len()
        ));
    }
    let mut ids = BTreeSet::new();
    for (at, todo) in todos.iter().enumerate() {
        for (name, text) in [("id", &todo.id), ("content", &todo.content)] {
            if text.trim().is_empty() {
                return Err(format!("`todos[{at}].{name}` is empty"));
            }
            if text.len() > TODO_TEXT_BYTES_MAX {
                return Err(format!(
                    "`todos[{at}].{name}` is longer than {TODO_TEXT_BYTES_MAX} bytes"
                ));
            }
        }
        if !ids.insert(&todo.id) {
            return Err(format!("`todos[{at}].id` is that of an earlier item"));
        }
    }
    Ok(())
}

fn summary(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "The plan is empty now.".to_owned();
    }
    let n = |status| todos.iter().filter(|todo| todo.status == status).count();
    format!(
        "The plan is written down: {}, of which {} completed, {} in progress, {} pending.",
        wording::counted(todos.len() as u64, "item"),
        n(TodoStatus::Completed),
        n(TodoStatus::InProgress),
        n(TodoStatus::Pending)
    )
}
