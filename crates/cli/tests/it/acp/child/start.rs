//! How a client says hello, what it may get wrong, and how the agent ends.

use std::{fs, path::Path, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{
    home::Home,
    rpc::Rpc,
    stub_model::{Gate, StubModel},
};

use super::{Client, held, is_chunk, prompt, stub_command, text};
use crate::world::{shell, transcript, valid_prefix};

const CAPABILITY: &str = "QWEN_CODE_PRIVATE_ACP_CAPABILITY";
const GUARD: &str = "QWEN_CODE_PRIVATE_EXTERNAL_TOOL_GUARD";
const WORK: &str = "qwen/notify/channel/active-work";
const PING: &str = "qwen/status/channel/ping";

/// What the agent answers to a hello with this `_meta`, in this environment.
fn hello(env: &[(&str, &str)], meta: &Value) -> Value {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut command = stub_command(&home, &stub);
    let mut client = Client::start(&home, command.envs(env.iter().copied()));
    let params = json!({"protocolVersion": 99, "clientCapabilities": {}, "_meta": meta});
    let mut answer = client.rpc.call("initialize", &params);
    client.end(&home);
    answer.as_object_mut().unwrap().remove("id");
    answer
}

#[test]
fn a_plain_client_is_told_what_works_and_nothing_of_daemons() {
    let answer = hello(&[], &json!({}));
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "onrecord");
    assert_eq!(result["agentCapabilities"]["loadSession"], true);
    let capabilities = &result["agentCapabilities"];
    assert_eq!(
        capabilities["sessionCapabilities"],
        json!({"list": {}, "resume": {}, "close": {}})
    );
    assert!(result.get("_meta").is_none(), "{result}");
}

/// The guard is acknowledged to the program that started the agent, and to nobody else.
#[test]
fn the_guard_is_acknowledged_to_a_parent_that_proved_itself() {
    const READY: &str = "qwen-code/external-tool-guard-ready";
    let proof = |value: &str| json!({"qwen-code/private-parent-capability": value});
    let both = [(CAPABILITY, "secret"), (GUARD, "required-v1")];
    let answer = hello(&both, &proof("secret"));
    assert_eq!(answer["result"]["_meta"][READY], "required-v1");
    for (env, meta) in [
        (&both[..1], proof("secret")),
        (&both[1..], proof("secret")),
        (&[][..], proof("secret")),
    ] {
        let answer = hello(env, &meta);
        assert!(answer["result"].is_object(), "{answer}");
        assert!(answer["result"]["_meta"].get(READY).is_none(), "{answer}");
    }
    for meta in [proof("secreT"), proof(""), json!({})] {
        for env in [&both[..], &both[..1]] {
            let error = &hello(env, &meta)["error"];
            assert_eq!(error["code"], -32_602);
            assert_eq!(error["message"], "Invalid private ACP parent capability");
        }
    }
}

#[test]
fn what_a_daemon_offers_is_taken_and_nothing_else() {
    let work = json!({"v": 1, "intervalMs": 15000, "categories": ["agent", "shell", "other"]});
    let answer = hello(&[], &json!({"qwen.daemon.activeWorkHeartbeat": work}));
    let meta = json!({"qwen.daemon.activeWorkHeartbeat":
        {"v": 1, "intervalMs": 15000, "categories": ["agent", "shell"]}});
    assert_eq!(answer["result"]["_meta"], meta);
    let answer = hello(&[], &json!({"qwen.daemon.channelLiveness": {"v": 1}}));
    assert_eq!(
        answer["result"]["_meta"],
        json!({"qwen.daemon.channelLiveness": {"v": 1}})
    );
}

/// A hello of a daemon that wants to know what is at work.
fn hello_of_daemon() -> Value {
    json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": {
        "qwen.daemon.channelLiveness": {"v": 1},
        "qwen.daemon.activeWorkHeartbeat":
            {"v": 1, "intervalMs": 5000, "categories": ["session"]},
    }})
}

