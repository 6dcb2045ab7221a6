//! The child: its start, its end, and what it may do wrong.

use std::{
    ffi::OsString,
    sync::Arc,
    time::{Duration, Instant},
};

use bridge::{Bridge, Command, Ended, Error, Launch};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::rig::{Rig, bridge, data, kinds, nobody, options, rig, said, settle, thread};

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_shake_hands_in_time_is_killed() {
    let (bridge, mut launches) = bridge(options());
    let creating = tokio::spawn({
        let bridge = bridge.clone();
        async move { bridge.create(&nobody(), thread()).await }
    });
    let mut child = launches.next().await;
    let hello = child.heard("initialize").await;
    assert_eq!(
        hello["params"]["clientCapabilities"]["fs"]["writeTextFile"],
        false
    );
    let refused = creating.await.unwrap();
    let timed_out = Error::InitTimeout {
        timeout_ms: 10_000,
        phase: "initialize",
    };
    assert_eq!(
        format!("{refused:?}"),
        format!("{:?}", Err::<(), _>(timed_out))
    );
    child.killed().await;
    // Another is started for the next request.
    let retried = tokio::spawn(async move { bridge.create(&nobody(), thread()).await });
    let mut child = launches.plain().await;
    let request = child.heard("session/new").await;
    child.answer(&request, &json!({"sessionId": "s"})).await;
    assert!(retried.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_child_that_dies_in_a_turn_ends_its_sessions_in_order() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.session("t").await;
    let (mut busy, mut idle) = (rig.stream("s"), rig.stream("t"));
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    rig.bridge.prompt(&nobody(), "s", said("y")).unwrap();
    rig.child.heard("session/prompt").await;
    rig.child.die();
    let frames = busy.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "pending_prompt_added",
            "prompt_cancelled",
            "turn_error",
            "pending_prompt_started",
            "user_message_chunk",
            "turn_error",
            "prompt_cancelled",
            "session_died"
        ]
    );
    assert_eq!(data(&frames[3])["reason"], "forward_failed");
    assert!(data(&frames[4]).get("code").is_none());
    let died = json!({
        "sessionId": "s",
        "reason": "channel_closed",
        "exitCode": null,
        "signalCode": "SIGKILL",
    });
    assert_eq!(data(frames.last().unwrap()), died);
    assert_eq!(kinds(&idle.rest().await)[1..], ["session_died"]);
    assert!(rig.bridge.status("s").is_err());
    assert!(!rig.bridge.health().channel_alive);
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_output_ends_is_ended() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.child.end_output();
    let killed = rig.child.killed().await;
    assert_eq!(killed.signal.as_deref(), Some("SIGKILL"));
    assert_eq!(kinds(&stream.rest().await)[1..], ["session_died"]);
}

#[tokio::test]
async fn a_bad_line_costs_itself_and_too_many_cost_the_child() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    for _ in 0..99 {
        rig.child.say("hello, I am a banner").await;
    }
    rig.child
        .say("{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":1}\n[]")
        .await;
    rig.child.chunk("s", "still here").await;
    let mut stream = rig.stream("s");
    let _frames = stream.until("replay_complete").await;
    for _ in 0..98 {
        rig.child.say("{").await;
    }
    rig.child.chunk("s", "still here").await;
    for _ in 0..100 {
        rig.child.say("noise").await;
    }
    assert_eq!(rig.child.killed().await.signal.as_deref(), Some("SIGKILL"));
    assert_eq!(stream.rest().await.pop().unwrap().kind, "session_died");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_offers_pings_and_hangs_is_killed() {
    let (bridge, mut launches) = bridge(options());
    let preheat = tokio::spawn({
        let bridge = bridge.clone();
        async move { bridge.preheat().await }
    });
    let mut child = launches.next().await;
    child
        .initialize(&json!({"qwen.daemon.channelLiveness": {"v": 1}}))
        .await;
    preheat.await.unwrap();
    for nonce in 0..2 {
        let ping = child.heard("qwen/status/channel/ping").await;
        assert_eq!(ping["params"], json!({"v": 1, "nonce": nonce}));
        child.answer(&ping, &ping["params"].clone()).await;
    }
    // From here on it is silent.
    child.killed().await;
    assert_eq!(child.untaken().len(), 0);
    assert_eq!(
        child.next().await.unwrap()["method"],
        "qwen/status/channel/ping"
    );
    settle().await;
    assert!(!bridge.health().channel_alive);
}

