//! A model provider for tests and measurements: an OpenAI-compatible server on loopback, on threads
//! of its own and without a runtime.
//!
//! Its answers are rendered before they are asked for and written in large pieces, so that a
//! measurement shows the client and not the stub: far more than 1,000,000 chunks a second. It knows
//! nothing of our client. Whatever a test needs to be awkward is a [`Reply`].
//!
//! A prompt drives [`StubModel::prompts`], and with it the real binary by `OPENAI_BASE_URL`:
//!
//! | last message | answer |
//! | --- | --- |
//! | `… TOOL:<name> {json} …` | one call of that tool |
//! | a tool's result | `done.` |
//! | anything else | `hello world `, as often as the stub was told |

mod reply;
mod request;

use std::{
    collections::HashMap,
    io::{ErrorKind, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use reply::{End, Framing, Gate, Reply, delta, frame, usage};
pub use request::Received;

type Responder = dyn Fn(&Received) -> Reply + Send + Sync;

/// The server. It ends, and with it every connection, when it is dropped.
pub struct StubModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<thread::JoinHandle<()>>,
}

struct Shared {
    responder: Box<Responder>,
    stopped: AtomicBool,
    requests: Mutex<Vec<Received>>,
    arrived: Condvar,
    /// Open connections by number, to end their threads.
    connections: Mutex<HashMap<u64, TcpStream>>,
    n_connections: AtomicU64,
}

impl std::fmt::Debug for StubModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StubModel")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl StubModel {
    /// A server whose every answer is decided by `responder`.
    ///
    /// # Panics
    /// Where loopback cannot be listened on.
    #[must_use]
    pub fn serve(responder: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback can be bound");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            responder: Box::new(responder),
            stopped: AtomicBool::new(false),
            requests: Mutex::default(),
            arrived: Condvar::new(),
            connections: Mutex::default(),
            n_connections: AtomicU64::new(0),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Answers everything with `n` chunks of `hello world `.
    #[must_use]
    pub fn hello(n: usize) -> Self {
        let reply = Reply::hello(n);
        Self::serve(move |_| reply.clone())
    }

    /// Calls one tool; says `done.` once it has the result.
    #[must_use]
    pub fn tool(name: &str, args: &str) -> Self {
        let (call, done) = (Reply::call(name, args), Reply::says("done."));
        Self::serve(move |request| {
            if request.last_is_result() {
                &done
            } else {
                &call
            }
            .clone()
        })
    }

    /// Does what the last message says, see the head of this module.
    #[must_use]
    pub fn prompts(n: usize) -> Self {
        let (hello, done) = (Reply::hello(n), Reply::says("done."));
        Self::serve(move |request| {
            if request.last_is_result() {
                return done.clone();
            }
            match request.last_text().and_then(|text| wanted_call(&text)) {
                Some((name, args)) => Reply::call(&name, &args),
                None => hello.clone(),
            }
        })
    }

    /// One answer a request, in this order; the last one is given again and again.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn replies(replies: Vec<Reply>) -> Self {
        assert!(!replies.is_empty(), "there is a reply");
        let n_given = Mutex::new(0);
        Self::serve(move |_| {
            let mut n = lock(&n_given);
            let reply = replies[(*n).min(replies.len() - 1)].clone();
            *n += 1;
            reply
        })
    }

    /// For `OPENAI_BASE_URL`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The model requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.shared.requests).clone()
    }

    /// Connections so far.
    #[must_use]
    pub fn n_connections(&self) -> u64 {
        self.shared.n_connections.load(Ordering::SeqCst)
    }

    /// Waits until `n` model requests have come, for at most `wait`; says whether they did.
    #[must_use]
    pub fn wait_for_requests(&self, n: usize, wait: Duration) -> bool {
        let requests = lock(&self.shared.requests);
        let (requests, _) = self
            .shared
            .arrived
            .wait_timeout_while(requests, wait, |requests| requests.len() < n)
            .unwrap_or_else(PoisonError::into_inner);
        requests.len() >= n
    }
}

