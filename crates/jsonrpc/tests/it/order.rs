//! The order of calls is the order on the wire, and the order of the wire is that of what is taken.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use jsonrpc::{Bounds, Peer};
use serde_json::json;

use crate::rig::{Rig, method, request, rig, rig_bounded, settle};

fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(future).poll(&mut context).is_ready()
}

/// Room for a few small frames.
fn narrow() -> Bounds {
    Bounds {
        outgoing_frames_max: 2,
        ..Bounds::default()
    }
}

#[tokio::test]
async fn frames_are_written_in_the_order_of_their_calls_whatever_waits() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(narrow(), 16);
    far.ask(9, "ask").await;
    let responder = request(&mut incoming).await.responder;
    let sent = [peer.notify("a", &()), peer.notify("b", &())];
    let reply = peer.request("c", &());
    let late = peer.notify("d", &());
    peer.notify_now("e", &()).unwrap();
    let answer = responder.respond(Ok("f"));
    let last = peer.notify("g", &());
    let heard = async {
        let mut heard = Vec::new();
        for _ in 0..7 {
            heard.push(far.heard_short().await);
        }
        heard
    };
    // Awaited in another order than they were made in.
    let (heard, ..) = tokio::join!(heard, last, answer, late);
    assert_eq!(heard, ["a", "b", "c", "d", "e", "9: \"f\"", "g"]);
    for sent in sent {
        sent.await.unwrap();
    }
    drop(reply);
}

/// R15: the notice comes before the answer that it belongs to, though it comes from a thread that
/// waits for nobody.
#[tokio::test]
async fn a_notice_is_written_before_an_answer_that_is_made_after_it() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(narrow(), 16);
    far.ask(1, "prompt").await;
    let responder = request(&mut incoming).await.responder;
    let updates: Vec<_> = (0..9).map(|n| peer.notify("update", &[n])).collect();
    let notifier = peer.clone();
    std::thread::spawn(move || notifier.notify_now("degraded", &json!({"v": 1})).unwrap())
        .join()
        .unwrap();
    let answer = responder.respond(Ok("done"));
    for _ in 0..9 {
        assert_eq!(far.heard_short().await, "update");
    }
    assert_eq!(far.heard_short().await, "degraded");
    assert_eq!(far.heard_short().await, r#"1: "done""#);
    answer.await.unwrap();
    drop(updates);
}

#[tokio::test]
async fn an_answer_reaches_its_caller_after_what_was_read_before_it_was_taken() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let mut reply = peer.request("prompt", &());
    far.tell("first").await;
    far.tell("second").await;
    far.answer(0, json!(1)).await;
    far.tell("third").await;
    settle().await;
    assert!(!is_ready(&mut reply));
    assert_eq!(method(&mut incoming).await.unwrap(), "first");
    assert!(!is_ready(&mut reply));
    assert_eq!(method(&mut incoming).await.unwrap(), "second");
    // Whoever took it may still be busy with it.
    assert!(!is_ready(&mut reply));
    assert_eq!(method(&mut incoming).await.unwrap(), "third");
    assert_eq!(reply.await.unwrap().get(), "1");
}

#[tokio::test]
async fn answers_do_not_wait_for_one_who_went_away() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let before = peer.request("a", &());
    far.tell("first").await;
    far.answer(0, json!(1)).await;
    settle().await;
    drop(incoming);
    assert_eq!(before.await.unwrap().get(), "1");
    let after = peer.request("b", &());
    far.answer(1, json!(2)).await;
    assert_eq!(after.await.unwrap().get(), "2");
}

#[tokio::test]
async fn taking_that_is_given_up_loses_nothing() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    for n in 0..5 {
        let mut next = Box::pin(method(&mut incoming));
        assert!(matches!(
            next.as_mut().poll(&mut Context::from_waker(Waker::noop())),
            Poll::Pending
        ));
        drop(next);
        far.tell(&n.to_string()).await;
        settle().await;
        assert_eq!(method(&mut incoming).await.unwrap(), n.to_string());
    }
}

