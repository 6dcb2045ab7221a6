//! One record as one line of JSON.
//!
//! A caller prepares everything that needs work, a [`Draft`]; what depends on the record's place in
//! the chain, its parent, is put in under the queue's lock, where only bytes are copied.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::Serialize;
use uuid::Uuid;

use crate::record::{Body, Title};

/// `subtype` of a record that names the session.
pub(super) const TITLE_SUBTYPE: &str = "custom_title";

/// Bytes of scratch space that a thread keeps between two records.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

/// What every line begins with.
const BEFORE_ID: &[u8] = b"{\"uuid\":\"";

/// A record's id as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id([u8; 36]);

impl Id {
    pub(super) fn text(self) -> String {
        String::from_utf8(self.0.to_vec()).unwrap_or_default()
    }

    /// The id of the first of these lines, which are ours.
    pub(super) fn of_first(lines: &[u8]) -> Option<Self> {
        let text = lines.get(BEFORE_ID.len()..)?.first_chunk()?;
        Some(Self(*text))
    }

    /// The id of the last of these lines, which are ours and whole.
    pub(super) fn of_last(lines: &[u8]) -> Option<Self> {
        let inner = lines.strip_suffix(b"\n")?;
        let start = memchr::memrchr(b'\n', inner).map_or(0, |at| at + 1);
        Self::of_first(&lines[start..])
    }
}

/// Makes the ids of one recorder: version 4, and as free of collisions as if the system had drawn each
/// one, for the price of a few instructions. Two counters that begin at 128 random bits are spread
/// over all values; that others could guess the next one does not matter in a file of ours.
#[derive(Debug)]
pub(super) struct Ids {
    start: (u64, u64),
    n_made: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self {
            start: Uuid::new_v4().as_u64_pair(),
            n_made: AtomicU64::new(0),
        }
    }

    pub(super) fn next(&self) -> Id {
        // An odd step reaches every value before it comes back.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let offset = self
            .n_made
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(STEP);
        let high = spread(self.start.0.wrapping_add(offset));
        let low = spread(self.start.1.wrapping_add(offset));
        let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let mut text = [0; 36];
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .hyphenated()
            .encode_lower(&mut text);
        Id(text)
    }
}

/// Makes every bit depend on every other one, and no two values alike: the finalizer of SplitMix64.
fn spread(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// What all records of a recorder say alike, ready to be copied.
#[derive(Debug)]
pub(super) struct Context {
    session: Vec<u8>,
    project: Vec<u8>,
    branch: Vec<u8>,
}

impl Context {
    pub(super) fn new(session_id: &str, cwd: &str, version: &str) -> Self {
        let mut context = Self {
            session: Vec::new(),
            project: Vec::new(),
            branch: Vec::new(),
        };
        field(&mut context.session, ",\"sessionId\":", session_id);
        context.session.extend_from_slice(b",\"timestamp\":\"");
        field(&mut context.project, ",\"cwd\":", cwd);
        field(&mut context.project, ",\"version\":", version);
        context
    }

    pub(super) fn set_branch(&mut self, branch: Option<&str>) {
        self.branch.clear();
        if let Some(branch) = branch {
            field(&mut self.branch, ",\"gitBranch\":", branch);
        }
    }
}

/// A parent as JSON: a string, or `null` at the root.
#[derive(Debug)]
pub(super) struct Parent(Vec<u8>);

impl Parent {
    pub(super) fn new(uuid: Option<&str>) -> Self {
        let mut json = Vec::new();
        field(&mut json, "", &uuid);
        Self(json)
    }

    pub(super) fn set(&mut self, id: Id) {
        self.0.clear();
        self.0.push(b'"');
        self.0.extend_from_slice(&id.0);
        self.0.push(b'"');
    }
}

/// A record but for its place in the chain.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) id: Id,
    pub(super) time: jiff::Timestamp,
    /// The time, then the rest of the line.
    text: Vec<u8>,
    n_time: usize,
    kind: &'static str,
    pub(super) is_title: bool,
}

