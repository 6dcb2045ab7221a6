use testkit::{home::Home, peers::Qwen, run::run};

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
