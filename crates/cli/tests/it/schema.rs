//! What the binary writes is what `spec/stream-json.schema.json` says: every line of it, and nothing
//! in the schema is never written. The same for what it reads.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use serde_json::{Value, json};
use testkit::{
    faults::SmallDisk,
    home::Home,
    need,
    run::{Outcome, run},
    schema::{INPUT, OUTPUT, Schema},
    stub_model::{Framing, Gate, Reply, StubModel, delta},
};

use crate::world::{ONRECORD, command, messages, onrecord, shell, tool, yolo};

/// Lines, and everything that they name.
#[derive(Debug, Default)]
struct Heard {
    n_lines: usize,
    names: BTreeSet<String>,
    /// The same of what was sent.
    sent: BTreeSet<String>,
}

impl Heard {
    fn all(messages: impl IntoIterator<Item = Value>) -> Self {
        let mut heard = Self::default();
        for message in messages {
            heard.hear(&message);
        }
        heard
    }

    fn hear(&mut self, message: &Value) {
        OUTPUT.check(message).unwrap();
        self.names.extend(OUTPUT.names_in(message));
        self.n_lines += 1;
    }

    fn send(&mut self, line: &Value) {
        INPUT.check(line).unwrap();
        self.sent.extend(INPUT.names_in(line));
    }

    fn and(mut self, other: Self) -> Self {
        self.n_lines += other.n_lines;
        self.names.extend(other.names);
        self.sent.extend(other.sent);
        self
    }
}

/// The binary, driven by this test over its standard input and output.
struct Driven {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    heard: Heard,
    n_requests: u32,
}

impl Driven {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .args(["--input-format", "stream-json", "-o", "stream-json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            to: child.stdin.take(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            heard: Heard::default(),
            n_requests: 0,
        }
    }

    /// Sends a line that is right.
    fn send(&mut self, line: &Value) {
        self.heard.send(line);
        self.send_text(&line.to_string());
    }

    fn send_text(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Reads up to the message that is looked for.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().expect("the message comes before the end");
            if is_it(&message) {
                return message;
            }
        }
    }

    fn until_type(&mut self, kind: &str) -> Value {
        self.until(|message| message["type"] == kind)
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let n_bytes = self.from.read_line(&mut line).unwrap();
        let message = (n_bytes > 0).then(|| serde_json::from_str(&line).unwrap())?;
        self.heard.hear(&message);
        Some(message)
    }

    fn prompt(&mut self, text: &str) {
        self.send(&json!({
            "type": "user",
            "session_id": "",
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
        }));
    }

    /// Sends a request and reads up to its answer.
    fn request(&mut self, request: Value) -> Value {
        self.n_requests += 1;
        let id = format!("r{}", self.n_requests);
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        self.heard.sent.extend(INPUT.names_in(&line));
        self.send_text(&line.to_string());
        let answer = self.until(|message| message["response"]["request_id"] == id.as_str());
        if answer["response"]["subtype"] == "success" {
            INPUT.check(&line).unwrap();
        }
        answer["response"].clone()
    }

    fn respond(&mut self, request: &Value, response: Value) {
        let response = json!({
            "subtype": "success",
            "request_id": request["request_id"],
            "response": response,
        });
        self.send(&json!({"type": "control_response", "response": response}));
    }

    /// Ends the input and reads what is left.
    fn end(mut self) -> Heard {
        drop(self.to.take());
        while self.next().is_some() {}
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.heard
    }
}

fn heard(ran: &Outcome) -> Heard {
    Heard::all(messages(ran))
}

fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn with_model<'a>(command: &'a mut Command, stub: &StubModel) -> &'a mut Command {
    command
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(["--model", "m"])
}

/// A call that runs and one that is refused, in both formats; limits and failures.
fn one_shot() -> Heard {
    let home = Home::new();
    let mut all = Heard::default();
    let run_it = shell("echo hi");
    for format in ["json", "stream-json"] {
        let ask = ["--model", "offline", "-o", format, "-p", &run_it];
        all = all.and(heard(&onrecord(&home, &yolo(format, &run_it))));
        all = all.and(heard(&onrecord(&home, &ask)));
        let mut limited = yolo(format, &run_it);
        limited.extend(["--max-session-turns", "1"]);
        all = all.and(heard(&onrecord(&home, &limited)));
    }
    let unrecorded = [
        "--model",
        "offline",
        "-o",
        "json",
        "--no-chat-recording",
        "-p",
        "hi",
    ];
    all.and(heard(&onrecord(&home, &unrecorded)))
}

