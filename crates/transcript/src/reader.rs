//! Loads the conversation that a transcript holds.
//!
//! A session is a tree of records, since a person can go back and try another way. What is loaded is
//! its active chain: from the last record of the conversation along the parents to the first. Only
//! that is held in memory; of the rest of the file an index of about 40 bytes a record.
//!
//! A parent that is missing leaves a gap that can be seen, and what was written before it stays in
//! reach.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, thread};

use serde::Serialize;
use serde_json::value::RawValue;

pub use crate::{
    damage::{DAMAGE_KEPT_MAX, Damage, DamageKind, ReadError},
    record::{Title, TitleSource},
    scan::Type,
};
use crate::{
    index::Mark,
    lines::{self, WINDOW_BYTES},
    loose,
    media::{MediaDir, Medium},
    mend,
    record::{Content, UsageMetadata},
    scan::{Envelope, Fields, Parent, string},
    survey::{Link, Survey},
};

/// From here on, the memory that the records need takes longer to get than a thread to start.
const TWO_THREADS_FROM_BYTES: u64 = 8 << 20;

/// A session as its file tells it.
#[derive(Debug)]
pub struct Loaded {
    /// The first record's; `None` where there is no record.
    pub session_id: Option<String>,
    /// The first record's working directory.
    pub cwd: Option<String>,
    /// The active chain, first record first.
    pub records: Vec<Stored>,
    /// What is wrong with the file, in its order; at most [`DAMAGE_KEPT_MAX`] of it.
    pub damage: Vec<Damage>,
    /// All of it.
    pub n_damage: u64,
    /// Of the whole file, other branches among them.
    pub n_records: u64,
    /// Of the whole file.
    pub n_bytes: u64,
    /// Places of the whole file where a branch begins. Normal: going back makes one.
    pub n_forks: u64,
    /// Places of the whole file where records are missing.
    pub n_gaps: u64,
    /// The session's name.
    pub title: Option<Title>,
    /// The parent of the next record: the last one of the chain.
    pub tail: Option<String>,
    /// Whether the last prompt has no answer, or the last tool result none.
    pub unanswered: bool,
    /// Where the pictures are that records refer to.
    pub media_dir: MediaDir,
}

impl Loaded {
    /// Whether something of the conversation is lost, or out of its place: more than harmless damage.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let is_harmful = |damage: &Damage| !damage.kind.is_harmless();
        self.n_gaps > 0 || self.damage.iter().any(is_harmful)
    }

    /// Whether the file ends in the middle of a record, which the next opener cuts (B3).
    #[must_use]
    pub fn ends_torn(&self) -> bool {
        let last = self.damage.last();
        last.is_some_and(|damage| damage.kind == DamageKind::TornTail)
    }
}

/// One record of the active chain.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its id.
    pub uuid: String,
    /// The parent it names, which may be missing.
    pub parent_uuid: Option<String>,
    /// As it stands in the record.
    pub timestamp: Option<String>,
    /// Its type.
    pub kind: Type,
    /// Its subtype; unknown ones too.
    pub subtype: Option<String>,
    /// Whether records are missing before it.
    pub gap_before: bool,
    raw: Box<str>,
    /// Records with the same id that were written after it.
    parts: Vec<Box<str>>,
}

/// `toolCallResult` of a record, as far as it is there.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredToolResult {
    /// The call's id.
    pub call_id: Option<String>,
    /// `success`, `error`, `cancelled`, or a word of another program.
    pub status: Option<String>,
    /// What a person is shown, where it is text.
    pub result_display: Option<String>,
    /// The error's text.
    pub error: Option<String>,
}

impl Stored {
    fn new(text: String, parts: Vec<Box<str>>, is_late: bool, gap_before: bool) -> Option<Self> {
        let envelope = if is_late {
            Envelope::of(&text)?
        } else {
            Envelope::from_fields(Fields::of_head(&text))?
        };
        Some(Self {
            uuid: envelope.uuid.clone().into_owned(),
            parent_uuid: match &envelope.parent {
                Parent::Id(id) => Some(id.clone().into_owned()),
                Parent::Root | Parent::Unusable => None,
            },
            timestamp: envelope.timestamp().map(Into::into),
            kind: envelope.kind,
            subtype: envelope.subtype.clone().map(Into::into),
            gap_before,
            raw: text.into_boxed_str(),
            parts,
        })
    }

    /// The record's JSON, in which bytes that are no UTF-8 and half surrogate pairs are U+FFFD. Other
    /// than that it is as it stands in the file, unknown fields and all.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// See [`Stored::raw`]; the record and all its further parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.raw).chain(self.parts.iter().map(|part| &**part))
    }

    fn envelopes(&self) -> impl Iterator<Item = Envelope<'_>> {
        self.texts().filter_map(Envelope::of)
    }

    /// The record's message, the parts of all its parts in their order. What is no message is `None`,
    /// and a part that nobody knows is an empty one.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        self.envelopes()
            .filter_map(|envelope| loose::content(envelope.fields.message?))
            .reduce(|mut whole, more| {
                whole.parts.extend(more.parts);
                whole
            })
    }

    /// The model that spoke.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        self.envelopes()
            .find_map(|envelope| envelope.fields.model.and_then(string).map(Into::into))
    }

    /// The tokens it took; of several, the last.
    #[must_use]
    pub fn usage(&self) -> Option<UsageMetadata> {
        self.envelopes()
            .filter_map(|envelope| serde_json::from_str(envelope.fields.usage?.get()).ok())
            .last()
    }

    /// What a system record says, and what a prompt says beside its text.
    #[must_use]
    pub fn payload(&self) -> Option<Box<RawValue>> {
        self.envelopes()
            .find_map(|envelope| envelope.fields.payload.map(ToOwned::to_owned))
    }

    /// Pictures that the record refers to, in their order. One that is described in no way that we
    /// know is left out.
    #[must_use]
    pub fn media(&self) -> Vec<Medium> {
        self.envelopes()
            .filter_map(|envelope| {
                serde_json::from_str::<Vec<&RawValue>>(envelope.fields.media?.get()).ok()
            })
            .flatten()
            .filter_map(|medium| serde_json::from_str(medium.get()).ok())
            .collect()
    }

    /// How the tool call ended.
    #[must_use]
    pub fn tool_call_result(&self) -> Option<StoredToolResult> {
        self.envelopes()
            .find_map(|envelope| loose::tool_call_result(envelope.fields.tool_call_result?))
    }
}

