//! The stock web page of Qwen Code against our daemon, in a browser.

use testkit::{home::Home, peers::WebShell, served::Served, stub_model::StubModel};

use super::ours;

#[test]
fn the_stock_web_page_completes_a_chat_turn() {
    let Some(shell) = WebShell::find() else {
        return;
    };
    let (home, stub) = (Home::new(), StubModel::hello(3));
    let daemon = Served::start(ours(&home, &stub).env("ONRECORD_WEB_DIR", shell.pages()));
    let answer = "hello world hello world hello world";
    let told = shell.chat(&home, daemon.address(), "say hello", answer);
    for view in ["text", "reloaded"] {
        let text = told[view].as_str().unwrap();
        assert!(
            text.contains("say hello") && text.contains(answer),
            "{text}"
        );
    }
    assert_eq!(told["failed"], serde_json::json!([]), "no route failed");
}
