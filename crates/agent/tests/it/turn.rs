//! The turn loop with a scripted model.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use agent::{
    approval::{Approver, Decision, Mode, Question},
    config::{Config, RecordingSettings},
    controls::Controls,
    event::{Event, Outcome, ToolStatus},
    feed::{Delivery, feed},
    image::Image,
    message::{Message, Prompt, ToolCall, Usage},
    model::{
        Completion, Finish, ModelError, ModelErrorKind, ModelEvent, ModelStream, Provider, Request,
    },
    session::{Interruption, Session, SessionParts, Settle, TurnLimits},
    tool::{self, Preview, Workspace},
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use transcript::{disk::OsDisk, local_log::LocalLog, reader, reader::Type};
use wire::recording::RecordingState;

/// One response of the script.
#[derive(Debug, Clone)]
enum Step {
    /// These events, then the end.
    Say(Vec<ModelEvent>),
    /// This text, then silence for ever.
    Hang(&'static str),
    /// This text, then an error.
    Break(&'static str),
    /// An error about the pictures.
    Refuse,
}

/// A model that says what it was told to, and remembers what it was asked.
#[derive(Debug, Default)]
struct Script {
    steps: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<Vec<Message>>>,
}

impl Provider for Script {
    fn model(&self) -> &str {
        "script"
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.asked.lock().unwrap().push(request.messages);
        let step = self
            .steps
            .lock()
            .unwrap()
            .pop_front()
            .expect("the script has no more steps");
        match step {
            Step::Say(mut events) => {
                events.push(ModelEvent::Done(Completion {
                    finish: Finish::Stop,
                    usage: Some(Usage {
                        input: 10,
                        output: 2,
                        total: 12,
                        ..Usage::default()
                    }),
                }));
                stream::iter(events.into_iter().map(Ok)).boxed()
            }
            Step::Hang(text) => stream::iter([Ok(ModelEvent::Text(text.to_owned()))])
                .chain(stream::pending())
                .boxed(),
            Step::Refuse => stream::iter([Err(ModelError {
                kind: ModelErrorKind::ImageRefused,
                status: Some(400),
                message: "no images".to_owned(),
            })])
            .boxed(),
            Step::Break(text) => stream::iter([
                Ok(ModelEvent::Text(text.to_owned())),
                Err(ModelError {
                    kind: ModelErrorKind::Cut,
                    status: None,
                    message: "cut".to_owned(),
                }),
            ])
            .boxed(),
        }
    }
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn call(id: &str, name: &str, args: &str) -> ModelEvent {
    ModelEvent::Call(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        args: RawValue::from_string(args.to_owned()).unwrap(),
    })
}

struct World {
    home: TempDir,
    script: Arc<Script>,
    mode: Mode,
    allowed_tools: Vec<String>,
    approver: Option<Arc<dyn Approver>>,
    limits: TurnLimits,
}

impl World {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let home = TempDir::new().unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        Self {
            home,
            script: Arc::new(Script {
                steps: Mutex::new(steps.into_iter().collect()),
                ..Script::default()
            }),
            mode: Mode::Default,
            allowed_tools: Vec::new(),
            approver: None,
            limits: TurnLimits::default(),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.home.path().join("s.jsonl")
    }

    fn work(&self) -> std::path::PathBuf {
        self.home.path().join("work").canonicalize().unwrap()
    }

    fn parts(&self) -> SessionParts {
        SessionParts {
            config: Config::new(RecordingSettings {
                enabled: true,
                required: false,
                disk: Arc::new(OsDisk),
                log: LocalLog::new(vec![self.home.path().join("log")]),
                version: "test".to_owned(),
                clock: Arc::new(jiff::Timestamp::now),
            }),
            session_id: "6f1b52a4-1c5f-4d0c-9a53-2f7c5d0b7a11".to_owned(),
            transcript: Some(self.path()),
            workspace: Arc::new(Workspace {
                root: self.work(),
                allowed: Vec::new(),
                data_root: None,
                open_files: None,
            }),
            controls: Controls::new(self.mode, Arc::clone(&self.script) as Arc<dyn Provider>),
            tools: tool::registry(),
            system_prompt: "be brief".into(),
            allowed_tools: self.allowed_tools.clone(),
            approver: self.approver.clone(),
            guard: None,
            editor: None,
            limits: self.limits,
        }
    }

    /// Runs one turn and gives every event of it.
    async fn turn(
        &self,
        session: &mut Session,
        prompt: impl Into<Prompt>,
        cancel: &CancellationToken,
    ) -> Vec<Event> {
        let (events, mut reader) = feed();
        let reading = thread::spawn(move || {
            let (mut all, mut batch) = (Vec::new(), Vec::new());
            while reader.next_batch(&mut batch) {
                all.extend(batch.drain(..).filter_map(|delivery| match delivery {
                    Delivery::Event(event) => Some(event),
                    Delivery::Degraded(_) | Delivery::Line(_) => None,
                }));
            }
            all
        });
        session.subscribe(events.clone());
        session.run_turn(prompt, Settle::Finalize, cancel).await;
        events.close();
        reading.join().unwrap()
    }

    async fn run(&self, prompt: &str) -> Vec<Event> {
        let mut session = Session::begin(self.parts());
        self.turn(&mut session, prompt, &CancellationToken::new())
            .await
    }
}

fn outcome(events: &[Event]) -> &Outcome {
    match events.last() {
        Some(Event::TurnEnded(summary)) => &summary.outcome,
        other => panic!("the turn did not end: {other:?}"),
    }
}

fn kinds(path: &Path) -> Vec<Type> {
    reader::load(path)
        .unwrap()
        .records
        .iter()
        .map(|record| record.kind)
        .collect()
}

fn statuses(events: &[Event]) -> Vec<ToolStatus> {
    events
        .iter()
        .filter_map(|event| {
            let Event::ToolEnded { status, .. } = event else {
                return None;
            };
            Some(*status)
        })
        .collect()
}

#[tokio::test]
async fn a_turn_with_a_tool_call_is_recorded_in_order() {
    let world = World::new([
        Step::Say(vec![call("c1", "list_directory", r#"{"path":"."}"#)]),
        Step::Say(vec![text("one "), text("file")]),
    ]);
    std::fs::write(world.work().join("a.txt"), "a").unwrap();
    let events = world.run("what is here?").await;
    assert!(matches!(outcome(&events), Outcome::Success));
    assert_eq!(statuses(&events), [ToolStatus::Success]);
    assert_eq!(
        kinds(&world.path()),
        [
            Type::User,
            Type::Assistant,
            Type::ToolResult,
            Type::Assistant
        ]
    );
    let Some(Event::TurnEnded(summary)) = events.last() else {
        unreachable!()
    };
    assert_eq!(summary.answer, "one file");
    assert_eq!(summary.usage.input, 20);
    assert_eq!(summary.n_round_trips, 2);
    assert_eq!(summary.recording.state, RecordingState::Saved);
}

#[tokio::test]
async fn a_cancelled_turn_keeps_its_partial_answer() {
    let world = World::new([Step::Hang("half an ans")]);
    let mut session = Session::begin(world.parts());
    let (events, mut reader) = feed();
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    // The turn is cancelled once the text has been seen.
    let reading = thread::spawn(move || {
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch) {
            if batch
                .drain(..)
                .any(|d| matches!(d, Delivery::Event(Event::Text(_))))
            {
                token.cancel();
            }
        }
    });
    session.subscribe(events.clone());
    let summary = session.run_turn("go", Settle::Finalize, &cancel).await;
    events.close();
    reading.join().unwrap();
    assert!(matches!(summary.outcome, Outcome::Cancelled));
    assert_eq!(summary.answer, "half an ans");
    let loaded = reader::load(&world.path()).unwrap();
    let content = loaded.records.last().unwrap().content().unwrap();
    assert_eq!(content.parts[0].text.as_deref(), Some("half an ans"));
}

#[tokio::test]
async fn a_cut_stream_keeps_its_partial_answer_and_is_an_error() {
    let world = World::new([Step::Break("half")]);
    let events = world.run("go").await;
    assert!(
        matches!(outcome(&events), Outcome::ModelFailed(error) if error.kind == ModelErrorKind::Cut)
    );
    assert_eq!(kinds(&world.path()), [Type::User, Type::Assistant]);
}

#[tokio::test]
async fn limits_end_a_turn_and_every_call_has_a_result() {
    let two = Step::Say(vec![
        call("c1", "list_directory", r#"{"path":"."}"#),
        call("c2", "list_directory", r#"{"path":"."}"#),
    ]);
    let mut world = World::new([two.clone()]);
    world.limits.n_tool_calls_max = Some(1);
    let events = world.run("go").await;
    assert!(matches!(outcome(&events), Outcome::ToolCallLimit(1)));
    assert_eq!(
        statuses(&events),
        [ToolStatus::Success, ToolStatus::Cancelled]
    );
    assert_eq!(
        kinds(&world.path()),
        [
            Type::User,
            Type::Assistant,
            Type::ToolResult,
            Type::ToolResult
        ]
    );

    let mut world = World::new([two]);
    world.limits.n_round_trips_max = Some(1);
    let events = world.run("go").await;
    assert!(matches!(outcome(&events), Outcome::TurnLimit(1)));
    assert_eq!(
        statuses(&events),
        [ToolStatus::Success, ToolStatus::Success]
    );

    let mut world = World::new([Step::Hang("…")]);
    world.limits.wall_time_max = Some(Duration::from_millis(30));
    let events = world.run("go").await;
    assert!(matches!(outcome(&events), Outcome::WallTimeLimit(_)));
}

#[tokio::test]
async fn what_nobody_can_approve_is_denied_and_said_to_the_model() {
    let world = World::new([
        Step::Say(vec![call(
            "c1",
            "run_shell_command",
            r#"{"command":"touch made"}"#,
        )]),
        Step::Say(vec![text("ok")]),
    ]);
    let events = world.run("go").await;
    assert!(matches!(outcome(&events), Outcome::Success));
    assert_eq!(statuses(&events), [ToolStatus::Denied]);
    assert!(!world.work().join("made").exists());
    let Some(Event::TurnEnded(summary)) = events.last() else {
        unreachable!()
    };
    assert_eq!(summary.denials.len(), 1);
    let asked = world.script.asked.lock().unwrap();
    let Some(Message::ToolResults(results)) = asked[1].last() else {
        panic!("no result")
    };
    assert!(results[0].is_error && results[0].text.contains("approval"));
}

#[derive(Debug)]
struct Says(Decision);

impl Approver for Says {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Decision> {
        assert!(
            matches!(question.preview, Preview::Command { command, .. } if command == "touch made")
        );
        let decision = self.0.clone();
        async { decision }.boxed()
    }
}

/// A turn in which the model wants to run `touch made`, and whoever is asked says this.
async fn decided(decision: Decision) -> (World, Vec<Event>) {
    let mut world = World::new([
        Step::Say(vec![call(
            "c1",
            "run_shell_command",
            r#"{"command":"touch made"}"#,
        )]),
        Step::Say(vec![text("ok")]),
    ]);
    world.approver = Some(Arc::new(Says(decision)));
    let events = world.run("go").await;
    (world, events)
}

/// What the model was told of its call.
fn told(world: &World) -> String {
    let asked = world.script.asked.lock().unwrap();
    let Some(Message::ToolResults(results)) = asked[1].last() else {
        panic!("no result")
    };
    results[0].text.clone()
}

#[tokio::test]
async fn an_allowed_call_runs() {
    let (world, events) = decided(Decision::Allow).await;
    assert_eq!(statuses(&events), [ToolStatus::Success]);
    assert!(world.work().join("made").exists());
}

#[tokio::test]
async fn changed_arguments_are_what_runs_and_the_model_is_told() {
    let args = RawValue::from_string(r#"{"command":"touch other"}"#.to_owned()).unwrap();
    let (world, events) = decided(Decision::AllowChanged(args)).await;
    assert_eq!(statuses(&events), [ToolStatus::Success]);
    assert!(!world.work().join("made").exists());
    assert!(world.work().join("other").exists());
    assert!(told(&world).contains(r#"{"command":"touch other"}"#));
}

#[tokio::test]
async fn arguments_that_only_look_otherwise_are_not_changed() {
    let args = RawValue::from_string("{ \"command\" : \"touch m\\u0061de\" }".to_owned()).unwrap();
    let (world, _) = decided(Decision::AllowChanged(args)).await;
    assert!(world.work().join("made").exists());
    assert!(!told(&world).contains("changed"));
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_is_counted_as_a_denial() {
    let (world, events) = decided(Decision::Deny {
        reason: "not today".to_owned(),
        interrupt: false,
    })
    .await;
    assert_eq!(statuses(&events), [ToolStatus::Denied]);
    assert!(!world.work().join("made").exists());
    assert_eq!(told(&world), "[Operation Cancelled] Reason: not today");
    let Some(Event::TurnEnded(summary)) = events.last() else {
        unreachable!()
    };
    assert!(matches!(summary.outcome, Outcome::Success));
    assert_eq!(summary.denials.len(), 1);
}

#[tokio::test]
async fn a_denial_that_interrupts_ends_the_turn_and_the_model_is_not_asked_again() {
    let (world, events) = decided(Decision::Deny {
        reason: "stop".to_owned(),
        interrupt: true,
    })
    .await;
    assert!(matches!(outcome(&events), Outcome::Cancelled));
    assert_eq!(world.script.asked.lock().unwrap().len(), 1);
    assert_eq!(
        kinds(&world.path()),
        [Type::User, Type::Assistant, Type::ToolResult]
    );
}

#[tokio::test]
async fn a_call_that_nobody_decides_about_does_not_run_and_is_no_denial() {
    let (world, events) = decided(Decision::Unanswered("Error: gone".to_owned())).await;
    assert_eq!(statuses(&events), [ToolStatus::Cancelled]);
    assert!(!world.work().join("made").exists());
    assert_eq!(told(&world), "[Operation Cancelled] Reason: Error: gone");
    let Some(Event::TurnEnded(summary)) = events.last() else {
        unreachable!()
    };
    assert!(summary.denials.is_empty());
}

#[tokio::test]
async fn an_allowed_tool_runs_without_anybody_being_asked() {
    let mut world = World::new([
        Step::Say(vec![call(
            "c1",
            "run_shell_command",
            r#"{"command":"touch made"}"#,
        )]),
        Step::Say(vec![text("ok")]),
    ]);
    world.allowed_tools = vec!["run_shell_command".to_owned()];
    let events = world.run("go").await;
    assert_eq!(statuses(&events), [ToolStatus::Success]);
    assert!(world.work().join("made").exists());
}

/// R2, R9: what was said before is not part of the new session, and each is recorded for itself.
#[tokio::test]
async fn a_renewed_session_knows_nothing_of_the_one_before_and_is_recorded_for_itself() {
    let world = World::new([
        Step::Say(vec![text("first answer")]),
        Step::Say(vec![text("second answer")]),
    ]);
    let mut session = Session::begin(world.parts());
    world
        .turn(&mut session, "first", &CancellationToken::new())
        .await;
    let before = std::fs::read(world.path()).unwrap();
    let id = "7a1b52a4-1c5f-4d0c-9a53-2f7c5d0b7a11".to_owned();
    let other = world.home.path().join("other.jsonl");
    session.renew(id.clone(), Some(other.clone())).await;
    assert_eq!(session.id(), id);
    world
        .turn(&mut session, "second", &CancellationToken::new())
        .await;
    assert_eq!(world.script.asked.lock().unwrap()[1].len(), 1);
    assert_eq!(std::fs::read(world.path()).unwrap(), before);
    assert_eq!(kinds(&other), [Type::User, Type::Assistant]);
    let loaded = reader::load(&other).unwrap();
    assert_eq!(loaded.session_id, Some(id));
}

#[tokio::test]
async fn an_interrupted_turn_goes_on_without_a_new_prompt() {
    // Cancelled before the model is asked.
    let world = World::new([Step::Say(vec![text("at last")])]);
    let mut session = Session::begin(world.parts());
    let cancel = CancellationToken::new();
    cancel.cancel();
    world.turn(&mut session, "go", &cancel).await;
    assert_eq!(session.interruption(), Interruption::Prompt);
    let summary = session
        .continue_turn(Settle::Flush, &CancellationToken::new())
        .await;
    assert_eq!(summary.answer, "at last");
    assert_eq!(session.interruption(), Interruption::None);
    assert_eq!(kinds(&world.path()), [Type::User, Type::Assistant]);
}

#[tokio::test]
async fn a_resumed_session_tells_the_model_what_was_said() {
    let world = World::new([
        Step::Say(vec![call("c1", "list_directory", r#"{"path":"."}"#)]),
        Step::Say(vec![text("first answer")]),
        Step::Say(vec![text("second answer")]),
    ]);
    world.run("first").await;
    let before = std::fs::read(world.path()).unwrap();
    let loaded = reader::load(&world.path()).unwrap();
    let mut session = Session::resume(world.parts(), &loaded, None);
    world
        .turn(&mut session, "second", &CancellationToken::new())
        .await;
    let after = std::fs::read(world.path()).unwrap();
    assert!(
        after.starts_with(&before),
        "a resumed session keeps every earlier byte"
    );
    let asked = world.script.asked.lock().unwrap();
    let said: Vec<_> = asked[2]
        .iter()
        .map(|message| match message {
            Message::User(prompt) => format!("user {}", prompt.text),
            Message::Assistant(blocks) => format!("assistant {}", blocks.len()),
            Message::ToolResults(results) => format!("results {}", results.len()),
        })
        .collect();
    assert_eq!(
        said,
        [
            "user first",
            "assistant 1",
            "results 1",
            "assistant 1",
            "user second"
        ]
    );
    assert_eq!(reader::load(&world.path()).unwrap().records.len(), 6);
}

fn with_picture(text: &str) -> Prompt {
    let mut prompt = Prompt::from(text);
    let png = &b"\x89PNG\r\n\x1a\nrest"[..];
    prompt.push_image(Image::new(png).unwrap(), None);
    prompt
}

/// The prompts that the model was told in its last call, with how many pictures each has.
fn prompts(world: &World) -> Vec<(String, usize)> {
    let asked = world.script.asked.lock().unwrap();
    let prompts = asked.last().unwrap().iter();
    prompts
        .filter_map(|message| match message {
            Message::User(prompt) => Some((prompt.text.clone(), prompt.images.len())),
            Message::Assistant(_) | Message::ToolResults(_) => None,
        })
        .collect()
}

#[tokio::test]
async fn a_picture_is_kept_once_and_is_there_again_after_a_resume() {
    let world = World::new([
        Step::Say(vec![text("a cat")]),
        Step::Say(vec![text("the same cat")]),
        Step::Say(vec![text("it is gone")]),
    ]);
    let mut session = Session::begin(world.parts());
    world
        .turn(
            &mut session,
            with_picture("look"),
            &CancellationToken::new(),
        )
        .await;
    drop(session);
    let recorded = std::fs::read_to_string(world.path()).unwrap();
    assert!(recorded.contains("[image 1: image/png, 12 bytes]"));
    assert!(!recorded.contains("could not be saved"));
    let named = "look\n[image 1: image/png, 12 bytes]";
    let resume = async |said: &str| {
        let loaded = reader::load(&world.path()).unwrap();
        let mut session = Session::resume(world.parts(), &loaded, None);
        world
            .turn(&mut session, said, &CancellationToken::new())
            .await;
        prompts(&world)
    };
    let told = resume("again").await;
    assert_eq!(told, [(named.to_owned(), 1), ("again".to_owned(), 0)]);
    let media = transcript::media::MediaDir::of(&world.path());
    assert_eq!(std::fs::read_dir(media.path()).unwrap().count(), 1);
    std::fs::remove_dir_all(media.path()).unwrap();
    let told = resume("and now").await;
    let absent = format!("{named}\n[1 image of this message is not shown any more]");
    assert_eq!(told[0], (absent, 0));
}

/// R26, R27.
#[tokio::test]
async fn a_picture_that_cannot_be_kept_is_told_and_the_turn_goes_on() {
    let world = World::new([Step::Say(vec![text("a cat")])]);
    std::fs::write(world.home.path().join("s.media"), "in its place").unwrap();
    let mut session = Session::begin(world.parts());
    let events = world
        .turn(
            &mut session,
            with_picture("look"),
            &CancellationToken::new(),
        )
        .await;
    assert_eq!(prompts(&world)[0].1, 1, "the model sees it");
    let warned = events.iter().any(|event| {
        matches!(event, Event::Warning(line) if line.contains("images of this prompt are not saved"))
    });
    assert!(warned, "{events:?}");
    let recorded = std::fs::read_to_string(world.path()).unwrap();
    assert!(recorded.contains("[1 of 1 images of this message could not be saved with it]"));
    assert!(!recorded.contains("sha256"));
}

/// B6.
#[tokio::test]
async fn a_turn_that_requires_its_record_does_not_begin_without_its_picture() {
    let world = World::new([]);
    std::fs::write(world.home.path().join("s.media"), "in its place").unwrap();
    let mut parts = world.parts();
    parts.config = Config::new(RecordingSettings {
        enabled: true,
        required: true,
        disk: Arc::new(OsDisk),
        log: LocalLog::default(),
        version: "test".to_owned(),
        clock: Arc::new(jiff::Timestamp::now),
    });
    let mut session = Session::begin(parts);
    let summary = session
        .run_turn(
            with_picture("look"),
            Settle::Flush,
            &CancellationToken::new(),
        )
        .await;
    assert!(matches!(summary.outcome, Outcome::RecordingRequired));
    assert!(!world.path().exists());
}

#[tokio::test]
async fn a_picture_that_the_model_refuses_does_not_stand_in_the_way_of_later_turns() {
    let world = World::new([Step::Refuse, Step::Say(vec![text("well")])]);
    let mut session = Session::begin(world.parts());
    let cancel = CancellationToken::new();
    let summary = session
        .run_turn(with_picture("look"), Settle::Flush, &cancel)
        .await;
    assert!(matches!(summary.outcome, Outcome::ModelFailed(_)));
    assert_eq!(prompts(&world)[0].1, 1);
    session
        .run_turn("then in words", Settle::Flush, &cancel)
        .await;
    let told = prompts(&world);
    assert_eq!(told[0].1, 0);
    assert!(
        told[0]
            .0
            .ends_with("[1 image of this message is not shown any more]")
    );
    assert_eq!(told[1].0, "then in words");
}

/// F03: a session that is resumed and left without a prompt stays byte-identical.
#[tokio::test]
async fn a_resume_without_a_prompt_leaves_the_file_as_it_is() {
    let world = World::new([Step::Say(vec![text("hi")])]);
    world.run("first").await;
    let before = std::fs::read(world.path()).unwrap();
    let loaded = reader::load(&world.path()).unwrap();
    let parts = world.parts();
    let config = parts.config.clone();
    let session = Session::resume(parts, &loaded, None);
    config.shutdown(Duration::from_secs(2)).await;
    drop(session);
    assert_eq!(std::fs::read(world.path()).unwrap(), before);
}