/// A model that thinks, speaks and calls, after it could not be reached.
fn partial() -> Heard {
    let home = Home::new();
    let unreachable = Reply::json(503, "{}").header("retry-after", "0");
    let call = json!({
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "list_directory", "arguments": "{\"path\": \".\"}"},
    });
    let thinks = Reply::stream()
        .event(&delta(json!({"reasoning_content": "Hm."}), None))
        .text("Let me look.")
        .event(&delta(json!({"tool_calls": [call]}), None))
        .finish("tool_calls")
        .done();
    let stub = StubModel::replies(vec![unreachable, thinks, Reply::says("done.")]);
    let mut command = command(&home);
    let args = [
        "-o",
        "stream-json",
        "--include-partial-messages",
        "-p",
        "hello",
    ];
    heard(&run(with_model(&mut command, &stub).args(args)))
}

/// A command of which the output is seen while it runs: it ends once it was.
fn progress() -> Heard {
    let home = Home::new();
    let pipe = home.workspace().join("pipe");
    assert_eq!(run(home.command("mkfifo").arg(&pipe)).code, 0);
    let mut driven = Driven::start(command(&home).args([
        "--model",
        "offline",
        "--yolo",
        "--include-partial-messages",
    ]));
    driven.prompt(&shell("echo out; cat pipe"));
    driven.until(|message| message["event"]["type"] == "tool_progress");
    fs::write(&pipe, "").unwrap();
    driven.until_type("result");
    driven.end()
}

/// Every request of the host, and bad lines between them.
fn requests() -> Heard {
    let home = Home::new();
    let mut host = Driven::start(command(&home).args(["--model", "offline"]));
    let initialize = json!({
        "subtype": "initialize",
        "mcpServers": {"far": {"command": "far-server"}},
        "agents": [{"name": "helper"}],
        "timeout": {"canUseTool": 60_000},
        "effort": "low",
        "sdkMcpServers": null,
    });
    host.request(initialize);
    for request in [
        json!({"subtype": "interrupt"}),
        json!({"subtype": "continue_last_turn"}),
        json!({"subtype": "set_permission_mode", "mode": "auto-edit"}),
        json!({"subtype": "set_permission_mode", "mode": "default"}),
        json!({"subtype": "set_model", "model": "offline"}),
        json!({"subtype": "set_effort", "effort": "high"}),
        json!({"subtype": "supported_commands"}),
        json!({"subtype": "mcp_server_status"}),
        json!({"subtype": "get_available_models"}),
        json!({"subtype": "get_context_usage", "show_details": true}),
        json!({"subtype": "get_context_usage"}),
        json!({"subtype": "get_usage_info", "range": "week"}),
        json!({"subtype": "can_use_tool", "tool_name": "read_file"}),
        json!({"subtype": "can_use_tool", "tool_name": "edit"}),
    ] {
        let answer = host.request(request.clone());
        assert_eq!(answer["subtype"], "success", "{request}: {answer}");
    }
    for request in [
        json!({"subtype": "set_permission_mode", "mode": "wild"}),
        json!({"subtype": "set_permission_mode"}),
        json!({"subtype": "hook_callback"}),
    ] {
        let answer = host.request(request.clone());
        assert_eq!(answer["subtype"], "error", "{request}: {answer}");
    }
    for line in ["{", "[]", "{}", r#"{"type":"user"}"#] {
        host.send_text(line);
        host.until(|message| message["subtype"] == "invalid_input");
    }
    host.send(&json!({"type": "control_cancel_request", "request_id": "r1"}));
    host.send(&json!({"type": "user", "message": {"content": [
        {"type": "text", "text": "hello"},
        {"type": "image", "source": "none"},
    ]}}));
    host.until_type("result");
    host.prompt("/clear");
    host.until(|message| message["subtype"] == "session_changed");
    host.end()
}