#[tokio::test]
async fn what_waits_for_room_is_taken_back_and_what_was_accepted_is_not() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(narrow(), 16);
    far.ask(1, "ask").await;
    let responder = request(&mut incoming).await.responder;
    let mut accepted = [peer.notify("a", &()), peer.notify("b", &())];
    assert!(accepted.iter_mut().all(is_ready));
    let mut taken_back = peer.notify("c", &());
    assert!(!is_ready(&mut taken_back));
    let request_taken_back = peer.request("d", &());
    // An answer is given in any case.
    drop(responder.respond(Ok("e")));
    let last = peer.notify("f", &());
    drop((accepted, taken_back, request_taken_back));
    assert_eq!(far.heard_short().await, "a");
    assert_eq!(far.heard_short().await, "b");
    assert_eq!(far.heard_short().await, r#"1: "e""#);
    assert_eq!(far.heard_short().await, "f");
    last.await.unwrap();
}

/// Senders on threads of their own, through a queue that is almost always full.
#[tokio::test]
async fn each_of_many_senders_is_heard_in_its_own_order() {
    const SENDERS: usize = 4;
    const FRAMES: usize = 300;
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
    } = rig_bounded(narrow(), 64);
    drop(incoming);
    let threads: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let peer = peer.clone();
            std::thread::spawn(move || {
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                runtime.build().unwrap().block_on(async {
                    for n in 0..FRAMES {
                        send(&peer, sender, n).await;
                    }
                });
            })
        })
        .collect();
    let mut next = [0; SENDERS];
    for _ in 0..SENDERS * FRAMES {
        let frame = far.heard().await;
        let [sender, n] = [0, 1].map(|at| frame["params"][at].as_u64().unwrap());
        let next = &mut next[usize::try_from(sender).unwrap()];
        assert_eq!(n, *next);
        *next += 1;
        if let Some(id) = frame["id"].as_u64() {
            far.answer(id, json!(n)).await;
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// One frame, of any kind in turn.
async fn send(peer: &Peer, sender: usize, n: usize) {
    let params = [sender, n];
    match n % 3 {
        0 => peer.notify("a", &params).await.unwrap(),
        1 => assert_eq!(
            peer.request("b", &params).await.unwrap().get(),
            n.to_string()
        ),
        _ => peer.notify_now("c", &params).unwrap(),
    }
}

/// What is taken together ends before an answer, and an answer is handled in its place.
#[tokio::test]
async fn an_answer_is_handled_between_what_was_read_before_and_after_it() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    peer.request_then("a", &(), move |outcome| {
        tell.try_send(outcome.unwrap().get().to_owned()).unwrap();
    })
    .unwrap();
    far.tell("one").await;
    far.tell("two").await;
    far.tell("three").await;
    far.answer(0, json!("x")).await;
    far.tell("four").await;
    assert_eq!(method(&mut incoming).await.unwrap(), "one");
    settle().await;
    let mut ready = Vec::new();
    incoming.take_ready(&mut ready, 1);
    assert_eq!(ready.len(), 1);
    incoming.take_ready(&mut ready, 9);
    assert_eq!(ready.len(), 2);
    incoming.take_ready(&mut ready, 9);
    assert_eq!(ready.len(), 2);
    assert!(told.try_recv().is_err());
    assert_eq!(method(&mut incoming).await.unwrap(), "four");
    assert_eq!(told.try_recv().unwrap(), "\"x\"");
}

/// Whoever waits for an answer in its place hears of the end as well, and of nothing that was not sent.
#[tokio::test]
async fn a_request_that_is_handled_in_its_place_ends_with_the_connection() {
    let Rig {
        peer,
        incoming: _incoming,
        connection,
        ..
    } = rig();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    peer.request_then("a", &(), move |outcome| {
        tell.try_send(outcome.unwrap_err().to_string()).unwrap();
    })
    .unwrap();
    drop(connection);
    assert!(told.recv().await.unwrap().contains("closed on this side"));
    let late = peer.request_then("b", &(), |_| panic!("it was not sent"));
    assert!(late.is_err());
}
