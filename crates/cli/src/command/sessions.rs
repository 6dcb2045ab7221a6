//! `onrecord sessions …`: stored sessions.

use std::{
    fmt::Write as _,
    io::{self, BufWriter, StdoutLock, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use serde::Serialize;
use transcript::{
    disk::OsDisk,
    export,
    reader::{Title, TitleSource},
    recorder::{Bounds, NotSaved, Options, Recorder, Start},
    store::{self, Found, Row},
    verify::{self, Report},
};
use wire::{
    limits::{SESSION_NAME_CHARS_MAX, SETTLE_WAIT_MAX},
    words,
};

use crate::{
    args::{ExportFormat, SessionsCommand},
    conversation::{find, load, lock_of, readable},
    exit::Exit,
    place::Place,
    resolve::Refusal,
    run::version,
    stdio,
};

/// Characters of a title or prompt in a list.
const TITLE_SHOWN_MAX: usize = 80;

/// Runs the command.
pub(crate) fn run(command: SessionsCommand) -> Exit {
    match try_run(command) {
        Ok(exit) => exit,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(command: SessionsCommand) -> Result<Exit, Refusal> {
    let place = Place::find()?;
    match command {
        SessionsCommand::List {
            json,
            limit,
            all_projects,
        } => list(&place, json, limit, all_projects),
        SessionsCommand::Show { id } => show(&place, &id),
        SessionsCommand::Verify { target, all, json } => {
            verify(&place, target.as_deref(), all, json)
        }
        SessionsCommand::Rename { id, title } => rename(&place, &id, &title),
        SessionsCommand::Export { id, format } => export(&place, &id, format),
        SessionsCommand::Delete { id } => delete(&place, &id),
    }
}

fn list(place: &Place, json: bool, limit: usize, all_projects: bool) -> Result<Exit, Refusal> {
    let Some(root) = &place.root else {
        return Err(Refusal::no_root());
    };
    let limit = (limit > 0).then_some(limit);
    readable(&if all_projects {
        root.projects_dir()
    } else {
        root.project(&place.cwd).chats_dir()
    })?;
    let listing = if all_projects {
        store::list_all(root, limit)
    } else {
        store::list(
            &root.project(&place.cwd),
            Some(&place.cwd.to_string_lossy()),
            limit,
        )
    };
    let mut text = String::new();
    for row in &listing.rows {
        if json {
            push_json(&mut text, row);
        } else {
            push_row(&mut text, row);
        }
    }
    print(&text)?;
    if listing.n_more > 0 {
        stdio::say(&format!("{} more; --limit 0 lists all.", listing.n_more));
    }
    for skipped in &listing.skipped {
        stdio::say(&format!(
            "Not listed: {}: {}.",
            skipped.session_id,
            skipped.reason.as_str()
        ));
    }
    if listing.rows.is_empty() && !json {
        stdio::say("There is no session of this project yet.");
    }
    Ok(Exit::Success)
}

fn push_row(text: &mut String, row: &Row) {
    let title = row
        .title
        .as_deref()
        .or(row.prompt.as_deref())
        .unwrap_or("(no prompt)");
    let state = if row.open_elsewhere { " (open)" } else { "" };
    let changed = i64::try_from(row.mtime)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .map_or_else(String::new, |time| format!("{time:.0}"));
    // A title is somebody's text: it must not steer the terminal, nor break the line.
    let title: String = title.chars().take(TITLE_SHOWN_MAX).collect();
    let title = stdio::plain(&title).replace('\n', " ");
    // Dropped: a string takes every line.
    _ = writeln!(text, "{}  {changed}  {title}{state}", row.session_id);
}

fn show(place: &Place, id: &str) -> Result<Exit, Refusal> {
    let loaded = load(&find(place, id)?.path)?;
    print_with(|out| export::text(&loaded, out))?;
    Ok(Exit::Success)
}

/// One row of `verify --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified<'a> {
    /// The session's id, or the file as it was typed.
    target: &'a str,
    sound: bool,
    #[serde(flatten)]
    report: &'a Report,
}

fn verify(place: &Place, target: Option<&str>, all: bool, json: bool) -> Result<Exit, Refusal> {
    let named = |found: Found| (found.session_id, found.path);
    let files = match target {
        Some(target) if Path::new(target).is_file() => {
            vec![(target.to_owned(), PathBuf::from(target))]
        }
        Some(target) => vec![named(find(place, target)?)],
        None if !all => {
            return Err(Refusal::usage(
                "say which: a session's id, a transcript file, or --all",
            ));
        }
        None => {
            let Some(root) = &place.root else {
                return Err(Refusal::no_root());
            };
            let project = root.project(&place.cwd);
            readable(&project.chats_dir())?;
            store::sessions(&project.chats_dir())
                .into_iter()
                .map(named)
                .collect()
        }
    };
    let mut exit = Exit::Success;
    let mut text = String::new();
    for (target, path) in &files {
        match verify::verify(path) {
            Ok(report) => {
                let sound = report.sound();
                if !sound {
                    exit = Exit::Damaged;
                }
                if json {
                    push_json(
                        &mut text,
                        &Verified {
                            target,
                            sound,
                            report: &report,
                        },
                    );
                } else {
                    push_report(&mut text, target, &report);
                }
            }
            Err(error) => {
                stdio::say(&format!("onrecord: {target}: {error}"));
                exit = Exit::Damaged;
            }
        }
    }
    // Names of files are somebody's text too.
    print(&if json {
        text.into()
    } else {
        stdio::plain(&text)
    })?;
    Ok(exit)
}

fn push_report(text: &mut String, target: &str, report: &Report) {
    let verdict = if report.sound() { "sound" } else { "damaged" };
    let head = format!(
        "{verdict:<8} {target}  {} records, {} bytes, {} damaged, {} gaps, {} forks\n",
        report.n_records, report.n_bytes, report.n_damage, report.n_gaps, report.n_forks,
    );
    text.push_str(&head);
    for damage in &report.damage {
        // Dropped: a string takes every line.
        _ = writeln!(
            text,
            "         line {}, byte {}: {}",
            damage.line, damage.offset, damage.kind
        );
    }
}

fn rename(place: &Place, id: &str, title: &str) -> Result<Exit, Refusal> {
    let title = title.trim();
    if title.is_empty()
        || title.chars().count() > SESSION_NAME_CHARS_MAX
        || title.contains(char::is_control)
    {
        return Err(Refusal::usage(format!(
            "a title is one line of 1 to {SESSION_NAME_CHARS_MAX} characters; the session keeps the one it has"
        )));
    }
    let Found {
        session_id: named,
        path,
    } = find(place, id)?;
    let lock = lock_of(&path)?;
    let loaded = load(&path)?;
    let Some(session_id) = loaded.session_id else {
        return Err(Refusal::usage(
            "the session holds no readable record and cannot be renamed",
        ));
    };
    let recorder = Recorder::start(
        Options {
            path: Some(path),
            session_id: session_id.clone(),
            cwd: loaded
                .cwd
                .unwrap_or_else(|| place.cwd.to_string_lossy().into_owned()),
            version: version(),
            start: Start::Resume {
                tail: loaded.tail,
                title: loaded.title,
                lock,
            },
            log: place.log(),
            disk: Arc::new(OsDisk),
            clock: Arc::new(Timestamp::now),
            bounds: Bounds::default(),
        },
        |_| {},
    );
    let title = Title {
        text: title.to_owned(),
        source: TitleSource::Manual,
    };
    let saved = recorder.rename(title).wait_blocking(SETTLE_WAIT_MAX);
    // Dropped: nothing follows the title, so there is nothing more to save.
    _ = recorder.close().wait_blocking(SETTLE_WAIT_MAX);
    match saved {
        Some(Ok(())) => {
            print(&format!("Session {named} is renamed.\n"))?;
            Ok(Exit::Success)
        }
        Some(Err(NotSaved::Failed(failure))) => Err(Refusal::usage(format!(
            "the title was not saved ({}): {}",
            failure.class.as_str(),
            words::remedy(failure.class)
        ))),
        Some(Err(NotSaved::NeverStarted(_) | NotSaved::Closed)) | None => Err(Refusal::usage(
            "the title was not saved: the disk did not answer in time; try again, or see `onrecord doctor`",
        )),
    }
}

fn export(place: &Place, id: &str, format: ExportFormat) -> Result<Exit, Refusal> {
    let loaded = load(&find(place, id)?.path)?;
    print_with(|out| match format {
        ExportFormat::Md => export::markdown(&loaded, out),
        ExportFormat::Json => export::json(&loaded, out),
        ExportFormat::Jsonl => export::lines(&loaded, out),
    })?;
    Ok(Exit::Success)
}

fn delete(place: &Place, id: &str) -> Result<Exit, Refusal> {
    let found = find(place, id)?;
    let Some(root) = &place.root else {
        return Err(Refusal::no_root());
    };
    let removed = store::delete(root, &found).map_err(|error| Refusal::usage(error.to_string()))?;
    let mut text = String::new();
    for path in removed.paths {
        let shown = path.strip_prefix(root.path()).unwrap_or(&path);
        // Dropped: a string takes every line.
        _ = writeln!(text, "deleted {}", shown.display());
    }
    print(&stdio::plain(&text))?;
    Ok(Exit::Success)
}

fn push_json(text: &mut String, value: &impl Serialize) {
    // Rows are strings and numbers and always serialize.
    text.push_str(&serde_json::to_string(value).unwrap_or_default());
    text.push('\n');
}

fn print(text: &str) -> Result<(), Refusal> {
    stdio::deliver(stdio::print(text.as_bytes()))
}

/// Prints while it is made, so that a long session does not have to fit into memory twice.
fn print_with(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>,
) -> Result<(), Refusal> {
    let mut out = BufWriter::new(io::stdout().lock());
    stdio::deliver(write(&mut out).and_then(|()| out.flush()))
}
