//! The turn loop: ask the model, run what it calls, until it is done or stopped.
//!
//! Record, then publish: whoever sees a message can find it in the record, unless the
//! record has failed and said so.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::{
    approval::{Decision, Mode, Question, Verdict},
    event::{Event, Outcome, ToolStatus, TurnSummary},
    image,
    message::{Block, Message, Prompt, ToolCall, ToolResult, Usage},
    model::{Finish, ModelError, ModelErrorKind, ModelEvent, Provider, Request},
    session::{Session, Settle, Stop, Stopper},
    to_record,
    tool::{self, Context, Display, Kind, Preview, Tool, ToolError},
};

/// What is counted within one turn.
#[derive(Debug, Default)]
struct Progress {
    n_round_trips: u32,
    n_tool_calls: u32,
    duration_api: Duration,
    answer: String,
}

/// One model response, as far as it came.
#[derive(Debug, Default)]
struct Reply {
    blocks: Vec<Block>,
    usage: Option<Usage>,
    finish: Finish,
}

/// How a call ended, before it is recorded.
struct Ended {
    text: String,
    display: Display,
    status: ToolStatus,
    error: Option<&'static str>,
    duration: Duration,
    /// Whoever was asked wants the turn to end with this call.
    interrupts: bool,
}

impl Session {
    /// Runs one turn and tells every output how it ended. A cancelled turn keeps what it has.
    pub async fn run_turn(
        &mut self,
        prompt: impl Into<Prompt>,
        settle: Settle,
        cancel: &CancellationToken,
    ) -> TurnSummary {
        self.turn(Some(prompt.into()), settle, cancel).await
    }

    /// Goes on with the turn that was left before it was done; nothing new is said to the model.
    pub async fn continue_turn(
        &mut self,
        settle: Settle,
        cancel: &CancellationToken,
    ) -> TurnSummary {
        self.turn(None, settle, cancel).await
    }

    async fn turn(
        &mut self,
        prompt: Option<Prompt>,
        settle: Settle,
        cancel: &CancellationToken,
    ) -> TurnSummary {
        let began = Instant::now();
        let stopper = Stopper::new(cancel.clone(), began, self.parts.limits.wall_time_max);
        let mut progress = Progress::default();
        self.publish(Event::TurnStarted {
            info: self.info(),
            prompt: prompt.as_ref().map(|prompt| prompt.text.as_str().into()),
        })
        .await;
        let outcome = if self.record_prompt(prompt.as_ref(), cancel).await {
            self.history.extend(prompt.map(Message::User));
            image::keep_newest(&mut self.history);
            self.work(&mut progress, &stopper).await
        } else {
            Outcome::RecordingRequired
        };
        if let Outcome::ModelFailed(error) = &outcome
            && error.kind == ModelErrorKind::ImageRefused
        {
            // Every later turn would fail with it again.
            for message in &mut self.history {
                if let Message::User(prompt) = message {
                    prompt.forget_images();
                }
            }
        }
        self.end_turn(outcome, progress, began, settle).await
    }

    /// A turn that needs no model: tells every output what was said and what is answered. Nothing of
    /// it is recorded or told to the model later.
    pub async fn answer(&mut self, prompt: &str, answer: String) -> TurnSummary {
        self.publish(Event::TurnStarted {
            info: self.info(),
            prompt: Some(prompt.into()),
        })
        .await;
        let progress = Progress {
            answer,
            ..Progress::default()
        };
        self.end_turn(Outcome::Success, progress, Instant::now(), Settle::Flush)
            .await
    }

    /// Tells every output that a prompt was not begun, and why.
    pub async fn refuse_turn(&mut self, outcome: Outcome) -> TurnSummary {
        self.end_turn(outcome, Progress::default(), Instant::now(), Settle::Flush)
            .await
    }

    async fn end_turn(
        &mut self,
        outcome: Outcome,
        progress: Progress,
        began: Instant,
        settle: Settle,
    ) -> TurnSummary {
        let recording = self.settle(settle).await;
        let summary = TurnSummary {
            outcome,
            answer: progress.answer,
            duration: began.elapsed(),
            duration_api: progress.duration_api,
            n_round_trips: progress.n_round_trips,
            usage: self.usage,
            denials: self.denials.clone().into(),
            stats: self.stats.clone(),
            recording,
        };
        self.publish(Event::TurnEnded(Box::new(summary.clone())))
            .await;
        summary
    }