impl Drop for StubModel {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Dropped: this only wakes the acceptor, which may have ended by itself.
        _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(acceptor) = self.acceptor.take() {
            // Dropped: a panic of the acceptor was printed where it happened.
            _ = acceptor.join();
        }
        for connection in lock(&self.shared.connections).values() {
            // Dropped: a connection that is gone needs no end.
            _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in (0u64..).zip(listener.incoming()) {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.n_connections.store(number + 1, Ordering::SeqCst);
        if let Ok(copy) = stream.try_clone() {
            lock(&shared.connections).insert(number, copy);
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // Dropped: a client that goes away in the middle is what some tests are about.
            _ = converse(stream, &shared, number);
            lock(&shared.connections).remove(&number);
        });
    }
}

/// Answers the requests of one connection until one of the two ends it.
fn converse(mut stream: TcpStream, shared: &Shared, number: u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    loop {
        let request = match request::read(&mut stream, &mut unread) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let refused = Reply::body(400, "text/plain", "this is no HTTP");
                send(&mut stream, &refused, shared)?;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let reply = if request.path.ends_with("/chat/completions") {
            let mut requests = lock(&shared.requests);
            requests.push(request.clone());
            drop(requests);
            shared.arrived.notify_all();
            (shared.responder)(&request)
        } else if request.path.ends_with("/models") {
            Reply::json(
                200,
                r#"{"object":"list","data":[{"id":"fake-model","object":"model"}]}"#,
            )
        } else {
            Reply::json(404, r#"{"error":{"message":"no such path"}}"#)
        };
        if !send(&mut stream, &reply, shared)? {
            if reply.end == End::Reset {
                // The last descriptor has to be ours for the reset to go out.
                lock(&shared.connections).remove(&number);
                let at_once = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(&stream, at_once)?;
            }
            return Ok(());
        }
    }
}

/// Sends one answer; says whether the connection goes on. Every part is one write, with what
/// frames it.
fn send(stream: &mut TcpStream, reply: &Reply, shared: &Shared) -> std::io::Result<bool> {
    let mut unsent = reply.head().into_bytes();
    let mut has_body = false;
    for part in &reply.parts {
        match part {
            reply::Part::Bytes(bytes) | reply::Part::Unframed(bytes) => {
                if has_body {
                    flush(stream, &mut unsent)?;
                }
                has_body = true;
                let framed =
                    reply.framing == Framing::Chunked && matches!(part, reply::Part::Bytes(_));
                if framed {
                    write!(unsent, "{:x}\r\n", bytes.len())?;
                }
                unsent.extend_from_slice(bytes);
                if framed {
                    unsent.extend_from_slice(b"\r\n");
                }
            }
            reply::Part::Pause(wait) => {
                flush(stream, &mut unsent)?;
                pause(*wait, shared);
            }
            reply::Part::Gate(gate) => {
                flush(stream, &mut unsent)?;
                gate.pass(&shared.stopped);
            }
        }
        if shared.stopped.load(Ordering::SeqCst) {
            return Ok(false);
        }
    }
    if reply.end == End::Whole && reply.framing == Framing::Chunked {
        unsent.extend_from_slice(b"0\r\n\r\n");
    }
    flush(stream, &mut unsent)?;
    Ok(reply.end == End::Whole && reply.framing != Framing::Close)
}

fn flush(stream: &mut TcpStream, unsent: &mut Vec<u8>) -> std::io::Result<()> {
    stream.write_all(unsent)?;
    unsent.clear();
    Ok(())
}

fn pause(wait: Duration, shared: &Shared) {
    let until = Instant::now() + wait;
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        // Sleeps: a model that takes its time is what the reply asks for.
        thread::sleep(rest.min(Duration::from_millis(50)));
    }
}

/// The call that a prompt asks for; arguments that are no JSON become `{}`.
fn wanted_call(prompt: &str) -> Option<(String, String)> {
    let (_, wanted) = prompt.split_once("TOOL:")?;
    let wanted = wanted.trim_start();
    let (name, rest) = wanted
        .split_once(char::is_whitespace)
        .unwrap_or((wanted, ""));
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    let args = match values.next() {
        // As it stands in the prompt: a model's blanks are part of what its client must bear.
        Some(Ok(_)) => rest[..values.byte_offset()].trim_start().to_owned(),
        Some(Err(_)) | None => "{}".to_owned(),
    };
    Some((name.to_owned(), args))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
