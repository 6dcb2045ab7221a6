//! What is on one line: a record, several, none, and what is wrong with it.
//!
//! A record is judged by its envelope alone. The rest of the line is checked to be JSON and to be
//! UTF-8, and is otherwise left as it is: it may be deeper than `serde_json::Value` reads, hold half
//! surrogate pairs, or be of a kind that nobody here knows.

use std::{borrow::Cow, fmt, ops::Range};

use memchr::memmem;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{damage::DamageKind, mend};

/// The `type` of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// What a person said, or what stands for it.
    User,
    /// What the model said.
    Assistant,
    /// What a tool answered.
    ToolResult,
    /// Anything else of this program's or of Qwen Code's.
    System,
    /// A type that this version does not know. Kept, and never the end of a conversation.
    Unknown,
}

/// Where a record says it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parent<'a> {
    /// At the beginning.
    Root,
    /// Behind this record.
    Id(Cow<'a, str>),
    /// It says something that is no id.
    Unusable,
}

/// What a record says of itself, borrowed from its line.
#[derive(Debug, Clone)]
pub(crate) struct Envelope<'a> {
    pub(crate) uuid: Cow<'a, str>,
    pub(crate) parent: Parent<'a>,
    pub(crate) session_id: Cow<'a, str>,
    pub(crate) kind: Type,
    pub(crate) subtype: Option<Cow<'a, str>>,
    /// Whether a copy says that records were missing before this one.
    pub(crate) gap_before: bool,
    /// Everything else that is ever asked for.
    pub(crate) fields: Fields<'a>,
}

impl<'a> Envelope<'a> {
    /// Reads one record's text.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        Self::from_fields(Fields::of(text).ok()?)
    }

    /// The envelope, where the fields make one: an id, a session and a type there must be.
    pub(crate) fn from_fields(fields: Fields<'a>) -> Option<Self> {
        let named = |raw: Option<&'a RawValue>| string(raw?).filter(|text| !text.is_empty());
        let uuid = named(fields.uuid)?;
        let session_id = named(fields.session_id)?;
        let kind = match &*named(fields.kind)? {
            "user" => Type::User,
            "assistant" => Type::Assistant,
            "tool_result" => Type::ToolResult,
            "system" => Type::System,
            _ => Type::Unknown,
        };
        let parent = match fields.parent {
            None => Parent::Root,
            Some(raw) if raw.get() == "null" => Parent::Root,
            Some(raw) => match string(raw).filter(|text| !text.is_empty()) {
                Some(id) => Parent::Id(id),
                None => Parent::Unusable,
            },
        };
        Some(Self {
            uuid,
            parent,
            session_id,
            kind,
            subtype: named(fields.subtype),
            gap_before: fields.gap_before.is_some_and(|raw| raw.get() == "true"),
            fields,
        })
    }

    pub(crate) fn timestamp(&self) -> Option<Cow<'a, str>> {
        self.fields.timestamp.and_then(string)
    }

    pub(crate) fn cwd(&self) -> Option<Cow<'a, str>> {
        self.fields.cwd.and_then(string)
    }

    /// Records beside the conversation: they never carry it on, whatever their place in the file.
    pub(crate) fn is_side(&self) -> bool {
        self.kind == Type::System
            && self.subtype.as_deref().is_some_and(|subtype| {
                subtype.starts_with("session_artifact_")
                    || subtype.starts_with("managed_session_")
                    || subtype == "session_sources_snapshot"
            })
    }

    /// Records that say something of the session. They are written again now and then, beside the
    /// conversation as well as in it.
    pub(crate) fn is_title(&self) -> bool {
        self.kind == Type::System
            && matches!(
                self.subtype.as_deref(),
                Some("custom_title" | "session_source")
            )
    }

    /// Whether its ids came through whole; U+FFFD stands for bytes that are lost.
    fn has_whole_ids(&self) -> bool {
        let whole = |text: &str| !text.contains(char::REPLACEMENT_CHARACTER);
        whole(&self.uuid)
            && whole(&self.session_id)
            && match &self.parent {
                Parent::Id(id) => whole(id),
                Parent::Root | Parent::Unusable => true,
            }
    }
}

