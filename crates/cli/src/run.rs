//! One run: find the conversation, run its turns, end the record, say how it ended.

use std::{io, sync::Arc};

use agent::{
    approval::Approver,
    config::{Config, RecordingSettings},
    controls::Controls,
    event::{Event, Outcome},
    feed::{Feed, feed, feed_beside},
    interrupt::Interrupt,
    session::{Session, SessionParts, Settle},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use transcript::{disk::OsDisk, layout::DataRoot};
use wire::{
    limits::{
        EXIT_WAIT_MAX, OUTPUT_STUCK_WAIT_MAX, PERMISSION_WAIT_DEFAULT, SETTLE_WAIT_MAX,
        SIDE_OUTPUT_END_WAIT_MAX,
    },
    recording::{RecordingReport, RecordingState},
    words,
};

use crate::{
    args::{OutputFormat, RunArgs},
    conversation::{Conversation, find_conversation},
    drive::{Drive, Hosted},
    exit::{Exit, is_lost},
    host::{self, Board, Control, Host, mcp::Servers},
    output::{Output, Told},
    permissions::Permissions,
    place::Place,
    prompts::{Sender, Work, prompts},
    questions::Questions,
    resolve::{Plan, Refusal, plan},
    side::{self, Channel, Commands},
    signals,
    stdin::prompt_with_piped,
    stdio,
};

/// Runs what the arguments ask for; answers how the process ends.
pub(crate) fn run(args: RunArgs) -> Exit {
    match try_run(args) {
        Ok(exit) => exit,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: RunArgs) -> Result<Exit, Refusal> {
    let place = Place::find()?;
    let mut plan = plan(args, &place)?;
    // Before anything else is opened: a number that is free now must not come to mean that.
    let channel = plan.side.output.as_ref().map(|output| {
        let root = place.root.as_ref().map(DataRoot::path);
        side::open(output, root)
    });
    let prompt = if plan.driven {
        plan.prompt.take()
    } else {
        Some(prompt_with_piped(plan.prompt.take())?)
    };
    let conversation = find_conversation(&plan, &place)?;
    // Said only of a run that begins.
    for notice in &plan.notices {
        stdio::say(notice);
    }
    let channel = match channel {
        Some(Ok(channel)) => Some(channel),
        Some(Err(warning)) => {
            stdio::say(&warning);
            None
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::usage(format!("cannot start: {}", error.kind())))?;
    let exit = runtime.block_on(turns(plan, &place, conversation, prompt, channel))?;
    // A tool or a look-up that hangs in a thread of its own must not keep the process.
    runtime.shutdown_background();
    Ok(exit)
}

/// Where the run's events go.
struct Outputs {
    main: Feed,
    told: oneshot::Receiver<Told>,
    beside: Option<(Feed, oneshot::Receiver<Told>)>,
}

async fn turns(
    plan: Plan,
    place: &Place,
    conversation: Conversation,
    prompt: Option<String>,
    channel: Option<Channel>,
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
    // Nothing can follow its one turn: the record is finalized before that turn's result (R13).
    let one_shot = !plan.driven && plan.side.commands.is_none();
    let mut outputs = Outputs::start(&plan, one_shot, &conversation.session_id, channel, &cancel)
        .map_err(no_thread)?;
    outputs.subscribe(&config);
    tokio::spawn(end_when_stuck(outputs.main.clone(), cancel.clone()));
    let (format, required, driven) = (plan.format, plan.required, plan.driven);

    let (sender, prompts) = prompts();
    if let Some(prompt) = prompt {
        // Dropped: an empty queue has room for the first.
        _ = sender.send(Work::Prompt(prompt));
    }
    let mut drive = drive(
        plan,
        place,
        &config,
        conversation,
        &outputs,
        sender,
        prompts,
        &cancel,
    )?;
    drive.settle = if one_shot {
        Settle::Finalize
    } else {
        Settle::Flush
    };
    let outcome = drive.run().await;

    let (record, told) = if one_shot {
        let told = outputs.end_main(&cancel).await;
        (config.shutdown(EXIT_WAIT_MAX).await, told)
    } else {
        // What the last flush finds is still told on the open outputs (R10, R14).
        let record = config.shutdown(SETTLE_WAIT_MAX + EXIT_WAIT_MAX).await;
        (record, outputs.end_main(&cancel).await)
    };
    outputs.end_beside(&record).await;
    let lost = required && (is_lost(&record) || config.lost_earlier());
    // A run that was refused for its record has said so as its result, where that could be written.
    let has_said_so = matches!(outcome, Some(Outcome::RecordingRequired));
    if !has_said_so || told.is_uncertain() {
        last_words(&record, format, told, lost);
    }
    if told.reader_gone && ending.exit().is_none() {
        return Ok(strict(Exit::Success, lost));
    }
    if told.unwritable {
        stdio::say(if record.state == RecordingState::Saved {
            "onrecord: standard output could not be written; the session holds the answer."
        } else {
            "onrecord: standard output could not be written."
        });
    }
    let work = match outcome {
        // A program that drives the run reads each result; the session itself went well.
        Some(outcome) if !driven => Exit::of_work(&outcome),
        Some(_) | None => Exit::Success,
    };
    let exit = ending.exit().unwrap_or(work);
    let exit = if told.unwritable && exit == Exit::Success {
        Exit::Failure
    } else {
        exit
    };
    Ok(strict(exit, lost))
}

/// What records name as the program that wrote them.
pub(crate) fn version() -> String {
    format!("onrecord/{}", env!("CARGO_PKG_VERSION"))
}

/// The exit of a run whose record is required and `lost`.
fn strict(exit: Exit, lost: bool) -> Exit {
    if lost { exit.with_lost_record() } else { exit }
}

fn no_thread(error: io::Error) -> Refusal {
    Refusal::usage(format!("cannot start a thread: {}", error.kind()))
}

impl Outputs {
    fn start(
        plan: &Plan,
        one_shot: bool,
        session_id: &str,
        channel: Option<Channel>,
        cancel: &CancellationToken,
    ) -> io::Result<Self> {
        let (main, reader) = feed();
        let cancel = cancel.clone();
        // A reader that goes away ends the run, as a closed pipe ends any program.
        let on_lost = move |told: Told| {
            if told.reader_gone {
                cancel.cancel();
            }
        };
        let told =
            Output::main(plan.format, plan.partial, one_shot, session_id).start(reader, on_lost)?;
        let beside = match channel {
            Some(channel) => Some(Self::start_beside(&main, session_id, channel)?),
            None => None,
        };
        Ok(Self { main, told, beside })
    }

    /// The second output. Whatever becomes of it is said, and changes nothing else.
    fn start_beside(
        main: &Feed,
        session_id: &str,
        channel: Channel,
    ) -> io::Result<(Feed, oneshot::Receiver<Told>)> {
        let warn = {
            let main = main.clone();
            move |line: &str| main.offer(Event::Warning(line.to_owned()))
        };
        let (feed, reader) = {
            let warn = warn.clone();
            feed_beside(move || warn(words::SIDE_OUTPUT_SLOW_LINE))
        };
        let told = Output::beside(session_id, channel)
            .start(reader, move |_| warn(words::SIDE_OUTPUT_GONE_LINE))?;
        Ok((feed, told))
    }

    /// R6, R12: every output is told of every recorder's failure.
    fn subscribe(&self, config: &Config) {
        let beside = self.beside.as_ref().map(|(feed, _)| feed);
        for feed in [&self.main].into_iter().chain(beside) {
            let feed = feed.clone();
            config.on_chat_recording_failure(move |failure| {
                feed.degraded(failure.clone());
                Ok(())
            });
        }
    }

    /// Ends standard output; answers what it did. A reader is waited for as long as it likes, but once
    /// a signal has come only as long as it takes something.
    async fn end_main(&mut self, cancel: &CancellationToken) -> Told {
        self.main.close();
        tokio::select! {
            told = &mut self.told => told.unwrap_or_default(),
            () = stuck(&self.main, cancel) => Told { stuck: true, ..Told::default() },
        }
    }

    /// Ends the second output. Its reader may be slow, and is not waited for long.
    async fn end_beside(self, record: &RecordingReport) {
        let Some((feed, told)) = self.beside else {
            return;
        };
        feed.send(Event::SessionEnded(record.clone())).await;
        feed.close();
        // Dropped: what went wrong has been said.
        _ = tokio::time::timeout(SIDE_OUTPUT_END_WAIT_MAX, told).await;
    }
}

/// Ready once a signal has come and nothing was taken from the output for a while.
async fn stuck(output: &Feed, cancel: &CancellationToken) {
    cancel.cancelled().await;
    loop {
        let n_taken = output.n_taken();
        tokio::time::sleep(OUTPUT_STUCK_WAIT_MAX).await;
        if output.n_taken() == n_taken {
            return;
        }
    }
}

/// Makes the session stop waiting for an output that nobody reads, once it is to end.
async fn end_when_stuck(output: Feed, cancel: CancellationToken) {
    stuck(&output, &cancel).await;
    output.close();
}

/// Puts together what runs the turns, and starts what feeds it.
#[expect(clippy::too_many_arguments, reason = "the parts of one run")]
fn drive(
    plan: Plan,
    place: &Place,
    config: &Config,
    conversation: Conversation,
    outputs: &Outputs,
    sender: Sender,
    mut prompts: crate::prompts::Prompts,
    cancel: &CancellationToken,
) -> Result<Drive, Refusal> {
    let questions = Questions::default();
    let interrupt = Interrupt::default();
    let controls = Controls::new(plan.mode, Arc::clone(&plan.models.first));
    let host = plan
        .driven
        .then(|| Arc::new(Host::new(outputs.main.clone(), questions.clone())));
    let beside = outputs.beside.as_ref().map(|(feed, _)| feed.clone());
    let beside_answers = beside.is_some() && plan.side.commands.is_some();
    let approver = (host.is_some() || beside_answers).then(|| -> Arc<dyn Approver> {
        Arc::new(Permissions {
            questions: questions.clone(),
            host: host.clone(),
            beside: beside.clone(),
            beside_answers,
            wait: PERMISSION_WAIT_DEFAULT,
        })
    });
    let tools = plan.tools.clone();
    let system_prompt = plan.instructions.for_folder(&plan.workspace.root);
    let models = plan.models.clone();
    let commands = plan.side.commands.clone();
    let allowed_tools = plan.allowed_tools.clone();
    let mut session = begin(
        plan,
        config,
        conversation,
        controls.clone(),
        approver,
        Arc::clone(&system_prompt),
    );
    session.subscribe(outputs.main.clone());
    if let Some(beside) = &beside {
        beside.offer(Event::SessionStarted(session.info()));
        session.subscribe(beside.clone());
    }
    let board = Board::new(&session, tools.clone(), system_prompt);
    if let Some(path) = commands {
        if path.exists() && !path.is_file() {
            stdio::say(
                "Warning: --input-file is no regular file: nothing is taken from it. Name a file.",
            );
        }
        let tail = side::Tail::from_end_of(&path);
        let commands = Commands {
            path,
            prompts: sender.downgrade(),
            questions: questions.clone(),
            beside,
            board: board.clone(),
        };
        tokio::spawn(side::follow(commands, tail, cancel.clone()));
    }
    let host = match host {
        Some(host) => {
            let servers = Servers::new(Arc::clone(&host));
            let control = Control {
                board: board.clone(),
                controls,
                models,
                interrupt: interrupt.clone(),
                allowed_tools,
                servers: servers.clone(),
                feed: outputs.main.clone(),
            };
            let lines = host::lines().map_err(no_thread)?;
            tokio::spawn(host::serve(
                lines,
                host,
                questions,
                control,
                sender,
                beside_answers,
            ));
            Some(Hosted { servers, tools })
        }
        // Nothing more is added but by the second program, which keeps no run alive.
        None => {
            prompts.end_when_empty(sender);
            None
        }
    };
    Ok(Drive {
        session,
        prompts,
        cancel: cancel.clone(),
        interrupt,
        settle: Settle::Flush,
        project: place.project(),
        board,
        host,
    })
}

fn begin(
    plan: Plan,
    config: &Config,
    conversation: Conversation,
    controls: Controls,
    approver: Option<Arc<dyn Approver>>,
    system_prompt: Arc<str>,
) -> Session {
    let parts = SessionParts {
        config: config.clone(),
        session_id: conversation.session_id,
        transcript: conversation.transcript,
        workspace: plan.workspace,
        controls,
        tools: plan.tools,
        system_prompt,
        allowed_tools: plan.allowed_tools,
        approver,
        guard: None,
        editor: None,
        limits: plan.limits,
    };
    match conversation.stored {
        Some((loaded, lock)) => Session::resume(parts, &loaded, lock),
        None => Session::begin(parts),
    }
}

/// What is said of the record once nothing more can change it (R13, B1, B6).
fn last_words(record: &RecordingReport, format: OutputFormat, told: Told, lost: bool) {
    let line = match record.state {
        RecordingState::Degraded if told.is_uncertain() => Some(words::FAILED_UNHEARD_LINE),
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
    if lost {
        stdio::say(words::REQUIRED_BUT_LOST_LINE);
    }
}
