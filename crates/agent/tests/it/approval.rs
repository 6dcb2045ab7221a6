//! What each mode lets run without asking.

use agent::{
    approval::{Mode, Verdict},
    tool::{Kind, registry},
};

const MODES: [Mode; 5] = [
    Mode::Plan,
    Mode::Default,
    Mode::AutoEdit,
    Mode::Auto,
    Mode::Yolo,
];

fn verdicts(kind: Kind) -> [Verdict; 5] {
    MODES.map(|mode| mode.verdict(kind))
}

#[test]
fn reading_runs_in_every_mode() {
    assert_eq!(verdicts(Kind::Read), [Verdict::Run; 5]);
}

#[test]
fn edits_run_unasked_from_auto_edit_on() {
    use Verdict::{Ask, Refuse, Run};
    assert_eq!(verdicts(Kind::Edit), [Refuse, Ask, Run, Run, Run]);
}

#[test]
fn commands_run_unasked_in_yolo_only() {
    use Verdict::{Ask, Refuse, Run};
    assert_eq!(verdicts(Kind::Execute), [Refuse, Ask, Ask, Ask, Run]);
}

#[test]
fn tools_of_the_host_run_unasked_but_in_plan() {
    use Verdict::{Refuse, Run};
    assert_eq!(verdicts(Kind::Host), [Refuse, Run, Run, Run, Run]);
}

#[test]
fn the_words_of_the_modes_are_those_of_the_command_line() {
    let words = MODES.map(Mode::as_str);
    assert_eq!(words, ["plan", "default", "auto-edit", "auto", "yolo"]);
    assert_eq!(Mode::default(), Mode::Default);
}

#[test]
fn a_tool_that_changes_something_is_never_taken_for_a_read() {
    let kinds = registry()
        .iter()
        .map(|tool| (tool.spec().name.into_owned(), tool.kind()))
        .collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [
            ("list_directory".to_owned(), Kind::Read),
            ("read_file".to_owned(), Kind::Read),
            ("glob".to_owned(), Kind::Read),
            ("grep_search".to_owned(), Kind::Read),
            ("edit".to_owned(), Kind::Edit),
            ("write_file".to_owned(), Kind::Edit),
            ("run_shell_command".to_owned(), Kind::Execute),
            ("todo_write".to_owned(), Kind::Read),
        ]
    );
}
