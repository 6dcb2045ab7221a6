//! The way of events to an output.
#![expect(
    clippy::unwrap_used,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use agent::{
    approval::Mode,
    event::{Event, SessionChange, SessionInfo},
    feed::{Delivery, feed, feed_beside},
};
use wire::limits::{
    OUTPUT_QUEUE_EVENTS_MAX, SIDE_OUTPUT_QUEUE_BYTES_MAX, SIDE_OUTPUT_QUEUE_EVENTS_MAX,
};
use wire::recording::RecordingReport;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn text(n: usize) -> Event {
    Event::Text(n.to_string())
}

#[test]
fn events_arrive_in_order_and_a_closed_feed_delivers_its_rest() {
    let (events, mut reader) = feed();
    runtime().block_on(async {
        for n in 0..100 {
            events.send(text(n)).await;
        }
    });
    events.close();
    let mut batch = Vec::new();
    let mut texts = Vec::new();
    while reader.next_batch(&mut batch) {
        for delivery in batch.drain(..) {
            if let Delivery::Event(Event::Text(text)) = delivery {
                texts.push(text.parse::<usize>().unwrap());
            }
        }
    }
    assert_eq!(texts, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_holds_the_session_until_its_reader_reads() {
    let (events, mut reader) = feed();
    runtime().block_on(async {
        for n in 0..OUTPUT_QUEUE_EVENTS_MAX {
            events.send(text(n)).await;
        }
        let blocked = tokio::time::timeout(Duration::from_millis(20), events.send(text(0))).await;
        assert!(blocked.is_err(), "the queue has a bound");
        let mut batch = Vec::new();
        assert!(reader.next_batch(&mut batch));
        assert_eq!(batch.len(), OUTPUT_QUEUE_EVENTS_MAX);
        events.send(text(0)).await;
    });
}

#[test]
fn a_reader_that_went_away_holds_nobody() {
    let (events, reader) = feed();
    let gone = thread::spawn(move || drop(reader));
    gone.join().unwrap();
    runtime().block_on(async {
        for n in 0..2 * OUTPUT_QUEUE_EVENTS_MAX {
            events.send(text(n)).await;
        }
    });
}

/// R12: a client learns of its session before it learns that its record failed; then the news
/// overtakes what is queued.
#[test]
fn a_failure_overtakes_every_event_once_the_session_is_introduced() {
    let (events, mut reader) = feed();
    events.degraded(failure());
    runtime().block_on(async {
        events.send_line("an answer".into()).await;
        events
            .send(Event::Warning("before the turn".to_owned()))
            .await;
        events.send(started()).await;
        events.send(text(0)).await;
    });
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch));
    let places: Vec<bool> = batch
        .iter()
        .map(|delivery| matches!(delivery, Delivery::Degraded(_)))
        .collect();
    assert_eq!(places, [false, false, false, true, false]);
}

/// What was queued before is said before: a result that calls the record saved, and the change to the
/// session whose record failed (R2, R12).
#[test]
fn a_failure_overtakes_no_result_and_no_change_of_the_session() {
    let (events, mut reader) = feed();
    runtime().block_on(async {
        events.send(started()).await;
        events.send(text(0)).await;
        events
            .send(Event::SessionChanged(Arc::new(SessionChange {
                previous_session_id: "r".to_owned(),
                previous_recording: RecordingReport::off(),
                session_id: "s".to_owned(),
            })))
            .await;
        events.send(text(1)).await;
        events.send(text(2)).await;
    });
    events.degraded(failure());
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch));
    let places: Vec<bool> = batch
        .iter()
        .map(|delivery| matches!(delivery, Delivery::Degraded(_)))
        .collect();
    assert_eq!(places, [false, false, false, true, false, false]);
}

fn started() -> Event {
    Event::TurnStarted {
        info: Arc::new(SessionInfo {
            session_id: "s".to_owned(),
            cwd: "/".to_owned(),
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            model: "m".to_owned(),
            mode: Mode::Default,
        }),
        prompt: None,
    }
}

/// An output beside the main one holds nobody up: where it is not read, it is given up, which is said
/// once, and receives what was queued.
#[test]
fn an_output_beside_the_main_one_is_given_up_instead_of_waited_for() {
    let n_told = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&n_told);
    let (events, mut reader) = feed_beside(move || {
        told.fetch_add(1, Ordering::Relaxed);
    });
    runtime().block_on(async {
        for n in 0..SIDE_OUTPUT_QUEUE_EVENTS_MAX + 10 {
            events.send(text(n)).await;
        }
    });
    events.degraded(failure());
    assert_eq!(n_told.load(Ordering::Relaxed), 1);
    let (mut batch, mut n_received) = (Vec::new(), 0);
    while reader.next_batch(&mut batch) {
        n_received += batch.drain(..).count();
    }
    assert_eq!(n_received, SIDE_OUTPUT_QUEUE_EVENTS_MAX);
    assert!(reader.is_given_up());
}

#[test]
fn an_output_beside_the_main_one_is_given_up_by_its_bytes_too() {
    let (events, mut reader) = feed_beside(|| {});
    let text = "x".repeat(1 << 20);
    runtime().block_on(async {
        for _ in 0..2 * (SIDE_OUTPUT_QUEUE_BYTES_MAX >> 20) {
            events.send(Event::Text(text.clone())).await;
        }
    });
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch));
    assert_eq!(batch.len(), SIDE_OUTPUT_QUEUE_BYTES_MAX >> 20);
    assert!(reader.is_given_up());
}

fn failure() -> transcript::recorder::RecordingFailure {
    transcript::recorder::RecordingFailure {
        session_id: "s".to_owned(),
        class: wire::recording::FaultClass::Io,
        first_lost_uuid: None,
        last_record_uuid: None,
    }
}
