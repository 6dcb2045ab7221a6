//! Questions of ours that wait for an answer, whoever gives it first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;
use wire::limits::HOST_QUESTIONS_MAX;

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Of the host: what it says, or its words for why it says nothing.
    Host(Result<Box<RawValue>, String>),
    /// Of the program on the second output: whether the call runs.
    Beside(bool),
    /// The host's input ended before it answered.
    InputClosed,
}

/// The questions. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions {
    waiting: Arc<Mutex<HashMap<String, Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Reply>,
    /// The program on the second output may answer as well.
    open_beside: bool,
}

/// A question that was asked. Dropping it forgets it; a later answer is an unknown one.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: String,
    reply: oneshot::Receiver<Reply>,
    questions: Questions,
}

impl Questions {
    /// Registers a question. `None` where too many wait.
    pub(crate) fn ask(&self, open_beside: bool) -> Option<Asked> {
        let (sender, reply) = oneshot::channel();
        let id = Uuid::new_v4().to_string();
        let mut waiting = self.lock();
        if waiting.len() >= HOST_QUESTIONS_MAX {
            return None;
        }
        let reply_to = Waiting {
            reply: sender,
            open_beside,
        };
        waiting.insert(id.clone(), reply_to);
        drop(waiting);
        Some(Asked {
            id,
            reply,
            questions: self.clone(),
        })
    }

    /// Answers a question; `false` where none of that id waits for this answer.
    pub(crate) fn answer(&self, id: &str, reply: Reply) -> bool {
        let mut waiting = self.lock();
        let Some(asked) = waiting.get(id) else {
            return false;
        };
        if matches!(reply, Reply::Beside(_)) && !asked.open_beside {
            return false;
        }
        let Some(asked) = waiting.remove(id) else {
            return false;
        };
        drop(waiting);
        asked.reply.send(reply).is_ok()
    }

    /// Answers for a host that can say nothing any more. What the program on the second output may
    /// answer goes on waiting where `others_answer`.
    pub(crate) fn close_input(&self, others_answer: bool) {
        let mut waiting = self.lock();
        let closed: Vec<String> = waiting
            .iter()
            .filter(|(_, asked)| !(others_answer && asked.open_beside))
            .map(|(id, _)| id.clone())
            .collect();
        for id in closed {
            if let Some(asked) = waiting.remove(&id) {
                // Dropped: who asked does not wait any more.
                _ = asked.reply.send(Reply::InputClosed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// The answer; `None` where none can come any more.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        (&mut self.reply).await.ok()
    }

    /// Whether the program on the second output has answered, and nobody has taken its answer.
    pub(crate) fn is_answered_beside(&mut self) -> bool {
        matches!(self.reply.try_recv(), Ok(Reply::Beside(_)))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.id);
    }
}
