//! The published SDKs of ACP, each as a client of our agent: what their users see, what the model is
//! told, and what is on disk.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{
    driven::Driven,
    faults::{Fault, SmallDisk},
    home::{Home, transcripts_under},
    peers::AcpClient,
    run::{Outcome, run},
    stub_model::{Gate, Received, Reply, StubModel},
};

use super::rust;
use crate::world::{ONRECORD, command, shell, tool, transcript, valid_prefix};

/// For every client a test of each of these facts, in a module of its own.
macro_rules! facts {
    ($($fact:ident)*) => {
        mod typescript {
            use testkit::peers::AcpClient;
            use super::Client;
            $(
                #[test]
                fn $fact() {
                    if let Some(client) = AcpClient::typescript() {
                        super::$fact(&Client::Published(client));
                    }
                }
            )*
        }

        mod python {
            use testkit::peers::AcpClient;
            use super::Client;
            $(
                #[test]
                fn $fact() {
                    if let Some(client) = AcpClient::python() {
                        super::$fact(&Client::Published(client));
                    }
                }
            )*
        }

        mod rust_crate {
            use super::Client;
            $(
                #[test]
                fn $fact() {
                    super::$fact(&Client::Crate);
                }
            )*
        }
    };
}

facts! {
    a_prompt_is_streamed_answered_and_recorded
    a_tool_call_is_seen_with_kind_place_and_diff
    a_rejected_call_does_not_run_and_the_model_is_told
    what_is_allowed_for_the_session_is_asked_once
    a_cancelled_prompt_is_answered_and_the_session_goes_on
    a_prompt_that_is_cancelled_while_it_asks_is_answered
    a_prompt_that_is_cancelled_at_once_changes_nothing
    a_loaded_session_is_shown_again_and_remembered
    a_resumed_session_is_remembered_and_not_shown
    a_session_that_is_not_there_is_refused
    mode_and_model_can_be_set_and_the_session_is_listed
    a_lost_record_is_told_once_before_its_answer
    a_client_that_knows_nothing_of_records_goes_on
}

/// Where the built-in model answers, nobody listens.
const NO_ENDPOINT: &str = "http://127.0.0.1:9/v1";

/// A client of somebody else's.
enum Client {
    /// An SDK in a process of its own, which starts the agent.
    Published(AcpClient),
    /// The crate, in this process.
    Crate,
}

/// A scenario and where it is played.
struct Stage<'a> {
    home: &'a Home,
    fault: Fault,
    data_root: &'a Path,
    base_url: String,
    /// Arguments of the agent.
    agent: &'a [&'a str],
}

impl<'a> Stage<'a> {
    fn new(home: &'a Home, base_url: &str, agent: &'a [&'a str], data_root: &'a Path) -> Self {
        Self {
            home,
            fault: Fault::none(),
            data_root,
            base_url: base_url.to_owned(),
            agent,
        }
    }

    /// Plays the scenario with further arguments.
    fn play(&self, client: &Client, scenario: &str, more: &Value) -> Outcome {
        let command = [[ONRECORD, "acp"].as_slice(), self.agent].concat();
        let mut args = json!({"command": command, "cwd": self.home.workspace()});
        let more = more.as_object().unwrap().clone();
        args.as_object_mut().unwrap().extend(more);
        let mut command = match client {
            Client::Published(sdk) => sdk.command_under(&self.fault, self.home, scenario, &args),
            Client::Crate => {
                let mut command = self.home.command_under(&self.fault, ONRECORD);
                command.arg("acp").args(self.agent);
                command
            }
        };
        command
            .env("ONRECORD_HOME", self.data_root)
            .env("OPENAI_API_KEY", "unused")
            .env("OPENAI_BASE_URL", &self.base_url)
            .env("OPENAI_MODEL", "stub");
        match client {
            Client::Published(_) => run(&mut command),
            Client::Crate => rust::drive(command, scenario, &args),
        }
    }
}

/// What a client's user saw.
struct Seen {
    lines: Vec<Value>,
    ran: Outcome,
}

impl Seen {
    /// The lines of a scenario that ended well.
    fn of(ran: Outcome) -> Self {
        let lines: Vec<Value> = ran
            .stdout_lines()
            .into_iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let end = json!({"done": true, "error": null});
        assert_eq!(lines.last(), Some(&end), "{ran:?}");
        Self { lines, ran }
    }