    async fn work(&mut self, progress: &mut Progress, stopper: &Stopper) -> Outcome {
        loop {
            if let Some(max) = self.parts.limits.n_round_trips_max
                && progress.n_round_trips >= max
            {
                return Outcome::TurnLimit(max);
            }
            progress.n_round_trips += 1;
            let calls = match self.ask_model(progress, stopper).await {
                Ok(calls) if calls.is_empty() => return Outcome::Success,
                Ok(calls) => calls,
                Err(outcome) => return outcome,
            };
            if let Some(outcome) = self.run_calls(calls, progress, stopper).await {
                return outcome;
            }
        }
    }

    /// One model call; answers the calls it makes.
    async fn ask_model(
        &mut self,
        progress: &mut Progress,
        stopper: &Stopper,
    ) -> Result<Vec<ToolCall>, Outcome> {
        let began = Instant::now();
        self.publish(Event::ModelStarted).await;
        let mut reply = Reply::default();
        // A change of the model during this call counts from the next one.
        let provider = self.parts.controls.provider();
        let end = tokio::select! {
            biased;
            stop = stopper.stopped() => Err(self.stopped(stop)),
            end = self.read_reply(&*provider, &mut reply) => end.map_err(Outcome::ModelFailed),
        };
        progress.duration_api += began.elapsed();
        self.stats.n_requests += 1;
        self.stats.n_request_errors += u64::from(matches!(end, Err(Outcome::ModelFailed(_))));
        if end.is_err() {
            // Calls of an unfinished response are not run, so they are not kept.
            reply
                .blocks
                .retain(|block| !matches!(block, Block::Call(_)));
        }
        progress.answer = text_of(&reply.blocks);
        if reply.blocks.is_empty() && end.is_err() {
            return end.map(|()| Vec::new());
        }
        self.keep_reply(provider.model(), reply).await;
        end.map(|()| match self.history.last() {
            Some(Message::Assistant(blocks)) => calls_of(blocks),
            _ => Vec::new(),
        })
    }

