//! A plain HTTP client on loopback, one request a connection, for daemons under test; and the events
//! of a stream.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::Instant,
};

use serde_json::Value;

use crate::driven::WAIT_MAX;

/// Status and body; a body that is no JSON is `null`.
///
/// # Panics
/// Where the server is not there, or what it answers is no HTTP.
#[must_use]
pub fn ask(server: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    ask_as(server, method, path, &[], body)
}

/// As [`ask`], with further headers.
///
/// # Panics
/// As [`ask`].
#[must_use]
pub fn ask_as(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> (u16, Value) {
    let body = body.map(Value::to_string).unwrap_or_default();
    ask_raw(server, method, path, &as_json(headers), &body)
}

/// As [`ask`], with these headers alone, but for `Connection`, and `Host` where it is not among them; and a
/// body that may be anything.
///
/// # Panics
/// As [`ask`].
#[must_use]
pub fn ask_raw(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let (status, mut reader) = match begin(server, method, path, headers, body) {
        Ok(begun) => begun,
        Err(error) => panic!("{method} {path}: {error}"),
    };
    let mut text = Vec::new();
    // Dropped: a body that ends early is judged as it came.
    _ = reader.read_to_end(&mut text);
    (status, serde_json::from_slice(&text).unwrap_or_default())
}

fn as_json<'a>(headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    all
}

/// The data of the events of a stream, in their order, as they come.
#[derive(Debug)]
pub struct Events {
    events: mpsc::Receiver<Value>,
    seen: Vec<Value>,
}

impl Events {
    /// Opens a stream; it is open when this returns.
    ///
    /// # Panics
    /// As [`ask`], and where there is no stream.
    #[must_use]
    pub fn open(server: SocketAddr, path: &str) -> Self {
        Self::open_as(server, path, &[])
    }

    /// As [`Events::open`], with further headers such as `last-event-id`.
    ///
    /// # Panics
    /// As [`Events::open`].
    #[must_use]
    pub fn open_as(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let (status, reader) = match begin(server, "GET", path, headers, "") {
            Ok(begun) => begun,
            Err(error) => panic!("{path}: {error}"),
        };
        assert_eq!(status, 200, "{path}");
        let (to, events) = mpsc::sync_channel(1 << 16);
        thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                let data = line.strip_prefix("data:").map(serde_json::from_str);
                if let Some(Ok(event)) = data
                    && to.send(event).is_err()
                {
                    return;
                }
            }
        });
        let seen = Vec::new();
        Self { events, seen }
    }

    /// All events so far.
    #[must_use]
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Reads up to the end of the stream; all events of it.
    ///
    /// # Panics
    /// Where it does not end in time.
    pub fn to_end(mut self) -> Vec<Value> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(wait) {
                Ok(event) => self.seen.push(event),
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.seen,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("the stream did not end; seen: {}", last_of(&self.seen))
                }
            }
        }
    }

    /// Reads up to the first event that `is` what is waited for.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub fn until(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(wait) else {
                panic!("{what} did not come; seen: {}", last_of(&self.seen))
            };
            self.seen.push(event.clone());
            if is(&event) {
                return event;
            }
        }
    }
}

/// The last events, each cut, for a person who looks for what went wrong.
fn last_of(seen: &[Value]) -> String {
    let last = &seen[seen.len().saturating_sub(20)..];
    let cut = |event: &Value| event.to_string().chars().take(300).collect::<String>();
    last.iter().map(|event| cut(event) + "\n").collect()
}

fn begin(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<(u16, Box<dyn Read + Send>)> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    let length = body.len();
    let is_host = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("host");
    let host = if headers.iter().any(is_host) {
        String::new()
    } else {
        format!("host: {server}\r\n")
    };
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\n{host}connection: close\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let mut is_chunked = false;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        is_chunked |= line
            .to_ascii_lowercase()
            .starts_with("transfer-encoding: chunked");
    }
    if is_chunked {
        let left = 0;
        return Ok((status, Box::new(Chunked { reader, left })));
    }
    Ok((status, Box::new(reader)))
}

/// A body without its framing.
struct Chunked {
    reader: BufReader<TcpStream>,
    /// Bytes of the chunk that are not read.
    left: u64,
}

impl Read for Chunked {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            // The end of a chunk, where one was read, and the head of the next.
            while line.trim().is_empty() {
                line.clear();
                if self.reader.read_line(&mut line)? == 0 {
                    return Ok(0);
                }
            }
            let size = line.trim().split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            if size == 0 {
                return Ok(0);
            }
            self.left = size;
        }
        let n_read = self.reader.by_ref().take(self.left).read(bytes)?;
        self.left -= n_read as u64;
        Ok(n_read)
    }
}