    /// Everything that came under this name, in its order.
    fn all(&self, name: &str) -> Vec<&Value> {
        self.lines
            .iter()
            .filter_map(|line| line.get(name))
            .collect()
    }

    fn position(&self, is: impl Fn(&Value) -> bool) -> usize {
        let found = self.lines.iter().position(is);
        found.unwrap_or_else(|| panic!("{:?}", self.ran))
    }

    /// Updates of this kind, all of the one session.
    fn updates(&self, kind: &str) -> Vec<&Value> {
        let session = self.session();
        let updates = self.all("update").into_iter();
        updates
            .inspect(|update| assert_eq!(update["sessionId"], session))
            .map(|update| &update["update"])
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    fn session(&self) -> Value {
        match self.all("opened")[0].get("sessionId") {
            Some(id) => id.clone(),
            None => self.all("update")[0]["sessionId"].clone(),
        }
    }

    /// What was said in chunks of this kind, as one text.
    fn text(&self, kind: &str) -> String {
        let chunks = self.updates(kind).into_iter();
        chunks
            .map(|chunk| chunk["content"]["text"].as_str().unwrap())
            .collect()
    }

    fn answers(&self) -> Vec<&Value> {
        self.all("answer")
    }

    /// Why each prompt ended.
    fn stop_reasons(&self) -> Vec<&str> {
        let answers = self.answers().into_iter();
        answers
            .map(|answer| answer["stopReason"].as_str().unwrap())
            .collect()
    }

    fn notified(&self, method: &str) -> Vec<&Value> {
        let all = self.all("notified").into_iter();
        all.filter(|notified| notified["method"] == method)
            .map(|notified| &notified["params"])
            .collect()
    }

    /// The record is whole, and every answer says so.
    fn assert_saved(&self, home: &Home) {
        let records = valid_prefix(&transcript(home));
        for answer in self.answers() {
            let recording = &answer["_meta"]["onrecord/recording"];
            assert_eq!(recording["state"], "saved", "B1: {:?}", self.ran);
        }
        let last = self.answers().pop().unwrap();
        let last = &last["_meta"]["onrecord/recording"]["lastRecordUuid"];
        let is_last = |record: &Value| record["uuid"] == *last;
        assert!(records.iter().any(is_last), "it is on disk: {last}");
    }
}

/// Plays a scenario against a model, to its end, which must come without an error.
fn see(client: &Client, home: &Home, base_url: &str, scenario: &str, args: &Value) -> Seen {
    let data_root = home.data_root();
    let stage = Stage::new(home, base_url, &[], &data_root);
    Seen::of(stage.play(client, scenario, args))
}

/// As [`see`], with the built-in model.
fn see_offline(client: &Client, home: &Home, scenario: &str, args: &Value) -> Seen {
    let data_root = home.data_root();
    let stage = Stage::new(home, NO_ENDPOINT, &["--model", "offline"], &data_root);
    Seen::of(stage.play(client, scenario, args))
}

/// What a request told the model, as text.
fn told(request: &Received) -> String {
    request.body["messages"].to_string()
}

fn writes(path: &Path, content: &str) -> String {
    tool(
        "write_file",
        &json!({"file_path": path, "content": content}),
    )
}

fn a_prompt_is_streamed_answered_and_recorded(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(3));
    let args = json!({"prompts": ["who are you?"]});
    let seen = see(client, &home, &stub.base_url(), "new", &args);
    let initialized = seen.all("initialized")[0];
    assert_eq!(initialized["protocolVersion"], 1);
    assert_eq!(initialized["agentInfo"]["name"], "onrecord");
    assert_eq!(initialized["agentCapabilities"]["loadSession"], true);
    assert_eq!(
        seen.text("agent_message_chunk"),
        "hello world hello world hello world "
    );
    assert_eq!(seen.stop_reasons(), ["end_turn"], "{:?}", seen.ran);
    let is_answer = |line: &Value| line.get("answer").is_some();
    assert_eq!(
        seen.position(is_answer),
        seen.lines.len() - 2,
        "nothing of a turn comes behind its answer"
    );
    let commands = seen.updates("available_commands_update");
    assert_eq!(commands[0]["availableCommands"][0]["name"], "recording");
    seen.assert_saved(&home);
    let path = transcript(&home);
    assert_eq!(
        path.file_stem().unwrap().to_str(),
        seen.session().as_str(),
        "the record bears the session's id"
    );
    let records = valid_prefix(&path);
    assert_eq!(records[0]["message"]["parts"][0]["text"], "who are you?");
}

fn a_tool_call_is_seen_with_kind_place_and_diff(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    fs::write(&path, "before\n").unwrap();
    let edit = json!({"file_path": path, "old_string": "before", "new_string": "after"});
    let prompts = [
        tool("read_file", &json!({"file_path": path})),
        tool("edit", &edit),
    ];
    let args = json!({"prompts": prompts, "answer": "allow_once"});
    let seen = see(client, &home, &stub.base_url(), "new", &args);
    assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
    assert_eq!(seen.stop_reasons(), ["end_turn", "end_turn"]);

    let calls = seen.updates("tool_call");
    let kinds: Vec<_> = calls.iter().map(|call| &call["kind"]).collect();
    assert_eq!(kinds, ["read", "edit"], "{:?}", seen.ran);
    for call in &calls {
        assert_eq!(call["locations"], json!([{"path": path}]));
        assert_eq!(call["rawInput"]["file_path"], json!(path));
        assert!(call["title"].as_str().unwrap().contains("a.txt"), "{call}");
    }
    let diff = json!({
        "type": "diff",
        "path": path,
        "oldText": "before\n",
        "newText": "after\n",
    });
    let asked = seen.all("asked");
    assert_eq!(asked.len(), 1, "reading is not asked for: {:?}", seen.ran);
    let about = &asked[0]["toolCall"];
    assert_eq!(about["toolCallId"], calls[1]["toolCallId"]);
    assert_eq!(about["kind"], "edit");
    assert_eq!(about["locations"], json!([{"path": path}]));
    assert_eq!(about["content"], json!([diff]), "it is shown before");
    let changes: Vec<_> = seen
        .updates("tool_call_update")
        .into_iter()
        .filter(|update| update["toolCallId"] == calls[1]["toolCallId"])
        .collect();
    let statuses: Vec<_> = changes.iter().map(|change| &change["status"]).collect();
    assert_eq!(statuses, ["in_progress", "completed"], "{:?}", seen.ran);
    assert_eq!(changes[1]["content"], json!([diff]), "and after");
    seen.assert_saved(&home);
}

fn a_rejected_call_does_not_run_and_the_model_is_told(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    let args = json!({"prompts": [writes(&path, "x")], "answer": "reject_once"});
    let seen = see(client, &home, &stub.base_url(), "new", &args);
    assert!(!path.exists(), "{:?}", seen.ran);
    assert_eq!(seen.all("asked").len(), 1);
    let last = seen.updates("tool_call_update").pop().unwrap();
    assert_eq!(last["status"], "failed", "{:?}", seen.ran);
    let requests = stub.requests();
    assert_eq!(requests.len(), 2);
    let told = requests[1].last_text().unwrap();
    assert!(
        requests[1].last_is_result() && told.contains("rejected"),
        "{told}"
    );
    assert_eq!(seen.stop_reasons(), ["end_turn"]);
    assert_eq!(seen.text("agent_message_chunk"), "done.");
    seen.assert_saved(&home);
}

fn what_is_allowed_for_the_session_is_asked_once(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    let prompts = [writes(&path, "first"), writes(&path, "second")];
    let args = json!({"prompts": prompts, "answer": "allow_always"});
    let seen = see(client, &home, &stub.base_url(), "new", &args);
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(seen.all("asked").len(), 1, "{:?}", seen.ran);
    seen.assert_saved(&home);
}

fn a_cancelled_prompt_is_answered_and_the_session_goes_on(client: &Client) {
    assert_cancelled_by(client, "cancel");
}

/// The Python SDK has no way to take a request back.
#[test]
fn a_prompt_that_the_typescript_sdk_takes_back_is_cancelled() {
    if let Some(client) = AcpClient::typescript() {
        assert_cancelled_by(&Client::Published(client), "withdraw");
    }
}

#[test]
fn a_prompt_that_the_rust_crate_takes_back_is_cancelled() {
    assert_cancelled_by(&Client::Crate, "withdraw");
}

fn assert_cancelled_by(client: &Client, scenario: &str) {
    let home = Home::new();
    let gate = Gate::new();
    let endless = Reply::stream()
        .text("a part ")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![endless, Reply::says("still here")]);
    let args = json!({"prompts": ["count to infinity", "are you there?"]});
    let seen = see(client, &home, &stub.base_url(), scenario, &args);
    assert_eq!(seen.all("cancelled").len(), 1);
    assert_eq!(
        seen.stop_reasons(),
        ["cancelled", "end_turn"],
        "{:?}",
        seen.ran
    );
    assert_eq!(seen.text("agent_message_chunk"), "a part still here");
    let requests = stub.requests();
    assert_eq!(requests.len(), 2);
    assert!(told(&requests[1]).contains("count to infinity"));
    seen.assert_saved(&home);
}

