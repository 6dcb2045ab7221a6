//! What holds for every order in which publishers and subscribers may run: shuttle chooses it, and finds who
//! waits for ever.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
};

use bytes::Bytes;
use serde_json::value::RawValue;
use shuttle::{check_pct, check_random, future::block_on, sync::Mutex, thread};
use wire::{
    event::{Frame, NewEvent},
    sse::Decoder,
};

use crate::{Bus, From, Limits, Subscribe, Subscription};

const RANDOM_ORDERS: usize = 2_000;
const ADVERSE_ORDERS: usize = 1_000;

/// Runs a test in many orders, some of them with few but badly placed switches.
fn in_any_order(test: impl Fn() + Send + Sync + Copy + 'static) {
    check_random(test, RANDOM_ORDERS);
    check_pct(test, ADVERSE_ORDERS, 3);
}

fn bus() -> Bus {
    Bus::new("epoch".to_owned(), Limits::default())
}

fn publish(bus: &Bus) -> u64 {
    let data = RawValue::from_string("{}".to_owned()).unwrap();
    let event = NewEvent {
        kind: "session_update",
        data: &data,
        prompt_id: None,
        originator: None,
        at_ms: 0,
    };
    bus.publish(&event).unwrap()
}

fn subscribe(bus: &Bus, from: From) -> Subscription {
    bus.subscribe(Subscribe {
        from,
        epoch: None,
        queue_frames: 2,
        snapshot: None,
        now_ms: || 0,
    })
    .unwrap()
}

fn frames(bytes: &Bytes) -> Vec<Frame> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let mut frames = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        frames.push(serde_json::from_slice(event.data).unwrap());
    }
    frames
}

/// Reads to the end: the ids, and whether the stream was given up as too slow.
fn read(subscription: Subscription) -> (Vec<u64>, bool) {
    read_up_to(u64::MAX, subscription)
}

/// As [`read`], and no further than this event.
fn read_up_to(last: u64, mut subscription: Subscription) -> (Vec<u64>, bool) {
    let (mut ids, mut is_evicted) = (Vec::new(), false);
    while ids.last() != Some(&last)
        && let Some(bytes) = block_on(subscription.next())
    {
        for frame in frames(&bytes) {
            assert!(!is_evicted, "a frame behind the last one");
            ids.extend(frame.id);
            is_evicted = frame.kind == "client_evicted";
        }
    }
    (ids, is_evicted)
}

#[test]
fn no_wake_is_lost_and_each_stream_is_contiguous() {
    in_any_order(|| {
        let bus = bus();
        let readers = [(); 2].map(|()| {
            let subscription = subscribe(&bus, From::Live);
            thread::spawn(move || read_up_to(4, subscription))
        });
        let publishers = [(); 2].map(|()| {
            let bus = bus.clone();
            thread::spawn(move || {
                publish(&bus);
                publish(&bus);
            })
        });
        for publisher in publishers {
            publisher.join().unwrap();
        }
        // No end is there to wake whoever missed an event.
        for reader in readers {
            let (ids, is_evicted) = reader.join().unwrap();
            assert!(ids.iter().copied().eq(1..=ids.len() as u64), "{ids:?}");
            assert!(is_evicted || ids.len() == 4, "{ids:?}");
        }
    });
}

#[test]
fn what_was_and_what_follows_meet_without_a_gap() {
    in_any_order(|| {
        let bus = bus();
        publish(&bus);
        let reader = {
            let bus = bus.clone();
            thread::spawn(move || read(subscribe(&bus, From::After(0))))
        };
        publish(&bus);
        publish(&bus);
        bus.close();
        let (ids, is_evicted) = reader.join().unwrap();
        assert!(is_evicted || ids == [1, 2, 3], "{ids:?}");
    });
}

