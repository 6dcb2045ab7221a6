//! One pass over a file: where its records are, how they hang together, and what is wrong.
//!
//! Every reading begins with it, so that loading, checking, copying and exporting see the same file
//! in the same way. It keeps no record's text.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

use serde_json::value::RawValue;
use wire::limits::TRANSCRIPT_LINE_BYTES_MAX;

use crate::{
    damage::{DamageKind, DamageList},
    index::{Above, Index, Key, Mark},
    lines::Lines,
    record::{Title, TitleSource},
    scan::{Envelope, Fields, Finding, Judge, Parent, Type, string},
};

/// A record whose parent was not there yet when it was read.
#[derive(Debug)]
struct Orphan {
    number: u32,
    /// `None` where it names no parent that could be one.
    parent: Option<Key>,
    line: u64,
}

/// What one pass over a file found.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    pub(crate) damage: DamageList,
    pub(crate) n_bytes: u64,
    pub(crate) n_forks: u64,
    pub(crate) n_gaps: u64,
    /// The first record's.
    pub(crate) session_id: Option<Arc<str>>,
    /// The first record's.
    pub(crate) cwd: Option<String>,
    pub(crate) title: Option<Title>,
    /// Further parts of a record, by the record's number.
    pub(crate) parts: BTreeMap<u32, Vec<(u64, usize)>>,
    orphans: Vec<Orphan>,
    has_root: bool,
    /// The session of the last record, to tell where it changes.
    current_session: Option<Arc<str>>,
    last_conversation: Option<u32>,
    last_title: Option<u32>,
    last_unknown: Option<u32>,
}

/// One record of the active chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u32,
    pub(crate) gap_before: bool,
}