/// The daemon kills a child whose ping is late, so nothing may hold it up.
#[test]
fn a_ping_is_answered_while_a_prompt_runs() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]);
    client.rpc.result("initialize", &hello_of_daemon());
    let session = client.session();
    let id = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    for nonce in 0..3 {
        let ping = json!({"v": 1, "nonce": nonce});
        assert_eq!(client.rpc.result(PING, &ping), ping);
    }
    let error = client.rpc.error(PING, &json!({"v": 2, "nonce": 3}));
    assert_eq!(error["code"], -32_602);
    gate.open();
    let answered = client.rpc.place_of_answer(id);
    assert!(answered > 0);
    client.end(&home);
}

/// Older ones are ignored by the daemon, so their numbers rise; each says all of what is open.
#[test]
fn heartbeats_rise_and_say_what_is_open() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]);
    let hello = client.rpc.request("initialize", &hello_of_daemon());
    let answered = client.rpc.place_of_answer(hello);
    let first = client.rpc.place(0, "a heartbeat", |f| f["method"] == WORK);
    assert!(first < answered, "before the answer");
    let session = client.session();
    client.close(&session, false);
    // The interval is the shortest that is kept; nothing else comes meanwhile.
    client.rpc.place(0, "a fourth heartbeat", |f| {
        f["method"] == WORK && f["params"]["seq"] == 4
    });
    let beats = client.rpc.all_of(WORK);
    let numbers: Vec<_> = beats.iter().map(|f| f["params"]["seq"].clone()).collect();
    assert_eq!(numbers[..4], [1, 2, 3, 4]);
    let open: Vec<_> = beats
        .iter()
        .map(|f| f["params"]["sessions"].clone())
        .collect();
    let one = json!([{"sessionId": session, "hasRunningBackgroundTasks": false, "holds": []}]);
    assert_eq!(open[..4], [json!([]), one, json!([]), json!([])]);
    client.end(&home);
}

#[test]
fn a_client_that_did_not_ask_gets_no_heartbeat() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    client.close(&session, false);
    let frames = client.end(&home);
    assert!(!frames.iter().any(|frame| frame["method"] == WORK));
}

/// A line that is no message costs itself alone.
#[test]
fn garbage_is_survived() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    for line in [
        &b"this is no JSON\n"[..],
        b"\n  \r\n",
        b"[]\n",
        b"[{\"jsonrpc\":\"2.0\",\"id\":70,\"method\":\"session/list\"}]\n",
        b"{\"id\":71,\"method\":\"session/list\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"x\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":72,\"result\":1,\"error\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"unknown/notification\",\"params\":{\"x\":1}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/prompt\",\"params\":{}}\n",
        b"\xff\xfe\x00\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"a string\",\"method\":\"session/list\",\"params\":null}\n",
    ] {
        client.rpc.process().send_bytes(line);
    }
    let answered = client.rpc.place(0, "the answer", |f| f["id"] == "a string");
    assert!(client.rpc.seen()[answered]["result"].is_object());
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    client.end(&home);
}

#[test]
fn an_unknown_method_is_refused_as_qwen_code_refuses_it() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    for method in [
        "foo/bar",
        "_foo/bar",
        "session/fork",
        "qwen/status/session/unknown",
        "qwen/status/workspace/unknown",
        "",
    ] {
        let error = client.rpc.error(method, &json!({"sessionId": "x"}));
        assert_eq!(error["code"], -32_601, "{method}: {error}");
        assert_eq!(error["data"], json!({"method": method}));
    }
    client.end(&home);
}

/// As the real child: a client may leave out the hello, or say it twice.
#[test]
fn a_client_may_say_hello_late_or_twice() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]);
    let session = client.session();
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    for _ in 0..2 {
        client.rpc.result("initialize", &hello_of_daemon());
    }
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert_eq!(
        client
            .rpc
            .result("authenticate", &json!({"methodId": "openai"})),
        json!({})
    );
    client.end(&home);
}

/// `--acp` is how a daemon of Qwen Code starts its child.
#[test]
fn the_flag_is_the_subcommand() {
    let home = Home::new();
    let mut command = home.command(crate::world::ONRECORD);
    let mut rpc = Rpc::start(command.args(["--acp", "--model", "offline"]));
    assert_eq!(rpc.result("initialize", &json!({}))["protocolVersion"], 1);
    assert_eq!(rpc.end().1.code, 0);
}

