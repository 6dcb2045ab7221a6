//! A conversation for people and for other programs: plain text, Markdown, JSON, and its lines.
//!
//! Every form says where records are missing, what is damaged, and up to where the record goes (B5).

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    damage::Damage,
    reader::{Loaded, Stored, Type},
    record::{Content, FunctionCall, FunctionResponse, Title},
};

const GAP: &str = "Records are missing here.";

/// What one record says to a person.
enum Said {
    Prompt(String),
    Answer(String),
    Thought(String),
    Call {
        name: String,
        args: String,
    },
    Result {
        name: String,
        is_error: bool,
        text: String,
    },
    Note(String),
}

fn said(record: &Stored) -> Vec<Said> {
    match record.kind {
        Type::User | Type::Assistant | Type::ToolResult => {
            let content = record.content();
            content.map_or_else(Vec::new, |content| parts(record.kind, content))
        }
        Type::System => match record.subtype.as_deref() {
            Some("chat_compression") => vec![Said::Note(
                "From here on, the model knew a summary of what is above.".to_owned(),
            )],
            Some("rewind") => vec![Said::Note("Went back to here.".to_owned())],
            Some(_) | None => Vec::new(),
        },
        Type::Unknown => vec![Said::Note(
            "A record of a kind that this version does not know.".to_owned(),
        )],
    }
}

fn parts(kind: Type, content: Content) -> Vec<Said> {
    let mut said = Vec::new();
    for part in content.parts {
        if let Some(FunctionCall { name, args, .. }) = part.function_call {
            let args = args.get().to_owned();
            said.push(Said::Call { name, args });
        } else if let Some(FunctionResponse { name, response, .. }) = part.function_response {
            let is_error = response.error.is_some();
            let text = response.error.or(response.output).unwrap_or_default();
            said.push(Said::Result {
                name,
                is_error,
                text,
            });
        } else if let Some(text) = part.text {
            said.push(match (kind, part.thought) {
                (_, Some(true)) => Said::Thought(text),
                (Type::Assistant, _) => Said::Answer(text),
                (Type::User | Type::ToolResult | Type::System | Type::Unknown, _) => {
                    Said::Prompt(text)
                }
            });
        } else {
            said.push(Said::Note("Something that is not text.".to_owned()));
        }
    }
    said
}

/// Up to where the record goes, in one sentence.
fn extent(loaded: &Loaded) -> String {
    let Some(last) = loaded.records.last() else {
        return "The record is empty.".to_owned();
    };
    let time = last.timestamp.as_deref().unwrap_or("an unknown time");
    let open = if loaded.unanswered {
        " The last message has no answer."
    } else {
        ""
    };
    format!("The record goes up to {time} (record {}).{open}", last.uuid)
}

/// What is damaged, one line each, the first of many.
fn damages(loaded: &Loaded) -> Vec<String> {
    const LINES_MAX: usize = 20;
    let mut lines: Vec<_> = loaded
        .damage
        .iter()
        .take(LINES_MAX)
        .map(ToString::to_string)
        .collect();
    let n_more = loaded.n_damage.saturating_sub(lines.len() as u64);
    if n_more > 0 {
        lines.push(format!("and {n_more} more"));
    }
    lines
}

/// Writes the conversation as plain text for a terminal. Characters that steer a terminal, or the
/// direction of text, are spelled out.
///
/// # Errors
///
/// Where `out` refuses.
pub fn text(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    if let Some(title) = &loaded.title {
        writeln!(out, "{}\n", shown(&title.text))?;
    }
    for record in &loaded.records {
        if record.gap_before {
            writeln!(out, "--- {GAP} ---\n")?;
        }
        for said in said(record) {
            match said {
                Said::Prompt(text) => writeln!(out, "> {}\n", shown(&text).replace('\n', "\n> "))?,
                Said::Answer(text) => writeln!(out, "{}\n", shown(&text))?,
                Said::Thought(text) => writeln!(out, "(thought) {}\n", shown(&text))?,
                Said::Call { name, args } => {
                    writeln!(out, "* {} {}", shown(&name), shown(&args))?;
                }
                Said::Result { is_error, text, .. } => {
                    let mark = if is_error { "  ! " } else { "  | " };
                    for line in text.lines() {
                        writeln!(out, "{mark}{}", shown(line))?;
                    }
                    writeln!(out)?;
                }
                Said::Note(note) => writeln!(out, "--- {note} ---\n")?,
            }
        }
    }
    for line in damages(loaded) {
        writeln!(out, "Damage: {}", shown(&line))?;
    }
    writeln!(out, "{}", shown(&extent(loaded)))
}

