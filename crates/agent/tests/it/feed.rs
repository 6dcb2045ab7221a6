//! The way of events to an output.
#![expect(
    clippy::unwrap_used,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

use std::{thread, time::Duration};

use agent::{
    event::Event,
    feed::{Delivery, feed},
};
use wire::limits::OUTPUT_QUEUE_EVENTS_MAX;

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
fn a_failure_overtakes_every_event_but_the_first() {
    let (events, mut reader) = feed();
    events.degraded(failure());
    runtime().block_on(async {
        for n in 0..3 {
            events.send(text(n)).await;
        }
    });
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch));
    let places: Vec<bool> = batch
        .iter()
        .map(|delivery| matches!(delivery, Delivery::Degraded(_)))
        .collect();
    assert_eq!(places, [false, true, false, false]);
}

fn failure() -> transcript::recorder::RecordingFailure {
    transcript::recorder::RecordingFailure {
        session_id: "s".to_owned(),
        class: wire::recording::FaultClass::Io,
        first_lost_uuid: None,
        last_record_uuid: None,
    }
}
