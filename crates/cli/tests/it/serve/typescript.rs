//! Our SDK in TypeScript against our daemon and the real one; the examples of its README; its package.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use testkit::{
    faults::Immutable, home::Home, peers::WebSdk, run::run, served::Served, stub_model::StubModel,
};

use super::Hosted;
use crate::world::{ONRECORD, shell};

/// Drives `test/story.ts`; whether the client learned that the record failed.
fn a_story_is_the_same(hosted: Hosted) {
    let Some(sdk) = WebSdk::find() else { return };
    let (home, stub) = (Home::new(), StubModel::prompts(2));
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let mut child = sdk
        .command(&home)
        .arg("build/test/story.js")
        .arg(format!("http://{}", daemon.address()))
        .arg(shell("touch made"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut go_on = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut fault = None;
    let mut told = Vec::new();
    while let Some(Ok(line)) = lines.next() {
        if line == "saved" {
            assert!(home.workspace().join("made").exists());
            fault = Immutable::new(&home.transcripts()[0]);
        }
        if line == "saved" || line == "lost" {
            writeln!(go_on).unwrap();
        }
        told.push(line);
    }
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    let degraded = if fault.is_some() {
        "degraded"
    } else {
        "not degraded"
    };
    assert_eq!(told, ["saved", "lost", degraded, "ended"], "{words}");
    assert!(ended.status.success(), "{words}");
}

/// R22 to R25, of our daemon.
#[test]
fn a_typescript_client_of_our_daemon_sees_a_turn_a_question_and_a_lost_record() {
    a_story_is_the_same(Hosted::Ours);
}

/// R22 to R25, of the real daemon.
#[test]
fn a_typescript_client_of_the_real_daemon_sees_a_turn_a_question_and_a_lost_record() {
    a_story_is_the_same(Hosted::OursByReal);
}

#[test]
fn the_examples_of_the_typescript_readme_run() {
    let Some(sdk) = WebSdk::find() else { return };
    let home = Home::new();
    let mut command = home.command(ONRECORD);
    command
        .args(["serve", "--port", "0", "--model", "offline", "--workspace"])
        .arg(home.workspace());
    let daemon = Served::start(&mut command);
    let text = fs::read_to_string(sdk.folder().join("README.md")).unwrap();
    let examples: Vec<&str> = text
        .split("```js\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert_eq!(examples.len(), 2);
    for (example, shown) in examples.into_iter().zip(["idle 3 saved", "allow? "]) {
        let example = example.replace(
            "http://127.0.0.1:4170",
            &format!("http://{}", daemon.address()),
        );
        let ran = run(sdk
            .command(&home)
            .args(["--input-type=module", "--eval", &example]));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains(shown), "{ran:?}");
    }
}

/// What `npm pack` makes is all that it needs, in Node; in a browser it needs nothing of Node.
#[test]
fn the_typescript_package_is_whole() {
    let Some(sdk) = WebSdk::find() else { return };
    let home = Home::new();
    let packed = home.path().join("packed");
    let modules = packed.join("node_modules");
    fs::create_dir_all(modules.join("@onrecord/sdk")).unwrap();
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"])
        .arg(&packed)
        .current_dir(sdk.folder())
        .env("npm_config_cache", home.path().join("npm"));
    let packing = run(&mut pack);
    assert_eq!(packing.code, 0, "{packing:?}");
    let name = packing.stdout.trim();
    let unpacked = run(Command::new("tar")
        .args([
            "xzf",
            name,
            "--strip-components=1",
            "-C",
            "node_modules/@onrecord/sdk",
        ])
        .current_dir(&packed));
    assert_eq!(unpacked.code, 0, "{unpacked:?}");
    let parser = Path::new("node_modules/eventsource-parser");
    let copied = run(Command::new("cp")
        .arg("-r")
        .arg(sdk.folder().join(parser))
        .arg(packed.join(parser)));
    assert_eq!(copied.code, 0, "{copied:?}");
    let script = "import('@onrecord/sdk').then(({ Client, view, newSession }) => console.log(typeof Client, view(newSession('x')).status))";
    let ran = run(sdk
        .command(&home)
        .args(["--eval", script])
        .current_dir(&packed));
    assert_eq!((ran.code, &*ran.stdout), (0, "function idle\n"), "{ran:?}");
    for file in fs::read_dir(modules.join("@onrecord/sdk/dist")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "js") {
            let text = fs::read_to_string(&path).unwrap();
            let of_others = text
                .lines()
                .filter(|line| line.starts_with("import ") && !line.contains("from './"));
            let foreign: Vec<&str> = of_others
                .filter(|line| !line.contains("'eventsource-parser'"))
                .collect();
            assert!(foreign.is_empty(), "{foreign:?}");
        }
    }
}