/// The text of a JSON string, with half surrogate pairs as U+FFFD; `None` for any other value.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(&mend::surrogates(text))
        .ok()
        .map(Cow::Owned)
}

/// The fields of a record that this crate ever looks at, as they stand. Of a field that is there
/// twice the last one counts, as in JavaScript.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) uuid: Option<&'a RawValue>,
    pub(crate) parent: Option<&'a RawValue>,
    pub(crate) session_id: Option<&'a RawValue>,
    pub(crate) timestamp: Option<&'a RawValue>,
    pub(crate) kind: Option<&'a RawValue>,
    pub(crate) subtype: Option<&'a RawValue>,
    pub(crate) cwd: Option<&'a RawValue>,
    pub(crate) git_branch: Option<&'a RawValue>,
    pub(crate) model: Option<&'a RawValue>,
    pub(crate) message: Option<&'a RawValue>,
    pub(crate) usage: Option<&'a RawValue>,
    pub(crate) payload: Option<&'a RawValue>,
    pub(crate) tool_call_result: Option<&'a RawValue>,
    pub(crate) gap_before: Option<&'a RawValue>,
    pub(crate) media: Option<&'a RawValue>,
    /// Whether something of the envelope stands behind something that may be long, where programs
    /// usually put it before.
    pub(crate) is_late: bool,
}

impl<'a> Fields<'a> {
    /// Of one whole object and nothing behind it.
    pub(crate) fn of(text: &'a str) -> serde_json::Result<Self> {
        let mut fields = Self::default();
        let mut json = serde_json::Deserializer::from_str(text);
        let filling = Filling {
            fields: &mut fields,
            head_only: false,
        };
        filling.deserialize(&mut json)?;
        json.end()?;
        Ok(fields)
    }

    /// Of an object whose end may be missing: as far as it goes.
    pub(crate) fn of_beginning(text: &'a str) -> Self {
        Self::as_far_as(text, false)
    }

    /// Of a record that is known to be whole and not [late](Self::is_late): its envelope, without
    /// reading past what may be long.
    pub(crate) fn of_head(text: &'a str) -> Self {
        Self::as_far_as(text, true)
    }

    fn as_far_as(text: &'a str, head_only: bool) -> Self {
        let mut fields = Self::default();
        let mut json = serde_json::Deserializer::from_str(text);
        let filling = Filling {
            fields: &mut fields,
            head_only,
        };
        // Dropped: the end is missing by agreement; what came before it is what is wanted.
        _ = filling.deserialize(&mut json);
        fields
    }
}

/// Fills the fields it is given, so that they are there even where the object ends too early.
struct Filling<'f, 'a> {
    fields: &'f mut Fields<'a>,
    /// End, with an error, before the first field that may be long.
    head_only: bool,
}

impl<'a> DeserializeSeed<'a> for Filling<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Filling<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let fields = self.fields;
        let mut is_head = true;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Message
                | Key::UsageMetadata
                | Key::SystemPayload
                | Key::ToolCallResult
                | Key::Media => {
                    is_head = false;
                }
                Key::Other | Key::Model | Key::GapBefore => {}
                Key::Uuid
                | Key::ParentUuid
                | Key::SessionId
                | Key::Timestamp
                | Key::Type
                | Key::Subtype
                | Key::Cwd
                | Key::GitBranch => fields.is_late |= !is_head,
            }
            if self.head_only && !is_head {
                return Err(A::Error::custom("the head ends here"));
            }
            let field = match key {
                Key::Uuid => &mut fields.uuid,
                Key::ParentUuid => &mut fields.parent,
                Key::SessionId => &mut fields.session_id,
                Key::Timestamp => &mut fields.timestamp,
                Key::Type => &mut fields.kind,
                Key::Subtype => &mut fields.subtype,
                Key::Cwd => &mut fields.cwd,
                Key::GitBranch => &mut fields.git_branch,
                Key::Model => &mut fields.model,
                Key::Message => &mut fields.message,
                Key::UsageMetadata => &mut fields.usage,
                Key::SystemPayload => &mut fields.payload,
                Key::ToolCallResult => &mut fields.tool_call_result,
                Key::GapBefore => &mut fields.gap_before,
                Key::Media => &mut fields.media,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = Some(map.next_value()?);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    Uuid,
    ParentUuid,
    SessionId,
    Timestamp,
    Type,
    Subtype,
    Cwd,
    GitBranch,
    Model,
    Message,
    UsageMetadata,
    SystemPayload,
    ToolCallResult,
    GapBefore,
    Media,
    #[serde(other)]
    Other,
}

