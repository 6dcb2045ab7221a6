//! What an editor waits for, and what it pays: the start up to the answer to `initialize`, a turn of
//! 20,000 chunks through the pipe against the same turn headless, and the memory of an idle process that
//! holds 100 loaded sessions.

#![expect(
    clippy::disallowed_methods,
    reason = "the benchmark makes stored sessions, and standard output is a file of it"
)]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{
    home::Home,
    measure::{Bound::AtMost, Samples, print, print_reference},
    stub_model::StubModel,
    transcripts::{conversation, with},
};
use transcript::layout::DataRoot;

const ONRECORD: &str = env!("CARGO_BIN_EXE_onrecord");
const N_CHUNKS: usize = 20_000;
const ROUNDS: usize = 11;
const N_SESSIONS: u64 = 100;
/// Records of a stored session, and about how much each of them says.
const N_RECORDS: u64 = 40;
const TEXT_BYTES: usize = 1 << 10;

fn main() {
    let home = Home::new();
    let starts: Samples = (0..ROUNDS).map(|_| start_ms(&home)).collect();
    print(
        "`acp`, start to the answer to `initialize`",
        starts.median(),
        "ms",
        AtMost(30.0),
    );
    turns();
    memory();
}

/// From before the process is started until its answer to `initialize` is read.
fn start_ms(home: &Home) -> f64 {
    let mut command = home.command(ONRECORD);
    command.args(["acp", "--model", "offline"]);
    let start = Instant::now();
    let mut agent = Agent::start(&mut command);
    agent.initialize();
    let wall = start.elapsed();
    agent.end();
    millis(wall)
}

fn turns() {
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
    let headless = |more: &[&str]| {
        let out = File::create(home.workspace().join("lines")).expect("the home is ours");
        let mut command = command();
        command
            .args(["-p", "hello", "--output-format", "stream-json"])
            .args(more)
            .stdout(out)
            .stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().expect("it was just built");
        assert!(status.success(), "{status}");
        millis(start.elapsed())
    };
    // As headless: with the start of the process and its end.
    let over_acp = || {
        let start = Instant::now();
        let mut agent = Agent::start(command().arg("acp"));
        agent.initialize();
        let cwd = home.workspace();
        let opened = agent.ask("session/new", &json!({"cwd": cwd, "mcpServers": []}));
        let prompt = json!({
            "sessionId": opened["sessionId"],
            "prompt": [{"type": "text", "text": "hello"}],
        });
        let answer = agent.ask("session/prompt", &prompt);
        assert_eq!(answer["stopReason"], "end_turn");
        assert!(agent.n_updates >= N_CHUNKS, "{}", agent.n_updates);
        agent.end();
        millis(start.elapsed())
    };
    let partial = ["--include-partial-messages"];
    let (mut whole_ms, mut partial_ms) = (Samples::default(), Samples::default());
    let mut acp_ms = Samples::default();
    headless(&[]);
    over_acp();
    // In turns, so that what else the machine does falls on all.
    for _ in 0..ROUNDS {
        whole_ms.extend([headless(&[])]);
        partial_ms.extend([headless(&partial)]);
        acp_ms.extend([over_acp()]);
    }
    let (whole, partial) = (whole_ms.median(), partial_ms.median());
    print_reference("turn of 20,000 chunks, whole messages, again", whole, "ms");
    print_reference(
        "turn of 20,000 chunks, partial messages, again",
        partial,
        "ms",
    );
    print_reference("turn of 20,000 chunks over ACP", acp_ms.median(), "ms");
    print(
        "turn over ACP against whole messages",
        acp_ms.median() / whole,
        "×",
        AtMost(2.0),
    );
}

fn memory() {
    let home = Home::new();
    let ids = store_sessions(&home);
    let mut agent = Agent::start(home.command(ONRECORD).args(["acp", "--model", "offline"]));
    agent.initialize();
    let empty = agent.pss_mib();
    for id in &ids {
        let cwd = home.workspace();
        let load = json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
        agent.ask("session/load", &load);
    }
    let full = agent.pss_mib();
    agent.end();
    print_reference("`acp` without a session, PSS", empty, "MiB");
    print(
        "`acp` with 100 loaded sessions, PSS",
        full,
        "MiB",
        AtMost(60.0),
    );
}

/// Stored sessions, as a run leaves them; answers with their ids.
fn store_sessions(home: &Home) -> Vec<String> {
    let project = DataRoot::new(home.data_root()).project(&home.workspace());
    let chats = project.chats_dir();
    fs::create_dir_all(&chats).expect("the home is ours");
    (0..N_SESSIONS)
        .map(|n| {
            let id = format!("5e551015-0000-4000-8000-{n:012x}");
            let records = conversation(N_RECORDS).into_iter();
            let lines: String = records
                .map(|record| with(record, "sessionId", json!(id)))
                .map(|record| with(record, "cwd", json!(home.workspace())))
                .map(longer)
                .map(|record| format!("{record}\n"))
                .collect();
            fs::write(chats.join(format!("{id}.jsonl")), lines).expect("the home is ours");
            id
        })
        .collect()
}

/// The record with as much text as people and models write.
fn longer(mut record: Value) -> Value {
    let text = &mut record["message"]["parts"][0]["text"];
    let said = text.as_str().expect("every record says something");
    *text = json!(said.repeat(TEXT_BYTES / said.len()));
    record
}

/// A running agent, and its side of the pipes.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    n_asked: u64,
    n_updates: usize,
}

impl Agent {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it was just built");
        Self {
            input: child.stdin.take().expect("it is a pipe"),
            output: BufReader::new(child.stdout.take().expect("it is a pipe")),
            child,
            n_asked: 0,
            n_updates: 0,
        }
    }

    fn initialize(&mut self) {
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let answer = self.ask("initialize", &hello);
        assert_eq!(answer["protocolVersion"], 1);
    }

    /// Sends a request and reads up to its answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.n_asked += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.n_asked, "method": method, "params": params});
        writeln!(self.input, "{request}").expect("it reads");
        let mut line = String::new();
        loop {
            line.clear();
            let n_read = self.output.read_line(&mut line).expect("it writes");
            assert!(n_read > 0, "it ended before it answered {method}");
            // Only answers are looked into: what is measured is the agent, not this program.
            if line.contains("\"method\":\"session/update\"") {
                self.n_updates += 1;
                continue;
            }
            let mut message: Value = serde_json::from_str(&line).expect("it is JSON");
            if message["id"] == self.n_asked && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{line}");
                return message["result"].take();
            }
        }
    }

    /// Its share of resident memory.
    fn pss_mib(&self) -> f64 {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = fs::read_to_string(path).expect("the kernel tells it of our child");
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib: f64 = line
            .and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
            .expect("it has a line of PSS");
        kib / 1024.0
    }

    fn end(mut self) {
        drop(self.input);
        let status = self
            .child
            .wait()
            .expect("a child of ours can be waited for");
        assert!(status.success(), "{status}");
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