fn a_prompt_that_is_cancelled_while_it_asks_is_answered(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    let args = json!({"prompts": [writes(&path, "x"), "still there?"], "answer": "never"});
    let seen = see(client, &home, &stub.base_url(), "cancel", &args);
    assert_eq!(
        seen.stop_reasons(),
        ["cancelled", "end_turn"],
        "{:?}",
        seen.ran
    );
    assert_eq!(seen.all("asked").len(), 1);
    let last = seen.updates("tool_call_update").pop().unwrap();
    assert_eq!(last["status"], "failed", "{:?}", seen.ran);
    assert!(!path.exists());
    assert_eq!(seen.text("agent_message_chunk"), "hello world ");
    seen.assert_saved(&home);
}

fn a_prompt_that_is_cancelled_at_once_changes_nothing(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    let args = json!({
        "prompts": [writes(&path, "x"), "still there?"],
        "answer": "allow_once",
        "hasty": true,
    });
    let seen = see(client, &home, &stub.base_url(), "cancel", &args);
    assert_eq!(
        seen.stop_reasons(),
        ["cancelled", "end_turn"],
        "{:?}",
        seen.ran
    );
    assert!(!path.exists(), "{:?}", seen.ran);
    assert_eq!(seen.text("agent_message_chunk"), "hello world ");
    seen.assert_saved(&home);
}

