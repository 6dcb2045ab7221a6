//! How a connection ends, and what is still said before it does.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use jsonrpc::{AtEndOfInput, Closed, Connection, Options, RequestError, SendError};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::limits::JSONRPC_OUTGOING_BYTES_MAX;

use crate::rig::{Rig, method, request, rig, rig_bounded, rig_with, settle};

#[tokio::test]
async fn at_the_end_of_input_requests_fail_and_the_connection_ends() {
    let Rig {
        peer,
        mut incoming,
        mut connection,
        mut far,
    } = rig();
    let reply = peer.request("a", &());
    far.tell("last").await;
    far.end();
    assert_eq!(method(&mut incoming).await.unwrap(), "last");
    assert_eq!(method(&mut incoming).await, None);
    assert_eq!(method(&mut incoming).await, None);
    let error = reply.await.unwrap_err();
    assert!(
        matches!(error, RequestError::Closed(Closed::EndOfInput)),
        "{error:?}"
    );
    assert_eq!(peer.closed().await, Closed::EndOfInput);
    assert_eq!(connection.ended().await, Closed::EndOfInput);
    assert_eq!(far.heard_all().await, ["a"]);
    assert!(matches!(
        peer.request("b", &()).await,
        Err(RequestError::Closed(Closed::EndOfInput))
    ));
    assert!(matches!(
        peer.notify("b", &()).await,
        Err(SendError::Closed(Closed::EndOfInput))
    ));
    assert!(matches!(
        peer.notify_now("b", &()),
        Err(SendError::Closed(Closed::EndOfInput))
    ));
}

#[tokio::test]
async fn an_answer_before_the_end_of_input_counts() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let reply = peer.request("a", &());
    far.answer(0, json!(1)).await;
    far.end();
    assert_eq!(method(&mut incoming).await, None);
    assert_eq!(reply.await.unwrap().get(), "1");
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_input_is_answered() {
    let Rig {
        peer,
        mut incoming,
        mut connection,
        mut far,
    } = rig();
    far.ask(1, "a").await;
    far.ask(2, "b").await;
    far.end();
    let asked = request(&mut incoming).await;
    assert_eq!(peer.closed().await, Closed::EndOfInput);
    assert!(!asked.responder.cancellation().is_cancelled());
    peer.notify("update", &()).await.unwrap();
    asked.responder.respond(Ok("done")).await.unwrap();
    // The second one was never taken.
    drop(incoming);
    assert_eq!(connection.ended().await, Closed::EndOfInput);
    assert_eq!(
        far.heard_all().await,
        ["update", "1: \"done\"", "2: -32601"]
    );
}

#[tokio::test]
async fn a_last_line_without_a_newline_is_a_line() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.write(br#"{"jsonrpc":"2.0","method":"last"}"#).await;
    far.end();
    assert_eq!(method(&mut incoming).await.unwrap(), "last");
    assert_eq!(method(&mut incoming).await, None);
}

