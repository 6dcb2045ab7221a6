//! One side of a connection under test, and the other side by hand.

use jsonrpc::{Bounds, Connection, Incoming, Message, Options, Peer, Request};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

/// Bytes that each direction of the pipe holds.
const PIPE_BYTES: usize = 64 << 10;

pub(crate) struct Rig {
    pub(crate) peer: Peer,
    pub(crate) incoming: Incoming,
    pub(crate) connection: Connection,
    pub(crate) far: Far,
}

/// The other side: it writes and reads lines as they are.
pub(crate) struct Far {
    reader: Option<BufReader<ReadHalf<DuplexStream>>>,
    writer: Option<WriteHalf<DuplexStream>>,
}

pub(crate) fn rig() -> Rig {
    rig_with(Options::default(), PIPE_BYTES)
}

pub(crate) fn rig_bounded(bounds: Bounds, pipe_bytes: usize) -> Rig {
    let options = Options {
        bounds,
        ..Options::default()
    };
    rig_with(options, pipe_bytes)
}

pub(crate) fn rig_with(options: Options, pipe_bytes: usize) -> Rig {
    // Two pipes, so that each direction can end by itself.
    let (near_in, far_out) = duplex(PIPE_BYTES);
    let (near_out, far_in) = duplex(pipe_bytes);
    let (reader, _) = split(near_in);
    let (_, writer) = split(near_out);
    let (peer, incoming, connection) = Connection::start(reader, writer, options);
    Rig {
        peer,
        incoming,
        connection,
        far: Far {
            reader: Some(BufReader::new(split(far_in).0)),
            writer: Some(split(far_out).1),
        },
    }
}

impl Far {
    /// Writes a line.
    pub(crate) async fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.writer
            .as_mut()
            .unwrap()
            .write_all(bytes)
            .await
            .unwrap();
    }

    pub(crate) async fn ask(&mut self, id: i64, method: &str) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        self.say(&request.to_string()).await;
    }

    pub(crate) async fn tell(&mut self, method: &str) {
        let notification = json!({"jsonrpc": "2.0", "method": method});
        self.say(&notification.to_string()).await;
    }

    pub(crate) async fn answer(&mut self, id: u64, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.say(&answer.to_string()).await;
    }

    /// The next line, without its newline; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let reader = self.reader.as_mut().unwrap();
        let n = reader.read_line(&mut line).await.unwrap();
        (n > 0).then(|| line.strip_suffix('\n').unwrap().to_owned())
    }

    /// The next line as JSON.
    pub(crate) async fn heard(&mut self) -> Value {
        serde_json::from_str(&self.line().await.unwrap()).unwrap()
    }

    /// The method, or the code or the result of the answer, of the next line.
    pub(crate) async fn heard_short(&mut self) -> String {
        short(&self.heard().await)
    }

    /// All lines to the end, in short.
    pub(crate) async fn heard_all(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(line) = self.line().await {
            all.push(short(&serde_json::from_str(&line).unwrap()));
        }
        all
    }

    /// What is left to read, as far as it is whole lines.
    pub(crate) async fn line_or_torn(&mut self) -> Option<String> {
        let mut line = String::new();
        let reader = self.reader.as_mut().unwrap();
        reader.read_line(&mut line).await.unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Ends what this side says.
    pub(crate) fn end(&mut self) {
        self.writer = None;
    }

    /// Reads nothing more.
    pub(crate) fn stop_reading(&mut self) {
        self.reader = None;
    }
}

fn short(frame: &Value) -> String {
    assert_eq!(frame["jsonrpc"], "2.0", "{frame}");
    if let Some(method) = frame["method"].as_str() {
        return method.to_owned();
    }
    let id = &frame["id"];
    match frame.get("error") {
        Some(error) => format!("{id}: {}", error["code"]),
        None => format!("{id}: {}", frame["result"]),
    }
}

/// The next message, which is a request.
pub(crate) async fn request(incoming: &mut Incoming) -> Request {
    match incoming.next().await.unwrap() {
        Message::Request(request) => request,
        Message::Notification(notification) => panic!("no request: {notification:?}"),
    }
}

/// The method of the next message.
pub(crate) async fn method(incoming: &mut Incoming) -> Option<String> {
    Some(match incoming.next().await? {
        Message::Request(request) => request.method,
        Message::Notification(notification) => notification.method,
    })
}

/// Lets all other tasks run until they wait for this one.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
