//! `onrecord remote`: scripts that use a daemon.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{
    faults::Immutable,
    home::Home,
    run::{Outcome, run},
    served::Served,
    stub_model::{Gate, Reply, StubModel},
};

use super::{Hosted, ours};
use crate::world::{ONRECORD, messages, shell};

fn remote(home: &Home, daemon: &Served, args: &[&str]) -> Command {
    let mut command = home.command(ONRECORD);
    command
        .arg("remote")
        .args(args)
        .env("ONRECORD_URL", format!("http://{}", daemon.address()));
    command
}

fn ran(home: &Home, daemon: &Served, args: &[&str]) -> Outcome {
    run(&mut remote(home, daemon, args))
}

fn first<'a>(all: &'a [Value], kind: &str) -> &'a Value {
    let found = all.iter().find(|message| message["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {all:?}"))
}

fn a_script_prompts_lists_and_watches(hosted: Hosted) {
    let (home, stub) = (Home::new(), StubModel::hello(2));
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let said = ran(&home, &daemon, &["prompt", "say hello"]);
    assert_eq!(
        (said.code, &*said.stdout, &*said.stderr),
        (0, "hello world hello world \n", "")
    );

    let said = ran(&home, &daemon, &["prompt", "--json", "say hello"]);
    let result = &messages(&said)[0];
    assert_eq!(result["text"], "hello world hello world ");
    assert_eq!(result["stopReason"], "end_turn");
    assert_eq!(result["recording"]["degraded"], false);
    let id = result["sessionId"].as_str().unwrap();

    let listed = ran(&home, &daemon, &["list", "--json"]);
    assert!(
        messages(&listed).iter().any(|row| row["sessionId"] == id),
        "{listed:?}"
    );
    let one = ran(&home, &daemon, &["list", "--limit", "1"]);
    assert_eq!(one.stdout_lines().len(), 1);
    assert!(one.stdout_lines()[0].contains("idle"));

    let again = ran(&home, &daemon, &["prompt", "--session", id, "once more"]);
    assert_eq!(
        (again.code, again.stdout),
        (0, "hello world hello world \n".to_owned())
    );

    let watching = remote(&home, &daemon, &["watch", "--json", id]);
    let watched = while_running(
        watching,
        |line| line["type"] == "session",
        || {
            daemon.good("DELETE", &format!("/session/{id}"), None);
        },
    );
    let texts: Vec<&str> = watched
        .iter()
        .filter(|line| line["type"] == "item" && line["item"]["role"] != "thought")
        .map(|line| line["item"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "say hello",
            "hello world hello world ",
            "once more",
            "hello world hello world "
        ]
    );
    assert_eq!(first(&watched, "notice")["notice"]["kind"], "session_ended");
    assert_eq!(watched.last().unwrap()["status"], "ended");
}

/// Runs a command, and does something at the first line that is awaited; its lines up to its good end.
fn while_running(
    mut command: Command,
    awaited: impl Fn(&Value) -> bool,
    act: impl FnOnce(),
) -> Vec<Value> {
    use std::io::{BufRead, BufReader};
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut act = Some(act);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let is_awaited = awaited(&line);
        lines.push(line);
        if is_awaited && let Some(act) = act.take() {
            act();
        }
    }
    assert!(child.wait().unwrap().success());
    lines
}

#[test]
fn a_script_prompts_lists_and_watches_our_daemon() {
    a_script_prompts_lists_and_watches(Hosted::Ours);
}

#[test]
fn a_script_prompts_lists_and_watches_the_real_daemon() {
    a_script_prompts_lists_and_watches(Hosted::OursByReal);
}

/// R11, R26, B6: once, on standard error; a good turn stays one, unless its record is required.
#[test]
fn a_script_is_told_once_that_the_record_failed() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    let saved = ran(&home, &daemon, &["prompt", "--json", "saved"]);
    let id = messages(&saved)[0]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    let Some(_immutable) = Immutable::new(&home.transcripts()[0]) else {
        return;
    };
    let warning = "Warning: Recording of this session stopped";
    let lost = ran(&home, &daemon, &["prompt", "--session", &id, "lost"]);
    assert_eq!(
        (lost.code, lost.stderr.matches(warning).count()),
        (0, 1),
        "{lost:?}"
    );
    assert!(lost.stdout.starts_with("hello world"));
    let strict = [
        "prompt",
        "--json",
        "--require-recording",
        "--session",
        &id,
        "lost too",
    ];
    let lost = ran(&home, &daemon, &strict);
    assert_eq!(
        (lost.code, lost.stderr.matches(warning).count()),
        (74, 1),
        "{lost:?}"
    );
    let result = &messages(&lost)[0];
    assert_eq!(
        (&result["isError"], &result["recording"]["degraded"]),
        (&false.into(), &true.into())
    );
    assert!(!lost.stderr.contains(home.path().to_str().unwrap()), "R28");
    let listed = ran(&home, &daemon, &["list"]);
    assert!(listed.stdout.contains("NOT SAVED"), "{listed:?}");
}

