//! The published SDKs, with our binary as their Qwen Code: what their users see, what the model is
//! told, and what is on disk.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{
    faults::{Fault, SmallDisk},
    home::{Home, transcripts_under},
    peers::Sdk,
    run::{Outcome, run},
    stub_model::{Gate, Received, Reply, StubModel},
};

use crate::world::{ONRECORD, shell, tool, transcript, valid_prefix};

/// For both SDKs a test of each of these facts, in a module of its own.
macro_rules! facts {
    ($($fact:ident)*) => {
        mod typescript {
            use testkit::peers::Sdk;
            $(
                #[test]
                fn $fact() {
                    if let Some(sdk) = Sdk::typescript() {
                        super::$fact(&sdk);
                    }
                }
            )*
        }

        mod python {
            use testkit::peers::Sdk;
            $(
                #[test]
                fn $fact() {
                    if let Some(sdk) = Sdk::python() {
                        super::$fact(&sdk);
                    }
                }
            )*
        }
    };
}

facts! {
    a_query_is_answered_and_recorded
    the_turns_of_a_session_know_each_other
    an_allowed_call_runs
    a_changed_input_is_what_runs
    a_denial_reaches_the_model_and_the_result
    a_denial_with_interrupt_ends_the_turn_at_once
    a_callback_that_never_answers_is_a_denial
    an_interrupt_ends_the_turn_and_the_session_goes_on
    a_resumed_session_knows_what_was_said
    a_lost_record_is_told_once_before_its_result
}

const SESSION: &str = "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807";

/// Where the built-in model answers, nobody listens.
const NO_ENDPOINT: &str = "http://127.0.0.1:9/v1";

/// What an SDK's user saw.
struct Seen {
    lines: Vec<Value>,
    ran: Outcome,
}

impl Seen {
    /// Everything that came under this name, in its order.
    fn all(&self, name: &str) -> Vec<&Value> {
        self.lines
            .iter()
            .filter_map(|line| line.get(name))
            .collect()
    }

    fn messages(&self, kind: &str) -> Vec<&Value> {
        let mut messages = self.all("message");
        messages.retain(|message| message["type"] == kind);
        messages
    }

    fn results(&self) -> Vec<&Value> {
        self.messages("result")
    }

    /// The one result, which is the last message.
    fn result(&self) -> &Value {
        let results = self.results();
        assert_eq!(results.len(), 1, "{:?}", self.ran);
        assert_eq!(self.all("message").last(), Some(&results[0]));
        results[0]
    }

    /// The one result of a tool.
    fn tool_result(&self) -> &Value {
        let messages = self.messages("user");
        assert_eq!(messages.len(), 1, "{:?}", self.ran);
        &messages[0]["message"]["content"][0]
    }
}

/// Runs a scenario to its end, which must come without an error.
fn see(sdk: &Sdk, home: &Home, base_url: &str, scenario: &str, args: &Value) -> Seen {
    let executable = Path::new(ONRECORD);
    seen(run(
        &mut sdk.command(home, executable, base_url, scenario, args)
    ))
}

fn seen(ran: Outcome) -> Seen {
    let lines: Vec<Value> = ran
        .stdout_lines()
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let end = json!({"done": true, "error": null});
    assert_eq!(lines.last(), Some(&end), "{ran:?}");
    Seen { lines, ran }
}

/// A home, a model that does what prompts say, and the call of `write_file` that they ask for.
struct Asked {
    home: Home,
    stub: StubModel,
    input: Value,
}

impl Asked {
    fn new() -> Self {
        let home = Home::new();
        let input = json!({"file_path": home.workspace().join("a.txt"), "content": "original"});
        Self {
            home,
            stub: StubModel::prompts(2),
            input,
        }
    }

    /// The prompts of a session; the first makes the model call the tool.
    fn see(&self, sdk: &Sdk, answer: &Value, and_then: &[&str]) -> Seen {
        // Models put blanks into JSON, and the SDKs write it anew without or with others.
        let first = format!("TOOL:write_file {:#}", self.input);
        let prompts: Vec<_> = [first.as_str()].iter().chain(and_then).copied().collect();
        let mut options = json!({"permissionMode": "default"});
        if answer.is_null() {
            options["callbackMs"] = json!(300);
        }
        let args = json!({"prompts": prompts, "options": options, "answer": answer});
        let seen = see(sdk, &self.home, &self.stub.base_url(), "session", &args);
        let asked = json!({"tool": "write_file", "input": self.input});
        assert_eq!(seen.all("asked"), [&asked], "{:?}", seen.ran);
        seen
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.home.workspace().join(name)).ok()
    }

    /// The call as a result names it.
    fn denial(&self, seen: &Seen) -> Value {
        let call = &seen.messages("assistant")[0]["message"]["content"][0];
        assert_eq!(call["type"], "tool_use", "{:?}", seen.ran);
        json!({"tool_name": "write_file", "tool_use_id": call["id"], "tool_input": self.input})
    }

    fn assert_saved(&self, seen: &Seen) {
        assert_saved(&self.home, seen);
    }
}