/// Questions to the host: about calls, and for a server that runs in it.
fn questions() -> Heard {
    let home = Home::new();
    let mut host = Driven::start(command(&home).args(["--model", "offline"]));
    host.request(json!({
        "subtype": "initialize",
        "sdkMcpServers": {"sums": {"type": "sdk", "name": "sums"}},
        "timeout": {"canUseTool": null},
    }));
    serve(&mut host, "tools/list");
    host.prompt(&tool("mcp__sums__add", &json!({"a": 1, "b": 2})));
    serve(&mut host, "tools/call");
    host.until_type("result");
    host.request(json!({"subtype": "mcp_server_status"}));
    host.request(json!({"subtype": "get_context_usage", "show_details": true}));

    let write = tool("write_file", &json!({"file_path": "a.txt", "content": "x"}));
    let answers = [
        json!({"behavior": "allow", "updatedInput": {"file_path": "b.txt", "content": "y"}}),
        json!({"behavior": "deny", "message": "no", "interrupt": false}),
        json!({"behavior": "deny", "interrupt": true}),
    ];
    for answer in answers {
        host.prompt(&write);
        let asked = host.until_type("control_request");
        host.respond(&asked, answer);
        host.until_type("result");
    }
    host.prompt(&write);
    let asked = host.until_type("control_request");
    host.send(&json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": asked["request_id"], "error": "the callback failed",
    }}));
    host.until_type("result");
    // An answer that does not come in time is withdrawn.
    host.request(json!({"subtype": "initialize", "timeout": {"canUseTool": 1}}));
    host.prompt(&write);
    host.until_type("control_cancel_request");
    host.until_type("result");
    host.end()
}

/// Answers as the MCP server would, up to and with this method.
fn serve(host: &mut Driven, last_method: &str) {
    loop {
        let asked = host.until(|message| message["request"]["subtype"] == "mcp_message");
        let message = asked["request"]["message"].clone();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "sums", "version": "1"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "3"}]}),
            _ => json!({}),
        };
        let id = message.get("id").cloned().unwrap_or(json!(0));
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        host.respond(&asked, json!({"mcp_response": answer}));
        if message["method"] == last_method {
            return;
        }
    }
}