#[tokio::test]
async fn a_wrong_answer_to_a_ping_ends_the_child() {
    tokio::time::pause();
    let (bridge, mut launches) = bridge(options());
    let preheat = tokio::spawn(async move {
        bridge.preheat().await;
        bridge
    });
    let mut child = launches.next().await;
    child
        .initialize(&json!({"qwen.daemon.channelLiveness": {"v": 1}}))
        .await;
    let _bridge = preheat.await.unwrap();
    let ping = child.heard("qwen/status/channel/ping").await;
    child.answer(&ping, &json!({"v": 1, "nonce": 9})).await;
    child.killed().await;
}

#[tokio::test]
async fn what_is_not_known_is_refused_or_ignored() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.child.notify("qwen/notify/unheard_of", &json!({})).await;
    for method in [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "x",
    ] {
        rig.child
            .ask(&json!(method), method, &json!({"sessionId": "s"}))
            .await;
        let answer = rig.child.answer_to(&json!(method)).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    let ask = json!({"sessionId": "s"});
    rig.child
        .ask(&json!(1), "craft/drainMidTurnQueue", &ask)
        .await;
    let answer = rig.child.answer_to(&json!(1)).await;
    let empty = json!({"messages": [], "items": [], "hasQueuedPrompt": false});
    assert_eq!(answer["result"], empty);
}

#[tokio::test]
async fn a_bridge_that_nobody_has_kills_its_child() {
    let Rig {
        bridge, mut child, ..
    } = rig(options()).await;
    let other = bridge.clone();
    drop(bridge);
    settle().await;
    assert!(other.health().channel_alive);
    drop(other);
    child.killed().await;
}

/// Streams hear the end of a turn and of the record before the last word.
#[tokio::test]
async fn a_shutdown_tells_every_session_last() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.session("t").await;
    let (mut busy, mut idle) = (rig.stream("s"), rig.stream("t"));
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    rig.bridge.prompt(&nobody(), "s", said("waits")).unwrap();
    let bridge = rig.bridge.clone();
    let stopping = tokio::spawn(async move { bridge.shutdown().await });
    rig.child.heard("craft/cancelPendingPrompt").await;
    rig.child.terminated().await;
    assert!(matches!(
        rig.bridge.create(&nobody(), thread()).await,
        Err(Error::Draining)
    ));
    rig.child
        .answer(&prompt, &json!({"stopReason": "cancelled"}))
        .await;
    rig.child.degraded("t").await;
    rig.child.end_output();
    // Some agents end with a failure where a record failed.
    rig.child.exit(1);
    assert!(stopping.await.unwrap());
    let frames = busy.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "pending_prompt_added",
            // What waits is told behind what runs, as by a close (§14).
            "turn_complete",
            "pending_prompt_started",
            "user_message_chunk",
            "turn_error",
            "prompt_cancelled",
            "session_died"
        ]
    );
    let died = frames.last().unwrap();
    assert_eq!(
        data(died),
        json!({"sessionId": "s", "reason": "daemon_shutdown"})
    );
    assert!(died.id.is_some());
    let frames = idle.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        ["session_recording_degraded", "session_died"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_child_that_hangs() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let began = tokio::time::Instant::now();
    let bridge = rig.bridge.clone();
    let stopping = tokio::spawn(async move { bridge.shutdown().await });
    let frames = stream.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "turn_error",
            "prompt_cancelled",
            "session_died"
        ]
    );
    assert!(
        began.elapsed() <= Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert!(!stopping.await.unwrap());
    assert!(began.elapsed() <= Duration::from_secs(6));
    rig.child.killed().await;
}

