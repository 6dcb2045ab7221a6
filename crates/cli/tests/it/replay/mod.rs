//! Captured sessions of Qwen Code, said again to us: what we answer is what it answered, but for a
//! named list of decisions.

mod compare;
mod decisions;
mod dialogue;
mod one_shot;
mod sample;

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Received, Reply, StubModel, delta, usage},
};

use self::{compare::Difference, decisions::DECISIONS, sample::Sample};

/// The model of the captures.
const MODEL: &str = "fake-model";

/// Does what the model of the capture did, tokens included.
fn model(sample: &Sample) -> StubModel {
    // How much it said where it called no tool.
    let results = sample.heard.iter().filter_map(|m| m["result"].as_str());
    let n_chunks = results
        .map(|text| text.matches("hello world ").count())
        .max();
    let hello = Reply::hello(n_chunks.filter(|n| *n > 0).unwrap_or(5));
    StubModel::serve(move |request| {
        if request.last_is_result() {
            return Reply::says("done.");
        }
        match request.last_text().and_then(|text| call_of(&text)) {
            Some((name, args)) => call(request, &name, &args),
            None => hello.clone(),
        }
    })
}

fn call_of(prompt: &str) -> Option<(String, String)> {
    let (name, args) = prompt.strip_prefix("TOOL:")?.split_once(' ')?;
    let args: Value = serde_json::from_str(args).ok()?;
    Some((name.to_owned(), args.to_string()))
}

fn call(request: &Received, name: &str, args: &str) -> Reply {
    let n_messages = request.body["messages"].as_array().map_or(0, Vec::len);
    let call = json!({
        "index": 0,
        "id": format!("call_{n_messages}"),
        "type": "function",
        "function": {"name": name, "arguments": args},
    });
    Reply::stream()
        .event(&delta(json!({"tool_calls": [call]}), None))
        .finish("tool_calls")
        .event(&usage(10, 5))
        .done()
}

/// What of a sample's arguments is given to us: everything but the program's name.
fn args(sample: &Sample) -> Vec<String> {
    let mut words = sample.args.clone();
    words.extend(["--model".to_owned(), MODEL.to_owned()]);
    words
}

/// Asserts that whatever differs was decided. Answers which decisions were met.
fn assert_decided(sample: &str, differences: Vec<Difference>) -> Vec<usize> {
    let (mut met, mut undecided) = (Vec::new(), Vec::new());
    for difference in differences {
        let decided = DECISIONS
            .iter()
            .position(|decision| decision.covers(sample, &difference));
        match decided {
            Some(index) => met.push(index),
            None => undecided.push(difference),
        }
    }
    assert!(undecided.is_empty(), "{sample}: {undecided:#?}");
    met
}

/// Asserts that every decision about these samples is still one.
fn assert_all_met(samples: &[&str], met: &[usize]) {
    for (index, decision) in DECISIONS.iter().enumerate() {
        let concerns = samples.iter().any(|sample| decision.concerns(sample));
        assert!(
            met.contains(&index) || !concerns || decision.is_about_all(),
            "no difference any more: {decision:?}"
        );
    }
}

/// The text in which both sides name their folder alike.
fn in_one_place(messages: &[Value], folder: &str) -> Vec<Value> {
    messages
        .iter()
        .map(|message| {
            let text = message.to_string().replace(folder, "FOLDER");
            serde_json::from_str(&text).unwrap()
        })
        .collect()
}

fn workspace(home: &Home) -> String {
    home.workspace().to_str().unwrap().to_owned()
}