/// A second program that sees everything, answers one question and asks for a turn.
fn second_output() -> Heard {
    let home = Home::new();
    let (seen, commands) = (home.path().join("seen"), home.path().join("commands"));
    fs::write(&commands, "").unwrap();
    let mut host = Driven::start(
        command(&home)
            .args(["--model", "offline", "--json-file"])
            .arg(&seen)
            .arg("--input-file")
            .arg(&commands),
    );
    host.request(json!({"subtype": "initialize"}));
    let mut sent = Heard::default();
    let mut add = |line: Value| {
        sent.send(&line);
        let mut file = File::options().append(true).open(&commands).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    add(json!({"type": "submit", "text": shell("echo hi")}));
    let asked = host.until_type("control_request");
    let id = &asked["request_id"];
    add(json!({"type": "confirmation_response", "request_id": "none", "allowed": true}));
    add(json!({"type": "confirmation_response", "request_id": id, "allowed": true}));
    host.until_type("control_cancel_request");
    host.until_type("result");
    host.end().and(sent).and(Heard::all(lines_of(&seen)))
}

/// A second output that nobody reads until it was given up.
fn slow_second_output() -> Heard {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    assert_eq!(run(home.command("mkfifo").arg(&pipe)).code, 0);
    let gate = Gate::new();
    let mut much = Reply::stream().framed(Framing::Chunked);
    for _ in 0..6 {
        much = much.text(&"x".repeat(8 << 20));
    }
    let stub = StubModel::replies(vec![much.gate(&gate).finish("stop").done()]);
    let mut host = Driven::start(
        with_model(&mut command(&home), &stub)
            .arg("--json-file")
            .arg(&pipe),
    );
    host.prompt("hello");
    host.until(|message| message["subtype"] == "warning");
    let mut all = Heard::default();
    for line in BufReader::new(File::open(&pipe).unwrap()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        all.hear(&message);
        if message["subtype"] == "output_given_up" {
            break;
        }
    }
    gate.open();
    host.until_type("result");
    host.end().and(all)
}

/// A session that cannot be recorded, left for another; with a second output.
fn unrecorded() -> Heard {
    let home = Home::new();
    let (file, seen) = (home.path().join("file"), home.path().join("seen"));
    fs::write(&file, "in the way").unwrap();
    let mut host = Driven::start(
        command(&home)
            .env("ONRECORD_HOME", &file)
            .args(["--model", "offline", "--json-file"])
            .arg(&seen),
    );
    host.prompt("hello");
    host.prompt("/clear");
    host.prompt("hello");
    host.end().and(Heard::all(lines_of(&seen)))
}

/// A record that is lost, and one that is required and cannot begin. `None` where the machine has no
/// small disks.
fn lost_records() -> Option<Heard> {
    let home = Home::new();
    let disk = SmallDisk::with_size_kib(64)?;
    let fill = format!(
        "head -c 1M /dev/zero > '{}/.filler'; seq 1 3000",
        disk.path().display()
    );
    let mut all = Heard::default();
    for format in ["json", "stream-json"] {
        let mut command = home.command_under(&disk.fault(), ONRECORD);
        let ran = run(command
            .env("ONRECORD_HOME", disk.path())
            .args(yolo(format, &shell(&fill))));
        all = all.and(heard(&ran));
    }
    let file = home.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let mut refused = command(&home);
    refused.env("ONRECORD_HOME", &file);
    refused.args(["--model", "offline", "-o", "stream-json", "-p", "hello"]);
    Some(all.and(heard(&run(refused.arg("--require-recording")))))
}

#[test]
fn every_line_is_in_the_schema_and_everything_in_the_schema_is_said() {
    let scenarios = [
        one_shot,
        partial,
        progress,
        requests,
        questions,
        second_output,
        slow_second_output,
        unrecorded,
    ];
    let (all, lost) = thread::scope(|scope| {
        let running = scenarios.map(|scenario| scope.spawn(scenario));
        let lost = lost_records();
        let all = running.map(|scenario| scenario.join().unwrap());
        (all.into_iter().fold(Heard::default(), Heard::and), lost)
    });
    let unsent: Vec<_> = INPUT.names().difference(&all.sent).cloned().collect();
    assert_eq!(unsent, [""; 0], "what we are said to read was never sent");
    let Some(lost) = lost else { return };
    let all = all.and(lost);
    let unsaid: Vec<_> = OUTPUT.names().difference(&all.names).cloned().collect();
    assert_eq!(unsaid, [""; 0], "in the schema, but never said");
    assert!(all.n_lines > 100, "{}", all.n_lines);
}

/// Keys that are ours alone, where Qwen Code's messages are not expected to have them.
const OURS: [&str; 2] = ["onrecord_version", "recording"];

#[test]
fn the_lines_of_qwen_code_have_our_shapes() {
    let Some(samples) = need::samples() else {
        return;
    };
    let schema = Schema::of_others(&OURS);
    let folders = fs::read_dir(samples.join("recorder")).unwrap();
    let is_ours = |name: &str| {
        ["multi.stream", "sdk.basic", "plain.partial"].contains(&name)
            || name.starts_with("tool-") && name.ends_with(".stream-json")
    };
    let mut n_lines = 0;
    for folder in folders.map(|folder| folder.unwrap().path()) {
        if !is_ours(folder.file_name().unwrap().to_str().unwrap()) {
            continue;
        }
        for message in lines_of(&folder.join("stdout")) {
            n_lines += 1;
            let checked = schema.check(&message);
            assert_eq!(checked, Ok(()), "{}", folder.display());
        }
    }
    assert_eq!(n_lines, 68, "the samples are there");
}

/// Examples whose middle is left out are no JSON any more and are passed over.
#[test]
fn the_examples_of_the_documentation_are_lines_of_the_protocol() {
    let page = include_str!("../../../../docs/stream-json.md");
    let mut n_lines = 0;
    for line in page.lines().filter(|line| line.starts_with('{')) {
        let Ok(message) = serde_json::from_str(line) else {
            continue;
        };
        n_lines += 1;
        let written = OUTPUT.check(&message);
        let read = INPUT.check(&message);
        assert!(written.is_ok() || read.is_ok(), "{written:?}\n{read:?}");
    }
    assert!(n_lines > 15, "{n_lines}");
}
