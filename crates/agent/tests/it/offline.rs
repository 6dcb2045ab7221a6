//! The built-in model, with the real tools.

use std::{path::Path, sync::Arc};

use agent::{
    image::Image,
    message::{Block, Message, Prompt, ToolCall, ToolResult, Usage},
    model::{Completion, Finish, ModelEvent, Provider as _, Request, offline::Offline},
    tool::{self, Context, Workspace},
};
use expect_test::{Expect, expect};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

/// One response: its pieces of text, its call, its end.
type Response = (Vec<String>, Option<ToolCall>, Completion);

async fn respond(messages: &[Message]) -> Response {
    let mut stream = Offline::default().stream(Request {
        system: "1234".into(),
        messages: messages.to_vec(),
        tools: [].into(),
        effort: None,
    });
    let (mut pieces, mut call) = (Vec::new(), None);
    while let Some(event) = stream.next().await {
        match event.expect("the built-in model never fails") {
            ModelEvent::Text(text) => pieces.push(text),
            ModelEvent::Call(made) => call = Some(made),
            ModelEvent::Done(completion) => return (pieces, call, completion),
            other @ (ModelEvent::Thought(_) | ModelEvent::Retrying { .. }) => panic!("{other:?}"),
        }
    }
    panic!("the stream ended without an end")
}

/// Who answers a call.
type Answerer<'a> = &'a dyn Fn(&ToolCall) -> Option<Result<String, String>>;

/// Says the prompts in `root`, one turn after the other, and gives the last answer. Calls go to
/// the real tools, but for those that `answerer` answers.
async fn converse(root: &Path, prompts: &[&str], answerer: Answerer<'_>) -> String {
    let context = Context {
        editor: None,
        workspace: Arc::new(Workspace {
            root: root.to_owned(),
            allowed: Vec::new(),
            data_root: None,
            open_files: None,
        }),
        cancel: CancellationToken::new(),
        progress: Arc::new(|_| ()),
    };
    let tools = tool::registry();
    let mut messages = Vec::new();
    let mut answer = String::new();
    for prompt in prompts {
        messages.push(Message::User((*prompt).into()));
        loop {
            let (pieces, call, _) = respond(&messages).await;
            answer = pieces.concat();
            let Some(call) = call else {
                messages.push(Message::Assistant(vec![Block::Text(answer.clone())]));
                break;
            };
            let outcome = match answerer(&call) {
                Some(outcome) => outcome,
                None => {
                    let tool =
                        tool::find(&tools, &call.name).expect("the model calls tools that exist");
                    let output = tool.run(call.args.get(), &context).await;
                    output
                        .map(|output| output.text)
                        .map_err(|error| error.message)
                }
            };
            let is_error = outcome.is_err();
            let text = outcome.unwrap_or_else(|text| text);
            let (call_id, name) = (call.id.clone(), call.name.clone());
            messages.push(Message::Assistant(vec![Block::Call(call)]));
            messages.push(Message::ToolResults(vec![ToolResult {
                call_id,
                name,
                text,
                is_error,
            }]));
        }
    }
    answer
}

async fn check(prompts: &[&str], expected: Expect) {
    let folder = tempfile::tempdir().expect("a folder of its own");
    let answer = converse(folder.path(), prompts, &|_| None).await;
    expected.assert_eq(&answer);
}