/// One thing found on a line.
#[derive(Debug)]
pub(crate) enum Finding<'e, 'a> {
    /// A record, at these bytes of the line.
    Record {
        envelope: &'e Envelope<'a>,
        span: Range<usize>,
        has_lone_surrogate: bool,
    },
    /// Something wrong with the line.
    Damage(DamageKind),
}

/// Judges one line after the other.
#[derive(Debug)]
pub(crate) struct Judge {
    surrogate_lower: memmem::Finder<'static>,
    surrogate_upper: memmem::Finder<'static>,
}

impl Judge {
    pub(crate) fn new() -> Self {
        Self {
            surrogate_lower: memmem::Finder::new(b"\\ud"),
            surrogate_upper: memmem::Finder::new(b"\\uD"),
        }
    }

    /// Tells `sink` what is on a line, records in their order. `sessions` are those of the file, where they are
    /// known: a whole object inside a torn one is a record only where it is of one of them, or ends the line.
    pub(crate) fn line(
        &self,
        line: &[u8],
        ended: bool,
        sessions: &[&str],
        sink: &mut dyn FnMut(Finding<'_, '_>),
    ) {
        let span = trim(line, |byte| byte.is_ascii_whitespace());
        if span.is_empty() {
            return;
        }
        if !self.record(line, span.clone(), &[], sink) {
            self.damaged(line, span, ended, sessions, sink);
        } else if !ended {
            sink(Finding::Damage(DamageKind::MissingNewline));
        }
    }

    /// The one record that fills the span, be it with some damage inside; `false` where it is none,
    /// or of none of the sessions that are asked for.
    fn record(
        &self,
        line: &[u8],
        span: Range<usize>,
        only_of: &[&str],
        sink: &mut dyn FnMut(Finding<'_, '_>),
    ) -> bool {
        let bytes = &line[span.clone()];
        // The strict check is several times as fast as the lossy one.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        };
        let is_utf8 = matches!(text, Cow::Borrowed(_));
        let has_lone_surrogate = self.has_lone_surrogate(&text);
        let mended;
        let envelope = match Envelope::of(&text) {
            Some(envelope) => envelope,
            // Half a pair in a field's name is the one place where it is in the way.
            None if has_lone_surrogate => {
                mended = mend::surrogates(&text);
                let Some(envelope) = Envelope::of(&mended) else {
                    return false;
                };
                envelope
            }
            None => return false,
        };
        let is_asked_for = only_of.is_empty() || only_of.contains(&&*envelope.session_id);
        if !is_asked_for || (!is_utf8 && !envelope.has_whole_ids()) {
            return false;
        }
        sink(Finding::Record {
            envelope: &envelope,
            span,
            has_lone_surrogate,
        });
        if !is_utf8 {
            sink(Finding::Damage(DamageKind::BadUtf8 { kept: true }));
        }
        if has_lone_surrogate {
            sink(Finding::Damage(DamageKind::LoneSurrogate));
        }
        true
    }

    fn has_lone_surrogate(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let may = self.surrogate_lower.find(bytes).is_some()
            || self.surrogate_upper.find(bytes).is_some();
        may && matches!(mend::surrogates(text), Cow::Owned(_))
    }