/// The record is whole and every result says so.
fn assert_saved(home: &Home, seen: &Seen) {
    let records = valid_prefix(&transcript(home));
    for result in seen.results() {
        assert_eq!(result["recording"]["state"], "saved", "B1: {:?}", seen.ran);
    }
    let last = &seen.results().last().unwrap()["recording"]["lastRecordUuid"];
    assert!(
        records.iter().any(|record| &record["uuid"] == last),
        "the last result names a record that is on disk"
    );
}

/// What a request told the model, as text.
fn told(request: &Received) -> String {
    request.body["messages"].to_string()
}

fn a_query_is_answered_and_recorded(sdk: &Sdk) {
    let home = Home::new();
    let args = json!({"prompts": ["who are you?"], "options": {"model": "offline"}});
    let seen = see(sdk, &home, NO_ENDPOINT, "query", &args);
    let first = seen.all("message")[0];
    assert_eq!(
        (&first["type"], &first["subtype"], &first["model"]),
        (&json!("system"), &json!("init"), &json!("offline"))
    );
    let result = seen.result();
    assert_eq!(result["subtype"], "success");
    assert!(
        result["result"].as_str().unwrap().contains("offline"),
        "{result}"
    );
    let answer = &seen.messages("assistant")[0]["message"]["content"][0]["text"];
    assert_eq!(answer, &result["result"]);
    for message in seen.all("message") {
        assert_eq!(message["session_id"], result["session_id"]);
    }
    assert_saved(&home, &seen);
    let path = transcript(&home);
    assert_eq!(
        path.file_stem().unwrap().to_str(),
        result["session_id"].as_str()
    );
    let records = valid_prefix(&path);
    assert_eq!(records[0]["message"]["parts"][0]["text"], "who are you?");
}

fn the_turns_of_a_session_know_each_other(sdk: &Sdk) {
    let home = Home::new();
    let args = json!({
        "prompts": ["list files", "what did I say first?", "what did I say before?"],
        "options": {"model": "offline"},
    });
    let seen = see(sdk, &home, NO_ENDPOINT, "session", &args);
    let results = seen.results();
    assert_eq!(results.len(), 3, "{:?}", seen.ran);
    let said = |n: usize| results[n]["result"].as_str().unwrap();
    assert!(said(1).contains("list files"), "{}", said(1));
    assert!(said(2).contains("what did I say first?"), "{}", said(2));
    assert_saved(&home, &seen);
    let prompts = valid_prefix(&transcript(&home));
    let prompts = prompts
        .iter()
        .filter(|record| record["type"] == "user")
        .count();
    assert_eq!(prompts, 3, "one transcript holds all turns");
}

fn an_allowed_call_runs(sdk: &Sdk) {
    let asked = Asked::new();
    let seen = asked.see(sdk, &json!({"behavior": "allow"}), &[]);
    assert_eq!(asked.file("a.txt").as_deref(), Some("original"));
    let told = seen.tool_result();
    assert_eq!(told["is_error"], false, "{:?}", seen.ran);
    assert!(
        !told["content"].as_str().unwrap().contains("changed"),
        "an input that comes back as it was is not changed: {told}"
    );
    assert_eq!(seen.result()["result"], "done.");
    assert_eq!(seen.result()["permission_denials"], json!([]));
    asked.assert_saved(&seen);
}

fn a_changed_input_is_what_runs(sdk: &Sdk) {
    let asked = Asked::new();
    let path = asked.home.workspace().join("b.txt");
    let answer = json!({
        "behavior": "allow",
        "updatedInput": {"file_path": path, "content": "changed"},
    });
    let seen = asked.see(sdk, &answer, &[]);
    assert_eq!(asked.file("a.txt"), None);
    assert_eq!(asked.file("b.txt").as_deref(), Some("changed"));
    assert_eq!(seen.tool_result()["is_error"], false, "{:?}", seen.ran);
    let told = asked.stub.requests()[1].last_text().unwrap();
    assert!(told.contains("b.txt"), "{told}");
    assert_eq!(seen.result()["result"], "done.");
    asked.assert_saved(&seen);
}

