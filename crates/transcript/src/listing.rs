//! What a list of sessions shows of each: read from the ends of its file, whatever the file's size.
//!
//! It opens no more files than a page has rows. One file that is empty, foreign or unreadable costs
//! its own row and no other.

use std::{
    fs::{self, DirEntry, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
};

use memchr::memmem;
use serde::Serialize;
use wire::limits::{LISTING_FILES_MAX, LISTING_WINDOW_BYTES};

use crate::{
    damage::ReadError,
    layout::{DataRoot, ProjectDir},
    lines, lock, loose, mend,
    record::{Title, TitleSource},
    scan::{Envelope, Fields, Finding, Judge, Type, string},
    survey,
};

/// Characters of the first prompt that a row shows.
const PROMPT_CHARS_MAX: usize = 200;

/// Files from which two threads are faster than one.
const TWO_THREADS_FROM_FILES: usize = 128;

/// One session. In JSON the names are Qwen Code's; what is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The file's, by which the session is named everywhere.
    pub session_id: String,
    /// The first record's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// When the file was last written to, in milliseconds since 1970.
    pub mtime: u64,
    /// The beginning of the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The first record's branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The session's name.
    #[serde(rename = "customTitle", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_source: Option<TitleSource>,
    /// The transcript. Stays on this machine (R28).
    #[serde(serialize_with = "lossy")]
    pub file_path: PathBuf,
    /// The first record's working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Of the file.
    pub n_bytes: u64,
    /// Whether some process has the session open.
    pub open_elsewhere: bool,
}

/// A page of sessions.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Newest first.
    pub rows: Vec<Row>,
    /// Older files behind the last row, not looked at.
    pub n_more: u64,
    /// Sessions of other projects whose folder is the same.
    pub n_foreign: u64,
    /// Files that should be sessions and could not be shown.
    pub skipped: Vec<Skipped>,
}

/// A file that is not a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The file's session.
    pub session_id: String,
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub file_path: PathBuf,
    /// Why.
    pub reason: SkipReason,
}

/// Why a file is not a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It has no bytes: a first write that failed.
    Empty,
    /// It has bytes, and no record at its beginning.
    NoRecord,
    /// It is no regular file.
    NotAFile,
    /// It could not be read.
    Unreadable,
}

impl SkipReason {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NoRecord => "without a readable record",
            Self::NotAFile => "not a regular file",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A project's sessions, newest first, at most `limit` of them. With `cwd`, those alone whose first
/// record says that they belong there.
#[must_use]
pub fn list(project: &ProjectDir, cwd: Option<&str>, limit: Option<usize>) -> Listing {
    page(candidates(&project.chats_dir()), cwd, limit)
}

/// The archived sessions of a project, as [`list`].
#[must_use]
pub fn list_archived(project: &ProjectDir, cwd: Option<&str>, limit: Option<usize>) -> Listing {
    page(candidates(&project.archive_dir()), cwd, limit)
}

/// The sessions of every project, newest first, at most `limit` of them.
#[must_use]
pub fn list_all(root: &DataRoot, limit: Option<usize>) -> Listing {
    let files = projects(root)
        .iter()
        .flat_map(|project| candidates(&project.chats_dir()))
        .collect();
    page(files, None, limit)
}

/// Every project below a data root.
#[must_use]
pub fn projects(root: &DataRoot) -> Vec<ProjectDir> {
    let mut projects: Vec<_> = fs::read_dir(root.projects_dir())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| ProjectDir::new(entry.path()))
        .collect();
    projects.sort();
    projects
}

/// A file that may be a session.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) session_id: String,
    pub(crate) path: PathBuf,
    pub(crate) mtime_ns: i128,
    pub(crate) n_bytes: u64,
    pub(crate) is_file: bool,
}

/// The files of a folder that are named as sessions are. A folder that is not there has none.
pub(crate) fn candidates(dir: &Path) -> Vec<Candidate> {
    let entries: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let session_id = session_of(name.to_str()?)?.to_owned();
            Some((session_id, entry))
        })
        .take(LISTING_FILES_MAX)
        .collect();
    let candidates = on_two_threads(&entries, |(session_id, entry)| candidate(session_id, entry));
    candidates.into_iter().flatten().flatten().collect()
}

/// `None` where the file has gone in the meantime.
fn candidate(session_id: &str, entry: &DirEntry) -> Option<Candidate> {
    let mut metadata = entry.metadata().ok()?;
    if metadata.is_symlink() {
        metadata = fs::metadata(entry.path()).ok()?;
    }
    Some(Candidate {
        session_id: session_id.to_owned(),
        path: entry.path(),
        mtime_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        n_bytes: metadata.len(),
        is_file: metadata.is_file(),
    })
}