/// A shell that runs this script.
fn shell(script: &str) -> Command {
    Command {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: vec![
            ("SET".into(), Some("yes".into())),
            ("HOME".into(), None::<OsString>),
        ],
    }
}

/// Whether a process is there, and no zombie.
fn is_there(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    !after_name.is_empty() && !after_name.trim_start().starts_with('Z')
}

/// Whether a process is there in any form.
fn is_any(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

async fn gone(is_left: impl Fn() -> bool) {
    let began = Instant::now();
    while is_left() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it is still there"
        );
        tokio::task::yield_now().await;
    }
}

/// The child's pid and that of a process that it started.
async fn pids(output: &mut (impl tokio::io::AsyncRead + Unpin)) -> (String, String) {
    let mut text = String::new();
    while text.matches('\n').count() < 2 {
        let byte = output.read_u8().await.unwrap();
        text.push(char::from(byte));
    }
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.next().unwrap())
}

const WITH_GRANDCHILD: &str = "trap '' TERM; sleep 1000 & echo $$; echo $!; wait";

#[tokio::test]
async fn a_dropped_process_leaves_nothing_behind() {
    let mut child = shell(WITH_GRANDCHILD).launch().unwrap();
    let (pid, grandchild) = pids(&mut child.output).await;
    assert!(is_there(&pid) && is_there(&grandchild));
    drop(child);
    gone(|| is_any(&pid) || is_there(&grandchild)).await;
}

#[tokio::test]
async fn a_process_that_ends_takes_with_it_what_it_started() {
    let mut child = shell("sleep 1000 & echo $$; echo $!; exit 3")
        .launch()
        .unwrap();
    let (pid, grandchild) = pids(&mut child.output).await;
    let ended = child.handle.ended().await;
    assert_eq!((ended.exit_code, ended.signal), (Some(3), None));
    gone(|| is_any(&pid) || is_there(&grandchild)).await;
    // Too late for anybody to be hit.
    child.handle.kill();
}

#[tokio::test]
async fn a_process_is_asked_to_end_and_then_killed() {
    let mut polite = shell("trap 'exit 0' TERM; echo a; echo b; while :; do sleep 0.01; done")
        .launch()
        .unwrap();
    pids(&mut polite.output).await;
    polite.handle.terminate();
    assert_eq!(polite.handle.ended().await.exit_code, Some(0));
    let mut stubborn = shell(WITH_GRANDCHILD).launch().unwrap();
    let (_, grandchild) = pids(&mut stubborn.output).await;
    stubborn.handle.terminate();
    stubborn.handle.kill();
    let killed = Ended {
        exit_code: None,
        signal: Some("SIGKILL".to_owned()),
    };
    assert_eq!(stubborn.handle.ended().await, killed);
    gone(|| is_there(&grandchild)).await;
}

#[tokio::test]
async fn a_process_has_the_environment_that_it_is_given() {
    let script = "echo \"$SET\"; echo \"${HOME-unset}\"; yes noise | head -c 1000000 >&2";
    let mut child = shell(script).launch().unwrap();
    assert_eq!(
        pids(&mut child.output).await,
        ("yes".to_owned(), "unset".to_owned())
    );
    // Its standard error is read, however much it says.
    assert_eq!(child.handle.ended().await.exit_code, Some(0));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_without_its_path() {
    let mut command = shell("");
    command.program = "/nowhere/agent".into();
    let bridge = Bridge::new(options(), Arc::new(command));
    let refused = bridge.create(&nobody(), thread()).await.unwrap_err();
    assert!(matches!(refused, Error::AgentGone));
    assert!(!refused.to_string().contains("nowhere"));
}