fn a_denial_reaches_the_model_and_the_result(sdk: &Sdk) {
    let asked = Asked::new();
    let answer = json!({"behavior": "deny", "message": "not in this house"});
    let seen = asked.see(sdk, &answer, &[]);
    assert_eq!(asked.file("a.txt"), None);
    assert_refused(
        &asked,
        &seen,
        "[Operation Cancelled] Reason: not in this house",
    );
}

fn a_callback_that_never_answers_is_a_denial(sdk: &Sdk) {
    let asked = Asked::new();
    let seen = asked.see(sdk, &Value::Null, &[]);
    let said = seen.tool_result()["content"].as_str().unwrap().to_owned();
    assert!(
        said.starts_with("[Operation Cancelled] Reason: ") && said.contains("time"),
        "{said}"
    );
    assert_refused(&asked, &seen, &said);
}

/// The call did not run, the model was told why, and the turn went on without it.
fn assert_refused(asked: &Asked, seen: &Seen, why: &str) {
    assert_eq!(asked.file("a.txt"), None);
    let refusal = seen.tool_result();
    assert_eq!(
        (&refusal["is_error"], &refusal["content"]),
        (&json!(true), &json!(why)),
        "{:?}",
        seen.ran
    );
    let requests = asked.stub.requests();
    assert_eq!(requests.len(), 2);
    let told = requests[1].last_text().unwrap();
    assert!(requests[1].last_is_result() && told.contains(why), "{told}");
    let result = seen.result();
    assert_eq!(
        (&result["subtype"], &result["result"]),
        (&json!("success"), &json!("done."))
    );
    assert_eq!(result["permission_denials"], json!([asked.denial(seen)]));
    asked.assert_saved(seen);
    let record = fs::read_to_string(transcript(&asked.home)).unwrap();
    assert!(
        record.contains(why),
        "the record tells what the model was told"
    );
}

fn a_denial_with_interrupt_ends_the_turn_at_once(sdk: &Sdk) {
    let asked = Asked::new();
    let answer = json!({"behavior": "deny", "message": "stop", "interrupt": true});
    let seen = asked.see(sdk, &answer, &["what now?"]);
    assert_eq!(asked.file("a.txt"), None);
    let results = seen.results();
    assert_eq!(results.len(), 2, "{:?}", seen.ran);
    assert_eq!(
        (&results[0]["subtype"], &results[0]["is_error"]),
        (&json!("error_during_execution"), &json!(true)),
        "{:?}",
        seen.ran
    );
    assert_eq!(
        results[0]["permission_denials"],
        json!([asked.denial(&seen)])
    );
    let requests = asked.stub.requests();
    assert_eq!(requests.len(), 2, "the model was not called again");
    assert_eq!(requests[1].last_text().as_deref(), Some("what now?"));
    assert_eq!(results[1]["subtype"], "success");
    asked.assert_saved(&seen);
}

fn an_interrupt_ends_the_turn_and_the_session_goes_on(sdk: &Sdk) {
    let home = Home::new();
    let gate = Gate::new();
    let endless = Reply::stream()
        .text("a part ")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![endless, Reply::says("still here")]);
    let args = json!({"prompts": ["count to infinity", "are you there?"]});
    let seen = see(sdk, &home, &stub.base_url(), "interrupt", &args);
    assert_eq!(seen.all("interrupted").len(), 1, "{:?}", seen.ran);
    let results = seen.results();
    assert_eq!(results.len(), 2, "{:?}", seen.ran);
    assert_eq!(
        (&results[0]["subtype"], &results[0]["is_error"]),
        (&json!("error_during_execution"), &json!(true))
    );
    assert_eq!(results[1]["result"], "still here");
    let requests = stub.requests();
    assert_eq!(requests.len(), 2, "{:?}", seen.ran);
    assert!(told(&requests[1]).contains("count to infinity"));
    assert_saved(&home, &seen);
}