/// Loads the active chain.
///
/// # Errors
///
/// Where the file is missing, is no regular file, or cannot be read. Damage inside it is no error.
pub fn load(path: &Path) -> Result<Loaded, ReadError> {
    load_open(&lines::open(path)?, MediaDir::of(path)).map_err(|source| ReadError::of(path, source))
}

fn load_open(file: &File, media_dir: MediaDir) -> io::Result<Loaded> {
    let survey = Survey::of(file)?;
    let chain = survey.chain();
    let records = if survey.n_bytes < TWO_THREADS_FROM_BYTES {
        stored(file, &survey, &chain)?
    } else {
        let (front, back) = chain.split_at(chain.len() / 2);
        thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, || stored(file, &survey, back));
            let mut records = stored(file, &survey, front)?;
            let back = match other {
                Ok(other) => other
                    .join()
                    .map_err(|_| io::Error::other("a reader panicked"))?,
                // No thread is left; this one does it all.
                Err(_) => stored(file, &survey, back),
            };
            records.append(&mut back?);
            Ok::<_, io::Error>(records)
        })?
    };
    Ok(Loaded {
        session_id: survey.session_id.as_deref().map(Into::into),
        n_damage: survey.damage.n_all(),
        n_records: survey.n_records(),
        n_bytes: survey.n_bytes,
        n_forks: survey.n_forks,
        n_gaps: survey.n_gaps,
        tail: records.last().map(|record| record.uuid.clone()),
        unanswered: is_unanswered(&records),
        records,
        cwd: survey.cwd,
        title: survey.title,
        damage: survey.damage.into_sorted(),
        media_dir,
    })
}

/// The records of a stretch of the chain.
fn stored(file: &File, survey: &Survey, chain: &[Link]) -> io::Result<Vec<Stored>> {
    let mut places = Places::new(file);
    let mut records = Vec::with_capacity(chain.len());
    for link in chain {
        let (text, parts) = texts(survey, link, &mut places)?;
        let is_late = survey.index.is(link.number, Mark::Late);
        // It was a record a moment ago. Where it is none any more, the file is being changed from
        // outside, and nothing in it can be relied on.
        let stored = Stored::new(text, parts, is_late, link.gap_before)
            .ok_or_else(|| io::Error::other("the transcript changed while it was read"))?;
        records.push(stored);
    }
    Ok(records)
}

/// The text of a record of the chain, and of its further parts.
pub(crate) fn texts(
    survey: &Survey,
    link: &Link,
    places: &mut Places<'_>,
) -> io::Result<(String, Vec<Box<str>>)> {
    let is_mended = survey.index.is(link.number, Mark::LoneSurrogate);
    let (offset, len) = survey.index.place(link.number);
    let text = places.text(offset, len, is_mended)?;
    let mut parts = Vec::new();
    for (offset, len) in survey.parts.get(&link.number).into_iter().flatten() {
        parts.push(places.text(*offset, *len, is_mended)?.into_boxed_str());
    }
    Ok((text, parts))
}

fn is_unanswered(records: &[Stored]) -> bool {
    records
        .iter()
        .rev()
        .find_map(|record| match record.kind {
            Type::User | Type::ToolResult => Some(true),
            Type::Assistant => Some(false),
            Type::System | Type::Unknown => None,
        })
        .unwrap_or(false)
}

/// Reads places of a file, mostly one after the other, a window at a time.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    file: &'a File,
    window: Vec<u8>,
    offset: u64,
}

impl<'a> Places<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self {
            file,
            window: Vec::new(),
            offset: 0,
        }
    }

    fn text(&mut self, offset: u64, len: usize, is_mended: bool) -> io::Result<String> {
        let bytes = self.bytes(offset, len)?.to_vec();
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(if is_mended {
            mend::surrogates(&text).into_owned()
        } else {
            text
        })
    }

    fn bytes(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let is_inside =
            offset >= self.offset && offset + len as u64 <= self.offset + self.window.len() as u64;
        if !is_inside {
            self.fill(offset, len)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "inside the window")]
        let start = (offset - self.offset) as usize;
        Ok(&self.window[start..start + len])
    }

    fn fill(&mut self, offset: u64, len: usize) -> io::Result<()> {
        self.window.resize(len.max(WINDOW_BYTES), 0);
        self.offset = offset;
        let mut n = 0;
        while n < self.window.len() {
            match self.file.read_at(&mut self.window[n..], offset + n as u64) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.window.truncate(n);
        if n < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}
