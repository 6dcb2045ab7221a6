//! What others reported of daemons like this one, tried on ours (`case-` names the report).

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{
    faults::Immutable,
    home::Home,
    served::{Served, of_type},
    stub_model::{Gate, Reply, StubModel},
};

use super::ours;

/// Processes that were started in this home, by their environment.
fn processes_of(home: &Home) -> Vec<u32> {
    let mark = home.path().to_str().unwrap().to_owned();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        })
        .collect()
}

fn wait_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::yield_now();
    }
}

/// A daemon that is killed leaves no process behind, and its agent saves what was said; the next one goes on.
#[test]
fn case_k04_a_killed_daemon_leaves_nothing_running_and_what_was_saved() {
    let gate = Gate::new();
    let home = Home::new();
    let stub = StubModel::replies(vec![
        Reply::stream()
            .text("half")
            .gate(&gate)
            .finish("stop")
            .done(),
        Reply::hello(1),
    ]);
    let daemon = Served::start(&mut ours(&home, &stub));
    let session = daemon.session("default");
    daemon.prompt(&session, "interrupted");
    assert!(gate.wait_until_reached(Duration::from_secs(30)));
    daemon.signal(Signal::KILL);
    wait_for("the end of all processes", || {
        processes_of(&home).is_empty()
    });
    gate.open();
    drop(daemon);

    let daemon = Served::start(&mut ours(&home, &stub));
    let workspace = home.workspace().to_str().unwrap().replace('/', "%2F");
    let listed = daemon.good("GET", &format!("/workspace/{workspace}/sessions"), None);
    let row = &listed["sessions"][0];
    assert_eq!(
        (&row["sessionId"], &row["hasActivePrompt"]),
        (&json!(session), &json!(false))
    );
    let loaded = daemon.good(
        "POST",
        &format!("/session/{session}/load"),
        Some(&json!({})),
    );
    let shown = loaded["compactedReplay"].to_string();
    assert!(
        shown.contains("interrupted") && shown.contains("half"),
        "{shown}"
    );
    let mut events = daemon.events(&session, "");
    let ended = daemon.turn(&session, &mut events, "again");
    assert_eq!(ended["data"]["stopReason"], "end_turn");
}

/// R16: the notice belongs to the session whose record failed.
#[test]
fn case_k06_of_two_sessions_only_the_one_that_failed_is_told_of() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    let (lost, kept) = (daemon.session("default"), daemon.session("default"));
    let mut events = [&lost, &kept].map(|session| daemon.events(session, "?snapshot=1"));
    daemon.turn(&lost, &mut events[0], "saved");
    let Some(_immutable) = Immutable::new(&home.transcripts()[0]) else {
        return;
    };
    for (session, events) in [&lost, &kept].into_iter().zip(&mut events) {
        daemon.turn(session, events, "and now");
        daemon.turn(session, events, "and again");
    }
    let n_told = |events| of_type(events, "session_recording_degraded").len();
    assert_eq!((n_told(&events[0]), n_told(&events[1])), (1, 0));
    let degraded = |session: &str| {
        let status = daemon.good("GET", &format!("/session/{session}/status"), None);
        status["recordingDegraded"].clone()
    };
    assert_eq!(
        (degraded(&lost), degraded(&kept)),
        (json!(true), json!(false))
    );
}

/// Whoever joins late sees an open question as those did who were there.
#[test]
fn case_k02_a_late_client_sees_the_whole_question() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let daemon = Served::start(&mut ours(&home, &stub));
    let session = daemon.session("default");
    let mut events = daemon.events(&session, "");
    daemon.prompt(&session, &crate::world::shell("touch made"));
    let asked = events.until("the question", |event| {
        event["type"] == "permission_request"
    });
    let epoch = daemon.good(
        "POST",
        &format!("/session/{session}/load"),
        Some(&json!({})),
    );
    let journal = epoch["liveJournal"].as_array().unwrap();
    let shown: Vec<&Value> = journal
        .iter()
        .filter(|event| event["type"] == "permission_request")
        .collect();
    assert_eq!(shown.len(), 1, "{journal:?}");
    assert_eq!(shown[0]["data"], asked["data"]);
    let status = daemon.good("GET", &format!("/session/{session}/status"), None);
    assert_eq!(
        status["pendingInteractions"][0]["requestId"],
        asked["data"]["requestId"]
    );
    daemon.good(
        "POST",
        &format!("/session/{session}/cancel"),
        Some(&json!({})),
    );
}

/// A session that is closed gives its memory back.
#[test]
fn case_j04_sessions_that_come_and_go_take_no_memory() {
    const ROUNDS: usize = 120;
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let daemon = Served::start(&mut ours(&home, &stub));
    let text = "x".repeat(100_000);
    let round = || {
        let session = daemon.session("default");
        let mut events = daemon.events(&session, "");
        daemon.turn(&session, &mut events, &text);
        daemon.good("DELETE", &format!("/session/{session}"), None);
    };
    (0..30).for_each(|_| round());
    let before = rss_kib(daemon.pid());
    (0..ROUNDS).for_each(|_| round());
    let grown = rss_kib(daemon.pid()).saturating_sub(before);
    // Each of them holds its prompt and its events while it lives: more than 200 KiB.
    assert!(grown < 16 << 10, "{grown} KiB more after {ROUNDS} sessions");
}

fn rss_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Beyond this machine nothing is served without a token, and a port that is taken is told with the mend.
#[test]
fn a_daemon_that_cannot_begin_says_why() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, told) in [
        (&["--hostname", "0.0.0.0"][..], "ONRECORD_TOKEN"),
        (&["--port", &port], "another --port"),
        (&["--workspace", "/nowhere/at/all"], "--workspace"),
    ] {
        let mut command: Command = home.command(crate::world::ONRECORD);
        command
            .arg("serve")
            .args(args)
            .env("OPENAI_BASE_URL", stub.base_url());
        let refused = testkit::run::run(&mut command);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        assert!(
            refused.stderr.contains(told),
            "{args:?}: {}",
            refused.stderr
        );
    }
}