#[tokio::test]
async fn a_torn_last_line_is_a_bad_line() {
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.write(br#"{"jsonrpc":"2.0","meth"#).await;
    far.end();
    peer.closed().await;
    assert_eq!(peer.bad_lines().borrow().n_total, 1);
    assert_eq!(far.heard_all().await, ["null: -32700"]);
}

#[tokio::test]
async fn a_closed_connection_writes_what_was_sent_and_then_ends() {
    let Rig {
        peer,
        mut incoming,
        mut connection,
        mut far,
    } = rig_bounded(
        jsonrpc::Bounds {
            outgoing_frames_max: 1,
            ..jsonrpc::Bounds::default()
        },
        16,
    );
    far.ask(1, "ask").await;
    let asked = request(&mut incoming).await;
    let accepted = peer.notify("a", &());
    let waiting = peer.notify("b", &());
    let reply = peer.request("c", &());
    peer.close();
    assert!(matches!(
        reply.await,
        Err(RequestError::Closed(Closed::Here))
    ));
    assert!(matches!(
        peer.notify("d", &()).await,
        Err(SendError::Closed(Closed::Here))
    ));
    asked.responder.cancellation().cancelled().await;
    let sent = asked.responder.respond(Ok(()));
    assert!(matches!(sent.await, Err(SendError::Closed(Closed::Here))));
    let (heard, end, ..) = tokio::join!(far.heard_all(), connection.ended(), accepted, waiting);
    assert_eq!(heard, ["a", "b", "c"]);
    assert_eq!(end, Closed::Here);
    assert_eq!(method(&mut incoming).await, None);
}

#[tokio::test]
async fn a_broken_pipe_closes_with_its_reason_and_last_words_are_heard() {
    let Rig {
        peer,
        mut incoming,
        mut connection,
        mut far,
    } = rig();
    let written = peer.request("written", &());
    assert_eq!(far.heard_short().await, "written");
    far.ask(1, "ask").await;
    let asked = request(&mut incoming).await;
    far.stop_reading();
    let unsent = peer.request("unsent", &());
    let reason = Closed::WriteFailed(io::ErrorKind::BrokenPipe);
    assert_eq!(peer.closed().await, reason);
    asked.responder.cancellation().cancelled().await;
    assert!(matches!(
        peer.notify("a", &()).await,
        Err(SendError::Closed(closed)) if closed == reason
    ));
    far.tell("last words").await;
    far.answer(0, json!("late, and not too late")).await;
    far.end();
    assert_eq!(method(&mut incoming).await.unwrap(), "last words");
    assert_eq!(method(&mut incoming).await, None);
    assert_eq!(written.await.unwrap().get(), "\"late, and not too late\"");
    assert!(matches!(
        unsent.await,
        Err(RequestError::Closed(closed)) if closed == reason
    ));
    assert_eq!(connection.ended().await, reason);
}

#[tokio::test]
async fn whoever_waits_for_room_learns_of_a_broken_pipe() {
    let Rig {
        peer,
        mut far,
        connection: _connection,
        ..
    } = rig_bounded(
        jsonrpc::Bounds {
            outgoing_frames_max: 1,
            ..jsonrpc::Bounds::default()
        },
        16,
    );
    let accepted = peer.notify("a", &());
    let waiting = peer.notify("b", &());
    let asks = peer.request("c", &());
    settle().await;
    far.stop_reading();
    accepted.await.unwrap();
    let reason = Closed::WriteFailed(io::ErrorKind::BrokenPipe);
    assert!(matches!(
        waiting.await,
        Err(SendError::Closed(closed)) if closed == reason
    ));
    assert!(matches!(
        asks.await,
        Err(RequestError::Closed(closed)) if closed == reason
    ));
}

#[tokio::test]
async fn a_connection_that_is_dropped_tells_everybody() {
    let Rig {
        peer,
        mut incoming,
        connection,
        mut far,
    } = rig_bounded(jsonrpc::Bounds::default(), 16);
    let reply = peer.request("a", &());
    let closed = peer.clone();
    let closed = tokio::spawn(async move { closed.closed().await });
    drop(connection);
    assert!(matches!(
        reply.await,
        Err(RequestError::Closed(Closed::Here))
    ));
    assert!(peer.is_closed());
    assert_eq!(closed.await.unwrap(), Closed::Here);
    assert_eq!(method(&mut incoming).await, None);
    // The writer is gone with it.
    assert_eq!(far.line_or_torn().await, None);
}

/// Fails at once.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
}

#[tokio::test]
async fn a_failed_read_is_an_end_with_its_reason() {
    let (peer, mut incoming, mut connection) =
        Connection::start(Broken, tokio::io::sink(), Options::default());
    let reason = Closed::ReadFailed(io::ErrorKind::ConnectionReset);
    assert_eq!(connection.ended().await, reason);
    assert_eq!(peer.closed().await, reason);
    assert_eq!(method(&mut incoming).await, None);
}

/// Counts its calls.
#[derive(Debug, Default)]
struct Counted {
    calls: std::sync::Arc<std::sync::Mutex<Vec<&'static str>>>,
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.calls.lock().unwrap().push("write");
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.calls.lock().unwrap().push("flush");
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.calls.lock().unwrap().push("shutdown");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn what_is_ready_is_one_write_and_a_flush_comes_before_rest() {
    let sink = Counted::default();
    let calls = sink.calls.clone();
    let (_far, reader) = tokio::io::duplex(16);
    let (peer, _incoming, mut connection) = Connection::start(reader, sink, Options::default());
    for n in 0..10 {
        peer.notify("a", &[n]).await.unwrap();
    }
    settle().await;
    assert_eq!(*calls.lock().unwrap(), ["write", "flush"]);
    peer.close();
    connection.ended().await;
    assert_eq!(
        *calls.lock().unwrap(),
        ["write", "flush", "flush", "shutdown"]
    );
}

#[tokio::test]
async fn where_it_stays_open_news_is_written_behind_the_end_of_input() {
    let options = Options {
        at_end_of_input: AtEndOfInput::StaysOpen,
        ..Options::default()
    };
    let mut rig = rig_with(options, 1 << 10);
    rig.far.end();
    assert!(rig.incoming.next().await.is_none());
    rig.peer.notify_now("news", &()).unwrap();
    rig.peer.close();
    assert_eq!(rig.far.heard().await["method"], "news");
    assert_eq!(rig.connection.ended().await, Closed::EndOfInput);
}

#[tokio::test]
async fn an_output_that_is_abandoned_keeps_nobody_waiting() {
    let rig = rig_with(Options::default(), 16);
    let text = "x".repeat(JSONRPC_OUTGOING_BYTES_MAX);
    rig.peer.notify("first", &text).await.unwrap();
    let second = rig.peer.notify("second", &text);
    tokio::task::yield_now().await;
    let before = rig.peer.backlog();
    assert!(!before.is_empty);
    assert_eq!(rig.peer.backlog(), before, "nothing gets on");
    rig.peer.abandon();
    assert!(second.await.is_err());
    assert!(rig.peer.notify("third", &()).await.is_err());
    // Dropped: it was held to the end.
    drop(rig.connection);
}
