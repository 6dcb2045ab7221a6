//! The end of a bus and of its streams.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::rig::{after, bus, event, live, publish, raw, told};

#[test]
fn a_closed_bus_ends_its_streams_behind_what_was_published() {
    let bus = bus();
    let mut stream = live(&bus);
    publish(&bus, 2);
    bus.close();
    assert_eq!(bus.publish(&event(&raw("{}"))), None);
    assert_eq!(bus.batch().publish(&event(&raw("{}"))), None);
    assert_eq!(bus.head(), 2);
    assert_eq!(told(&mut stream), ["1..=2", "end"]);
    assert_eq!(told(&mut stream), ["end"]);
}

#[test]
fn nothing_comes_behind_a_terminal_event() {
    let bus = bus();
    let mut stream = live(&bus);
    publish(&bus, 2);
    assert_eq!(bus.close_with(&event(&raw("{}"))), Some(3));
    assert_eq!(bus.close_with(&event(&raw("{}"))), None);
    assert_eq!(told(&mut stream), ["1..=3", "end"]);
}

#[test]
fn a_stream_that_comes_after_the_end_is_given_what_it_asks_for() {
    let bus = bus();
    publish(&bus, 3);
    bus.close();
    let complete = r#"replay_complete {"replayedCount":2,"lastReplayedEventId":3,"lastEventId":3}"#;
    assert_eq!(told(&mut after(&bus, 1)), ["2..=3", complete, "end"]);
    assert_eq!(told(&mut live(&bus)), ["end"]);
}

#[tokio::test]
async fn whoever_waits_is_woken_by_an_event_and_by_the_end() {
    let bus = bus();
    let mut stream = live(&bus);
    let reader = tokio::spawn(async move {
        let mut n = 0;
        while stream.next().await.is_some() {
            n += 1;
        }
        n
    });
    tokio::task::yield_now().await;
    publish(&bus, 1);
    tokio::task::yield_now().await;
    bus.close();
    assert_eq!(reader.await.unwrap(), 1);
}

#[tokio::test]
async fn a_bus_that_nobody_can_publish_on_has_ended() {
    let bus = bus();
    let mut stream = live(&bus);
    let other = bus.clone();
    drop(bus);
    publish(&other, 1);
    drop(other);
    assert!(stream.next().await.is_some());
    assert_eq!(stream.next().await, None);
}

#[test]
fn nothing_is_lost_where_a_wait_is_given_up() {
    let bus = bus();
    let mut stream = live(&bus);
    for id in 1..=3 {
        {
            let mut wait = pin!(stream.next());
            let mut cx = Context::from_waker(Waker::noop());
            assert_eq!(wait.as_mut().poll(&mut cx), Poll::Pending);
            publish(&bus, 1);
        }
        assert_eq!(told(&mut stream), [format!("{id}..={id}")]);
    }
}
