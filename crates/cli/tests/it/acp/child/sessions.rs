//! How sessions are begun, listed, loaded and shown again.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Gate, StubModel},
};

use super::{Client, held, is_chunk, recording, text, updates};
use crate::world::{onrecord, shell, transcript, valid_prefix};

const WISHED: &str = "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807";
const UNKNOWN: &str = "11111111-1111-4111-8111-111111111111";

fn new(home: &Home, id: &str) -> Value {
    json!({"cwd": home.workspace(), "mcpServers": [], "_meta": {"qwen-code/sessionId": id}})
}

fn named(home: &Home, id: &str) -> Value {
    json!({"sessionId": id, "cwd": home.workspace(), "mcpServers": []})
}

fn in_bulk(home: &Home, id: &str) -> Value {
    let mut params = named(home, id);
    params["_meta"] = json!({"qwen.session.loadReplayMode": "bulk"});
    params
}

#[test]
fn a_new_session_says_what_can_be_chosen_and_its_commands_right_behind() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let params = json!({"cwd": home.workspace(), "mcpServers": []});
    let id = client.rpc.request("session/new", &params);
    let answer = client.rpc.answer(id)["result"].clone();
    let session = answer["sessionId"].as_str().unwrap();
    assert_eq!(session.len(), 36);
    assert_eq!(answer["models"]["currentModelId"], "offline");
    assert_eq!(
        answer["modes"]["availableModes"].as_array().unwrap().len(),
        5
    );
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(0, "the commands", |f| {
        f["params"]["update"]["sessionUpdate"] == "available_commands_update"
    });
    assert!(
        answered < told,
        "what comes before the answer is dropped by a daemon"
    );
    client.end(&home);
    assert!(home.transcripts().is_empty(), "nothing was said yet");
}

#[test]
fn a_wished_id_is_the_sessions_id() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let answer = client.rpc.result("session/new", &new(&home, WISHED));
    assert_eq!(answer["sessionId"], WISHED);
    client.turn(WISHED, "SAY 1 chunks");
    client.end(&home);
    assert!(text(&transcript(&home)).contains(WISHED));
}

/// An id that is taken, open or stored, in this project or another, is nobody else's.
#[test]
fn a_taken_id_is_refused_wherever_it_is_taken() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    client.rpc.result("session/new", &new(&home, WISHED));
    assert_eq!(
        client.rpc.error("session/new", &new(&home, WISHED))["code"],
        -32_602,
        "open"
    );
    client.turn(WISHED, "SAY 1 chunks");
    client.close(WISHED, false);
    let error = client.rpc.error("session/new", &new(&home, WISHED));
    assert_eq!(error["code"], -32_602, "stored: {error}");
    let other = home.path().join("elsewhere");
    fs::create_dir(&other).unwrap();
    let mut params = new(&home, WISHED);
    params["cwd"] = json!(other);
    assert_eq!(
        client.rpc.error("session/new", &params)["code"],
        -32_602,
        "in another project"
    );
    assert_eq!(recording(&client.load(WISHED))["state"], "saved");
    client.end(&home);
}

