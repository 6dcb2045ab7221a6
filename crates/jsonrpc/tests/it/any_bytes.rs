//! What must hold whatever the other side writes; also the body of the fuzz target `lines`.

use jsonrpc::{Bounds, Connection, Message, Options};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Small, so that few bytes reach every bound.
const LINE_BYTES_MAX: usize = 256;

/// Reads `bytes` as the lines of the other side, answers every request, and checks what is written:
/// whole frames, no more answers than lines, and an end.
pub(crate) fn survives(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let written = runtime.block_on(written_for(bytes));
    let n_lines = bytes.split(|&byte| byte == b'\n').count();
    let lines: Vec<&[u8]> = written.split_inclusive(|&byte| byte == b'\n').collect();
    assert!(lines.len() <= n_lines, "more answers than lines");
    for line in lines {
        assert!(line.ends_with(b"\n"), "half a frame");
        let frame: Value = serde_json::from_slice(line).expect("a frame is JSON");
        assert_eq!(frame["jsonrpc"], "2.0");
        assert!(frame.get("id").is_some() && frame.get("method").is_none());
        assert!(frame.get("result").is_some() != frame.get("error").is_some());
    }
}

async fn written_for(bytes: &[u8]) -> Vec<u8> {
    let (near, far) = tokio::io::duplex(64);
    let (reader, writer) = tokio::io::split(near);
    let (mut from_near, mut to_near) = tokio::io::split(far);
    let bounds = Bounds {
        line_bytes_max: LINE_BYTES_MAX,
        ..Bounds::default()
    };
    let options = Options {
        bounds,
        ..Options::default()
    };
    let (peer, mut incoming, mut connection) = Connection::start(reader, writer, options);
    let say = async {
        // Dropped: a connection that has ended reads no more.
        _ = to_near.write_all(bytes).await;
        // Dropped: as above.
        _ = to_near.shutdown().await;
    };
    let take = async {
        while let Some(message) = incoming.next().await {
            if let Message::Request(request) = message {
                // Dropped: it is answered in its place, whoever reads it.
                drop(request.responder.respond(Ok(Value::Null)));
            }
        }
        peer.close();
        connection.ended().await;
        drop(connection);
    };
    let hear = async {
        let mut written = Vec::new();
        // Dropped: what was written until then is what is judged.
        _ = from_near.read_to_end(&mut written).await;
        written
    };
    let all = async { tokio::join!(say, take, hear).2 };
    let wait = std::time::Duration::from_secs(20);
    tokio::time::timeout(wait, all).await.expect("it ends")
}