impl Draft {
    /// Everything of a record that a caller can say before it has a place.
    pub(super) fn fill(&mut self, id: Id, time: jiff::Timestamp, body: &Body) {
        self.id = id;
        self.time = time;
        self.text.clear();
        self.text.shrink_to(SCRATCH_BYTES_KEPT);
        push_time(&mut self.text, time);
        self.n_time = self.text.len();
        self.is_title = matches!(body, Body::System { subtype, .. } if *subtype == TITLE_SUBTYPE);
        let out = &mut self.text;
        match body {
            Body::User { message, media } => {
                self.kind = "\",\"type\":\"user\",\"provenance\":\"real_user\"";
                field(out, ",\"message\":", message);
                if !media.is_empty() {
                    field(out, ",\"media\":", media);
                }
            }
            Body::Assistant {
                model,
                message,
                usage,
            } => {
                self.kind = "\",\"type\":\"assistant\",\"provenance\":\"assistant_output\"";
                field(out, ",\"model\":", model);
                field(out, ",\"message\":", message);
                if let Some(usage) = usage {
                    field(out, ",\"usageMetadata\":", usage);
                }
            }
            Body::ToolResult { message, result } => {
                self.kind = "\",\"type\":\"tool_result\",\"provenance\":\"tool_result\"";
                field(out, ",\"message\":", message);
                field(out, ",\"toolCallResult\":", result);
            }
            Body::System { subtype, payload } => {
                self.kind = "\",\"type\":\"system\",\"provenance\":\"system\"";
                field(out, ",\"subtype\":", subtype);
                field(out, ",\"systemPayload\":", payload);
            }
        }
        keep_on_one_line(out, self.n_time);
        out.extend_from_slice(b"}\n");
    }

    /// The bytes that the line will have.
    pub(super) fn line_bytes(&self, context: &Context, parent: &Parent) -> usize {
        // The id, and the name of the parent's field.
        const FIXED: usize = BEFORE_ID.len() + 36 + 15;
        FIXED
            + parent.0.len()
            + context.session.len()
            + context.project.len()
            + context.branch.len()
            + self.kind.len()
            + self.text.len()
    }

    /// Appends the whole line.
    pub(super) fn push_line(&self, out: &mut Vec<u8>, context: &Context, parent: &Parent) {
        let (time, rest) = self.text.split_at(self.n_time);
        out.reserve(self.line_bytes(context, parent));
        for part in [
            BEFORE_ID,
            &self.id.0,
            b"\",\"parentUuid\":",
            &parent.0,
            &context.session,
            time,
            self.kind.as_bytes(),
            &context.project,
            &context.branch,
            rest,
        ] {
            out.extend_from_slice(part);
        }
    }

    /// Makes this a further record that says the same.
    pub(super) fn renew(&mut self, id: Id, time: jiff::Timestamp) {
        let mut text = Vec::with_capacity(self.text.len());
        push_time(&mut text, time);
        let rest = self.text.split_off(self.n_time);
        self.id = id;
        self.time = time;
        self.n_time = text.len();
        text.extend_from_slice(&rest);
        self.text = text;
    }

    pub(super) fn new(id: Id, time: jiff::Timestamp, body: &Body) -> Self {
        let mut draft = Self {
            id,
            time,
            text: Vec::new(),
            n_time: 0,
            kind: "",
            is_title: false,
        };
        draft.fill(id, time, body);
        draft
    }
}

/// Gives `use_draft` a draft of this record, in scratch space of the thread.
pub(super) fn with_draft<T>(
    id: Id,
    time: jiff::Timestamp,
    body: &Body,
    use_draft: impl FnOnce(&Draft) -> T,
) -> T {
    thread_local! {
        static SCRATCH: RefCell<Option<Draft>> = const { RefCell::new(None) };
    }
    // Taken out while it is used: what is called meanwhile may append in turn.
    let draft = match SCRATCH.take() {
        Some(mut draft) => {
            draft.fill(id, time, body);
            draft
        }
        None => Draft::new(id, time, body),
    };
    let result = use_draft(&draft);
    SCRATCH.set(Some(draft));
    result
}

/// The record that names a session.
pub(super) fn title_body(title: &Title) -> Body {
    let payload = serde_json::value::to_raw_value(title);
    Body::System {
        subtype: TITLE_SUBTYPE,
        payload: payload.expect("two strings are always JSON"),
    }
}

/// Milliseconds and `Z`, as everybody writes them here.
pub(super) fn time_text(time: jiff::Timestamp) -> String {
    let mut text = Vec::new();
    push_time(&mut text, time);
    String::from_utf8(text).unwrap_or_default()
}

fn push_time(out: &mut Vec<u8>, time: jiff::Timestamp) {
    use jiff::fmt::temporal::DateTimePrinter;
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    PRINTER
        .print_timestamp(&time, &mut *out)
        .expect("memory takes every byte");
}

fn field<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    out.extend_from_slice(name.as_bytes());
    serde_json::to_writer(&mut *out, value).expect("plain data is JSON, and memory takes it");
}

/// JSON of others may be laid out over several lines. From the first line break on, which is never
/// within a string, white space outside strings goes.
fn keep_on_one_line(json: &mut Vec<u8>, from: usize) {
    let Some(found) = memchr::memchr2(b'\n', b'\r', &json[from..]) else {
        return;
    };
    let (mut in_string, mut escaped) = (false, false);
    let start = from + found;
    let mut kept = start;
    for at in start..json.len() {
        let byte = json[at];
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        } else {
            in_string = byte == b'"';
        }
        json[kept] = byte;
        kept += 1;
    }
    json.truncate(kept);
}
