//! What an event of 250 bytes costs from its publisher to its readers, all on one thread: in batches, as they
//! come from an agent that is busy, and each alone, which wakes every reader for every event.

use std::time::Instant;

use bus::{Bus, From, Limits, Subscribe, Subscription};
use serde_json::value::RawValue;
use testkit::measure::{Bound::AtMost, Samples, print, print_reference};
use tokio::{
    runtime::{Builder, Runtime},
    task::{self, JoinHandle},
};
use wire::event::NewEvent;

const EVENTS: u32 = 100_000;
const DATA_BYTES: usize = 250;
const ROUNDS: usize = 7;

/// Events in what one read of a pipe brings, 64 KiB.
const BATCH: u32 = 256;

fn main() {
    let runtime = Builder::new_current_thread()
        .build()
        .expect("a runtime needs no more than memory");
    let published = median(|| nanoseconds_per_event(&runtime, 0, BATCH));
    print(
        "event of 250 B, published to nobody",
        published,
        "ns",
        AtMost(1_000.0),
    );
    for (name, batch) in [("in batches", BATCH), ("each alone", 1)] {
        let [one, eight, all] = [1, 8, 64]
            .map(|n_readers| median(|| nanoseconds_per_event(&runtime, n_readers, batch)));
        let further = (all - one) / 63.0;
        let told = |n: &str| format!("event of 250 B to {n}, {name}");
        print(&told("1 stream"), one, "ns", AtMost(1_000.0));
        print_reference(&told("8 streams"), eight, "ns");
        print_reference(&told("64 streams"), all, "ns");
        print(&told("each further stream"), further, "ns", AtMost(150.0));
    }
}

fn median(round: impl Fn() -> f64) -> f64 {
    (0..ROUNDS).map(|_| round()).collect::<Samples>().median()
}

fn nanoseconds_per_event(runtime: &Runtime, n_readers: usize, batch: u32) -> f64 {
    let bus = Bus::new("epoch".to_owned(), Limits::default());
    let start = Instant::now();
    runtime.block_on(async {
        let readers: Vec<_> = (0..n_readers).map(|_| reader(&bus)).collect();
        task::yield_now().await;
        publish(&bus, batch).await;
        bus.close();
        let mut n_bytes = Vec::new();
        for reader in readers {
            n_bytes.push(reader.await.expect("a reader reads to the end"));
        }
        assert!(
            n_bytes
                .iter()
                .all(|n| *n == n_bytes[0] && *n > DATA_BYTES * EVENTS as usize)
        );
    });
    assert_eq!(bus.counts(), bus::Counts::default());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(EVENTS)
}

fn reader(bus: &Bus) -> JoinHandle<usize> {
    let subscription = bus.subscribe(Subscribe {
        from: From::Live,
        epoch: None,
        queue_frames: 256,
        snapshot: None,
        now_ms: || 0,
    });
    task::spawn(read(subscription.expect("there is room for all")))
}

async fn read(mut subscription: Subscription) -> usize {
    let mut n_bytes = 0;
    while let Some(chunk) = subscription.next().await {
        n_bytes += chunk.len();
    }
    n_bytes
}

async fn publish(bus: &Bus, batch: u32) {
    let text = format!("\"{}\"", "x".repeat(DATA_BYTES - 2));
    let data = RawValue::from_string(text).expect("a text is JSON");
    let event = NewEvent {
        kind: "session_update",
        data: &data,
        prompt_id: Some("7a3c6a52-6d0b-4c8e-9f10-2b1f0f0c9a11"),
        originator: None,
        at_ms: 1_796_078_466_684,
    };
    let mut n_published = 0;
    while n_published < EVENTS {
        let mut together = bus.batch();
        for _ in 0..batch.min(EVENTS - n_published) {
            together.publish(&event).expect("the bus is open");
            n_published += 1;
        }
        drop(together);
        task::yield_now().await;
    }
}