/// As above, with both in one write: what a client's timing only sometimes brings about.
#[test]
fn a_cancel_in_one_breath_with_its_prompt_is_heard() {
    let home = Home::new();
    let mut agent = Driven::start(command(&home).args(["acp", "--model", "offline", "--yolo"]));
    let request = |id: u64, method: &str, params: &Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let open = json!({"cwd": home.workspace(), "mcpServers": []});
    agent.send(&request(1, "session/new", &open));
    let opened = agent.until("the session", |message| message["id"] == 1);
    let session = &opened["result"]["sessionId"];
    let path = home.workspace().join("a.txt");
    let prompt = json!({
        "sessionId": session,
        "prompt": [{"type": "text", "text": writes(&path, "x")}],
    });
    let prompt = request(2, "session/prompt", &prompt);
    let params = json!({"sessionId": session});
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
    agent.send_bytes(format!("{prompt}\n{cancel}\n").as_bytes());
    let answer = agent.until("the answer", |message| message["id"] == 2);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert!(!path.exists());
    assert_eq!(agent.end().code, 0);
}

/// A session of the built-in model, begun and left by the same kind of client.
fn stored(client: &Client, home: &Home) -> Seen {
    let args = json!({"prompts": ["my colour is green"]});
    see_offline(client, home, "new", &args)
}

