//! What a host pays for a daemon with many sessions and many streams, beside the real `qwen serve` on the
//! same work where it is installed.

#![expect(
    clippy::print_stderr,
    reason = "the benchmark says where it has no reference"
)]

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use testkit::{
    faults::fsize_limit,
    home::Home,
    http::ask,
    measure::{Bound::AtMost, Samples, print, print_reference},
    peers::Qwen,
    served::Served,
    stub_model::StubModel,
};

const ONRECORD: &str = env!("CARGO_BIN_EXE_onrecord");
const N_CHUNKS: usize = 20_000;
const N_SESSIONS_MAX: usize = 1_000;
const ROUNDS: usize = 5;
/// Where the file size limit lies at which a record fails; the local log, which tells when, stays below it.
const RECORD_BYTES_MAX: u64 = 64 << 10;

fn main() {
    raise_open_files();
    start();
    memory();
    turns();
    failures();
}

/// Daemon and its child, with a model that says `n_chunks`.
fn ours(home: &Home, stub: &StubModel) -> Command {
    let mut command = home.command(ONRECORD);
    serve_args(&mut command, home, stub);
    command
}

fn serve_args(command: &mut Command, home: &Home, stub: &StubModel) {
    command
        .args(["serve", "--port", "0", "--max-sessions", "0", "--workspace"])
        .arg(home.workspace())
        .env("OPENAI_API_KEY", "unused")
        .env("OPENAI_MODEL", "stub")
        .env("OPENAI_BASE_URL", stub.base_url());
}

/// From before the process is started until `/health` is answered.
fn start() {
    let stub = StubModel::hello(1);
    let starts: Samples = (0..ROUNDS * 2)
        .map(|_| {
            let home = Home::new();
            let begun = Instant::now();
            let daemon = Served::start(&mut ours(&home, &stub));
            assert_eq!(daemon.ask("GET", "/health", None).0, 200);
            millis(begun.elapsed())
        })
        .collect();
    print(
        "daemon, start to the first `/health`",
        starts.median(),
        "ms",
        AtMost(20.0),
    );
}

fn memory() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    daemon.good("POST", "/session", Some(&json!({"sessionScope": "thread"})));
    let idle = family_pss_mib(daemon.pid());
    for _ in 1..N_SESSIONS_MAX {
        daemon.good("POST", "/session", Some(&json!({"sessionScope": "thread"})));
    }
    let full = family_pss_mib(daemon.pid());
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    let each = (full - idle) / (N_SESSIONS_MAX - 1) as f64;
    print(
        "daemon and agent with one session, PSS",
        idle,
        "MiB",
        AtMost(18.0),
    );
    print(
        "daemon and agent, a further live session, PSS",
        each,
        "MiB",
        AtMost(0.3),
    );
    print(
        "daemon and agent with 1,000 live sessions, PSS",
        full,
        "MiB",
        AtMost(350.0),
    );
    drop(daemon);
    if let Some(real) = real(&home, &stub) {
        real.good("POST", "/session", Some(&json!({"sessionScope": "thread"})));
        print_reference(
            "`qwen serve` and agent with one session, PSS",
            family_pss_mib(real.pid()),
            "MiB",
        );
    }
}

/// The real one on the same work.
fn real(home: &Home, stub: &StubModel) -> Option<Served> {
    let Some(qwen) = Qwen::find() else {
        eprintln!("no `qwen serve` is installed: figures come without it");
        return None;
    };
    let mut command = qwen.command(home, &stub.base_url());
    command
        .args(["serve", "--port", "0", "--no-web", "--workspace"])
        .arg(home.workspace());
    Some(Served::start(&mut command))
}