impl Survey {
    /// Reads the whole file. Its position is not used, nor changed.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let mut survey = Self {
            index: Index::new(),
            damage: DamageList::default(),
            n_bytes: 0,
            n_forks: 0,
            n_gaps: 0,
            session_id: None,
            cwd: None,
            title: None,
            parts: BTreeMap::new(),
            orphans: Vec::new(),
            has_root: false,
            current_session: None,
            last_conversation: None,
            last_title: None,
            last_unknown: None,
        };
        let judge = Judge::new();
        let mut lines = Lines::new(FromStart { file, at: 0 }, TRANSCRIPT_LINE_BYTES_MAX);
        let mut failed = None;
        while let Some(line) = lines.next()? {
            let Some(bytes) = line.bytes else {
                let (number, offset) = (line.number, line.offset);
                survey.damage.push(number, offset, DamageKind::LineTooLong);
                continue;
            };
            // One of them may be a damaged word itself.
            let (first, current) = (survey.session_id.clone(), survey.current_session.clone());
            let sessions: Vec<&str> = first
                .as_deref()
                .into_iter()
                .chain(current.as_deref())
                .collect();
            judge.line(bytes, line.ended, &sessions, &mut |finding| {
                let place = (line.number, line.offset);
                match finding {
                    Finding::Damage(kind) => survey.damage.push(place.0, place.1, kind),
                    Finding::Record {
                        envelope,
                        span,
                        has_lone_surrogate,
                    } => {
                        let record = Place {
                            line: line.number,
                            line_offset: line.offset,
                            offset: line.offset + span.start as u64,
                            bytes: &bytes[span],
                        };
                        let added = survey.add(file, envelope, &record, has_lone_surrogate);
                        failed = failed.take().or(added.err());
                    }
                }
            });
            if let Some(error) = failed.take() {
                return Err(error);
            }
        }
        survey.n_bytes = lines.offset();
        survey.settle_orphans(file)?;
        Ok(survey)
    }

    pub(crate) fn n_records(&self) -> u64 {
        u64::from(self.index.len())
    }

    fn add(
        &mut self,
        file: &File,
        envelope: &Envelope<'_>,
        place: &Place<'_>,
        has_lone_surrogate: bool,
    ) -> io::Result<()> {
        self.note_session(envelope, place);
        let key = self.index.key(&envelope.uuid);
        if let Some(first) = self.index.find(key) {
            return self.note_again(file, first, place, has_lone_surrogate);
        }
        let parent = match &envelope.parent {
            Parent::Root => None,
            Parent::Id(id) => Some(Some(self.index.key(id))),
            Parent::Unusable => Some(None),
        };
        let above = match parent {
            None => Above::Root,
            Some(parent) => match parent.and_then(|key| self.index.find(key)) {
                Some(above) => Above::Record(above),
                None => Above::Missing,
            },
        };
        let number = self
            .index
            .push(key, place.offset, place.bytes.len(), above)?;
        match above {
            Above::Missing => self.orphans.push(Orphan {
                number,
                parent: parent.flatten(),
                line: place.line,
            }),
            Above::Root => {
                self.n_forks += u64::from(self.has_root);
                self.has_root = true;
            }
            Above::Record(above) => self.note_child(above),
        }
        if envelope.gap_before {
            self.n_gaps += 1;
            let kind = DamageKind::MissingParent { parent: None };
            self.damage.push(place.line, place.line_offset, kind);
            self.index.mark(number, Mark::GapBefore);
        }
        if has_lone_surrogate {
            self.index.mark(number, Mark::LoneSurrogate);
        }
        if envelope.fields.is_late {
            self.index.mark(number, Mark::Late);
        }
        self.note_kind(number, envelope);
        Ok(())
    }

    fn note_session(&mut self, envelope: &Envelope<'_>, place: &Place<'_>) {
        if self.current_session.as_deref() == Some(&*envelope.session_id) {
            return;
        }
        let session_id: Arc<str> = envelope.session_id.as_ref().into();
        match &self.session_id {
            None => {
                self.session_id = Some(session_id.clone());
                self.cwd = envelope.cwd().map(Into::into);
            }
            Some(first) if *first == session_id => {}
            Some(_) => self.damage.push(
                place.line,
                place.line_offset,
                DamageKind::OtherSession {
                    session_id: session_id.to_string(),
                },
            ),
        }
        self.current_session = Some(session_id);
    }

    /// An id that was there before: the same record twice, or a further part of it.
    fn note_again(
        &mut self,
        file: &File,
        first: u32,
        place: &Place<'_>,
        has_lone_surrogate: bool,
    ) -> io::Result<()> {
        let (offset, len) = self.index.place(first);
        // The first and the last are enough: a copy follows what it copies.
        let mut known = std::iter::once((offset, len)).chain(
            self.parts
                .get(&first)
                .and_then(|parts| parts.last().copied()),
        );
        let is_known = known.try_fold(false, |is_known, (offset, len)| {
            Ok::<_, io::Error>(is_known || same(file, offset, len, place.bytes)?)
        })?;
        let kind = if is_known {
            DamageKind::Duplicate
        } else {
            self.parts
                .entry(first)
                .or_default()
                .push((place.offset, place.bytes.len()));
            if has_lone_surrogate {
                self.index.mark(first, Mark::LoneSurrogate);
            }
            DamageKind::SameId
        };
        self.damage.push(place.line, place.line_offset, kind);
        Ok(())
    }

    fn note_child(&mut self, above: u32) {
        self.n_forks += u64::from(self.index.is(above, Mark::HasChild));
        self.index.mark(above, Mark::HasChild);
    }

    fn note_kind(&mut self, number: u32, envelope: &Envelope<'_>) {
        if envelope.is_side() {
            self.index.mark(number, Mark::Side);
        } else if envelope.is_title() {
            self.index.mark(number, Mark::Title);
            self.last_title = Some(number);
            self.title = title_of(envelope).or(self.title.take());
        } else if envelope.kind == Type::Unknown {
            self.last_unknown = Some(number);
        } else {
            self.last_conversation = Some(number);
        }
    }

    /// Once everything is read, a parent is there or it is missing for good.
    fn settle_orphans(&mut self, file: &File) -> io::Result<()> {
        let mut forward = Vec::new();
        for orphan in std::mem::take(&mut self.orphans) {
            match orphan.parent.and_then(|key| self.index.find(key)) {
                Some(above) => {
                    self.index.hang(orphan.number, Above::Record(above));
                    self.note_child(above);
                    forward.push(orphan);
                }
                None => {
                    self.n_gaps += 1;
                    let (offset, len) = self.index.place(orphan.number);
                    let parent = if self.damage.has_room() {
                        named_parent(file, offset, len)?
                    } else {
                        None
                    };
                    let kind = DamageKind::MissingParent { parent };
                    self.damage.push(orphan.line, offset, kind);
                }
            }
        }
        self.cut_cycles(&forward);
        Ok(())
    }

    /// A circle has at least one link to a later record; it is cut at such a link.
    fn cut_cycles(&mut self, forward: &[Orphan]) {
        if forward.is_empty() {
            return;
        }
        let mut checked = Bits::new(self.index.len());
        for orphan in forward {
            let mut on_path = Vec::new();
            let mut number = orphan.number;
            while checked.set(number) {
                on_path.push(number);
                match self.index.above(number) {
                    Above::Record(above) => number = above,
                    Above::Root | Above::Missing => break,
                }
            }
            // The walk came back to its own beginning: every link of a circle leads there.
            let circle = on_path.iter().position(|on| *on == number);
            let closed = matches!(
                on_path.last().map(|last| self.index.above(*last)),
                Some(Above::Record(above)) if above == number
            );
            if let Some(from) = circle
                && closed
            {
                let cut = on_path[from..].iter().copied().find(
                    |on| matches!(self.index.above(*on), Above::Record(above) if above >= *on),
                );
                if let Some(cut) = cut {
                    self.index.hang(cut, Above::Missing);
                    self.n_gaps += 1;
                    let (offset, _) = self.index.place(cut);
                    // A link to a later record is a forward one, and those are in order.
                    let line = forward
                        .binary_search_by_key(&cut, |orphan| orphan.number)
                        .map_or(0, |at| forward[at].line);
                    self.damage.push(line, offset, DamageKind::Cycle);
                }
            }
        }
    }

    /// The active chain, first record first.
    ///
    /// It ends at the last record of the conversation. A title that comes after it may stand on the
    /// chain or beside it, and never decides which branch is the active one.
    pub(crate) fn chain(&self) -> Vec<Link> {
        let Some(last) = self.last_conversation else {
            return match self.last_title.or(self.last_unknown) {
                Some(leaf) => self.chain_to(leaf),
                None => Vec::new(),
            };
        };
        if let Some(title) = self.last_title.filter(|title| *title > last) {
            let chain = self.chain_to(title);
            if chain.iter().any(|link| link.number == last) {
                return chain;
            }
        }
        self.chain_to(last)
    }

    fn chain_to(&self, leaf: u32) -> Vec<Link> {
        let mut chain = Vec::new();
        let mut seen = Bits::new(self.index.len());
        let mut next = Some(leaf);
        while let Some(number) = next {
            seen.set(number);
            let mut gap_before = self.index.is(number, Mark::GapBefore);
            next = match self.index.above(number) {
                Above::Root => None,
                Above::Record(above) if !seen.get(above) => Some(above),
                Above::Record(_) | Above::Missing => {
                    gap_before = true;
                    // What is before a gap stays in reach: the record physically before it.
                    (0..number)
                        .rev()
                        .find(|before| !seen.get(*before) && !self.is_beside(*before))
                }
            };
            chain.push(Link { number, gap_before });
        }
        chain.reverse();
        chain
    }

    /// A title may stand beside the chain, and would then lead past records of the conversation.
    fn is_beside(&self, number: u32) -> bool {
        self.index.is(number, Mark::Side) || self.index.is(number, Mark::Title)
    }
}

