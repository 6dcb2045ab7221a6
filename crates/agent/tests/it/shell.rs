//! `run_shell_command`: output, limits, and that nothing outlives a call.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use agent::tool::{Context, Display, Output, ToolError, Workspace, find, registry};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use wire::limits::{SHELL_OUTPUT_BYTES_MAX, SHELL_PROGRESS_BYTES_MAX, TOOL_RESULT_BYTES_MAX};

use crate::tools::{alone, block_on, is_alone, run_alone};

/// A folder and a context in it; the token fires when progress shows the word.
struct Place {
    dir: TempDir,
    context: Context,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new() -> Self {
        Self::cancelled_at(None)
    }

    fn cancelled_at(word: Option<&'static str>) -> Self {
        let dir = TempDir::new().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let cancel = CancellationToken::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = {
            let (seen, cancel) = (Arc::clone(&seen), cancel.clone());
            move |text: String| {
                let mut seen = seen.lock().unwrap();
                seen.push(text);
                if word.is_some_and(|word| seen.concat().contains(word)) {
                    cancel.cancel();
                }
            }
        };
        let context = Context {
            editor: None,
            workspace: Arc::new(Workspace {
                root,
                allowed: Vec::new(),
                data_root: None,
                open_files: None,
            }),
            cancel,
            progress: Arc::new(progress),
        };
        Self { dir, context, seen }
    }

    fn with_open_files(mut self, limit: u64) -> Self {
        let mut workspace = Workspace::clone(&self.context.workspace);
        workspace.open_files = Some(limit);
        self.context.workspace = Arc::new(workspace);
        self
    }

    async fn run(&self, args: Value) -> Result<Output, ToolError> {
        let tools = registry();
        let tool = find(&tools, "run_shell_command").unwrap();
        tool.run(&args.to_string(), &self.context).await
    }

    async fn sh(&self, command: &str) -> Result<Output, ToolError> {
        self.run(json!({ "command": command })).await
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().concat()
    }
}

/// Processes, zombies included, whose group is this one.
fn n_processes_of_group(group: u32) -> usize {
    let in_group = |stat: &str| {
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let mut fields = after_name.split(' ');
        let (state, group_of_it) = (fields.next(), fields.nth(1));
        // What a dead parent left is reaped by the system's first process, in its own time.
        group_of_it == Some(&group.to_string()) && state != Some("Z")
    };
    let processes = fs::read_dir("/proc").unwrap();
    let stats =
        processes.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    stats.filter(|stat| in_group(stat)).count()
}

fn number_after(text: &str, word: &str) -> u32 {
    let rest = text.split_once(word).expect(word).1;
    rest.split(|char: char| !char.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn output_and_errors_come_in_the_order_in_which_they_were_printed() {
    let place = Place::new();
    let out = place
        .sh("echo one; echo two >&2; echo three")
        .await
        .unwrap();
    assert_eq!(out.text, "one\ntwo\nthree\n");
    let Display::Shell {
        directory,
        output,
        exit_code,
        signal,
    } = out.display
    else {
        panic!("{:?}", out.display)
    };
    assert_eq!(
        (output.as_str(), exit_code, signal),
        ("one\ntwo\nthree\n", Some(0), None)
    );
    assert_eq!(directory, fs::canonicalize(place.dir.path()).unwrap());
}

#[tokio::test]
async fn a_silent_command_says_so() {
    assert_eq!(
        Place::new().sh("true").await.unwrap().text,
        "[The command printed nothing.]"
    );
}

#[tokio::test]
async fn a_failed_command_is_an_error_with_its_output() {
    let place = Place::new();
    let error = place.sh("echo before; exit 3").await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        ("exit", "before\n[Exit code 3.]")
    );
    let error = place.sh("printf x; kill -9 $$").await.unwrap_err();
    assert_eq!(error.message, "x\n[The command was ended by signal 9.]");
}

#[tokio::test]
async fn arguments_that_cannot_be_kept_are_refused() {
    let place = Place::new();
    for (args, word) in [
        (
            json!({ "command": "true", "is_background": true }),
            "background",
        ),
        (json!({ "command": "true", "timeout": 600_001 }), "600000"),
        (json!({ "command": "true", "timeout": 0 }), "timeout"),
        (json!({ "command": " " }), "empty"),
        (json!({ "command": "a\u{0}b" }), "zero byte"),
        (json!({}), "missing field `command`"),
    ] {
        let error = place.run(args).await.unwrap_err();
        assert_eq!(error.kind, "invalid_args");
        assert!(error.message.contains(word), "{}", error.message);
    }
    let error = place
        .run(json!({ "command": "true", "directory": "/" }))
        .await
        .unwrap_err();
    assert_eq!(error.kind, "outside_workspace");
    let error = place
        .run(json!({ "command": "true", "directory": "none" }))
        .await
        .unwrap_err();
    assert_eq!(error.kind, "not_found");
    let args = json!({ "command": "true", "is_background": false, "description": "x" });
    assert!(place.run(args).await.is_ok());
}

#[tokio::test]
async fn a_command_runs_where_it_is_told() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("below")).unwrap();
    let out = place
        .run(json!({ "command": "pwd -P", "directory": "below" }))
        .await
        .unwrap();
    assert!(out.text.ends_with("/below\n"), "{}", out.text);
}

