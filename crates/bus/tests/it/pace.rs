//! Who is slow, and what happens to them.

use bus::{From, Limits, Subscribe};

use crate::rig::{
    bus, bus_with, chunk, event, from, large, live, poll, publish, publish_together, told,
};

/// A stream whose queue may hold so many frames.
fn narrow(bus: &bus::Bus, queue_frames: usize) -> bus::Subscription {
    let subscribe = Subscribe {
        queue_frames,
        ..from(From::Live)
    };
    bus.subscribe(subscribe).unwrap()
}

/// Gives it one event, with which it goes away.
fn send_away(bus: &bus::Bus, stream: &mut bus::Subscription) {
    publish(bus, 1);
    chunk(stream);
}

#[test]
fn whoever_waits_is_given_a_burst_whatever_its_size() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    assert!(poll(&mut stream).is_pending());
    publish(&bus, 5_000);
    assert_eq!(told(&mut stream), ["1..=5000"]);
    assert_eq!(bus.counts().evictions, 0);
}

#[test]
fn the_first_batch_while_it_is_away_is_its_due() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    send_away(&bus, &mut stream);
    publish_together(&bus, 1_000);
    assert_eq!(told(&mut stream), ["2..=1001"]);
}

#[test]
fn a_stream_that_comes_back_for_each_chunk_may_lag_behind() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    assert!(poll(&mut stream).is_pending());
    publish(&bus, 2_000);
    for _ in 0..3 {
        chunk(&mut stream);
        publish(&bus, 11);
    }
    let told = told(&mut stream);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("..=2033"), "{told:?}");
}

#[test]
fn a_full_queue_is_the_end_behind_what_fitted() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    send_away(&bus, &mut stream);
    publish(&bus, 16);
    assert_eq!(bus.counts().evictions, 0);
    publish(&bus, 14);
    assert_eq!(bus.counts().evictions, 1);
    let told = told(&mut stream);
    assert_eq!(told[0], "2..=17");
    assert!(
        told[1].starts_with(
            r#"client_evicted {"reason":"queue_overflow","droppedAfter":17,"queueSize":16,"maxQueued":16,"queuedBytes":"#
        ),
        "{told:?}"
    );
    assert!(
        told[1].ends_with(r#","maxQueuedBytes":2097152}"#),
        "{told:?}"
    );
    assert_eq!(told[2..], ["end"]);
}

#[test]
fn a_queue_of_too_many_bytes_is_the_end_too() {
    let bus = bus_with(Limits {
        queue_bytes: 5_000,
        ..Limits::default()
    });
    let mut stream = live(&bus);
    send_away(&bus, &mut stream);
    let data = large(2_000);
    for _ in 0..3 {
        bus.publish(&event(&data)).unwrap();
    }
    let told = told(&mut stream);
    let n_bytes = 2_000
        + r#"id: 2
event: session_update
data: {"id":2,"v":1,"type":"session_update","data":,"_meta":{"serverTimestamp":1700000000000}}

"#
        .len();
    let evicted = format!(
        r#"client_evicted {{"reason":"queue_bytes_overflow","droppedAfter":3,"queueSize":2,"maxQueued":256,"queuedBytes":{},"maxQueuedBytes":5000,"eventBytes":{n_bytes}}}"#,
        2 * n_bytes
    );
    assert_eq!(told, ["2..=3", &evicted, "end"]);
}

#[test]
fn one_event_larger_than_the_queue_is_allowed_into_an_empty_one() {
    let bus = bus_with(Limits {
        queue_bytes: 5_000,
        ..Limits::default()
    });
    let mut stream = live(&bus);
    send_away(&bus, &mut stream);
    let data = large(9_000);
    bus.publish(&event(&data)).unwrap();
    assert_eq!(told(&mut stream), ["2..=2"]);
    send_away(&bus, &mut stream);
    bus.publish(&event(&data)).unwrap();
    publish(&bus, 1);
    let told = told(&mut stream);
    assert_eq!((&told[0][..], told.len()), ("4..=4", 3), "{told:?}");
    assert!(told[1].contains(r#""droppedAfter":4"#), "{told:?}");
}

#[test]
fn an_evicted_stream_whose_events_are_gone_is_told_where_it_stopped() {
    let bus = bus_with(Limits {
        ring_events: 100,
        ..Limits::default()
    });
    let mut stream = narrow(&bus, 16);
    send_away(&bus, &mut stream);
    publish(&bus, 1_000);
    let told = told(&mut stream);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains(r#""droppedAfter":1,"#), "{told:?}");
}

#[test]
fn a_long_queue_is_warned_of_before_it_is_too_long() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    send_away(&bus, &mut stream);
    publish(&bus, 11);
    assert_eq!(told(&mut stream), ["2..=12"]);

    send_away(&bus, &mut stream);
    publish(&bus, 12);
    let told = told(&mut stream);
    assert!(
        told[0].starts_with(
            r#"slow_client_warning {"queueSize":12,"maxQueued":16,"lastEventId":13,"queuedBytes":"#
        ),
        "{told:?}"
    );
    assert!(
        told[0].ends_with(r#","maxQueuedBytes":2097152,"threshold":"frames"}"#),
        "{told:?}"
    );
    assert_eq!(told[1..], ["14..=25"]);
}

#[test]
fn a_queue_that_stays_long_is_not_warned_of_again() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    // How much came while it was away, and whether it is warned of that.
    let rounds = [
        (12, true),
        (12, false),
        (7, false),
        (16, false),
        (6, false),
        (16, true),
    ];
    assert!(poll(&mut stream).is_pending());
    publish(&bus, 1);
    chunk(&mut stream);
    for (n, is_warned) in rounds {
        publish(&bus, n);
        let next = chunk(&mut stream);
        let is_warning = next.starts_with(b"event: slow_client_warning");
        assert_eq!(is_warning, is_warned, "{n}");
        if is_warning {
            chunk(&mut stream);
        }
    }
}

#[test]
fn whoever_gives_up_waiting_is_away() {
    let bus = bus();
    let mut stream = narrow(&bus, 16);
    {
        let mut wait = std::pin::pin!(stream.next());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        publish(&bus, 100);
    }
    publish(&bus, 17);
    assert_eq!(bus.counts().evictions, 1);
    assert_eq!(told(&mut stream)[0], "1..=116");
}

#[test]
fn what_the_ring_dropped_before_a_waiting_stream_came_is_told() {
    let bus = bus_with(Limits {
        ring_events: 100,
        ..Limits::default()
    });
    let mut stream = live(&bus);
    publish(&bus, 150);
    let resync = r#"state_resync_required {"reason":"ring_evicted","lastDeliveredId":0,"earliestAvailableId":51}"#;
    assert_eq!(told(&mut stream), [resync, "51..=150"]);
    assert_eq!(bus.counts().resyncs, 1);
    assert_eq!(bus.counts().evictions, 0);
}