fn turns() {
    let (home, stub) = (Home::new(), StubModel::hello(N_CHUNKS));
    let bounds = [(1, None), (8, Some(250.0)), (64, Some(600.0))];
    let mut cpu_us = Vec::new();
    for (n_streams, bound) in bounds {
        let daemon = Served::start(&mut ours(&home, &stub));
        // The first turn starts the agent.
        Turn::run(&daemon, 1);
        let (mut wall, mut cpu) = (Samples::default(), Samples::default());
        let (mut n_complete, mut n_resynced, mut n_evicted) = (0, 0, 0);
        for _ in 0..ROUNDS {
            let turn = Turn::run(&daemon, n_streams);
            wall.extend([millis(turn.wall)]);
            cpu.extend([turn.cpu_us_per_event]);
            n_complete += turn.n_complete;
            n_resynced += turn.n_resynced;
            n_evicted += turn.n_evicted;
        }
        let name = format!("turn of 20,000 chunks with {n_streams} streams");
        match bound {
            Some(bound) => print(&name, wall.median(), "ms", AtMost(bound)),
            None => print_reference(&name, wall.median(), "ms"),
        }
        let name = |what: &str| format!("… {n_streams} streams, {what}, of {}", ROUNDS * n_streams);
        print_reference(&name("complete"), count(n_complete), "");
        print_reference(
            &name("evicted and gone on without a gap"),
            count(n_evicted),
            "",
        );
        print_reference(&name("resynced through `load`"), count(n_resynced), "");
        cpu_us.push(cpu.median());
    }
    print(
        "daemon CPU an event, one stream",
        cpu_us[0],
        "µs",
        AtMost(4.0),
    );
    print(
        "daemon CPU an event and further stream, of 64",
        (cpu_us[2] - cpu_us[0]) / 63.0,
        "µs",
        AtMost(0.4),
    );
    if let Some(real) = real(&home, &stub) {
        Turn::run(&real, 1);
        let walls: Samples = (0..3).map(|_| millis(Turn::run(&real, 8).wall)).collect();
        print_reference(
            "`qwen serve`, turn of 20,000 chunks with 8 streams",
            walls.median(),
            "ms",
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn count(n: usize) -> f64 {
    n as f64
}

/// A turn that several streams follow.
struct Turn {
    wall: Duration,
    cpu_us_per_event: f64,
    n_complete: usize,
    n_resynced: usize,
    n_evicted: usize,
}

impl Turn {
    fn run(daemon: &Served, n_streams: usize) -> Self {
        let session = daemon.session("yolo");
        let ready = Arc::new(Barrier::new(n_streams + 1));
        let followers: Vec<_> = (0..n_streams)
            .map(|_| {
                let (ready, address, session) =
                    (Arc::clone(&ready), daemon.address(), session.clone());
                thread::spawn(move || Follower::follow(address, &session, &ready))
            })
            .collect();
        ready.wait();
        let cpu_before = cpu_us(daemon.pid());
        let begun = Instant::now();
        daemon.prompt(&session, "hello");
        let seen: Vec<Follower> = followers
            .into_iter()
            .map(|follower| follower.join().expect("a stream was not whole"))
            .collect();
        let wall = begun.elapsed();
        let cpu = cpu_us(daemon.pid()) - cpu_before;
        let path = format!("/session/{session}");
        daemon.good("DELETE", &path, None);
        let is_resynced = |follower: &&Follower| follower.is_resynced;
        let n_resynced = seen.iter().filter(is_resynced).count();
        Self {
            wall,
            cpu_us_per_event: cpu / count(N_CHUNKS),
            n_complete: n_streams - n_resynced,
            n_resynced,
            n_evicted: seen.iter().filter(|f| f.n_evictions > 0).count(),
        }
    }
}

/// One stream, followed to the end of the turn; it goes on where it was cut.
#[derive(Default)]
struct Follower {
    last_id: u64,
    n_evictions: usize,
    is_resynced: bool,
}

impl Follower {
    fn follow(address: SocketAddr, session: &str, ready: &Barrier) -> Self {
        let mut follower = Self::default();
        let mut stream = open(address, session, None);
        ready.wait();
        let mut first = true;
        loop {
            let is_done = follower.read(&mut stream, first);
            if is_done {
                return follower;
            }
            first = false;
            if follower.is_resynced {
                // The state comes with the load; the stream goes on behind it.
                let path = format!("/session/{session}/load");
                let (_, loaded) = ask(address, "POST", &path, Some(&json!({})));
                let journal =
                    loaded["liveJournal"].to_string() + &loaded["compactedReplay"].to_string();
                if journal.contains("\"turn_complete\"") {
                    return follower;
                }
                follower.last_id = loaded["lastEventId"].as_u64().expect("load says it");
            } else {
                follower.n_evictions += 1;
            }
            stream = open(address, session, Some(follower.last_id));
        }
    }

    /// Reads up to the end of the turn or of the stream; whether it was that of the turn. Ids must follow
    /// each other.
    fn read(&mut self, stream: &mut TcpStream, from_anywhere: bool) -> bool {
        let mut bytes = vec![0; 256 << 10];
        let mut kept = Vec::new();
        let mut from_anywhere = from_anywhere;
        loop {
            let n_read = stream.read(&mut bytes).expect("the daemon is there");
            if n_read == 0 {
                return false;
            }
            kept.extend_from_slice(&bytes[..n_read]);
            let mut at = 0;
            while let Some(length) = kept[at..].iter().position(|&byte| byte == b'\n') {
                let line = &kept[at..at + length];
                at += length + 1;
                if let Some(id) = line.strip_prefix(b"id: ") {
                    let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
                    let id: u64 = id.expect("an id is a number");
                    assert!(
                        from_anywhere || id == self.last_id + 1,
                        "{id} after {}",
                        self.last_id
                    );
                    from_anywhere = false;
                    self.last_id = id;
                } else if line == b"event: turn_complete" {
                    return true;
                } else if line == b"event: state_resync_required" {
                    self.is_resynced = true;
                    return false;
                }
            }
            kept.drain(..at);
        }
    }
}

/// Opens a stream; what is read of it begins behind its head.
fn open(address: SocketAddr, session: &str, after: Option<u64>) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the daemon is there");
    let cursor = after.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
    write!(
        stream,
        "GET /session/{session}/events?maxQueued=2048 HTTP/1.1\r\nhost: {address}\r\n{cursor}\r\n"
    )
    .expect("the daemon is there");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"retry: 3000\n\n") {
        let n_read = stream.read(&mut byte).expect("the daemon is there");
        assert!(n_read > 0, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    stream
}

/// From the write that fails to the event on each of 64 streams.
fn failures() {
    const N_STREAMS: usize = 64;
    const N_FAILURES: usize = 40;
    const EVENT: &[u8] = b"event: session_recording_degraded";
    let Some(limit) = fsize_limit(RECORD_BYTES_MAX) else {
        return;
    };
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let mut command = home.command_under(&limit, ONRECORD);
    serve_args(&mut command, &home, &stub);
    let daemon = Served::start(&mut command);
    let mut waits = Samples::default();
    for _ in 0..N_FAILURES {
        let session = daemon.session("yolo");
        let (told, arrivals) = mpsc::channel();
        for _ in 0..N_STREAMS {
            let (told, mut stream) = (told.clone(), open(daemon.address(), &session, None));
            thread::spawn(move || {
                // The reader's own work is not to be measured: it looks at each byte once.
                let finder = memchr::memmem::Finder::new(EVENT);
                let mut bytes = vec![0; EVENT.len() + (64 << 10)];
                let mut n_kept = 0;
                loop {
                    let n_read = stream.read(&mut bytes[n_kept..]).unwrap_or_default();
                    let n_seen = n_kept + n_read;
                    let is_told = finder.find(&bytes[..n_seen]).is_some();
                    n_kept = n_seen.min(EVENT.len());
                    bytes.copy_within(n_seen - n_kept..n_seen, 0);
                    if n_read == 0 || is_told {
                        // Dropped: the other side waits for all of them.
                        _ = told.send(unix_ms());
                        return;
                    }
                }
            });
        }
        let long = "x".repeat(2 * usize::try_from(RECORD_BYTES_MAX).expect("it is small"));
        daemon.prompt(&session, &long);
        let last = (0..N_STREAMS)
            .map(|_| arrivals.recv().expect("each of them tells"))
            .fold(0.0, f64::max);
        waits.extend([last - failed_at_ms(&home, &session)]);
        daemon.good("DELETE", &format!("/session/{session}"), None);
    }
    print(
        "failed write to the event on the last of 64 streams, p99",
        waits.quantile(0.99),
        "ms",
        AtMost(10.0),
    );
    print_reference("… p50", waits.median(), "ms");
}

/// When the write of a session failed, as the local log has it.
fn failed_at_ms(home: &Home, session: &str) -> f64 {
    let path = home.data_root().join("log/recording.jsonl");
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let entry = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|entry| entry["sessionId"] == session);
        if let Some(entry) = entry {
            let time: jiff::Timestamp = entry["time"]
                .as_str()
                .and_then(|time| time.parse().ok())
                .expect("an entry has a time");
            let at = time.duration_since(jiff::Timestamp::UNIX_EPOCH);
            return at.as_secs_f64() * 1e3;
        }
        assert!(Instant::now() < deadline, "the local log has no entry");
        thread::yield_now();
    }
}

fn unix_ms() -> f64 {
    let now = jiff::Timestamp::now().duration_since(jiff::Timestamp::UNIX_EPOCH);
    now.as_secs_f64() * 1e3
}

/// The share of resident memory of a process and all below it.
fn family_pss_mib(pid: u32) -> f64 {
    family(pid).iter().map(|&pid| pss_mib(pid)).sum()
}

fn family(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(path).into_iter().flatten().flatten();
    let children = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|line| {
            line.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        });
    let mut all = vec![pid];
    all.extend(children.flat_map(family));
    all
}

fn pss_mib(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib: Option<f64> =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kib.unwrap_or_default() / 1024.0
}

/// CPU time of a process so far, without its children.
fn cpu_us(pid: u32) -> f64 {
    let schedstat = |path: String| -> f64 {
        let text = fs::read_to_string(path).unwrap_or_default();
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.unwrap_or(0.0) / 1e3
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .map(|task| schedstat(format!("{}/schedstat", task.path().display())))
        .sum()
}

fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Dropped: where it cannot be raised, the run says what it lacked.
    _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