/// case-L05: a command that reads its input gets its end at once, also where ours stays open.
#[test]
fn standard_input_is_empty() {
    const TEST: &str = "shell::standard_input_is_empty";
    if !is_alone(TEST) {
        let (reader, _stays_open) = io::pipe().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.stdin(reader);
        return run_alone(TEST, command);
    }
    let place = Place::new();
    let args = json!({ "command": "cat; echo done", "timeout": 5_000 });
    assert_eq!(block_on(place.run(args)).unwrap().text, "done\n");
}

#[tokio::test]
async fn a_command_gets_no_descriptor_but_its_three() {
    let place = Place::new();
    let held = tempfile::NamedTempFile::new().unwrap();
    let out = place.sh("ls -l /proc/self/fd").await.unwrap();
    let name = held.path().file_name().unwrap().to_str().unwrap();
    assert!(!out.text.contains(name), "{}", out.text);
    // One pipe, at 1 and 2, and at no other number.
    let pipe = out
        .text
        .lines()
        .find_map(|line| line.split_once(" 1 -> "))
        .unwrap()
        .1;
    assert_eq!(out.text.matches(pipe).count(), 2, "{}", out.text);
}

#[tokio::test]
async fn a_closed_pipe_ends_a_writer_quietly() {
    let out = Place::new()
        .sh("yes | head -n 1; echo ${PIPESTATUS[0]}")
        .await
        .unwrap();
    assert_eq!(out.text, "y\n141\n", "SIGPIPE is as it was");
}

/// case-M03
#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let place = Place::new();
    let command = "echo group=$$; (trap '' TERM; sleep 1000) & sleep 1000";
    let error = place
        .run(json!({ "command": command, "timeout": 1_000 }))
        .await
        .unwrap_err();
    assert_eq!(error.kind, "timeout");
    assert!(
        error
            .message
            .ends_with("[The command was ended after 1000 ms.]"),
        "{}",
        error.message
    );
    let group = number_after(&error.message, "group=");
    assert_eq!(n_processes_of_group(group), 0);
    assert!(
        !Path::new(&format!("/proc/{group}")).exists(),
        "the shell was reaped"
    );
}

/// case-M03
#[tokio::test]
async fn a_cancelled_command_ends_promptly_with_all_it_started() {
    let place = Place::cancelled_at(Some("ready"));
    let began = Instant::now();
    let error = place
        .sh("echo group=$$; sleep 1000 & sleep 1000 | cat & echo ready; wait")
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, "cancelled");
    assert!(began.elapsed() < Duration::from_secs(10));
    let group = number_after(&error.message, "group=");
    assert_eq!(n_processes_of_group(group), 0);
    assert!(
        !Path::new(&format!("/proc/{group}")).exists(),
        "the shell was reaped"
    );
}

#[tokio::test]
async fn a_command_asked_to_end_may_say_its_last_words() {
    let place = Place::cancelled_at(Some("ready"));
    let error =
        place.sh("trap 'echo cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done");
    let error = error.await.unwrap_err();
    assert!(error.message.contains("cleaned"), "{}", error.message);
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_starts_nothing() {
    let place = Place::new();
    place.context.cancel.cancel();
    assert_eq!(place.sh("touch made").await.unwrap_err().kind, "cancelled");
    assert!(!place.dir.path().join("made").exists());
}

/// case-L05: the call ends although somebody holds its output open, and so does that somebody.
#[tokio::test]
async fn a_process_left_in_the_background_does_not_hold_the_call() {
    let place = Place::new();
    let began = Instant::now();
    let out = place
        .sh("echo group=$$; sleep 1000 & echo end")
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(
        out.text
            .ends_with("end\n[Processes it left in the background were ended.]"),
        "{}",
        out.text
    );
    assert_eq!(n_processes_of_group(number_after(&out.text, "group=")), 0);
}

/// case-L05: one that left the group is out of reach, but the call ends all the same.
#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_the_call() {
    let place = Place::new();
    let began = Instant::now();
    let stop = place.dir.path().join("stop");
    fs::write(&stop, "").unwrap();
    let out = place
        .sh("setsid sh -c 'while [ -e stop ]; do sleep 0.05; done' & echo end")
        .await;
    assert!(out.unwrap().text.starts_with("end\n"));
    assert!(began.elapsed() < Duration::from_secs(10));
    fs::remove_file(stop).unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_running() {
    let place = Place::cancelled_at(None);
    let began = Instant::now();
    {
        let call = place.sh("echo group=$$; sleep 1000 & wait");
        tokio::pin!(call);
        while !place.seen().contains('\n') {
            let step = tokio::time::timeout(Duration::from_millis(20), &mut call).await;
            assert!(step.is_err() && began.elapsed() < Duration::from_secs(10));
        }
    }
    let group = number_after(&place.seen(), "group=");
    while n_processes_of_group(group) > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the group is still there"
        );
        tokio::task::yield_now().await;
    }
}

