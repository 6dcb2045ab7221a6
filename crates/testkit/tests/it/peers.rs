use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};
use testkit::{
    home::Home,
    peers::{Qwen, Sdk},
    run::run,
    stub_model::StubModel,
};

#[test]
fn the_real_qwen_code_starts() {
    let Some(qwen) = Qwen::find() else { return };
    let home = Home::new();
    let outcome = run(qwen
        .command(&home, "http://127.0.0.1:9/v1")
        .arg("--version"));
    assert_eq!(
        (outcome.code, outcome.stdout.trim()),
        (0, "0.24.4"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_real_qwen_code_records_into_our_data_root() {
    let Some(qwen) = Qwen::find() else { return };
    let (home, stub) = (Home::new(), StubModel::hello(2));
    let outcome =
        run(qwen
            .command(&home, &stub.base_url())
            .args(["--auth-type", "openai", "-p", "hi"]));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.contains("hello world"), "{outcome:?}");
    assert_eq!(home.transcripts().len(), 1, "{outcome:?}");
}

/// The scripts that drive the SDKs are right about them: they work with what the SDKs are made for.
#[test]
fn the_real_sdks_drive_the_real_qwen_code() {
    let (Some(qwen), Some(typescript), Some(python)) =
        (Qwen::find(), Sdk::typescript(), Sdk::python())
    else {
        return;
    };
    for sdk in [typescript, python] {
        let (home, stub) = (Home::new(), StubModel::prompts(2));
        let program = home.path().join("qwen");
        let command = qwen.command(&home, &stub.base_url());
        let words: Vec<_> = [command.get_program()]
            .into_iter()
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.display()))
            .collect();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

        let path = home.workspace().join("a.txt");
        let call = json!({"file_path": path, "content": "written"});
        let args = json!({
            "prompts": [format!("TOOL:write_file {call}"), "and now?"],
            "options": {"authType": "openai", "permissionMode": "default"},
            "answer": {"behavior": "allow", "updatedInput": call},
        });
        let ran = run(&mut sdk.command(&home, &program, &stub.base_url(), "session", &args));
        let lines: Vec<Value> = ran
            .stdout_lines()
            .into_iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            lines.last(),
            Some(&json!({"done": true, "error": null})),
            "{ran:?}"
        );
        let asked: Vec<_> = lines.iter().filter_map(|line| line.get("asked")).collect();
        assert_eq!(
            asked,
            [&json!({"tool": "write_file", "input": call})],
            "{ran:?}"
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "written");
        let results: Vec<_> = lines
            .iter()
            .filter(|line| line["message"]["type"] == "result")
            .map(|line| line["message"]["result"].as_str().unwrap())
            .collect();
        assert_eq!(results, ["done.", "hello world hello world "], "{ran:?}");
    }
}
