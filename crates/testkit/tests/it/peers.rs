use testkit::{home::Home, peers::Qwen, run::run, stub_model::StubModel};

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
