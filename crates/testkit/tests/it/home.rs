use std::{fs, path::PathBuf};

use testkit::{
    home::Home,
    run::{run, run_with_input},
};

#[test]
fn a_program_sees_its_own_home_and_nothing_of_ours() {
    let home = Home::new();
    let outcome = run(home.command("env").env_remove("PATH"));
    let mut names: Vec<_> = outcome
        .stdout_lines()
        .into_iter()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["HOME", "LANG", "ONRECORD_HOME", "TMPDIR", "XDG_RUNTIME_DIR"]
    );
    let outcome = run(&mut home.command("pwd"));
    assert_eq!(PathBuf::from(outcome.stdout.trim()), home.workspace());
}

#[test]
fn a_home_is_gone_after_its_test() {
    let home = Home::new();
    let path = home.path().to_owned();
    assert!(path.is_dir());
    drop(home);
    assert!(!path.exists());
}

#[test]
fn transcripts_are_found_under_every_project() {
    let home = Home::new();
    assert!(home.transcripts().is_empty());
    let wanted = ["projects/-a/chats/1.jsonl", "projects/-b/chats/2.jsonl"];
    for name in wanted
        .into_iter()
        .chain(["projects/-b/chats/2.json", "log/recording.jsonl"])
    {
        let path = home.data_root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    assert_eq!(
        home.transcripts(),
        wanted.map(|name| home.data_root().join(name))
    );
}

#[test]
fn input_reaches_a_program_and_a_deaf_one_is_no_failure() {
    let home = Home::new();
    assert_eq!(
        run_with_input(&mut home.command("cat"), b"hello").stdout,
        "hello"
    );
    assert_eq!(
        run_with_input(&mut home.command("true"), &[b'x'; 1 << 20]).code,
        0
    );
}