/// Where a record was found.
#[derive(Debug)]
struct Place<'a> {
    line: u64,
    line_offset: u64,
    offset: u64,
    bytes: &'a [u8],
}

/// The name that a record gives the session.
pub(crate) fn title_of(envelope: &Envelope<'_>) -> Option<Title> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload<'a> {
        #[serde(borrow)]
        custom_title: &'a RawValue,
        #[serde(borrow, default)]
        title_source: Option<&'a RawValue>,
    }
    if envelope.kind != Type::System || envelope.subtype.as_deref() != Some("custom_title") {
        return None;
    }
    let payload: Payload<'_> = serde_json::from_str(envelope.fields.payload?.get()).ok()?;
    let source = match payload.title_source.and_then(string).as_deref() {
        Some("auto") => TitleSource::Auto,
        Some(_) | None => TitleSource::Manual,
    };
    Some(Title {
        text: string(payload.custom_title)?.into_owned(),
        source,
    })
}

fn named_parent(file: &File, offset: u64, len: usize) -> io::Result<Option<String>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Fields::of_beginning(&text)
        .parent
        .and_then(string)
        .map(Into::into))
}

fn same(file: &File, offset: u64, len: usize, bytes: &[u8]) -> io::Result<bool> {
    if len != bytes.len() {
        return Ok(false);
    }
    let mut known = vec![0; len];
    file.read_exact_at(&mut known, offset)?;
    Ok(known == bytes)
}

/// Reads a file from its first byte, by offset.
#[derive(Debug)]
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// One bit per record.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(n: u32) -> Self {
        Self(vec![0; n as usize / 64 + 1])
    }

    fn get(&self, number: u32) -> bool {
        self.0[number as usize / 64] & 1 << (number % 64) != 0
    }

    /// Whether it was not set before.
    fn set(&mut self, number: u32) -> bool {
        let word = &mut self.0[number as usize / 64];
        let before = *word;
        *word |= 1 << (number % 64);
        *word != before
    }
}
