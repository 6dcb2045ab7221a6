//! Everything has a maximum, and what is full makes somebody wait.

use std::time::Duration;

use jsonrpc::{Bounds, RequestError, SendError};
use serde_json::json;

use crate::rig::{Rig, method, request, rig, rig_bounded, settle};

#[tokio::test(start_paused = true)]
async fn a_slow_reader_makes_senders_wait_and_loses_nothing() {
    let bounds = Bounds {
        outgoing_bytes_max: 200,
        ..Bounds::default()
    };
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 16);
    let mut n_accepted = 0;
    let second = Duration::from_secs(1);
    while let Ok(sent) = tokio::time::timeout(second, peer.notify("n", &[n_accepted])).await {
        sent.unwrap();
        n_accepted += 1;
    }
    // 41 bytes each, of which a few may be in the pipe.
    assert!((4..6).contains(&n_accepted), "{n_accepted}");
    for n in 0..n_accepted {
        assert_eq!(far.heard().await["params"], json!([n]));
    }
    peer.notify("next", &()).await.unwrap();
    assert_eq!(far.heard_short().await, "next");
}

#[tokio::test]
async fn a_frame_longer_than_a_line_is_not_sent() {
    let bounds = Bounds {
        line_bytes_max: 300,
        ..Bounds::default()
    };
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 1_000);
    let long = "x".repeat(300);
    assert!(matches!(
        peer.notify("a", &long).await,
        Err(SendError::TooLarge { bytes_max: 300 })
    ));
    assert!(matches!(
        peer.request("a", &long).await,
        Err(RequestError::TooLarge { bytes_max: 300 })
    ));
    far.ask(1, "a").await;
    let sent = request(&mut incoming).await.responder.respond(Ok(long));
    assert!(matches!(
        sent.await,
        Err(SendError::TooLarge { bytes_max: 300 })
    ));
    assert_eq!(far.heard_short().await, "1: -32603");
}

#[tokio::test]
async fn notices_are_small_and_few() {
    let bounds = Bounds {
        notices_max: 2,
        ..Bounds::default()
    };
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 16);
    let large = "x".repeat(wire::limits::JSONRPC_NOTICE_BYTES_MAX);
    assert!(matches!(
        peer.notify_now("n", &large),
        Err(SendError::TooLarge { .. })
    ));
    peer.notify_now("a", &()).unwrap();
    peer.notify_now("b", &()).unwrap();
    assert!(matches!(
        peer.notify_now("c", &()),
        Err(SendError::TooMany { notices_max: 2 })
    ));
    assert_eq!(far.heard_short().await, "a");
    assert_eq!(far.heard_short().await, "b");
    peer.notify_now("d", &()).unwrap();
    assert_eq!(far.heard_short().await, "d");
}

#[tokio::test]
async fn levels_leave_half_of_the_room_to_what_is_said_once() {
    let bounds = Bounds {
        notices_max: 4,
        ..Bounds::default()
    };
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 16);
    peer.notify_level("a", &()).unwrap();
    peer.notify_level("b", &()).unwrap();
    assert!(matches!(
        peer.notify_level("c", &()),
        Err(SendError::TooMany { notices_max: 2 })
    ));
    peer.notify_now("d", &()).unwrap();
    peer.notify_now("e", &()).unwrap();
    assert!(peer.notify_now("f", &()).is_err());
    for said in ["a", "b", "d", "e"] {
        assert_eq!(far.heard_short().await, said);
    }
    peer.notify_level("g", &()).unwrap();
    assert_eq!(far.heard_short().await, "g");
}

#[tokio::test]
async fn so_many_requests_are_under_way_and_no_more() {
    let bounds = Bounds {
        requests_max: 2,
        ..Bounds::default()
    };
    let Rig {
        peer,
        far: _far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 1_000);
    let first = peer.request("a", &());
    let _second = peer.request("b", &());
    let error = peer.request("c", &()).await.unwrap_err();
    assert!(
        matches!(error, RequestError::TooMany { requests_max: 2 }),
        "{error:?}"
    );
    drop(first);
    let mut third = Box::pin(peer.request("d", &()));
    settle().await;
    assert!(is_pending(&mut third));
}

fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut context).is_pending()
}

#[tokio::test]
async fn requests_that_nobody_answers_are_refused_beyond_the_limit() {
    let bounds = Bounds {
        unanswered_max: 2,
        ..Bounds::default()
    };
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 1_000);
    for id in 1..=3 {
        far.ask(id, "a").await;
    }
    assert_eq!(far.heard_short().await, "3: -32603");
    let first = request(&mut incoming).await;
    first.responder.respond(Ok(1)).await.unwrap();
    assert_eq!(far.heard_short().await, "1: 1");
    far.ask(4, "a").await;
    far.tell("after").await;
    let (second, fourth) = (request(&mut incoming).await, request(&mut incoming).await);
    assert_eq!(fourth.responder.id().as_json(), "4");
    assert_eq!(method(&mut incoming).await.unwrap(), "after");
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_slow_taker_makes_the_other_side_wait_and_loses_nothing() {
    let bounds = Bounds {
        incoming_messages_max: 3,
        ..Bounds::default()
    };
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 1_000);
    let second = Duration::from_secs(1);
    let mut n_said = 0;
    loop {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{n_said:01000}"}}"#);
        let said = tokio::time::timeout(second, far.say(&line)).await;
        if said.is_err() {
            break;
        }
        n_said += 1;
    }
    // What the pipe, the reader's window and the queue hold.
    assert!(n_said < 400, "{n_said}");
    for n in 0..n_said {
        assert_eq!(method(&mut incoming).await.unwrap(), format!("{n:01000}"));
    }
}

#[tokio::test(start_paused = true)]
async fn large_messages_are_counted_by_their_bytes() {
    let bounds = Bounds {
        incoming_bytes_max: 10_000,
        ..Bounds::default()
    };
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 1_000);
    let line = json!({"jsonrpc": "2.0", "method": "a", "params": ["x".repeat(100_000)]});
    let line = line.to_string();
    let second = Duration::from_secs(1);
    let mut n_said = 0;
    while tokio::time::timeout(second, far.say(&line)).await.is_ok() {
        n_said += 1;
    }
    assert!((1..5).contains(&n_said), "{n_said}");
    for _ in 0..n_said {
        assert_eq!(method(&mut incoming).await.unwrap(), "a");
    }
}

#[tokio::test]
async fn two_sides_that_send_large_frames_at_once_both_get_on() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let large = "x".repeat(1 << 20);
    far.ask(1, "a").await;
    let asked = request(&mut incoming).await;
    let sent = asked.responder.respond(Ok(large.clone()));
    let reply = peer.request("b", &large);
    let other = async {
        far.answer(0, json!(large)).await;
        assert_eq!(far.heard().await["result"], json!(large));
        assert_eq!(far.heard().await["params"], json!(large));
    };
    let (sent, _, n_bytes) = tokio::join!(sent, other, async {
        tokio::select! {
            reply = reply => reply.unwrap().get().len(),
            message = incoming.next() => panic!("{message:?}"),
        }
    });
    sent.unwrap();
    assert_eq!(n_bytes, large.len() + 2);
}
