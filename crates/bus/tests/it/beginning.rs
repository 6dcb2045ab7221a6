//! Which frames come first (§16 of the daemon's protocol).

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use bus::{From, Limits, Subscribe, SubscribeError};

use crate::rig::{
    EPOCH, after, bus, bus_with, chunk, event, from, large, live, poll, publish, raw, told,
};

fn with_snapshot(at: From) -> Subscribe {
    Subscribe {
        snapshot: Some(Box::new(|| r#"{"recordingDegraded":false}"#.to_owned())),
        ..from(at)
    }
}

const SNAPSHOT: &str = r#"session_snapshot {"recordingDegraded":false}"#;

#[test]
fn a_live_stream_says_nothing_until_the_next_event() {
    let bus = bus();
    publish(&bus, 3);
    let mut stream = live(&bus);
    assert!(poll(&mut stream).is_pending());
    publish(&bus, 2);
    assert_eq!(told(&mut stream), ["4..=5"]);
}

#[test]
fn a_live_stream_with_a_snapshot_begins_with_it() {
    let bus = bus();
    publish(&bus, 3);
    let mut stream = bus.subscribe(with_snapshot(From::Live)).unwrap();
    publish(&bus, 1);
    assert_eq!(told(&mut stream), [SNAPSHOT, "4..=4"]);
}

#[test]
fn a_cursor_is_followed_by_what_was_missed_and_the_word_that_this_was_all() {
    let bus = bus();
    publish(&bus, 20);
    let mut stream = bus.subscribe(with_snapshot(From::After(11))).unwrap();
    publish(&bus, 1);
    let complete =
        r#"replay_complete {"replayedCount":9,"lastReplayedEventId":20,"lastEventId":20}"#;
    assert_eq!(
        told(&mut stream),
        ["12..=20", complete, SNAPSHOT, "21..=21"]
    );
}

#[test]
fn a_cursor_at_the_head_misses_nothing() {
    for n in [0, 7] {
        let bus = bus();
        publish(&bus, n);
        let mut stream = bus.subscribe(with_snapshot(From::After(n))).unwrap();
        let complete = r#"replay_complete {"replayedCount":0}"#;
        assert_eq!(told(&mut stream), [complete, SNAPSHOT]);
    }
}

#[test]
fn a_cursor_ahead_of_the_bus_is_given_the_whole_ring() {
    let bus = bus();
    publish(&bus, 9);
    let mut stream = after(&bus, 500);
    let resync = r#"state_resync_required {"reason":"epoch_reset","lastDeliveredId":500,"earliestAvailableId":1}"#;
    let complete = r#"replay_complete {"replayedCount":9,"lastReplayedEventId":9,"lastEventId":9}"#;
    assert_eq!(told(&mut stream), [resync, "1..=9", complete]);
    assert_eq!(bus.counts().resyncs, 1);
}

#[test]
fn a_cursor_of_another_bus_is_given_the_whole_ring() {
    let bus = bus();
    publish(&bus, 9);
    let in_epoch = |epoch: &str| {
        let subscribe = Subscribe {
            epoch: Some(epoch.to_owned()),
            ..from(From::After(7))
        };
        told(&mut bus.subscribe(subscribe).unwrap())
    };
    let resync = r#"state_resync_required {"reason":"epoch_reset","detail":"epoch_mismatch","lastDeliveredId":7,"earliestAvailableId":1}"#;
    assert_eq!(in_epoch("epoch-0")[..2], [resync, "1..=9"]);
    assert_eq!(in_epoch(EPOCH)[0], "8..=9");
}

#[test]
fn the_epoch_of_a_stream_without_a_cursor_means_nothing() {
    let bus = bus();
    publish(&bus, 9);
    let subscribe = Subscribe {
        epoch: Some("epoch-0".to_owned()),
        ..from(From::Live)
    };
    assert_eq!(told(&mut bus.subscribe(subscribe).unwrap()), [""; 0]);
}

#[test]
fn what_the_ring_forgot_is_told_and_the_rest_is_given() {
    let bus = bus_with(Limits {
        ring_events: 10,
        ..Limits::default()
    });
    publish(&bus, 29);
    let mut stream = after(&bus, 3);
    let resync = r#"state_resync_required {"reason":"ring_evicted","lastDeliveredId":3,"earliestAvailableId":20}"#;
    assert_eq!(told(&mut stream)[..2], [resync, "20..=29"]);
    assert_eq!(told(&mut after(&bus, 19))[0], "20..=29");
}

#[test]
fn what_the_ring_forgets_before_the_stream_is_read_is_told() {
    let bus = bus_with(Limits {
        ring_events: 10,
        ..Limits::default()
    });
    publish(&bus, 10);
    let mut stream = after(&bus, 2);
    publish(&bus, 4);
    let resync = r#"state_resync_required {"reason":"ring_evicted","lastDeliveredId":2,"earliestAvailableId":5}"#;
    let complete =
        r#"replay_complete {"replayedCount":6,"lastReplayedEventId":10,"lastEventId":10}"#;
    assert_eq!(told(&mut stream), [resync, "5..=10", complete, "11..=14"]);
}

#[test]
fn a_cursor_before_a_cold_load_misses_what_never_was_in_the_ring() {
    let bus = bus();
    bus.seed(18);
    assert_eq!(bus.head(), 18);
    let mut stream = after(&bus, 3);
    let resync = r#"state_resync_required {"reason":"seeded_replay_not_in_ring","lastDeliveredId":3,"earliestAvailableId":19}"#;
    let complete = r#"replay_complete {"replayedCount":0}"#;
    assert_eq!(told(&mut stream), [resync, complete]);
    publish(&bus, 1);
    assert_eq!(told(&mut stream), ["19..=19"]);
    let resync = r#"state_resync_required {"reason":"ring_evicted","lastDeliveredId":0,"earliestAvailableId":19}"#;
    assert_eq!(told(&mut after(&bus, 0))[..2], [resync, "19..=19"]);
    assert_eq!(told(&mut after(&bus, 18))[0], "19..=19");
}

#[test]
fn a_replay_over_its_budget_says_where_it_stopped() {
    let data = large(1_000);
    let limits = Limits {
        replay_bytes: 5_000,
        ..Limits::default()
    };
    let bus = bus_with(limits);
    for _ in 0..9 {
        bus.publish(&event(&data)).unwrap();
    }
    let mut stream = after(&bus, 2);
    publish(&bus, 1);
    let resync = r#"state_resync_required {"reason":"replay_budget_exceeded","lastDeliveredId":6,"earliestAvailableId":7}"#;
    let complete = r#"replay_complete {"replayedCount":4,"lastReplayedEventId":6,"lastEventId":6}"#;
    assert_eq!(told(&mut stream), ["3..=6", resync, complete, "10..=10"]);
    assert_eq!(told(&mut after(&bus, 5))[0], "6..=10");
}

#[test]
fn a_snapshot_is_read_once_and_when_it_is_given() {
    let reads = Arc::new(AtomicU64::new(0));
    let bus = bus();
    publish(&bus, 1);
    let read = {
        let reads = Arc::clone(&reads);
        move || {
            format!(
                "{{\"reads\":{}}}",
                reads.fetch_add(1, Ordering::Relaxed) + 1
            )
        }
    };
    let mut stream = bus
        .subscribe(Subscribe {
            snapshot: Some(Box::new(read)),
            ..from(From::After(0))
        })
        .unwrap();
    chunk(&mut stream);
    chunk(&mut stream);
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    assert_eq!(told(&mut stream), [r#"session_snapshot {"reads":1}"#]);
    publish(&bus, 1);
    assert_eq!(told(&mut stream), ["2..=2"]);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
}

#[test]
fn a_snapshot_may_take_the_lock_under_which_events_are_published() {
    let bus = bus();
    let session = Arc::new(Mutex::new(bus.clone()));
    let mut stream = bus
        .subscribe(Subscribe {
            snapshot: Some(Box::new(move || {
                let bus = session.lock().unwrap();
                publish(&bus, 1);
                "{}".to_owned()
            })),
            ..from(From::Live)
        })
        .unwrap();
    assert_eq!(told(&mut stream), ["session_snapshot {}", "1..=1"]);
}

#[test]
fn there_is_a_limit_of_subscribers_and_one_that_leaves_makes_room() {
    let bus = bus_with(Limits {
        subscribers: 2,
        ..Limits::default()
    });
    let first = live(&bus);
    let mut second = live(&bus);
    let refused = bus.subscribe(from(From::Live)).unwrap_err();
    assert_eq!(refused, SubscribeError::TooMany { limit: 2 });
    assert_eq!(bus.n_subscribers(), 2);
    drop(first);
    assert_eq!(bus.n_subscribers(), 1);
    let mut third = live(&bus);
    bus.publish(&event(&raw("{}"))).unwrap();
    assert_eq!(told(&mut second), ["1..=1"]);
    assert_eq!(told(&mut third), ["1..=1"]);
}