    /// A line that is not one record: everything whole on it is looked for.
    fn damaged(
        &self,
        line: &[u8],
        span: Range<usize>,
        ended: bool,
        sessions: &[&str],
        sink: &mut dyn FnMut(Finding<'_, '_>),
    ) {
        let padding = |byte: u8| byte == 0 || byte.is_ascii_whitespace();
        let base = span.start;
        let inner = trim(&line[span.clone()], padding);
        let has_nul = inner.len() < span.len();
        let span = base + inner.start..base + inner.end;
        if has_nul {
            sink(Finding::Damage(DamageKind::NulBytes));
            if span.is_empty() || self.record(line, span.clone(), &[], sink) {
                return;
            }
        }
        let mut n_records = 0;
        let mut beside = false;
        let pieces = Pieces::of(&line[span.clone()]);
        for piece in pieces {
            let Piece::Object(found) = piece else {
                beside = true;
                continue;
            };
            let may_be_quoted = beside && found.end < span.len();
            let only_of = if may_be_quoted { sessions } else { &[] };
            let place = span.start + found.start..span.start + found.end;
            if self.record(line, place, only_of, sink) {
                n_records += 1;
            } else {
                beside = true;
            }
        }
        if n_records > 1 {
            sink(Finding::Damage(DamageKind::Glued { n_records }));
        }
        if n_records == 0 {
            sink(Finding::Damage(loss(&line[span], ended)));
        } else if beside {
            sink(Finding::Damage(DamageKind::Fragment));
        } else if !ended {
            sink(Finding::Damage(DamageKind::MissingNewline));
        }
    }
}

/// Whether a reader finds a record on this line, be it beside something torn. What it finds must
/// never be cut (B3).
pub(crate) fn holds_record(line: &[u8]) -> bool {
    let mut found = false;
    Judge::new().line(line, false, &[], &mut |finding| {
        found |= matches!(finding, Finding::Record { .. });
    });
    found
}

/// What a line is that holds no record.
fn loss(bytes: &[u8], ended: bool) -> DamageKind {
    let is_utf8 = std::str::from_utf8(bytes).is_ok();
    if is_utf8 && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        DamageKind::NotARecord
    } else if !ended {
        DamageKind::TornTail
    } else if is_utf8 {
        DamageKind::BadJson
    } else {
        DamageKind::BadUtf8 { kept: false }
    }
}

fn trim(bytes: &[u8], padding: impl Fn(u8) -> bool) -> Range<usize> {
    // A byte order mark is what an editor leaves at the beginning.
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let mut start = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    let mut end = bytes.len();
    while start < end && padding(bytes[start]) {
        start += 1;
    }
    while start < end && padding(bytes[end - 1]) {
        end -= 1;
    }
    start..end
}

/// A part of a damaged line.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// A whole JSON object.
    Object(Range<usize>),
    /// Anything else, but for white space and NUL bytes.
    Text,
}

/// Finds the whole objects of a damaged line. Inside text that is none, only what begins as a record
/// does is looked at, and the work is bounded by a multiple of the line.
#[derive(Debug)]
struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes that may still be looked at in vain.
    budget: usize,
}

/// Names of the fields with which programs begin a record.
const FIRST_KEYS: [&str; 11] = [
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "type",
    "provenance",
    "cwd",
    "version",
    "gitBranch",
    "subtype",
    "backgroundTurn",
];

impl<'a> Pieces<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            budget: 8 * bytes.len() + (1 << 20),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let padding = |byte: u8| byte == 0 || byte.is_ascii_whitespace();
        while self.at < self.bytes.len() && padding(self.bytes[self.at]) {
            self.at += 1;
        }
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        if rest[0] == b'{' {
            match object_len(rest) {
                Ok(len) => {
                    let found = self.at..self.at + len;
                    self.at = found.end;
                    return Some(Piece::Object(found));
                }
                Err(looked_at) => self.budget = self.budget.saturating_sub(looked_at),
            }
        }
        // What begins here is no object: go on to the next place where a record may begin.
        let next =
            memmem::find_iter(rest, b"{\"").find(|at| *at > 0 && begins_record(&rest[*at..]));
        self.at = match next {
            Some(at) if self.budget > 0 => self.at + at,
            Some(_) | None => self.bytes.len(),
        };
        Some(Piece::Text)
    }
}

fn begins_record(bytes: &[u8]) -> bool {
    let key = &bytes[2..];
    FIRST_KEYS.iter().any(|first| {
        key.strip_prefix(first.as_bytes())
            .is_some_and(|behind| behind.first() == Some(&b'"'))
    })
}

/// The length of the object at the beginning, or how far it was looked for.
fn object_len(bytes: &[u8]) -> Result<usize, usize> {
    let mut objects = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    match objects.next() {
        Some(Ok(_)) => Ok(objects.byte_offset()),
        // Lines hold no newline, so that the column is the number of bytes.
        Some(Err(error)) => Err(error.column()),
        None => Err(0),
    }
}