/// Does something to each of many, in their order; `None` where it panicked.
fn on_two_threads<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<Option<R>> {
    let all = |items: &[T]| {
        let done = items.iter().map(|item| Some(each(item)));
        done.collect::<Vec<_>>()
    };
    if items.len() < TWO_THREADS_FROM_FILES {
        return all(items);
    }
    let (front, back) = items.split_at(items.len() / 2);
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || all(back));
        let mut done = all(front);
        match other.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(mut more)) => done.append(&mut more),
            Ok(Err(_)) => done.extend(back.iter().map(|_| None)),
            // No thread is left; this one does it all.
            Err(_) => done.append(&mut all(back)),
        }
        done
    })
}

/// A path as JSON takes it: what is no UTF-8 becomes U+FFFD, so that a row is never lost for it.
fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// The session of a transcript's file name.
pub(crate) fn session_of(file_name: &str) -> Option<&str> {
    let id = file_name.strip_suffix(".jsonl")?;
    let is_id = matches!(id.len(), 32..=36)
        && id
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_id.then_some(id)
}

/// Newest first; files of one instant by their id, so that two listings agree.
pub(crate) fn newest_first(files: &mut [Candidate]) {
    files.sort_unstable_by(|a, b| {
        b.mtime_ns
            .cmp(&a.mtime_ns)
            .then_with(|| a.session_id.cmp(&b.session_id))
    });
}

fn page(mut files: Vec<Candidate>, cwd: Option<&str>, limit: Option<usize>) -> Listing {
    newest_first(&mut files);
    let limit = limit.unwrap_or(usize::MAX);
    let mut listing = Listing::default();
    let mut rest = &files[..];
    while !rest.is_empty() && listing.rows.len() < limit {
        let n = rest.len().min(limit - listing.rows.len());
        let (now, later) = rest.split_at(n);
        rest = later;
        for (file, row) in now.iter().zip(on_two_threads(now, row)) {
            match row.unwrap_or(Err(SkipReason::Unreadable)) {
                Ok(row) if cwd.is_some_and(|cwd| !belongs(row.cwd.as_deref(), cwd)) => {
                    listing.n_foreign += 1;
                }
                Ok(row) => listing.rows.push(row),
                Err(reason) => listing.skipped.push(skipped(file, reason)),
            }
        }
    }
    listing.n_more = rest.len() as u64;
    listing
}

pub(crate) fn skipped(file: &Candidate, reason: SkipReason) -> Skipped {
    Skipped {
        session_id: file.session_id.clone(),
        file_path: file.path.clone(),
        reason,
    }
}

/// Whether a session that began in `of` is one of the project `cwd`.
pub(crate) fn belongs(of: Option<&str>, cwd: &str) -> bool {
    of.is_some_and(|of| {
        of == cwd
            || of
                .strip_prefix(cwd)
                .is_some_and(|below| below.starts_with("/.qwen/worktrees/"))
    })
}

/// One file's row.
pub(crate) fn row(file: &Candidate) -> Result<Row, SkipReason> {
    if !file.is_file {
        return Err(SkipReason::NotAFile);
    }
    if file.n_bytes == 0 {
        return Err(SkipReason::Empty);
    }
    let open = lines::open(&file.path).map_err(|error| match error {
        ReadError::NotAFile { .. } => SkipReason::NotAFile,
        ReadError::NotFound { .. } | ReadError::Io { .. } => SkipReason::Unreadable,
    })?;
    let ends = Ends::of(&open, file.n_bytes).map_err(|_| SkipReason::Unreadable)?;
    let head = Head::of(&ends.head, ends.is_whole).ok_or(SkipReason::NoRecord)?;
    let title = title(&ends);
    Ok(Row {
        session_id: file.session_id.clone(),
        start_time: head.start_time,
        mtime: u64::try_from(file.mtime_ns / 1_000_000).unwrap_or(0),
        prompt: head.prompt,
        git_branch: head.git_branch,
        title_source: title.as_ref().map(|title| title.source),
        title: title.map(|title| title.text),
        file_path: file.path.clone(),
        cwd: head.cwd,
        n_bytes: file.n_bytes,
        open_elsewhere: lock::is_held(&open),
    })
}

/// The first and the last bytes of a file.
#[derive(Debug)]
struct Ends {
    head: Vec<u8>,
    /// Empty where the head is the whole file.
    tail: Vec<u8>,
    is_whole: bool,
}

impl Ends {
    fn of(file: &File, n_bytes: u64) -> io::Result<Self> {
        let window = LISTING_WINDOW_BYTES as u64;
        let is_whole = n_bytes <= window;
        Ok(Self {
            head: read(file, 0, n_bytes.min(window))?,
            tail: if is_whole {
                Vec::new()
            } else {
                let from = (n_bytes - window).max(window);
                read(file, from, n_bytes - from)?
            },
            is_whole,
        })
    }
}

