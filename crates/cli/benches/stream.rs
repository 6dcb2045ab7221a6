//! What a long answer takes: a turn of 20,000 chunks, with and without partial messages, into a file;
//! and how soon a program that drives us hears its first line.

#![expect(
    clippy::disallowed_methods,
    reason = "standard output is a file of the benchmark"
)]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use testkit::{
    home::Home,
    measure::{
        Bound::{AtLeast, AtMost},
        Samples, print, print_reference,
    },
    stub_model::StubModel,
};

const ONRECORD: &str = env!("CARGO_BIN_EXE_onrecord");
const N_CHUNKS: usize = 20_000;
const ROUNDS: usize = 11;

fn main() {
    let home = Home::new();
    let stub = StubModel::hello(N_CHUNKS);
    let command = || {
        let mut command = home.command(ONRECORD);
        command
            .env("OPENAI_API_KEY", "unused")
            .env("OPENAI_MODEL", "stub")
            .env("OPENAI_BASE_URL", stub.base_url());
        command
    };
    let whole = turns(&home, &command, &[]);
    let partial = turns(&home, &command, &["--include-partial-messages"]);
    let watched = turns(&home, &command, &["--json-file", "/dev/null"]);
    print_reference("turn of 20,000 chunks, whole messages", whole.millis, "ms");
    print_reference(
        "turn of 20,000 chunks, partial messages",
        partial.millis,
        "ms",
    );
    print_reference(
        "turn of 20,000 chunks, whole messages and a second output",
        watched.millis,
        "ms",
    );
    print(
        "partial messages, lines into a file",
        partial.n_lines / partial.millis * 1e3,
        "lines/s",
        AtLeast(60_000.0),
    );
    print(
        "partial messages against whole ones",
        partial.millis / whole.millis,
        "×",
        AtMost(1.5),
    );
    let firsts: Samples = (0..ROUNDS).map(|_| first_line_ms(&home)).collect();
    print(
        "first line to a program that drives us",
        firsts.median(),
        "ms",
        AtMost(30.0),
    );
}

/// Turns of one kind.
struct Turns {
    /// Of the whole process, the middle one.
    millis: f64,
    n_lines: f64,
}

fn turns(home: &Home, command: &impl Fn() -> Command, more: &[&str]) -> Turns {
    let path = home.workspace().join("lines");
    let run = || {
        let out = File::create(&path).expect("the home is ours");
        let mut command = command();
        command
            .args(["-p", "hello", "--output-format", "stream-json"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().expect("it was just built");
        let wall = start.elapsed();
        assert!(status.success(), "{more:?}");
        millis(wall)
    };
    run();
    let all: Samples = (0..ROUNDS).map(|_| run()).collect();
    let lines = fs::read(&path).expect("it was just written");
    #[expect(clippy::naive_bytecount, reason = "once a benchmark")]
    let n_lines = lines.iter().filter(|&&byte| byte == b'\n').count();
    Turns {
        millis: all.median(),
        n_lines: f64::from(u32::try_from(n_lines).expect("lines are few")),
    }
}

/// From before the process is started until its answer to `initialize` is read.
fn first_line_ms(home: &Home) -> f64 {
    let start = Instant::now();
    let mut child = home
        .command(ONRECORD)
        .args(["--model", "offline", "--input-format", "stream-json"])
        .args(["--output-format", "stream-json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it was just built");
    let mut input = child.stdin.take().expect("it is a pipe");
    let request =
        r#"{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}"#;
    writeln!(input, "{request}").expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is a pipe"))
        .read_line(&mut line)
        .expect("it writes");
    let wall = start.elapsed();
    assert!(line.contains("capabilities"), "{line}");
    drop(input);
    child.wait().expect("a child of ours can be waited for");
    millis(wall)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