/// How an agent is told to end.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Input,
    Signal(Signal),
}

fn end(mut client: Client, ending: Ending) -> (Vec<Value>, testkit::run::Outcome) {
    match ending {
        Ending::Input => client.rpc.process().close_input(),
        Ending::Signal(signal) => client.rpc.process().signal(signal),
    }
    client.rpc.wait()
}

/// case-M02, case-F08: whoever ends the agent in mid-prompt gets an answer, and the record is whole.
#[test]
fn an_end_in_mid_prompt_answers_the_prompt_and_keeps_what_was_said() {
    for ending in [
        Ending::Input,
        Ending::Signal(Signal::TERM),
        Ending::Signal(Signal::INT),
    ] {
        let (home, gate) = (Home::new(), Gate::new());
        let stub = held(&gate);
        let mut client = Client::of_stub(&home, &stub, &[]).initialized();
        let (session, other) = (client.session(), client.session());
        let params = json!({"sessionId": session, "displayName": "the title"});
        let id = client.prompt(&session, "go on for long");
        client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
        client.rpc.result("qwen/control/session/title", &params);
        client.turn(&other, "short");
        let (frames, outcome) = end(client, ending);
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{ending:?}"
        );
        let answer = frames
            .iter()
            .find(|f| f["id"] == id)
            .expect("it is answered");
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{ending:?}");
        let all = home.transcripts();
        assert_eq!(all.len(), 2);
        let path = all
            .iter()
            .find(|path| text(path).contains(&session))
            .unwrap();
        let kept = fs::read_to_string(path).unwrap();
        assert!(kept.ends_with('\n') && kept.contains("begun"));
        assert!(kept.matches("the title").count() >= 2, "finalized: {kept}");
    }
}

#[test]
fn an_end_without_a_session_is_a_good_end() {
    for ending in [Ending::Input, Ending::Signal(Signal::TERM)] {
        let home = Home::new();
        let client = Client::offline(&home, &[]).initialized();
        let (_, outcome) = end(client, ending);
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{ending:?}"
        );
        assert!(home.transcripts().is_empty());
    }
}

/// case-M03: what a tool started goes with it.
#[test]
fn an_end_while_a_tool_runs_leaves_no_process_behind() {
    for ending in [Ending::Input, Ending::Signal(Signal::TERM)] {
        let home = Home::new();
        let mut client = Client::offline(&home, &["--yolo"]).initialized();
        let session = client.session();
        client.prompt(
            &session,
            &shell("sleep 1000 & echo $! > pid; echo on; wait"),
        );
        client.rpc.place(0, "the tool to say it", |f| {
            f["params"]["update"].to_string().contains("\"on\\n\"")
        });
        let pid = fs::read_to_string(home.workspace().join("pid")).unwrap();
        let (frames, outcome) = end(client, ending);
        assert_eq!(outcome.code, 0, "{ending:?}");
        assert_eq!(frames.last().unwrap()["result"]["stopReason"], "cancelled");
        let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
        let is_over = stat.map_or(true, |stat| stat.contains(") Z "));
        assert!(is_over, "{ending:?}");
        let records = valid_prefix(&transcript(&home));
        assert_eq!(records.last().unwrap()["type"], "tool_result", "case-M02");
    }
}

/// A client that is gone, and does not read any more, keeps no process.
#[test]
fn a_prompt_that_nobody_reads_the_answer_of_ends_with_the_input() {
    let home = Home::new();
    let stub = StubModel::hello(200_000);
    let mut command = stub_command(&home, &stub);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let params = json!({"cwd": home.workspace(), "mcpServers": [],
        "_meta": {"qwen-code/sessionId": "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807"}});
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params});
    std::io::Write::write_all(&mut input, format!("{new}\n").as_bytes()).unwrap();
    let mut output = child.stdout.take().unwrap();
    testkit::run::read_until(&mut output, "sessionId");
    let id = "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807";
    let go = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
        "params": prompt(id, "much")});
    std::io::Write::write_all(&mut input, format!("{go}\n").as_bytes()).unwrap();
    assert!(stub.wait_for_requests(1, Duration::from_secs(30)));
    drop(input);
    let began = std::time::Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}