fn read(file: &File, from: u64, n_bytes: u64) -> io::Result<Vec<u8>> {
    let n_bytes = usize::try_from(n_bytes).map_err(io::Error::other)?;
    let mut bytes = vec![0; n_bytes];
    let mut n = 0;
    while n < n_bytes {
        match file.read_at(&mut bytes[n..], from + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(n);
    Ok(bytes)
}

/// What the first records say.
#[derive(Debug, Default)]
struct Head {
    start_time: Option<String>,
    cwd: Option<String>,
    git_branch: Option<String>,
    prompt: Option<String>,
}

impl Head {
    /// `None` where there is no record. The last line may be cut where the window ends.
    fn of(window: &[u8], is_whole: bool) -> Option<Self> {
        let judge = Judge::new();
        let mut head: Option<Self> = None;
        let mut rest = window;
        while !rest.is_empty() && head.as_ref().is_none_or(|head| head.prompt.is_none()) {
            let end = memchr::memchr(b'\n', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            rest = end.map_or(&[][..], |end| &rest[end + 1..]);
            if end.is_none() && !is_whole {
                let text = String::from_utf8_lossy(line);
                if let Some(envelope) = Envelope::from_fields(Fields::of_beginning(&text)) {
                    Self::take(&mut head, &envelope, || prompt_of_beginning(&text));
                }
                continue;
            }
            judge.line(line, true, &[], &mut |finding| {
                if let Finding::Record { envelope, .. } = finding {
                    Self::take(&mut head, envelope, || prompt(envelope));
                }
            });
        }
        head
    }

    fn take(
        head: &mut Option<Self>,
        envelope: &Envelope<'_>,
        prompt: impl FnOnce() -> Option<String>,
    ) {
        let head = head.get_or_insert_with(|| Self {
            start_time: envelope.timestamp().map(Into::into),
            cwd: envelope.cwd().map(Into::into),
            git_branch: envelope.fields.git_branch.and_then(string).map(Into::into),
            prompt: None,
        });
        if head.prompt.is_none() && envelope.kind == Type::User && envelope.subtype.is_none() {
            head.prompt = prompt();
        }
    }
}

fn prompt(envelope: &Envelope<'_>) -> Option<String> {
    let content = loose::content(envelope.fields.message?)?;
    let text = content.parts.into_iter().find_map(|part| part.text)?;
    Some(clip(&text))
}

/// The prompt of a record whose end is behind the window.
fn prompt_of_beginning(record: &str) -> Option<String> {
    let (_, message) = record.split_once("\"message\":")?;
    let (_, text) = message.split_once("\"text\":\"")?;
    // A character takes at most six bytes, twice, where it is a pair of escapes.
    let mut end = 0;
    let mut n_chars = 0;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '"' || n_chars > 2 * PROMPT_CHARS_MAX {
            end = at;
            break;
        }
        let n_more = match c {
            '\\' if text[at + 1..].starts_with('u') => 5,
            '\\' => 1,
            _ => 0,
        };
        if n_more > 0 && chars.nth(n_more - 1).is_none() {
            end = at;
            break;
        }
        n_chars += 1;
        end = text.len() - chars.as_str().len();
    }
    let json = format!("\"{}\"", &text[..end]);
    let text: String = serde_json::from_str(&mend::surrogates(&json)).ok()?;
    Some(clip(&text))
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(PROMPT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The last title that the ends of the file hold.
fn title(ends: &Ends) -> Option<Title> {
    let judge = Judge::new();
    title_in(&judge, &ends.tail, true).or_else(|| title_in(&judge, &ends.head, false))
}

/// The last title of a window; its first line may be cut.
fn title_in(judge: &Judge, window: &[u8], is_cut: bool) -> Option<Title> {
    // So many lines that speak of titles and are none are not a session's own.
    const LINES_MAX: usize = 64;
    let finder = memmem::FinderRev::new(b"\"custom_title\"");
    let mut rest = window;
    for _ in 0..LINES_MAX {
        let at = finder.rfind(rest)?;
        let start = memchr::memrchr(b'\n', &rest[..at]);
        if start.is_none() && is_cut {
            return None;
        }
        let start = start.map_or(0, |newline| newline + 1);
        let behind = &window[start..];
        let line = &behind[..memchr::memchr(b'\n', behind).unwrap_or(behind.len())];
        let mut title = None;
        judge.line(line, true, &[], &mut |finding| {
            if let Finding::Record { envelope, .. } = finding {
                title = survey::title_of(envelope).or(title.take());
            }
        });
        if title.is_some() {
            return title;
        }
        rest = &window[..start];
    }
    None
}
