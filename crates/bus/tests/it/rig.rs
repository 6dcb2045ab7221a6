//! A bus, events for it, and subscribers that say what they were given.

use std::task::{Context, Poll, Waker};

use bus::{Bus, From, Limits, Subscribe, Subscription};
use bytes::Bytes;
use serde_json::value::RawValue;
use wire::{
    event::{Frame, NewEvent},
    sse::Decoder,
};

pub(crate) const EPOCH: &str = "epoch-1";

/// When frames of one stream alone are written.
pub(crate) const NOW_MS: u64 = 1_700_000_000_007;

pub(crate) fn bus() -> Bus {
    bus_with(Limits::default())
}

pub(crate) fn bus_with(limits: Limits) -> Bus {
    Bus::new(EPOCH.to_owned(), limits)
}

/// Some JSON as data.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn event(data: &RawValue) -> NewEvent<'_> {
    NewEvent {
        kind: "session_update",
        data,
        prompt_id: None,
        originator: None,
        at_ms: 1_700_000_000_000,
    }
}

/// Publishes so many events one by one.
pub(crate) fn publish(bus: &Bus, n: u64) {
    let data = raw("{}");
    for _ in 0..n {
        bus.publish(&event(&data)).unwrap();
    }
}

/// Publishes so many events at once.
pub(crate) fn publish_together(bus: &Bus, n: u64) {
    let data = raw("{}");
    let mut batch = bus.batch();
    for _ in 0..n {
        batch.publish(&event(&data)).unwrap();
    }
}

/// An event with so many bytes of data.
pub(crate) fn large(n_bytes: usize) -> Box<RawValue> {
    raw(&format!("\"{}\"", "x".repeat(n_bytes - 2)))
}

pub(crate) fn from(from: From) -> Subscribe {
    Subscribe {
        from,
        epoch: None,
        queue_frames: 256,
        snapshot: None,
        now_ms: || NOW_MS,
    }
}

pub(crate) fn live(bus: &Bus) -> Subscription {
    bus.subscribe(from(From::Live)).unwrap()
}

pub(crate) fn after(bus: &Bus, id: u64) -> Subscription {
    bus.subscribe(from(From::After(id))).unwrap()
}

/// The next chunk; `Pending` where the subscriber waits.
pub(crate) fn poll(subscription: &mut Subscription) -> Poll<Option<Bytes>> {
    subscription.poll_next(&mut Context::from_waker(Waker::noop()))
}

/// The next chunk, which is there.
pub(crate) fn chunk(subscription: &mut Subscription) -> Bytes {
    match poll(subscription) {
        Poll::Ready(Some(bytes)) => bytes,
        Poll::Ready(None) | Poll::Pending => panic!("no chunk"),
    }
}

/// All that is there: whole frames, and whether the end came.
pub(crate) fn drain(subscription: &mut Subscription) -> (Vec<Frame>, bool) {
    let mut read = Vec::new();
    loop {
        match poll(subscription) {
            Poll::Ready(Some(bytes)) => read.extend(frames(&bytes)),
            Poll::Ready(None) => return (read, true),
            Poll::Pending => return (read, false),
        }
    }
}

/// The frames of a chunk, which holds whole ones alone.
pub(crate) fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let mut frames = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        let frame: Frame = serde_json::from_slice(event.data).unwrap();
        assert_eq!(frame.kind, event.event);
        if let Some(id) = frame.id {
            assert_eq!(event.id, id.to_string());
        }
        frames.push(frame);
    }
    assert!(decoder.unfinished().unwrap().is_none(), "a frame is cut");
    frames
}

/// What a stream says, in short: runs of ids, kinds and data of the frames for it alone, and the end.
pub(crate) fn told(subscription: &mut Subscription) -> Vec<String> {
    let (frames, is_ended) = drain(subscription);
    let mut told: Vec<String> = Vec::new();
    let mut run: Option<(u64, u64)> = None;
    let end_run = |told: &mut Vec<String>, run: &mut Option<(u64, u64)>| {
        if let Some((first, last)) = run.take() {
            told.push(format!("{first}..={last}"));
        }
    };
    for frame in frames {
        match (frame.id, &mut run) {
            (Some(id), Some((_, last))) if *last + 1 == id => *last = id,
            (Some(id), _) => {
                end_run(&mut told, &mut run);
                run = Some((id, id));
            }
            (None, _) => {
                end_run(&mut told, &mut run);
                assert_eq!(frame.meta.unwrap().server_timestamp, NOW_MS);
                told.push(format!("{} {}", frame.kind, frame.data));
            }
        }
    }
    end_run(&mut told, &mut run);
    if is_ended {
        told.push("end".to_owned());
    }
    told
}
