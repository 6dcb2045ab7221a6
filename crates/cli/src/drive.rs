//! Runs the prompts of a run, one turn after another.

use agent::{
    event::{Outcome, TurnSummary},
    interrupt::Interrupt,
    mention::with_pictures,
    session::{Session, Settle},
    tool::Tool,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use transcript::layout::ProjectDir;
use uuid::Uuid;

use crate::{
    host::{Board, mcp::Servers},
    prompts::{Prompts, Work},
    slash::Slash,
};

/// What a run of turns needs.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) session: Session,
    pub(crate) prompts: Prompts,
    /// Ends everything.
    pub(crate) cancel: CancellationToken,
    /// Ends one turn.
    pub(crate) interrupt: Interrupt,
    /// How a turn ends its record.
    pub(crate) settle: Settle,
    /// Where new sessions are recorded.
    pub(crate) project: Option<ProjectDir>,
    /// What is known of the session while a turn has it.
    pub(crate) board: Board,
    /// Of a program that drives the run.
    pub(crate) host: Option<Hosted>,
}

/// What belongs to a program that drives the run.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) servers: Servers,
    /// The tools of the run, without those of the servers.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
}

impl Drive {
    /// Runs turns until no more prompts come, or everything is cancelled. Answers how the last one
    /// ended; `None` where there was none.
    pub(crate) async fn run(&mut self) -> Option<Outcome> {
        let mut last = None;
        loop {
            let work = tokio::select! {
                biased;
                () = self.cancel.cancelled() => break,
                work = self.prompts.next() => work,
            };
            let Some(work) = work else { return last };
            let summary = self.turn(work).await;
            last = Some(summary.outcome);
        }
        // Whoever sent a prompt learns what became of it.
        for _ in self.prompts.close() {
            last = Some(self.session.refuse_turn(Outcome::Cancelled).await.outcome);
        }
        last
    }

    async fn turn(&mut self, work: Work) -> TurnSummary {
        let token = self.interrupt.begin(&self.cancel);
        self.offer_tools(&token).await;
        let summary = match &work {
            Work::Prompt(prompt) => match Slash::of(prompt) {
                Some(Slash::Clear) => self.clear(prompt).await,
                None => {
                    let prompt = with_pictures(prompt, self.session.workspace(), &token).await;
                    self.session.run_turn(prompt, self.settle, &token).await
                }
            },
            Work::Continue => self.session.continue_turn(self.settle, &token).await,
        };
        self.interrupt.end();
        self.board.note(&self.session, &summary);
        summary
    }

    /// Waits for MCP servers that are connecting, and offers what they have.
    async fn offer_tools(&mut self, token: &CancellationToken) {
        let Some(host) = &self.host else { return };
        tokio::select! {
            () = host.servers.settled() => {}
            () = token.cancelled() => {}
        }
        let (more, rows) = host.servers.offer();
        if rows.is_empty() {
            return;
        }
        let mut tools = host.tools.clone();
        tools.extend(more);
        self.board.note_tools(tools.clone());
        self.session.offer_tools(tools, rows);
    }

    async fn clear(&mut self, prompt: &str) -> TurnSummary {
        let id = Uuid::new_v4().to_string();
        let transcript = self.project.as_ref().map(|project| project.transcript(&id));
        self.session.renew(id.clone(), transcript).await;
        self.session
            .answer(prompt, format!("A new session begins: {id}"))
            .await
    }
}
