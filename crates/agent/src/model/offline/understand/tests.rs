//! What prompts are understood as.

use expect_test::{Expect, expect};

use super::*;

fn check(prompt: &str, expected: Expect) {
    let lines = match wish(prompt) {
        Wish::Exactly { name, args } => format!("exactly {name} {args}"),
        Wish::Chunks { n, every } => format!("{n} chunks every {every:?}"),
        Wish::Steps(steps) => {
            let line = |step: &Step| match step.call() {
                Some((name, args)) => format!("{name} {args}"),
                None => format!("{step:?}"),
            };
            steps.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    expected.assert_eq(&lines);
}

#[test]
fn folders_are_listed() {
    let here = || expect![[r#"list_directory {"path":"."}"#]];
    check("what is in this directory?", here());
    check("What's in here?", here());
    check("list files", here());
    check("ls", here());
    check("please list the files in the current directory.", here());
    check("show me the files", here());
    check("what files are here?", here());
    check("what does this project contain?", here());
    check("list .", here());
    check(
        "list files in src",
        expect![[r#"list_directory {"path":"src"}"#]],
    );
    check(
        "what is in the folder `my src`?",
        expect![[r#"list_directory {"path":"my src"}"#]],
    );
    check("ls ..", expect![[r#"list_directory {"path":".."}"#]]);
}

#[test]
fn files_are_read() {
    check(
        "read a.txt",
        expect![[r#"read_file {"file_path":"a.txt"}"#]],
    );
    check(
        "Can you show me the file 'a b.txt'?",
        expect![[r#"read_file {"file_path":"a b.txt"}"#]],
    );
    check(
        "what does src/main.rs do?",
        expect![[r#"read_file {"file_path":"src/main.rs"}"#]],
    );
    check(
        "what is in notes.txt?",
        expect![[r#"read_file {"file_path":"notes.txt"}"#]],
    );
    check(
        "what does README contain?",
        expect![[r#"read_file {"file_path":"README"}"#]],
    );
    check(
        "read a.txt lines 2-4",
        expect![[r#"read_file {"file_path":"a.txt","offset":1,"limit":3}"#]],
    );
}

#[test]
fn files_are_searched_and_found() {
    check(
        "search for fn main in src",
        expect![[r#"grep_search {"pattern":"fn main","path":"src"}"#]],
    );
    check(
        "search 'a.b(' in x",
        expect![[r#"grep_search {"pattern":"a\\.b\\(","path":"x"}"#]],
    );
    check(
        "grep to.*o",
        expect![[r#"grep_search {"pattern":"to.*o"}"#]],
    );
    check(
        "find \"hello there\"",
        expect![[r#"grep_search {"pattern":"hello there"}"#]],
    );
    check(
        "find the word hello",
        expect![[r#"grep_search {"pattern":"hello"}"#]],
    );
    check(
        "find *.rs in src",
        expect![[r#"glob {"pattern":"**/*.rs","path":"src"}"#]],
    );
    check(
        "find files named a.txt",
        expect![[r#"glob {"pattern":"**/a.txt"}"#]],
    );
    check(
        "glob src/**/*.rs",
        expect![[r#"glob {"pattern":"src/**/*.rs"}"#]],
    );
}

#[test]
fn files_are_written_and_changed() {
    check(
        "create a.txt with hello world.",
        expect![[r#"write_file {"file_path":"a.txt","content":"hello world."}"#]],
    );
    check(
        "write a file called 'b c.txt' with the text \"two  blanks\"",
        expect![[r#"write_file {"file_path":"b c.txt","content":"two  blanks"}"#]],
    );
    check(
        "write `x = 1` to a.py",
        expect![[r#"write_file {"file_path":"a.py","content":"x = 1"}"#]],
    );
    check(
        "create empty.txt",
        expect![[r#"write_file {"file_path":"empty.txt","content":""}"#]],
    );
    check(
        "replace foo with bar in a.txt",
        expect![[r#"edit {"file_path":"a.txt","old_string":"foo","new_string":"bar"}"#]],
    );
    check(
        "replace all 'a b' by 'c d' in a.txt",
        expect![[
            r#"edit {"file_path":"a.txt","old_string":"a b","new_string":"c d","replace_all":true}"#
        ]],
    );
}

#[test]
fn commands_are_run_as_they_stand() {
    check(
        "run `ls -la`",
        expect![[r#"run_shell_command {"command":"ls -la"}"#]],
    );
    check(
        "run the command echo 'a  b' | wc",
        expect![[r#"run_shell_command {"command":"echo 'a  b' | wc"}"#]],
    );
    check(
        "execute cargo test --workspace",
        expect![[r#"run_shell_command {"command":"cargo test --workspace"}"#]],
    );
}

#[test]
fn steps_follow_each_other() {
    check(
        "create a.txt with one, then read a.txt and then run `cat a.txt`",
        expect![[r#"
            write_file {"file_path":"a.txt","content":"one"}
            read_file {"file_path":"a.txt"}
            run_shell_command {"command":"cat a.txt"}"#]],
    );
}

#[test]
fn questions_are_told_apart() {
    check("who are you?", expect!["Introduce"]);
    check("What can you do?", expect!["Help"]);
    check("help", expect!["Help"]);
    check("what did I say before?", expect!["Recall { first: false }"]);
    check("What did I say first?", expect!["Recall { first: true }"]);
    check("", expect!["Unclear"]);
    check("explain monads", expect!["Unclear"]);
    check("what time is it?", expect!["Unclear"]);
    check("what is in this error?", expect!["Unclear"]);
    check("tell me about yourself", expect!["Introduce"]);
    check("tell me what you can do", expect!["Help"]);
    check("what is the meaning?", expect!["Unclear"]);
    check(
        "show me what is in src",
        expect![[r#"list_directory {"path":"src"}"#]],
    );
    check(
        "explain src/main.rs",
        expect![[r#"read_file {"file_path":"src/main.rs"}"#]],
    );
}

#[test]
fn tests_say_exactly_what_they_want() {
    check(
        r#"TOOL:read_file {"a": "}"} rest"#,
        expect![[r#"exactly read_file {"a": "}"}"#]],
    );
    check("TOOL:x", expect!["exactly x {}"]);
    check("SAY 3 chunks", expect!["3 chunks every 0ns"]);
    check("SAY 3 chunks every 5 ms", expect!["3 chunks every 5ms"]);
}