    async fn read_reply(
        &self,
        provider: &dyn Provider,
        reply: &mut Reply,
    ) -> Result<(), ModelError> {
        let mut stream = provider.stream(Request {
            system: Arc::clone(&self.parts.system_prompt),
            messages: self.history.clone(),
            tools: Arc::clone(&self.specs),
            effort: self.parts.controls.effort(),
        });
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::Text(text) => {
                    // Kept before it is shown: a stop in between must not lose what was seen.
                    match reply.blocks.last_mut() {
                        Some(Block::Text(sofar)) => sofar.push_str(&text),
                        _ => reply.blocks.push(Block::Text(text.clone())),
                    }
                    self.publish(Event::Text(text)).await;
                }
                ModelEvent::Thought(text) => {
                    match reply.blocks.last_mut() {
                        Some(Block::Thought(sofar)) => sofar.push_str(&text),
                        _ => reply.blocks.push(Block::Thought(text.clone())),
                    }
                    self.publish(Event::Thought(text)).await;
                }
                ModelEvent::Call(call) => reply.blocks.push(Block::Call(call)),
                ModelEvent::Retrying {
                    attempt,
                    wait,
                    error,
                } => {
                    self.publish(Event::Retrying {
                        attempt,
                        wait,
                        error,
                    })
                    .await;
                }
                ModelEvent::Done(completion) => {
                    reply.usage = completion.usage;
                    reply.finish = completion.finish;
                    return Ok(());
                }
            }
        }
        Err(ModelError {
            kind: ModelErrorKind::Cut,
            status: None,
            message: "the model's stream ended without an end".to_owned(),
        })
    }

    /// Records a response, then shows it.
    async fn keep_reply(&mut self, model: &str, reply: Reply) {
        let Reply {
            blocks,
            usage,
            finish,
        } = reply;
        if let Some(usage) = usage {
            self.usage.input += usage.input;
            self.usage.output += usage.output;
            self.usage.cached += usage.cached;
            self.usage.thoughts += usage.thoughts;
            self.usage.total += usage.total;
            self.stats.context_tokens = usage.input + usage.output;
        }
        self.record(to_record::assistant(model, &blocks, usage))
            .await;
        self.publish(Event::ModelEnded {
            blocks: blocks.clone().into(),
            usage,
        })
        .await;
        self.history.push(Message::Assistant(blocks));
        let cut = match finish {
            Finish::Length => "Warning: the model's answer is cut off at its limit of tokens.",
            Finish::Filtered => "Warning: the model's answer is cut off by its provider's filter.",
            Finish::Stop | Finish::ToolCalls => return,
        };
        self.publish(Event::Warning(cut.to_owned())).await;
    }

    /// Runs the calls of one response in their order; answers how the turn ends, where it does.
    ///
    /// Every call gets a result, so that the conversation can go on from any end.
    async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        progress: &mut Progress,
        stopper: &Stopper,
    ) -> Option<Outcome> {
        let mut results = Vec::with_capacity(calls.len());
        let mut end = None;
        for call in calls {
            if end.is_none()
                && let Some(max) = self.parts.limits.n_tool_calls_max
                && progress.n_tool_calls >= max
            {
                end = Some(Outcome::ToolCallLimit(max));
            }
            let ended = if end.is_some() {
                cancelled("The turn ended before this call was run.")
            } else {
                progress.n_tool_calls += 1;
                let (ended, stop) = self.run_call(&call, stopper).await;
                end = stop.map(|stop| self.stopped(stop));
                if ended.interrupts {
                    end = Some(Outcome::Cancelled);
                }
                ended
            };
            results.push(self.keep_result(call, ended).await);
        }
        self.history.push(Message::ToolResults(results));
        end
    }

    async fn run_call(&mut self, call: &ToolCall, stopper: &Stopper) -> (Ended, Option<Stop>) {
        let began = Instant::now();
        let token = CancellationToken::new();
        let run = self.decide_and_run(call, &token);
        tokio::pin!(run);
        let (ended, stop) = tokio::select! {
            biased;
            ended = &mut run => (ended, None),
            stop = stopper.stopped() => {
                // The tool ends by itself once its token fires, and leaves nothing half done.
                token.cancel();
                (run.await, Some(stop))
            }
        };
        let mut ended = ended;
        ended.duration = began.elapsed();
        (ended, stop)
    }

    async fn decide_and_run(&self, call: &ToolCall, token: &CancellationToken) -> Ended {
        let tool = match tool::find(&self.parts.tools, &call.name) {
            Ok(tool) => tool,
            Err(error) => return failed(&error),
        };
        let changed = match self.may_run(tool, call, token).await {
            Ok(changed) => changed,
            Err(ended) => return ended,
        };
        let context = Context {
            workspace: Arc::clone(&self.parts.workspace),
            cancel: token.clone(),
            editor: self.parts.editor.clone(),
            progress: self.progress_of(call),
        };
        let args = changed.as_deref().unwrap_or(&call.args);
        if let Some(guard) = &self.parts.guard {
            let prepared = tokio::select! {
                prepared = guard.prepare(call, args) => prepared,
                () = token.cancelled() => return cancelled("The turn was cancelled."),
            };
            if let Err(reason) = prepared {
                return denied(&reason);
            }
        }
        self.publish(Event::ToolStarted(call.clone())).await;
        let mut ended = match tool.run(args.get(), &context).await {
            Ok(output) => Ended {
                display: output.display,
                ..ended(&output.text, ToolStatus::Success, None)
            },
            Err(error) => failed(&error),
        };
        if let Some(args) = changed {
            // The record and the model hold the call as it was made; what was done is not that.
            ended.text = format!(
                "[The call was changed before it ran. It ran with: {}]\n{}",
                args.get(),
                ended.text
            );
        }
        ended
    }

    /// Whether a call may run: with the arguments that whoever was asked put in place of the
    /// model's, or with its own.
    async fn may_run(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        token: &CancellationToken,
    ) -> Result<Option<Box<RawValue>>, Ended> {
        let mode = self.parts.controls.mode();
        let mut verdict = mode.verdict(tool.kind());
        if verdict == Verdict::Ask && self.parts.allowed_tools.contains(&call.name) {
            verdict = Verdict::Run;
        }
        if verdict == Verdict::Run && matches!(tool.kind(), Kind::Read | Kind::Host) {
            return Ok(None);
        }
        let preview = self.preview(tool, call, token).await?;
        match (verdict, &self.parts.approver) {
            (Verdict::Run, _) => Ok(None),
            (Verdict::Refuse, _) => Err(denied(&format!(
                "`{}` was not run: approval mode `{}` allows reading only.",
                call.name,
                mode.as_str()
            ))),
            (Verdict::Ask, None) => Err(nobody_to_ask(call, mode)),
            (Verdict::Ask, Some(approver)) => {
                let question = Question {
                    call,
                    preview: &preview,
                };
                let decision = tokio::select! {
                    decision = approver.ask(question) => decision,
                    () = token.cancelled() => return Err(cancelled("The turn was cancelled.")),
                };
                match decision {
                    Decision::Allow => Ok(None),
                    Decision::AllowChanged(args) if is_same(&args, &call.args) => Ok(None),
                    Decision::AllowChanged(args) => Ok(Some(args)),
                    Decision::Deny { reason, interrupt } => Err(Ended {
                        interrupts: interrupt,
                        ..denied(&format!("[Operation Cancelled] Reason: {reason}"))
                    }),
                    Decision::Nobody => Err(nobody_to_ask(call, mode)),
                    Decision::Unanswered(reason) => Err(cancelled(&format!(
                        "[Operation Cancelled] Reason: {reason}"
                    ))),
                }
            }
        }
    }

    /// What a call would do, to a file's text in an editor where one holds it.
    async fn preview(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        token: &CancellationToken,
    ) -> Result<Preview, Ended> {
        let (args, workspace) = (call.args.get(), &self.parts.workspace);
        let reader = self.parts.editor.as_ref().filter(|editor| editor.reads());
        let edited = match (reader, tool.edited_file(args, workspace)) {
            (Some(editor), Some(file)) => tokio::select! {
                text = editor.read(&file) => text.ok(),
                () = token.cancelled() => return Err(cancelled("The turn was cancelled.")),
            },
            (Some(_) | None, _) => None,
        };
        match edited {
            Some(text) => tool.preview_edited(args, workspace, text.into_bytes()),
            None => tool.preview(args, workspace),
        }
        .map_err(|error| failed(&error))
    }

    /// Records a result, then shows it.
    async fn keep_result(&mut self, call: ToolCall, ended: Ended) -> ToolResult {
        let Ended {
            text,
            display,
            status,
            error,
            duration,
            interrupts: _,
        } = ended;
        self.record(to_record::tool_result(
            &call, &text, &display, status, error,
        ))
        .await;
        self.count_tool(&call.name, status == ToolStatus::Success, duration);
        if status == ToolStatus::Denied {
            self.denials.push(call.clone());
        }
        if let Display::Diff {
            n_added, n_removed, ..
        } = &display
        {
            self.stats.n_lines_added += n_added;
            self.stats.n_lines_removed += n_removed;
        }
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: text.clone(),
            is_error: status != ToolStatus::Success,
        };
        let plan = match &display {
            Display::Plan(todos) => Some(Arc::clone(todos)),
            Display::Text(_) | Display::Diff { .. } | Display::Shell { .. } => None,
        };
        self.publish(Event::ToolEnded {
            call,
            text,
            display,
            status,
            duration,
        })
        .await;
        if let Some(plan) = plan {
            self.publish(Event::PlanChanged(plan)).await;
        }
        result
    }

    fn stopped(&self, stop: Stop) -> Outcome {
        match stop {
            Stop::Cancelled => Outcome::Cancelled,
            Stop::WallTime => {
                Outcome::WallTimeLimit(self.parts.limits.wall_time_max.unwrap_or_default())
            }
        }
    }
}

fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Thought(_) | Block::Call(_) => None,
    });
    texts.collect()
}

fn calls_of(blocks: &[Block]) -> Vec<ToolCall> {
    let calls = blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call.clone()),
        Block::Thought(_) | Block::Text(_) => None,
    });
    calls.collect()
}

fn failed(error: &ToolError) -> Ended {
    let status = if error.kind == "cancelled" {
        ToolStatus::Cancelled
    } else {
        ToolStatus::Error
    };
    ended(&error.message, status, Some(error.kind))
}

fn denied(reason: &str) -> Ended {
    ended(reason, ToolStatus::Denied, Some("denied"))
}

/// Whether two texts are the same JSON: programs write back what they read in their own way.
fn is_same(one: &RawValue, other: &RawValue) -> bool {
    let value = |raw: &RawValue| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
    one.get() == other.get() || value(one).is_some_and(|one| Some(one) == value(other))
}

fn nobody_to_ask(call: &ToolCall, mode: Mode) -> Ended {
    denied(&format!(
        "`{}` was not run: it needs approval and nobody can be asked in this run. \
         Approval mode is `{}`; a person can choose another with --approval-mode.",
        call.name,
        mode.as_str()
    ))
}

fn cancelled(reason: &str) -> Ended {
    ended(reason, ToolStatus::Cancelled, Some("cancelled"))
}

fn ended(text: &str, status: ToolStatus, error: Option<&'static str>) -> Ended {
    Ended {
        text: text.to_owned(),
        display: Display::Text(text.to_owned()),
        status,
        error,
        duration: Duration::ZERO,
        interrupts: false,
    }
}