/// Text in which no character steers the terminal that shows it.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && c != '\n' && c != '\t') || is_direction {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Writes the conversation as Markdown.
///
/// # Errors
///
/// Where `out` refuses.
pub fn markdown(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    let title = loaded.title.as_ref().map_or("Session", |title| &title.text);
    writeln!(out, "# {}\n", one_line(title))?;
    if let Some(session_id) = &loaded.session_id {
        writeln!(
            out,
            "Session `{}`. {}\n",
            one_line(session_id),
            one_line(&extent(loaded))
        )?;
    } else {
        writeln!(out, "{}\n", extent(loaded))?;
    }
    let damages = damages(loaded);
    if !damages.is_empty() {
        writeln!(out, "Damage in the file:\n")?;
        for line in damages {
            writeln!(out, "- {}", one_line(&line))?;
        }
        writeln!(out)?;
    }
    for record in &loaded.records {
        if record.gap_before {
            writeln!(out, "> **{GAP}**\n")?;
        }
        let time = record
            .timestamp
            .as_deref()
            .map(one_line)
            .unwrap_or_default();
        for said in said(record) {
            match said {
                Said::Prompt(text) => writeln!(out, "## User · {time}\n\n{}\n", shown(&text))?,
                Said::Answer(text) => writeln!(out, "## Assistant · {time}\n\n{}\n", shown(&text))?,
                Said::Thought(text) => {
                    writeln!(out, "> *Thought.* {}\n", shown(&text).replace('\n', "\n> "))?;
                }
                Said::Call { name, args } => {
                    writeln!(out, "**Tool call: {}**\n", one_line(&name))?;
                    fenced(out, "json", &args)?;
                }
                Said::Result {
                    name,
                    is_error,
                    text,
                } => {
                    let word = if is_error { "failed" } else { "result" };
                    writeln!(out, "**Tool {word}: {}**\n", one_line(&name))?;
                    fenced(out, "", &text)?;
                }
                Said::Note(note) => writeln!(out, "> {note}\n")?,
            }
        }
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    shown(text).replace(['\n', '\t'], " ")
}

/// A code block that its content cannot end.
fn fenced(out: &mut impl Write, language: &str, text: &str) -> io::Result<()> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(
        out,
        "{fence}{language}\n{}\n{fence}\n",
        shown(text).trim_end_matches('\n')
    )
}

/// Writes the records of the conversation as they stand, one a line.
///
/// # Errors
///
/// Where `out` refuses.
pub fn lines(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    for text in loaded.records.iter().flat_map(Stored::texts) {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// Writes the conversation as one JSON object: what is known of the session, its damage, and its
/// records as they stand.
///
/// # Errors
///
/// Where `out` refuses.
pub fn json(loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        session_id: Option<&'a str>,
        #[serde(flatten)]
        title: Option<&'a Title>,
        cwd: Option<&'a str>,
        last_record_uuid: Option<&'a str>,
        last_timestamp: Option<&'a str>,
        unanswered: bool,
        n_records_in_file: u64,
        n_forks: u64,
        n_gaps: u64,
        n_damage: u64,
        damage: &'a [Damage],
        gaps_before: Vec<&'a str>,
    }
    let last = loaded.records.last();
    let gaps = loaded.records.iter().filter(|record| record.gap_before);
    let head = Head {
        session_id: loaded.session_id.as_deref(),
        title: loaded.title.as_ref(),
        cwd: loaded.cwd.as_deref(),
        last_record_uuid: last.map(|last| last.uuid.as_str()),
        last_timestamp: last.and_then(|last| last.timestamp.as_deref()),
        unanswered: loaded.unanswered,
        n_records_in_file: loaded.n_records,
        n_forks: loaded.n_forks,
        n_gaps: loaded.n_gaps,
        n_damage: loaded.n_damage,
        damage: &loaded.damage,
        gaps_before: gaps.map(|record| record.uuid.as_str()).collect(),
    };
    let mut head = serde_json::to_vec(&head)?;
    // The records go in as they stand, one a line, before the object ends.
    head.pop();
    out.write_all(&head)?;
    out.write_all(b",\"records\":[")?;
    let texts = loaded.records.iter().flat_map(Stored::texts);
    for (at, text) in texts.enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        out.write_all(text.as_bytes())?;
    }
    out.write_all(b"\n]}\n")
}
