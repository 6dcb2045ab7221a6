use std::{fs, path::PathBuf, time::Instant};

use testkit::{
    faults::shim,
    home::Home,
    run::{Outcome, run},
};

struct Run {
    home: Home,
    outcome: Outcome,
}

impl Run {
    /// Appends `n` lines of 10 bytes to a transcript, one write each, by a program under `rules`.
    fn append_lines(rules: &str, n: usize) -> Option<Self> {
        let home = Home::new();
        let fault = shim(rules)?;
        let path = transcript(&home);
        fs::create_dir_all(path.parent().expect("it has one")).expect("the home is ours");
        let script = format!(
            r#"i=0; while [ $i -lt {n} ]; do printf '%s\n' "line-000$i" || echo "lost $i"; i=$((i+1)); done 2>/dev/null 3>&1 >> "$1""#
        );
        // The complaint of printf goes with the file's own output, so failures are counted aside.
        let script = script.replace(r#"echo "lost $i""#, r#"printf 'lost %s\n' $i >&3"#);
        let outcome = run(home
            .command_under(&fault, "/bin/sh")
            .args(["-c", &script, "sh"])
            .arg(path));
        Some(Self { home, outcome })
    }

    fn text(&self) -> String {
        fs::read_to_string(transcript(&self.home)).unwrap_or_default()
    }
}

fn transcript(home: &Home) -> PathBuf {
    home.data_root().join("projects/-x/chats/1.jsonl")
}

#[test]
fn writes_fail_after_so_many() {
    let Some(run) = Run::append_lines("write:EIO:after=2", 4) else {
        return;
    };
    assert_eq!(run.text(), "line-0000\nline-0001\n");
    assert_eq!(run.outcome.stdout, "lost 2\nlost 3\n");
}

#[test]
fn writes_fail_so_many_times() {
    let Some(run) = Run::append_lines("write:EDQUOT:after=1,times=1", 3) else {
        return;
    };
    assert_eq!(run.text(), "line-0000\nline-0002\n");
    assert_eq!(run.outcome.stdout, "lost 1\n");
}

#[test]
fn bytes_run_out_within_a_line() {
    let Some(run) = Run::append_lines("write:ENOSPC:bytes=25", 4) else {
        return;
    };
    assert_eq!(run.text(), "line-0000\nline-0001\nline-");
}

#[test]
fn a_short_write_is_no_error() {
    let Some(run) = Run::append_lines("write:short=4:times=1", 1) else {
        return;
    };
    // The shell writes the rest, as every program must.
    assert_eq!(
        (run.text().as_str(), run.outcome.stdout.as_str()),
        ("line-0000\n", "")
    );
}

#[test]
fn a_slow_write_takes_its_time() {
    let start = Instant::now();
    let Some(run) = Run::append_lines("write:slow=300:times=1", 2) else {
        return;
    };
    assert!(start.elapsed().as_millis() >= 300);
    assert_eq!(run.text(), "line-0000\nline-0001\n");
}

#[test]
fn a_file_cannot_be_opened_and_others_can() {
    let Some(run) = Run::append_lines("open:EMFILE:in=1.jsonl", 1) else {
        return;
    };
    assert_eq!(run.text(), "");
    let Some(run) = Run::append_lines("open:EMFILE:in=2.jsonl", 1) else {
        return;
    };
    assert_eq!(run.text(), "line-0000\n");
}

#[test]
fn a_folder_cannot_be_made() {
    let home = Home::new();
    let Some(fault) = shim("mkdir:EROFS") else {
        return;
    };
    let make = |name: &str| {
        run(home
            .command_under(&fault, "mkdir")
            .arg(home.path().join(name)))
    };
    assert_eq!(make("other").code, 0);
    let outcome = make("chats");
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.stderr.contains("Read-only file system"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_rule_that_is_not_understood_is_never_passed_over() {
    if shim("write:EIO").is_none() {
        return;
    }
    let panicked = std::panic::catch_unwind(|| shim("write:ENOSUCH")).unwrap_err();
    let words = panicked.downcast_ref::<String>().unwrap();
    assert!(words.contains("unknown effect: ENOSUCH"), "{words}");
}
