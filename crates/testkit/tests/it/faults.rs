use std::{fs, io::Write, path::Path, process::Stdio};

use testkit::{
    faults::{Immutable, OtherUser, SmallDisk, fsize_limit, open_files_limit, read_only},
    home::Home,
    run::{read_until, run},
};

const SH: &str = "/bin/sh";

#[test]
fn a_small_disk_takes_what_it_holds_and_no_more() {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    fs::write(disk.before().join("old"), "kept").unwrap();
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), SH);
    let script = r#"cat "$1/old"; head -c 100000 /dev/zero > "$1/new"; exit 7"#;
    let outcome = run(command.args(["-c", script, "sh"]).arg(disk.path()));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (7, "kept"));
    assert!(
        outcome.stderr.contains("No space left on device"),
        "{}",
        outcome.stderr
    );
    // One page of 16 holds the old file.
    assert_eq!(
        fs::metadata(disk.after().join("new")).unwrap().len(),
        15 * 4096
    );
    assert_eq!(
        fs::read_to_string(disk.after().join("old")).unwrap(),
        "kept"
    );
    assert!(
        fs::read_dir(disk.path()).unwrap().next().is_none(),
        "the mount is the program's alone"
    );
}

#[test]
fn a_filled_disk_leaves_what_it_was_told_to() {
    let Some(disk) = SmallDisk::with_size_kib(256).map(|disk| disk.leaving_bytes(8192)) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), SH);
    let script = r#"head -c 100000 /dev/zero > "$1/new""#;
    let outcome = run(command.args(["-c", script, "sh"]).arg(disk.path()));
    assert_ne!(outcome.code, 0);
    assert_eq!(fs::metadata(disk.after().join("new")).unwrap().len(), 8192);
    assert!(!disk.after().join(".filler").exists());
}

#[test]
fn a_disk_runs_out_of_inodes_before_it_runs_out_of_room() {
    let Some(disk) = SmallDisk::with_inodes(3) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), SH);
    let script = r#"cd "$1" && : > a && : > b && : > c"#;
    let outcome = run(command.args(["-c", script, "sh"]).arg(disk.path()));
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.stderr.contains("No space left on device"),
        "{}",
        outcome.stderr
    );
    assert!(disk.after().join("b").exists() && !disk.after().join("c").exists());
}

#[test]
fn a_small_disk_can_be_seen_while_its_program_runs() {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), SH);
    let script = r#"echo here > "$1/file"; echo ready; read _; cat "$1/file""#;
    command.args(["-c", script, "sh"]).arg(disk.path());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh can be started");
    let mut stdout = child.stdout.take().unwrap();
    read_until(&mut stdout, "ready");
    let live = disk.live(child.id()).join("file");
    assert_eq!(fs::read_to_string(&live).unwrap(), "here\n");
    fs::write(&live, "changed\n").unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(read_until(&mut stdout, "changed"), "changed\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_read_only_folder_takes_no_write() {
    let home = Home::new();
    fs::create_dir(home.data_root()).unwrap();
    let Some(fault) = read_only(&home.data_root()) else {
        return;
    };
    let outcome = run(home
        .command_under(&fault, "touch")
        .arg(home.data_root().join("file")));
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.stderr.contains("Read-only file system"),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        run(home.command("touch").arg(home.data_root().join("file"))).code,
        0
    );
}

#[test]
fn a_file_grows_to_its_limit() {
    let home = Home::new();
    let Some(fault) = fsize_limit(1000) else {
        return;
    };
    let path = home.workspace().join("file");
    let script = r#"head -c 3000 /dev/zero > "$1""#;
    let outcome = run(home
        .command_under(&fault, SH)
        .args(["-c", script, "sh"])
        .arg(&path));
    assert_ne!(outcome.code, 0);
    assert_eq!(fs::metadata(path).unwrap().len(), 1000);
}

#[test]
fn descriptors_run_out() {
    let home = Home::new();
    let Some(fault) = open_files_limit(8) else {
        return;
    };
    let script = "exec 3</dev/null 4</dev/null 5</dev/null && echo five && exec 6</dev/null 7</dev/null && echo seven && cat < /dev/null && echo eight";
    let outcome = run(home.command_under(&fault, SH).args(["-c", script]));
    assert_eq!(outcome.stdout, "five\nseven\n", "{}", outcome.stderr);
    assert_ne!(outcome.code, 0);
}

#[test]
fn an_immutable_file_refuses_even_root_until_it_is_dropped() {
    let home = Home::new();
    let path = home.workspace().join("file");
    fs::write(&path, "kept").unwrap();
    let Some(immutable) = Immutable::new(&path) else {
        return;
    };
    assert!(fs::OpenOptions::new().append(true).open(&path).is_err());
    assert!(fs::remove_file(&path).is_err());
    drop(immutable);
    fs::write(&path, "changed").unwrap();
}

#[test]
fn modes_matter_to_the_other_user() {
    let home = Home::new();
    let Some(user) = OtherUser::new(Path::new("/bin/cat")) else {
        return;
    };
    let (open, closed) = (
        home.workspace().join("open"),
        home.workspace().join("closed"),
    );
    fs::write(&open, "open").unwrap();
    fs::write(&closed, "closed").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    fs::set_permissions(&closed, mode).unwrap();
    user.own(home.path());
    let cat = |path: &Path| run(home.command_under(&user.fault(), user.program()).arg(path));
    assert_eq!(cat(&open).stdout, "open");
    let outcome = cat(&closed);
    assert_eq!(outcome.stdout, "");
    assert!(
        outcome.stderr.contains("Permission denied"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn two_faults_meet_in_one_program() {
    let home = Home::new();
    let Some(user) = OtherUser::new(Path::new("/bin/dd")) else {
        return;
    };
    let Some(limit) = fsize_limit(10) else { return };
    user.own(home.path());
    let mut command = home.command_under(&limit.and(user.fault()), user.program());
    let path = home.workspace().join("file");
    let outcome = run(command
        .args(["if=/dev/zero", "bs=100", "count=1"])
        .arg(format!("of={}", path.display())));
    assert_ne!(outcome.code, 0);
    assert_eq!(fs::metadata(path).unwrap().len(), 10);
}