#[test]
fn one_of_two_that_want_the_same_id_at_once_gets_it() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let both = [
        ("session/new", new(&home, WISHED)),
        ("session/new", new(&home, WISHED)),
    ];
    let ids = client.rpc.request_all(&both);
    let answers: Vec<_> = ids.iter().map(|&id| client.rpc.answer(id)).collect();
    let n_won = answers.iter().filter(|a| a.get("result").is_some()).count();
    assert_eq!(n_won, 1, "{answers:?}");
    assert_eq!(
        client.turn(WISHED, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    client.end(&home);
}

#[test]
fn a_session_that_cannot_be_begun_is_refused_without_a_path() {
    let home = Home::new();
    fs::write(home.workspace().join("a-file"), "").unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let file = home.workspace().join("a-file");
    for params in [
        json!({"cwd": "relative", "mcpServers": []}),
        json!({"cwd": "/does/not/exist", "mcpServers": []}),
        json!({"cwd": file, "mcpServers": []}),
        json!({"cwd": "", "mcpServers": []}),
        json!({"mcpServers": []}),
        json!({"cwd": 1, "mcpServers": []}),
        new(&home, "no-uuid"),
        new(&home, "../../../etc/passwd-aaaa-bbbb-cccc-dd"),
        new(&home, ""),
    ] {
        let error = client.rpc.error("session/new", &params);
        assert_eq!(error["code"], -32_602, "{params}: {error}");
    }
    client.end(&home);
}

/// Sessions of one process know nothing of each other.
#[test]
fn many_sessions_run_at_once_and_each_is_recorded_for_itself() {
    let home = Home::new();
    let stub = StubModel::hello(3);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let sessions: Vec<_> = (0..8).map(|_| client.session()).collect();
    let ids: Vec<_> = sessions
        .iter()
        .map(|session| client.prompt(session, &format!("I am {session}")))
        .collect();
    for id in ids {
        assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    }
    let frames = client.end(&home);
    let all = home.transcripts();
    assert_eq!(all.len(), 8);
    for path in all {
        let records = valid_prefix(&path);
        assert_eq!(records.len(), 2);
        let session = records[0]["sessionId"].as_str().unwrap();
        assert!(records[0].to_string().contains(&format!("I am {session}")));
        let said = updates(&frames, session, "agent_message_chunk");
        let texts = said
            .iter()
            .filter(|u| u["content"]["text"] == "hello world ");
        assert_eq!(texts.count(), 3);
    }
}

/// A session with a prompt, a tool call and two answers, closed again; and its id.
fn stored(home: &Home) -> String {
    let mut client = Client::offline(home, &["--yolo"]).initialized();
    let session = client.session();
    client.turn(&session, &shell("echo the-output"));
    client.turn(&session, "SAY 1 chunks");
    client.close(&session, true);
    client.end(home);
    session
}

/// What a replay shows, in short.
fn shown(updates: &[&Value]) -> Vec<String> {
    let short = |update: &&Value| {
        let kind = update["sessionUpdate"].as_str().unwrap();
        match kind {
            "tool_call" | "tool_call_update" => {
                format!("{kind} {}", update["status"].as_str().unwrap())
            }
            _ => kind.to_owned(),
        }
    };
    updates.iter().map(short).collect()
}

const REPLAYED: [&str; 6] = [
    "user_message_chunk",
    "tool_call pending",
    "tool_call_update completed",
    "agent_message_chunk",
    "user_message_chunk",
    "agent_message_chunk",
];

#[test]
fn a_load_shows_what_was_said_before_it_is_answered() {
    let home = Home::new();
    let session = stored(&home);
    let before = fs::read(transcript(&home)).unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let id = client.rpc.request("session/load", &named(&home, &session));
    let answered = client.rpc.place_of_answer(id);
    let replayed: Vec<_> = client.rpc.seen()[..answered]
        .iter()
        .filter(|f| f["params"]["sessionId"] == session)
        .map(|f| &f["params"]["update"])
        .collect();
    assert_eq!(shown(&replayed), REPLAYED);
    let (call, result) = (replayed[1], replayed[2]);
    assert_eq!(call["toolCallId"], result["toolCallId"]);
    assert_eq!(call["_meta"]["toolName"], "run_shell_command");
    assert_eq!(call["rawInput"]["command"], "echo the-output");
    assert!(
        result["content"].to_string().contains("the-output"),
        "{result}"
    );
    assert!(
        replayed
            .iter()
            .all(|update| update["_meta"]["timestamp"].is_u64())
    );
    assert!(
        client.rpc.answer(id)["result"]["_meta"]
            .get("qwen.session.loadReplay")
            .is_none()
    );
    assert_eq!(
        fs::read(transcript(&home)).unwrap(),
        before,
        "Invariant 3, case-F03"
    );
    let answer = client.turn(&session, "what did I say first?");
    assert_eq!(answer["stopReason"], "end_turn");
    client.end(&home);
}

#[test]
fn a_bulk_load_has_the_same_in_its_answer_and_streams_nothing() {
    let home = Home::new();
    let session = stored(&home);
    let mut client = Client::offline(&home, &[]).initialized();
    let id = client
        .rpc
        .request("session/load", &in_bulk(&home, &session));
    let answered = client.rpc.place_of_answer(id);
    let streamed = client.rpc.seen()[..answered]
        .iter()
        .any(|f| f["method"] == "session/update");
    assert!(!streamed);
    let replay = client.rpc.answer(id)["result"]["_meta"]["qwen.session.loadReplay"].clone();
    assert_eq!(replay["v"], 1);
    assert!(replay.get("partial").is_none(), "{replay}");
    let updates: Vec<_> = replay["updates"].as_array().unwrap().iter().collect();
    assert_eq!(shown(&updates), REPLAYED);
    client.end(&home);
}

#[test]
fn a_resume_shows_nothing_and_goes_on() {
    let home = Home::new();
    let session = stored(&home);
    let mut client = Client::offline(&home, &[]).initialized();
    let answer = client.rpc.result("session/resume", &named(&home, &session));
    assert_eq!(recording(&answer)["state"], "saved");
    assert_eq!(
        answer["modes"]["availableModes"].as_array().unwrap().len(),
        5
    );
    client.turn(&session, "what did I say first?");
    let frames = client.end(&home);
    assert!(updates(&frames, &session, "user_message_chunk").is_empty());
    assert!(updates(&frames, &session, "tool_call").is_empty());
    let said = Value::from(frames).to_string();
    assert!(said.contains("the-output"), "the model knows it: {said}");
}

/// case-F04: exactly what a daemon takes for "there is none"; and no session is made of it.
#[test]
fn an_unknown_session_is_a_typed_error() {
    let home = Home::new();
    let session = stored(&home);
    let mut client = Client::offline(&home, &[]).initialized();
    for method in ["session/load", "session/resume"] {
        for id in [
            UNKNOWN,
            &session[..8],
            "",
            "../../etc",
            &session.to_uppercase(),
        ] {
            let error = client.rpc.error(method, &named(&home, id));
            let expected = json!({
                "code": -32_002,
                "message": format!("Resource not found: session:{id}"),
                "data": {"uri": format!("session:{id}")},
            });
            assert_eq!(error, expected);
        }
        let error = client
            .rpc
            .error(method, &json!({"cwd": home.workspace(), "mcpServers": []}));
        assert_eq!(error["code"], -32_602);
    }
    client.end(&home);
    assert_eq!(home.transcripts().len(), 1);
}

/// The beginning of several ids is none of them.
#[test]
fn the_beginning_of_two_ids_is_not_found() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    for last in ["7", "8"] {
        let id = format!("{}{last}", &WISHED[..35]);
        client.rpc.result("session/new", &new(&home, &id));
        client.turn(&id, "SAY 1 chunks");
    }
    let error = client
        .rpc
        .error("session/load", &named(&home, &WISHED[..35]));
    assert_eq!(error["code"], -32_002, "{error}");
    client.end(&home);
}