#[test]
fn a_batch_wakes_whoever_waits_once_it_is_whole() {
    in_any_order(|| {
        let bus = bus();
        let subscription = subscribe(&bus, From::Live);
        let reader = thread::spawn(move || read_up_to(2, subscription));
        let data = RawValue::from_string("{}".to_owned()).unwrap();
        let event = NewEvent {
            kind: "session_update",
            data: &data,
            prompt_id: None,
            originator: None,
            at_ms: 0,
        };
        let mut batch = bus.batch();
        batch.publish(&event).unwrap();
        batch.publish(&event).unwrap();
        drop(batch);
        assert_eq!(reader.join().unwrap(), (vec![1, 2], false));
    });
}

#[test]
fn one_terminal_event_is_the_last() {
    in_any_order(|| {
        let bus = bus();
        let subscription = subscribe(&bus, From::Live);
        let reader = thread::spawn(move || read(subscription));
        let closers = [(); 2].map(|()| {
            let bus = bus.clone();
            thread::spawn(move || {
                let data = RawValue::from_string("{}".to_owned()).unwrap();
                bus.close_with(&NewEvent {
                    kind: "session_closed",
                    data: &data,
                    prompt_id: None,
                    originator: None,
                    at_ms: 0,
                })
            })
        });
        let ids = closers.map(|closer| closer.join().unwrap());
        assert_eq!(ids.iter().flatten().count(), 1);
        assert_eq!(reader.join().unwrap(), (vec![1], false));
    });
}

#[test]
fn a_wait_that_is_given_up_loses_nothing() {
    in_any_order(|| {
        let bus = bus();
        let mut subscription = subscribe(&bus, From::Live);
        let publisher = {
            let bus = bus.clone();
            thread::spawn(move || {
                publish(&bus);
                publish(&bus);
                bus.close();
            })
        };
        let mut ids = Vec::new();
        {
            let mut wait = pin!(subscription.next());
            let mut cx = Context::from_waker(Waker::noop());
            if let std::task::Poll::Ready(Some(bytes)) = wait.as_mut().poll(&mut cx) {
                ids.extend(frames(&bytes).iter().filter_map(|frame| frame.id));
            }
        }
        ids.extend(read(subscription).0);
        publisher.join().unwrap();
        assert_eq!(ids, [1, 2]);
    });
}

#[test]
fn a_subscriber_that_leaves_disturbs_nobody() {
    in_any_order(|| {
        let bus = bus();
        let leaver = subscribe(&bus, From::Live);
        let stayer = subscribe(&bus, From::Live);
        let leaving = thread::spawn(move || drop(leaver));
        let reading = thread::spawn(move || read(stayer));
        publish(&bus);
        let newcomer = subscribe(&bus, From::After(0));
        publish(&bus);
        bus.close();
        leaving.join().unwrap();
        assert_eq!(reading.join().unwrap().0, [1, 2]);
        assert_eq!(read(newcomer).0, [1, 2]);
    });
}

/// A session whose state is the last id, changed and published under its lock.
#[test]
fn a_snapshot_that_takes_the_publishers_lock_neither_hangs_nor_is_behind() {
    in_any_order(|| {
        let bus = bus();
        let session = Arc::new(Mutex::new(0));
        let publisher = {
            let (bus, session) = (bus.clone(), Arc::clone(&session));
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut last = session.lock().unwrap();
                    *last += 1;
                    assert_eq!(publish(&bus), *last);
                }
            })
        };
        let snapshot = {
            let session = Arc::clone(&session);
            move || session.lock().unwrap().to_string()
        };
        let mut subscription = bus
            .subscribe(Subscribe {
                from: From::Live,
                epoch: None,
                queue_frames: 2,
                snapshot: Some(Box::new(snapshot)),
                now_ms: || 0,
            })
            .unwrap();
        let first = frames(&block_on(subscription.next()).unwrap());
        assert_eq!(first[0].kind, "session_snapshot");
        let mut state: u64 = first[0].data.get().parse().unwrap();
        publisher.join().unwrap();
        bus.close();
        state = read(subscription).0.last().copied().unwrap_or(state);
        assert_eq!(state, 2);
    });
}