fn a_loaded_session_is_shown_again_and_remembered(client: &Client) {
    let home = Home::new();
    let before = stored(client, &home);
    let bytes = fs::read(transcript(&home)).unwrap();
    let args = json!({"sessionId": before.session(), "prompts": ["what did I say first?"]});
    let seen = see_offline(client, &home, "load", &args);
    assert_eq!(seen.session(), before.session());
    assert_eq!(seen.text("user_message_chunk"), "my colour is green");
    let said = seen.text("agent_message_chunk");
    let again = before.text("agent_message_chunk");
    let new = said.strip_prefix(&again);
    let new = new.unwrap_or_else(|| panic!("{again} is shown again in {said}"));
    assert!(new.contains("my colour is green"), "{new}");
    let is_opened = |line: &Value| line.get("opened").is_some();
    let is_shown = |line: &Value| line["update"]["update"]["sessionUpdate"] == "user_message_chunk";
    assert!(
        seen.position(is_shown) < seen.position(is_opened),
        "what was said comes before the answer"
    );
    let recording = &seen.all("opened")[0]["_meta"]["onrecord/recording"];
    assert_eq!(recording["state"], "saved", "B1");
    let after = fs::read(transcript(&home)).unwrap();
    assert!(after.starts_with(&bytes) && after.len() > bytes.len());
    seen.assert_saved(&home);
}

fn a_resumed_session_is_remembered_and_not_shown(client: &Client) {
    let home = Home::new();
    let before = stored(client, &home);
    let args = json!({"sessionId": before.session(), "prompts": ["what did I say first?"]});
    let seen = see_offline(client, &home, "resume", &args);
    assert_eq!(seen.session(), before.session());
    assert_eq!(seen.updates("user_message_chunk").len(), 0);
    let said = seen.text("agent_message_chunk");
    assert!(said.contains("my colour is green"), "{said}");
    assert!(!said.starts_with(&before.text("agent_message_chunk")));
    seen.assert_saved(&home);
}

fn a_session_that_is_not_there_is_refused(client: &Client) {
    let (home, id) = (Home::new(), "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807");
    let data_root = home.data_root();
    let stage = Stage::new(&home, NO_ENDPOINT, &["--model", "offline"], &data_root);
    for scenario in ["load", "resume"] {
        let ran = stage.play(client, scenario, &json!({"sessionId": id, "prompts": []}));
        let last: Value = serde_json::from_str(ran.stdout_lines().pop().unwrap()).unwrap();
        let error = last["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("Resource not found: session:{id}")),
            "{scenario}: {ran:?}"
        );
    }
    assert_eq!(home.transcripts(), [] as [&Path; 0]);
}