/// R5: whoever comes second is told, and the record of the first is left alone.
#[test]
fn a_session_that_another_process_has_open_is_refused_and_said_to_be() {
    let home = Home::new();
    let session = stored(&home);
    let mut first = Client::offline(&home, &[]).initialized();
    first.load(&session);
    let mut second = Client::offline(&home, &[]).initialized();
    let error = second.rpc.error("session/load", &named(&home, &session));
    assert_eq!(error["code"], -32_603, "{error}");
    let details = error["data"]["details"].as_str().unwrap();
    assert!(details.contains("open in another process"), "{details}");
    assert_eq!(
        first.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    first.close(&session, false);
    assert_eq!(
        recording(&second.load(&session))["state"],
        "saved",
        "let go with its close"
    );
    first.end(&home);
    second.end(&home);
}

/// A session that this process has open is attached to; what was said is shown again.
#[test]
fn a_session_that_is_open_here_is_shown_again_and_its_prompt_goes_on() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let prompt = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    let from = client.rpc.seen().len();
    client.load(&session);
    let again = updates(&client.rpc.seen()[from..], &session, "user_message_chunk");
    assert_eq!(again.len(), 1);
    gate.open();
    assert_eq!(
        client.rpc.answer(prompt)["result"]["stopReason"],
        "end_turn"
    );
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

#[test]
fn two_loads_of_one_session_at_once_are_both_answered_and_open_it_once() {
    let home = Home::new();
    let session = stored(&home);
    let mut client = Client::offline(&home, &[]).initialized();
    let both = [
        ("session/load", in_bulk(&home, &session)),
        ("session/load", in_bulk(&home, &session)),
    ];
    let ids = client.rpc.request_all(&both);
    let answers: Vec<_> = ids.iter().map(|&id| client.rpc.answer(id)).collect();
    assert!(
        answers.iter().any(|a| a.get("result").is_some()),
        "{answers:?}"
    );
    for answer in answers
        .iter()
        .filter(|answer| answer.get("error").is_some())
    {
        let details = &answer["error"]["data"]["details"];
        assert!(details.as_str().unwrap().contains("try again"), "{details}");
    }
    client.turn(&session, "SAY 1 chunks");
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 8);
}

/// case-F01, case-M05: whole records of a damaged transcript are shown, and what comes is saved.
#[test]
fn a_damaged_transcript_is_shown_as_far_as_it_is_whole_and_goes_on() {
    let home = Home::new();
    let session = stored(&home);
    let path = transcript(&home);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"uuid\":\"torn"].concat()).unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let answer = client.rpc.result("session/load", &in_bulk(&home, &session));
    let replay = answer["_meta"]["qwen.session.loadReplay"]["updates"].clone();
    let replayed: Vec<_> = replay.as_array().unwrap().iter().collect();
    assert_eq!(shown(&replayed), REPLAYED);
    assert_eq!(
        fs::read(&path).unwrap(),
        whole,
        "B3: it is about to be continued"
    );
    let answer = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&answer)["state"], "saved");
    client.end(&home);
    assert_eq!(valid_prefix(&path).len(), 8);
}