#[tokio::test]
async fn a_directory_is_listed_on_a_plain_question() {
    check(
        &[
            "create b.txt with two, then create sub/a.txt with one",
            "what is in this directory?",
        ],
        expect![[r#"
            This directory has 2 entries:
            b.txt (3 bytes)
            sub/
            [2 entries in `.`.]"#]],
    )
    .await;
}

#[tokio::test]
async fn steps_run_one_after_the_other_and_all_are_told() {
    check(
        &["create a.txt with \"one\nTwo\n\", then replace one with three in a.txt, then read a.txt, \
           then search for Two, then find a.txt and then run `cat a.txt | wc -l`"],
        expect![[r#"
            Created `a.txt` with 2 lines.

            Changed `a.txt` in 1 place: 1 line added, 1 line removed.

            `a.txt` says:
            three
            Two

            The search for `Two` gave:
            a.txt:2:Two

            `**/a.txt` matches:
            a.txt

            `cat a.txt | wc -l` ran:
            2"#]],
    )
    .await;
}

#[tokio::test]
async fn a_step_that_fails_ends_the_steps_and_is_told() {
    check(&["read missing.txt, then create a.txt with x"], expect![[r#"
        I could not read `missing.txt`: `missing.txt` cannot be read: No such file or directory (os error 2).

        Not done, because of that: write `a.txt`."#]]).await;
    check(
        &["run `echo out; exit 3`"],
        expect![[r#"
        I could not run `echo out; exit 3`: out
        [Exit code 3.]"#]],
    )
    .await;
    check(&["find *.txt"], expect!["No file matches in `.`."]).await;
}

#[tokio::test]
async fn a_refusal_is_told_as_what_it_is() {
    let refused = |call: &ToolCall| {
        (call.name == "run_shell_command").then(|| Err("Nobody is here to allow it.".to_owned()))
    };
    let folder = tempfile::tempdir().expect("a folder of its own");
    let prompt = "create a.txt with x, then run `ls`, then read a.txt";
    let answer = converse(folder.path(), &[prompt], &refused).await;
    expect![[r#"
        Created `a.txt` with 1 line.

        I could not run `ls`: Nobody is here to allow it.

        Not done, because of that: read `a.txt`."#]]
    .assert_eq(&answer);
}

#[tokio::test]
async fn the_conversation_is_remembered() {
    check(
        &["my name is Ada", "hello", "what did I say first?"],
        expect!["The first thing you said was: my name is Ada"],
    )
    .await;
    check(
        &["create a.txt with x", "what did I say before?"],
        expect!["Before this you said: create a.txt with x"],
    )
    .await;
    check(
        &["what did I say before?"],
        expect!["This is the first thing you said to me."],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_understood_is_said_so() {
    check(
        &["compose a sonnet"],
        expect![[r#"
            I do not understand this without a real model.

            I am the built-in `offline` model. This is what I understand, for example:
            - what is in this directory?
            - list files in src
            - read README.md
            - what does src/main.rs do?
            - search for TODO in src
            - find *.rs
            - create notes.txt with "some text"
            - replace foo with bar in notes.txt
            - run `ls -la`
            - create a.txt with one, then read a.txt
            - what did I say first?
            For more, configure a provider with OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL)."#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_that_a_test_asks_for_is_made_as_it_stands() {
    let (pieces, call, completion) = respond(&[Message::User(
        r#"TOOL:read_file {"file_path": "x",  "a": 1}"#.into(),
    )])
    .await;
    let call = call.expect("a call");
    assert!(pieces.is_empty());
    assert_eq!(
        (&*call.name, call.args.get()),
        ("read_file", r#"{"file_path": "x",  "a": 1}"#)
    );
    assert_eq!(completion.finish, Finish::ToolCalls);
    let folder = tempfile::tempdir().expect("a folder of its own");
    let answer = converse(folder.path(), &["TOOL:read_file {}"], &|_| None).await;
    assert_eq!(answer, "done.");
}

#[tokio::test]
async fn chunks_come_as_often_as_they_are_asked_for() {
    for prompt in ["SAY 3 chunks", "SAY 3 chunks every 1 ms"] {
        let (pieces, call, _) = respond(&[Message::User(prompt.into())]).await;
        assert_eq!(pieces, ["hello world "; 3]);
        assert!(call.is_none());
    }
}

#[tokio::test]
async fn chunks_with_a_pause_between_them_do_not_come_at_once() {
    let mut stream = Offline::default().stream(Request {
        system: "".into(),
        messages: vec![Message::User("SAY 2 chunks every 600000".into())],
        tools: [].into(),
        effort: None,
    });
    assert!(stream.next().now_or_never().is_none());
}

#[tokio::test]
async fn the_same_conversation_has_the_same_answer_and_tokens() {
    let conversation = [Message::User("help".into())];
    let (pieces, _, completion) = respond(&conversation).await;
    let text = pieces.concat();
    assert!(pieces.len() > 3, "it is streamed in pieces");
    let output = text.len().div_ceil(4) as u64;
    let usage = Usage {
        input: 2,
        output,
        cached: 0,
        thoughts: 0,
        total: 2 + output,
    };
    assert_eq!(completion.usage, Some(usage));
    assert_eq!(completion.finish, Finish::Stop);
    let (again, _, _) = respond(&conversation).await;
    assert_eq!(again, pieces);
}

#[tokio::test]
async fn every_call_of_a_conversation_has_an_id_of_its_own() {
    let mut messages = vec![Message::User("list files, then list files".into())];
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (_, call, _) = respond(&messages).await;
        let call = call.expect("a call");
        ids.push(call.id.clone());
        messages.push(Message::Assistant(vec![Block::Call(call.clone())]));
        messages.push(Message::ToolResults(vec![ToolResult {
            call_id: call.id,
            name: call.name,
            text: "a".to_owned(),
            is_error: false,
        }]));
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn it_says_that_it_cannot_see_an_image() {
    let mut prompt = Prompt::from("list files");
    let png = &b"\x89PNG\r\n\x1a\nrest"[..];
    prompt.push_image(Image::new(png).unwrap(), None);
    let (pieces, call, _) = respond(&[Message::User(prompt)]).await;
    let said = pieces.concat();
    assert!(said.contains("cannot see images"), "{said}");
    assert!(said.contains("1 (image/png, 12 bytes)"), "{said}");
    assert!(call.is_none());
}