fn mode_and_model_can_be_set_and_the_session_is_listed(client: &Client) {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let path = home.workspace().join("a.txt");
    let args = json!({
        "mode": "yolo",
        "options": {"model": "offline"},
        "prompts": [writes(&path, "x")],
    });
    let seen = see(client, &home, &stub.base_url(), "settings", &args);
    let current = |options: &Value, id: &str| {
        let options = options["configOptions"].as_array().unwrap();
        let option = options.iter().find(|option| option["id"] == id).unwrap();
        option["currentValue"].clone()
    };
    let opened = seen.all("opened")[0];
    assert_eq!(current(opened, "mode"), "default");
    assert_eq!(current(opened, "model"), "stub");
    assert_eq!(opened["modes"]["currentModeId"], "default");
    let set = seen.all("set").pop().unwrap();
    assert_eq!(current(set, "mode"), "yolo");
    assert_eq!(current(set, "model"), "offline");
    assert!(path.exists(), "{:?}", seen.ran);
    assert_eq!(seen.all("asked").len(), 0);
    assert_eq!(stub.requests().len(), 0, "the other model answered");
    let listed = &seen.all("listed")[0]["sessions"];
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["sessionId"], seen.session());
    assert_eq!(listed[0]["cwd"], json!(home.workspace()));
    let title = listed[0]["title"].as_str().unwrap();
    assert!(title.starts_with("TOOL:write_file"), "{title}");
    seen.assert_saved(&home);
}

/// Two turns, of which the first fills the disk in the middle.
fn see_full_disk(client: &Client, disk: &SmallDisk, home: &Home, plain: bool) -> Seen {
    let fill = format!(
        "head -c 1M /dev/zero > '{}/.filler'; seq 1 3000",
        disk.path().display()
    );
    let (stub, data_root) = (StubModel::prompts(1), disk.path());
    let mut stage = Stage::new(home, &stub.base_url(), &["--yolo"], &data_root);
    stage.fault = disk.fault();
    let args = json!({"prompts": [shell(&fill), "and now?"], "plain": plain});
    let seen = Seen::of(stage.play(client, "new", &args));
    assert_eq!(
        seen.stop_reasons(),
        ["end_turn", "end_turn"],
        "{:?}",
        seen.ran
    );
    assert_eq!(seen.text("agent_message_chunk"), "done.hello world ");
    for answer in seen.answers() {
        let recording = &answer["_meta"]["onrecord/recording"];
        assert_eq!(recording["state"], "degraded", "B1: {:?}", seen.ran);
        assert_eq!(recording["class"], "storage_full");
    }
    let files = transcripts_under(&disk.after());
    let records = valid_prefix(&files[0]);
    assert_eq!(
        seen.answers()[1]["_meta"]["onrecord/recording"]["lastRecordUuid"],
        records.last().unwrap()["uuid"],
        "R27: what is on disk is what is told"
    );
    seen
}

/// R3, R15, R26, R28, B1, Invariant 2.
fn a_lost_record_is_told_once_before_its_answer(client: &Client) {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let seen = see_full_disk(client, &disk, &home, false);
    let session = seen.session();
    let told = seen.notified("qwen/notify/session/recording-degraded");
    let params = json!({"v": 1, "sessionId": session, "reason": "write_failed"});
    assert_eq!(told, [&params], "{:?}", seen.ran);
    let is_told = |line: &Value| line["notified"]["params"] == params;
    let is_answer = |line: &Value| line.get("answer").is_some();
    assert!(
        seen.position(is_told) < seen.position(is_answer),
        "{:?}",
        seen.ran
    );
    let states: Vec<_> = seen
        .notified("_onrecord/recording_state")
        .into_iter()
        .filter(|params| params["state"] == "degraded")
        .collect();
    let state = json!({
        "v": 1,
        "sessionId": session,
        "state": "degraded",
        "class": "storage_full",
    });
    assert_eq!(states, [&state], "{:?}", seen.ran);
    // The prompt names the disk, and with it what the client said itself.
    let notified = json!(seen.all("notified")).to_string();
    assert!(!notified.contains(disk.path().to_str().unwrap()), "R28");
}

/// R20.
fn a_client_that_knows_nothing_of_records_goes_on(client: &Client) {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let seen = see_full_disk(client, &disk, &home, true);
    assert_eq!(seen.all("notified").len(), 0);
}