/// case-F07, case-M05: what cannot be read at all is an error, and never another session.
#[test]
fn a_transcript_without_a_readable_record_is_no_panic_and_no_path() {
    let home = Home::new();
    let session = stored(&home);
    let path = transcript(&home);
    for bytes in [
        &b""[..],
        b"\n\n",
        b"no JSON at all\n",
        b"\xff\xff\n{}\n[]\n",
    ] {
        fs::write(&path, bytes).unwrap();
        let mut client = Client::offline(&home, &[]).initialized();
        let answer = client.rpc.call("session/load", &in_bulk(&home, &session));
        assert!(answer.get("result").is_some() != answer.get("error").is_some());
        client.end(&home);
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_list_holds_what_is_stored_newest_first_and_of_one_folder() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    assert_eq!(
        client.rpc.result("session/list", &json!({})),
        json!({"sessions": []})
    );
    let (one, two) = (client.session(), client.session());
    client.turn(&one, "the first prompt");
    client.turn(&two, "another prompt");
    let title = json!({"sessionId": two, "displayName": "the title"});
    client.rpc.result("qwen/control/session/title", &title);
    let all = client.rpc.result("session/list", &json!({}));
    let here = client
        .rpc
        .result("session/list", &json!({"cwd": home.workspace()}));
    assert_eq!(all, here);
    let rows = all["sessions"].as_array().unwrap();
    let ids: Vec<_> = rows
        .iter()
        .map(|row| row["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    let row = |id: &str| rows.iter().find(|row| row["sessionId"] == id).unwrap();
    assert_eq!(row(&one)["title"], "the first prompt");
    assert_eq!(row(&two)["title"], "the title");
    assert_eq!(row(&two)["_meta"]["preview"], "another prompt");
    assert_eq!(row(&one)["cwd"], text(&home.workspace()));
    assert!(row(&one).get("filePath").is_none(), "R28");
    let elsewhere = client
        .rpc
        .result("session/list", &json!({"cwd": home.user_home()}));
    assert_eq!(elsewhere, json!({"sessions": []}));
    client.end(&home);
}

/// R27: a session that was never stored is in no list.
#[test]
fn a_session_that_is_not_saved_is_not_listed() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    client.session();
    assert_eq!(
        client.rpc.result("session/list", &json!({})),
        json!({"sessions": []})
    );
    client.end(&home);
}

/// What other doors of the binary stored is loaded through this one, and the other way round.
#[test]
fn a_session_of_a_run_is_loaded_and_one_of_a_client_is_resumed() {
    let home = Home::new();
    onrecord(&home, &["--model", "offline", "-p", "said in a run"]);
    let path = transcript(&home);
    let session = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut client = Client::offline(&home, &[]).initialized();
    client.load(&session);
    client.turn(&session, "said over ACP");
    let frames = client.end(&home);
    let prompts = updates(&frames, &session, "user_message_chunk");
    assert_eq!(prompts[0]["content"]["text"], "said in a run");
    let resume = [
        "--model",
        "offline",
        "--resume",
        &session,
        "-p",
        "what did I say first?",
    ];
    assert!(onrecord(&home, &resume).stdout.contains("said in a run"));
    assert_eq!(valid_prefix(&path).len(), 6);
}

/// A transcript is read a page at a time, from its beginning or from its end.
#[test]
fn a_transcript_is_given_in_pages_that_make_up_the_whole() {
    const TRANSCRIPT: &str = "qwen/status/session/transcript";
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    for _ in 0..3 {
        client.turn(&session, "SAY 1 chunks");
    }
    let whole = client
        .rpc
        .result(TRANSCRIPT, &json!({"sessionId": session}));
    let whole = whole["events"].as_array().unwrap().clone();
    assert!(whole.len() >= 6);
    for direction in ["forward", "backward"] {
        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params =
                json!({"sessionId": session, "limit": 2, "cursor": cursor, "direction": direction});
            let page = client.rpc.result(TRANSCRIPT, &params);
            pages.push(page["events"].as_array().unwrap().clone());
            cursor = page["nextCursor"].clone();
            assert_eq!(page["hasMore"] == true, cursor.is_string());
            if cursor.is_null() {
                break;
            }
        }
        if direction == "backward" {
            pages.reverse();
        }
        assert_eq!(pages.concat(), whole, "{direction}");
    }
    for wrong in [
        json!({"cursor": "x"}),
        json!({"cursor": "f999"}),
        json!({"limit": 0}),
    ] {
        let mut params = wrong;
        params["sessionId"] = json!(session);
        assert_eq!(client.rpc.error(TRANSCRIPT, &params)["code"], -32_602);
    }
}