/// B1, B6, R27: a record that never began is no saved one.
#[test]
fn a_script_is_told_that_nothing_is_saved() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    // Where the projects' folder would be.
    std::fs::create_dir_all(home.data_root()).unwrap();
    std::fs::write(home.data_root().join("projects"), "").unwrap();
    let lost = ran(&home, &daemon, &["prompt", "--json", "lost"]);
    assert_eq!(messages(&lost)[0]["recording"]["state"], "never_started");
    assert_eq!(
        (
            lost.code,
            lost.stderr
                .matches("nothing of this session was saved")
                .count()
        ),
        (0, 1),
        "{lost:?}"
    );
    let lost = ran(&home, &daemon, &["prompt", "--require-recording", "lost"]);
    assert_eq!(lost.code, 74);
    let listed = ran(&home, &daemon, &["list"]);
    assert_eq!(listed.stdout.matches("NOT SAVED").count(), 2, "{listed:?}");
    let deep = daemon.good("GET", "/health?deep=1", None);
    assert_eq!(deep["recordingNeverStarted"], 2);
    let metrics = testkit::http::ask(daemon.address(), "GET", "/metrics", None);
    assert_eq!(metrics.0, 404, "they are off");
}

#[test]
fn what_would_ask_is_refused_where_nobody_sits() {
    let (home, stub) = (Home::new(), StubModel::prompts(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    let prompt = [
        "prompt",
        "--approval-mode",
        "default",
        &*shell("touch made"),
    ];
    let said = ran(&home, &daemon, &prompt);
    assert!(
        said.stderr.contains("refused, as nobody can be asked here"),
        "{said:?}"
    );
    assert!(!home.workspace().join("made").exists());
    let prompt = ["prompt", "--approval-mode", "yolo", &*shell("touch made")];
    assert_eq!(ran(&home, &daemon, &prompt).code, 0);
    assert!(home.workspace().join("made").exists());
}

#[test]
fn a_daemon_that_cannot_be_used_is_told_with_the_mend() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(ours(&home, &stub).args(["--token", "s3cret", "--require-auth"]));
    let nobody = "00000000-0000-4000-8000-000000000000";
    for (args, told) in [
        (&["list"][..], "--token or ONRECORD_TOKEN"),
        (&["--token", "s3cret", "watch", nobody], "No session"),
        (
            &["--token", "s3cret", "prompt", "--session", nobody, "x"],
            "session_not_found",
        ),
        (
            &["--url", "http://127.0.0.1:9", "prompt", "x"],
            "start `onrecord serve`",
        ),
        (
            &["--url", "http://127.0.0.1:9", "watch", nobody],
            "start `onrecord serve`",
        ),
        (&["--url", "ftp://x", "list"], "no http address"),
    ] {
        let refused = ran(&home, &daemon, args);
        assert_eq!(refused.code, 1, "{args:?}");
        assert!(
            refused.stderr.contains(told),
            "{args:?}: {}",
            refused.stderr
        );
        assert_eq!(refused.stdout, "");
    }
}

#[test]
fn a_failed_turn_and_a_cancelled_one_are_told_apart() {
    let gate = Gate::new();
    let home = Home::new();
    let stub = StubModel::replies(vec![
        Reply::json(400, "{\"error\":{\"message\":\"no such thing\"}}"),
        Reply::stream()
            .text("half")
            .gate(&gate)
            .finish("stop")
            .done(),
    ]);
    let daemon = Served::start(&mut ours(&home, &stub));
    let failed = ran(&home, &daemon, &["prompt", "x"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("the turn failed"), "{failed:?}");

    let mut prompting = remote(&home, &daemon, &["prompt", "x"]);
    let child = prompting
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert!(gate.wait_until_reached(Duration::from_secs(30)));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    gate.open();
    let rows = ran(&home, &daemon, &["list", "--json"]);
    assert!(
        messages(&rows)
            .iter()
            .all(|row| row["hasActivePrompt"] == false),
        "{rows:?}"
    );
}

/// Whatever answers there: what is no answer of a daemon ends the command, and takes no memory.
#[test]
fn what_answers_without_end_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || endless(client));
        }
    });
    let home = Home::new();
    let refused = run(home
        .command(ONRECORD)
        .args(["remote", "--url", &url, "list"]));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("not understood"), "{refused:?}");
}

fn endless(mut client: TcpStream) {
    // Dropped: a request that is cut short is answered all the same.
    _ = client.read(&mut [0; 4096]);
    // Dropped: the one that asked has seen enough.
    _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
    let chunk = vec![b' '; 1 << 16];
    while client.write_all(&chunk).is_ok() {}
}
