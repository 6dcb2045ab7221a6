//! A line that is no message costs itself, and is told once.

use jsonrpc::{Bounds, Garbage, Options, RequestError};
use serde_json::json;

use crate::rig::{Rig, method, rig, rig_bounded, rig_with, settle};

fn short_lines() -> Bounds {
    Bounds {
        line_bytes_max: 300,
        ..Bounds::default()
    }
}

#[tokio::test]
async fn bad_lines_are_answered_and_survived() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    for (line, expected) in [
        (&b"Loading ...\n"[..], "null: -32700"),
        (b"\0\0\0\n", "null: -32700"),
        (b"{\"method\":\"\xff\"}\n", "null: -32700"),
        (b"[]\n", "null: -32600"),
        (b"{\"id\":4,\"method\":\"a\"}\r\n", "4: -32600"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5}\n", "5: -32600"),
    ] {
        far.write(line).await;
        assert_eq!(far.heard_short().await, expected);
    }
    far.write(b"\n \t\r\n{\"jsonrpc\":\"2.0\",\"method\":\"good\"}\r\n")
        .await;
    assert_eq!(method(&mut incoming).await.unwrap(), "good");
    assert_eq!(peer.bad_lines().borrow().n_total, 6);
}

#[tokio::test]
async fn garbage_may_be_passed_over_and_requests_are_answered_all_the_same() {
    let options = Options {
        garbage: Garbage::Skipped,
        ..Options::default()
    };
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig_with(options, 1_000);
    far.say("Loading ...").await;
    far.say(r#"{"id":4,"method":"a"}"#).await;
    assert_eq!(far.heard_short().await, "4: -32600");
    assert_eq!(peer.bad_lines().borrow().n_total, 2);
}

#[tokio::test]
async fn a_line_that_is_too_long_costs_itself_and_names_its_request() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(short_lines(), 1_000);
    let long = "x".repeat(100_000);
    far.say(&format!(
        r#"{{"jsonrpc":"2.0","id":"n","method":"a","params":["{long}"]}}"#
    ))
    .await;
    assert_eq!(far.heard_short().await, "\"n\": -32600");
    far.say(&long).await;
    assert_eq!(far.heard_short().await, "null: -32600");
    far.tell("good").await;
    assert_eq!(method(&mut incoming).await.unwrap(), "good");
}

#[tokio::test]
async fn an_answer_that_is_too_long_fails_its_request() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(short_lines(), 1_000);
    drop(incoming);
    let reply = peer.request("a", &());
    far.answer(0, json!("x".repeat(1_000))).await;
    let error = reply.await.unwrap_err();
    assert!(
        matches!(error, RequestError::AnswerTooLarge { bytes_max: 300 }),
        "{error:?}"
    );
    assert_eq!(far.heard_short().await, "a");
    peer.notify("next", &()).await.unwrap();
    assert_eq!(far.heard_short().await, "next");
}

#[tokio::test]
async fn consecutive_bad_lines_are_counted_for_whoever_gives_up() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let mut bad_lines = peer.bad_lines();
    for _ in 0..3 {
        far.say("x").await;
    }
    far.say("").await;
    far.tell("good").await;
    assert_eq!(method(&mut incoming).await.unwrap(), "good");
    let seen = *bad_lines.borrow_and_update();
    assert_eq!(
        (seen.n_total, seen.n_consecutive, seen.n_consecutive_max),
        (3, 0, 3)
    );
    for _ in 0..2 {
        far.say("x").await;
    }
    let seen = *bad_lines
        .wait_for(|lines| lines.n_total >= 5)
        .await
        .unwrap();
    assert_eq!((seen.n_consecutive, seen.n_consecutive_max), (2, 3));
    far.say("x").await;
    far.say("x").await;
    bad_lines
        .wait_for(|lines| lines.n_consecutive_max >= 4)
        .await
        .unwrap();
}

#[tokio::test]
async fn answers_to_garbage_never_wait_for_room() {
    let bounds = Bounds {
        outgoing_frames_max: 2,
        ..Bounds::default()
    };
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(bounds, 16);
    // Nobody reads the answers, and yet what follows is read.
    for _ in 0..1_000 {
        far.say("x").await;
    }
    far.tell("good").await;
    assert_eq!(method(&mut incoming).await.unwrap(), "good");
    far.end();
    let answers = far.heard_all().await;
    assert!((1..10).contains(&answers.len()), "{}", answers.len());
}

/// Two sides that answer errors with errors would never end.
#[tokio::test]
async fn two_connections_do_not_answer_each_others_errors() {
    let (near, far) = tokio::io::duplex(1_000);
    let (near_reader, near_writer) = tokio::io::split(near);
    let (far_reader, far_writer) = tokio::io::split(far);
    let options = Options::default();
    let (near, _near_incoming, _near_connection) =
        jsonrpc::Connection::start(near_reader, near_writer, options);
    let (far, far_incoming, _far_connection) = jsonrpc::Connection::start(
        std::io::Cursor::new(b"garbage\n".to_vec()).chain_with(far_reader),
        far_writer,
        options,
    );
    drop(far_incoming);
    settle().await;
    assert_eq!(far.bad_lines().borrow().n_total, 1);
    assert_eq!(near.bad_lines().borrow().n_total, 1);
}

/// A reader before another.
trait ChainWith: Sized {
    fn chain_with<R>(self, next: R) -> tokio::io::Chain<Self, R>
    where
        Self: tokio::io::AsyncRead,
        R: tokio::io::AsyncRead,
    {
        tokio::io::AsyncReadExt::chain(self, next)
    }
}

impl<T> ChainWith for T {}