fn a_resumed_session_knows_what_was_said(sdk: &Sdk) {
    let (home, stub) = (Home::new(), StubModel::prompts(2));
    let args = json!({"prompts": ["my colour is green"], "options": {"sessionId": SESSION}});
    let seen = see(sdk, &home, &stub.base_url(), "query", &args);
    assert_eq!(seen.result()["session_id"], SESSION);
    let before = fs::read(transcript(&home)).unwrap();

    let args = json!({"prompts": ["and yours?"], "options": {"resume": SESSION}});
    let seen = see(sdk, &home, &stub.base_url(), "query", &args);
    assert_eq!(seen.result()["session_id"], SESSION);
    let told = told(&stub.requests()[1]);
    for text in ["my colour is green", "hello world", "and yours?"] {
        assert!(told.contains(text), "{told}");
    }
    let after = fs::read(transcript(&home)).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert_saved(&home, &seen);
}

/// R12, R26, B1, Invariant 4.
fn a_lost_record_is_told_once_before_its_result(sdk: &Sdk) {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let fill = format!(
        "head -c 1M /dev/zero > '{}/.filler'; seq 1 3000",
        disk.path().display()
    );
    let run_on = |fault: &Fault, home: &Home, data_root: &Path, command: &str| {
        let stub = StubModel::prompts(2);
        let args = json!({
            "prompts": [shell(command), "and now?"],
            "options": {"permissionMode": "yolo"},
        });
        let executable = Path::new(ONRECORD);
        let url = stub.base_url();
        let mut command = sdk.command_under(fault, home, executable, &url, "session", &args);
        seen(run(command.env("ONRECORD_HOME", data_root)))
    };
    let (healthy_home, home) = (Home::new(), Home::new());
    let healthy = run_on(
        &Fault::none(),
        &healthy_home,
        &healthy_home.data_root(),
        "seq 1 3000",
    );
    assert_saved(&healthy_home, &healthy);
    let seen = run_on(&disk.fault(), &home, &disk.path(), &fill);

    let told: Vec<_> = seen
        .all("message")
        .into_iter()
        .filter(|message| {
            message["type"] == "result" || message["subtype"] == "session_recording_degraded"
        })
        .map(|message| (&message["type"], &message["session_id"]))
        .collect();
    let session = &seen.results()[0]["session_id"];
    let expected = [&json!("system"), &json!("result"), &json!("result")];
    assert_eq!(told, expected.map(|kind| (kind, session)), "{:?}", seen.ran);
    for (result, healthy) in seen.results().iter().zip(healthy.results()) {
        assert_eq!(result["recording"]["state"], "degraded");
        assert_eq!(result["recording"]["class"], "storage_full");
        for unchanged in ["subtype", "is_error", "result", "usage"] {
            assert_eq!(result[unchanged], healthy[unchanged], "{unchanged}");
        }
    }
    let files = transcripts_under(&disk.after());
    let records = valid_prefix(&files[0]);
    let last = &records.last().unwrap()["uuid"];
    assert_eq!(
        &seen.results()[1]["recording"]["lastRecordUuid"],
        last,
        "R27: what is on disk is what is told"
    );
}

/// The Python SDK has no MCP servers of its own.
#[test]
fn a_tool_of_the_sdks_own_mcp_server_is_called_and_answers_the_model() {
    let Some(sdk) = Sdk::typescript() else { return };
    let (home, stub) = (Home::new(), StubModel::prompts(2));
    let args = json!({
        "prompts": [tool("mcp__sums__add", &json!({"a": 2, "b": 3}))],
        "answer": {"behavior": "allow"},
    });
    let seen = see(&sdk, &home, &stub.base_url(), "mcp", &args);
    let init = seen.messages("system")[0];
    assert_eq!(
        init["mcp_servers"],
        json!([{"name": "sums", "status": "connected"}])
    );
    assert!(
        init["tools"]
            .as_array()
            .unwrap()
            .contains(&json!("mcp__sums__add")),
        "{init}"
    );
    assert_eq!(
        seen.all("called"),
        [&json!({"a": 2, "b": 3})],
        "{:?}",
        seen.ran
    );
    assert_eq!(seen.tool_result()["content"], "the sum is 5");
    let requests = stub.requests();
    assert!(
        requests[0].body["tools"]
            .to_string()
            .contains("mcp__sums__add"),
        "the model knows the tool"
    );
    assert!(requests[1].last_text().unwrap().contains("the sum is 5"));
    assert_eq!(seen.result()["result"], "done.");
    assert_saved(&home, &seen);
}
