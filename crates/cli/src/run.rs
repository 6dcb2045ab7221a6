//! One run: find the conversation, run the turn, end the record, say how it ended.

use std::sync::Arc;

use agent::{
    config::{Config, RecordingSettings},
    event::Outcome,
    feed::feed,
    session::{Session, SessionParts, Settle},
    tool,
};
use tokio_util::sync::CancellationToken;
use transcript::disk::OsDisk;
use wire::{
    limits::EXIT_WAIT_MAX,
    recording::{RecordingReport, RecordingState},
    words,
};

use crate::{
    args::{OutputFormat, RunArgs},
    conversation::{Conversation, find_conversation},
    exit::Exit,
    output::{Output, Told},
    place::Place,
    resolve::{Plan, Refusal, plan},
    signals,
    stdin::prompt_with_piped,
    stdio,
};

/// Runs one turn; answers how the process ends.
pub(crate) fn run(args: RunArgs) -> Exit {
    match try_run(args) {
        Ok(exit) => exit,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: RunArgs) -> Result<Exit, Refusal> {
    let place = Place::find()?;
    let mut plan = plan(args, &place)?;
    let prompt = prompt_with_piped(plan.prompt.take())?;
    let conversation = find_conversation(&plan, &place)?;
    // Said only of a run that begins.
    for notice in &plan.notices {
        stdio::say(notice);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::usage(format!("cannot start: {}", error.kind())))?;
    let exit = runtime.block_on(turn(plan, &place, conversation, &prompt))?;
    // A tool or a look-up that hangs in a thread of its own must not keep the process.
    runtime.shutdown_background();
    Ok(exit)
}

async fn turn(
    plan: Plan,
    place: &Place,
    conversation: Conversation,
    prompt: &str,
) -> Result<Exit, Refusal> {
    let cancel = CancellationToken::new();
    let ending = signals::cancel_on_signal(cancel.clone())
        .map_err(|error| Refusal::usage(format!("cannot handle signals: {}", error.kind())))?;
    let config = Config::new(RecordingSettings {
        enabled: plan.recording,
        required: plan.required,
        disk: Arc::new(OsDisk),
        log: place.log(),
        version: version(),
        clock: Arc::new(jiff::Timestamp::now),
    });
    let (events, reader) = feed();
    let output = Output::new(plan.format, plan.partial, &conversation.session_id)
        .start(reader, cancel.clone())
        .map_err(|error| Refusal::usage(format!("cannot start a thread: {}", error.kind())))?;
    let failures = events.clone();
    config.on_chat_recording_failure(move |failure| {
        failures.degraded(failure.clone());
        Ok(())
    });
    let format = plan.format;
    let required = plan.required;
    let mut session = begin(plan, &config, conversation);
    session.subscribe(events.clone());
    let summary = session.run_turn(prompt, Settle::Finalize, &cancel).await;
    events.close();
    let told = output.await.unwrap_or_default();
    let record = config.shutdown(EXIT_WAIT_MAX).await;
    // A run that was refused for its record has said so as its result.
    if !matches!(summary.outcome, Outcome::RecordingRequired) {
        last_words(&record, format, told, required);
    }
    if told.reader_gone && ending.exit().is_none() {
        return Ok(strict(Exit::Success, required, &record));
    }
    if told.unwritable {
        stdio::say("onrecord: standard output could not be written; the session holds the answer.");
    }
    let exit = ending
        .exit()
        .unwrap_or_else(|| Exit::of_work(&summary.outcome));
    let exit = if told.unwritable && exit == Exit::Success {
        Exit::Failure
    } else {
        exit
    };
    Ok(strict(exit, required, &record))
}

/// What records name as the program that wrote them.
pub(crate) fn version() -> String {
    format!("onrecord/{}", env!("CARGO_PKG_VERSION"))
}

fn strict(exit: Exit, required: bool, record: &RecordingReport) -> Exit {
    if required {
        exit.with_required_record(record)
    } else {
        exit
    }
}

fn begin(plan: Plan, config: &Config, conversation: Conversation) -> Session {
    let parts = SessionParts {
        config: config.clone(),
        session_id: conversation.session_id,
        transcript: conversation.transcript,
        workspace: plan.workspace,
        provider: plan.provider,
        tools: tool::registry(),
        system_prompt: plan.system_prompt,
        mode: plan.mode,
        approver: None,
        limits: plan.limits,
    };
    match conversation.stored {
        Some((loaded, lock)) => Session::resume(parts, &loaded, lock),
        None => Session::begin(parts),
    }
}

/// What is said of the record once nothing more can change it (R13, B1, B6).
fn last_words(record: &RecordingReport, format: OutputFormat, told: Told, required: bool) {
    let line = match record.state {
        RecordingState::Degraded if !told.degraded => Some(words::FAILED_SINCE_LINE),
        RecordingState::Pending => Some(words::NOT_CONFIRMED_LINE),
        RecordingState::NeverStarted if format == OutputFormat::Text => {
            Some(words::NEVER_STARTED_LINE)
        }
        RecordingState::NeverStarted
        | RecordingState::Degraded
        | RecordingState::Saved
        | RecordingState::Off => None,
    };
    if let Some(line) = line {
        stdio::say(line);
    }
    if required && Exit::Success.with_required_record(record) == Exit::RecordingLost {
        stdio::say(words::REQUIRED_BUT_LOST_LINE);
    }
}