/// case-M03: also where nothing of ours is left that could end it.
#[test]
fn a_command_ends_when_its_agent_is_killed() {
    const TEST: &str = "shell::a_command_ends_when_its_agent_is_killed";
    const SAID: &str = "ONRECORD_TEST_SAID";
    if is_alone(TEST) {
        let mut place = Place::new();
        // What is shown comes from a call that is fully under way.
        place.context.progress = Arc::new(|text| {
            fs::write(env::var_os(SAID).unwrap(), text).unwrap();
        });
        panic!(
            "{:?}",
            block_on(place.sh("echo group=$$; sleep 1000 | sleep 1000"))
        );
    }
    let dir = TempDir::new().unwrap();
    let said = dir.path().join("said");
    let mut agent = alone(TEST, Command::new(env::current_exe().unwrap()));
    let mut agent = agent
        .env(SAID, &said)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let group = loop {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the command did not start"
        );
        match fs::read_to_string(&said) {
            Ok(text) if text.ends_with('\n') => break number_after(&text, "group="),
            Ok(_) | Err(_) => thread::yield_now(),
        }
    };
    assert!(n_processes_of_group(group) > 0);
    agent.kill().unwrap();
    agent.wait().unwrap();
    while n_processes_of_group(group) > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the command goes on"
        );
    }
}

/// case-E01
#[tokio::test]
async fn long_output_keeps_its_ends_and_whole_characters() {
    let place = Place::new();
    for shift in ["", "x", "xx", "xxx"] {
        let command = format!("printf '{shift}'; yes '👨‍👩‍👧🇩🇪' | head -n 20000 | tr -d '\\n'");
        let out = place.sh(&command).await.unwrap();
        assert!(out.text.len() <= TOOL_RESULT_BYTES_MAX);
        assert!(out.text.contains("bytes left out") && !out.text.contains('\u{fffd}'));
        let Display::Shell { output, .. } = out.display else {
            panic!()
        };
        assert!(output.len() <= SHELL_OUTPUT_BYTES_MAX && output.len() > TOOL_RESULT_BYTES_MAX);
        assert!(!output.contains('\u{fffd}'));
    }
}

#[tokio::test]
async fn output_that_is_no_text_is_shown_as_far_as_it_is() {
    let out = Place::new().sh(r"printf 'a\xff\xfeb\0c'").await.unwrap();
    assert_eq!(out.text, "a\u{fffd}\u{fffd}b\0c");
}

#[tokio::test]
async fn progress_is_shown_in_pieces_that_are_whole_characters() {
    let place = Place::new();
    let command = r"for i in 1 2 3; do printf 'x\xf0\x9f'; sleep 0.3; printf '\x98\x80'; done";
    place.sh(command).await.unwrap();
    let seen = place.seen.lock().unwrap();
    assert!(
        seen.iter()
            .all(|text| text.len() <= SHELL_PROGRESS_BYTES_MAX)
    );
    assert!(seen.concat().starts_with("x😀x😀x"), "{seen:?}");
}

/// A command that prints a gigabyte costs no more memory than one that prints little, and little
/// progress.
#[test]
fn a_gigabyte_of_output_does_not_fill_memory() {
    const TEST: &str = "shell::a_gigabyte_of_output_does_not_fill_memory";
    if !is_alone(TEST) {
        return run_alone(TEST, Command::new(env::current_exe().unwrap()));
    }
    block_on(async {
        let place = Place::new();
        let out = place
            .sh("echo first; yes | head -c 1000000000; echo last")
            .await
            .unwrap();
        assert!(out.text.starts_with("first\ny\n") && out.text.ends_with("y\nlast\n"));
        let seen = place.seen.lock().unwrap();
        assert!(seen.iter().map(String::len).sum::<usize>() < 4 << 20);
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak_kb = number_after(&status.replace(['\t', ' '], ""), "VmHWM:");
    assert!(peak_kb < 32 << 10, "{peak_kb} KiB at its highest");
}

#[tokio::test]
async fn a_preview_shows_the_command_and_runs_nothing() {
    let place = Place::new();
    let tools = registry();
    let tool = find(&tools, "run_shell_command").unwrap();
    let before = fs::metadata(place.dir.path()).unwrap().mtime_nsec();
    let preview = tool
        .preview(r#"{"command":"touch made"}"#, &place.context.workspace)
        .unwrap();
    assert!(format!("{preview:?}").contains("touch made"));
    assert_eq!(fs::metadata(place.dir.path()).unwrap().mtime_nsec(), before);
}

/// A daemon that raised its own limit gives commands the one of before; they are what they would be
/// without it.
#[test]
fn a_command_runs_under_the_limit_of_open_files_that_is_told() {
    let place = Place::new().with_open_files(64);
    let out = block_on(place.sh("ulimit -S -n; echo \"$0 $#\"")).unwrap();
    assert_eq!(out.text, "64\nbash 0\n");
}
