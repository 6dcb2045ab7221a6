//! Copies a conversation into a session of its own.
//!
//! The copy holds the active chain: the same ids, the new session and working directory, parents in
//! one line, and everything else as it stands, unknown fields and subtypes too. It appears under its
//! name when it is whole and on disk, or not at all.

use std::{
    borrow::Cow,
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    damage::ReadError,
    lines,
    media::MediaDir,
    reader::{Places, texts},
    record::Title,
    scan::Envelope,
    survey::Survey,
};

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// What to copy, and as what.
#[derive(Debug, Clone, Copy)]
pub struct Fork<'a> {
    /// The transcript to copy.
    pub source: &'a Path,
    /// The transcript to make. Its folder is made where it is missing.
    pub target: &'a Path,
    /// The new session.
    pub session_id: &'a str,
    /// Its working directory.
    pub cwd: &'a str,
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// Records copied.
    pub n_records: u64,
    /// Gaps in the copied chain. The copy marks them as well.
    pub n_gaps: u64,
    /// The parent of the next record.
    pub tail: Option<String>,
    /// The original's name.
    pub title: Option<Title>,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The original cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The original holds no conversation.
    #[error("the session holds nothing that could be forked")]
    Empty,
    /// There is a session with that id.
    #[error("a session with the id {session_id} exists already")]
    Exists {
        /// That id.
        session_id: String,
    },
    /// The copy cannot be written.
    #[error("failed to write the forked session")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

/// Copies a conversation. On failure nothing is left behind.
///
/// # Errors
///
/// Where the original cannot be read or is empty, the target exists, or the copy cannot be written.
pub fn fork(request: &Fork<'_>) -> Result<Forked, ForkError> {
    let source = lines::open(request.source)?;
    let survey = Survey::of(&source).map_err(|error| ReadError::of(request.source, error))?;
    if request.target.symlink_metadata().is_ok() {
        return Err(exists(request));
    }
    let temporary = Temporary::create(request).map_err(|error| failed(request, error))?;
    let forked = copy(request, &source, &survey, &temporary.file)?;
    if forked.n_records == 0 {
        return Err(ForkError::Empty);
    }
    let media_dir = MediaDir::of(request.target);
    MediaDir::of(request.source)
        .share_with(&media_dir)
        .map_err(|error| failed(request, error))?;
    temporary.settle(request.target).map_err(|error| {
        media_dir.remove();
        if error.kind() == io::ErrorKind::AlreadyExists {
            exists(request)
        } else {
            failed(request, error)
        }
    })?;
    Ok(forked)
}

fn exists(request: &Fork<'_>) -> ForkError {
    ForkError::Exists {
        session_id: request.session_id.to_owned(),
    }
}

fn failed(request: &Fork<'_>, source: io::Error) -> ForkError {
    ForkError::Write {
        path: request.target.to_owned(),
        source,
    }
}

fn copy(
    request: &Fork<'_>,
    source: &File,
    survey: &Survey,
    mut target: &File,
) -> Result<Forked, ForkError> {
    let unread = |error| ForkError::Read(ReadError::of(request.source, error));
    let mut forked = Forked {
        n_records: 0,
        n_gaps: 0,
        tail: None,
        title: survey.title.clone(),
    };
    let mut places = Places::new(source);
    let mut out = Vec::new();
    // A gap before a record that is left out is before the next one.
    let mut gap_before = false;
    for link in survey.chain() {
        gap_before |= link.gap_before;
        let (text, parts) = texts(survey, &link, &mut places).map_err(unread)?;
        let changed = || unread(io::Error::other("the transcript changed while it was read"));
        let envelope = Envelope::of(&text).ok_or_else(changed)?;
        if is_left_out(envelope.subtype.as_deref()) {
            continue;
        }
        for part in std::iter::once(&*text).chain(parts.iter().map(|part| &**part)) {
            let copied = Copied {
                session_id: request.session_id,
                cwd: request.cwd,
                parent: forked.tail.as_deref(),
                gap_before,
            };
            copied.write(part, &mut out).ok_or_else(changed)?;
        }
        if out.len() >= WRITE_BYTES {
            target
                .write_all(&out)
                .map_err(|error| failed(request, error))?;
            out.clear();
        }
        forked.n_records += 1;
        forked.n_gaps += u64::from(gap_before);
        gap_before = false;
        forked.tail = Some(envelope.uuid.into_owned());
    }
    target
        .write_all(&out)
        .map_err(|error| failed(request, error))?;
    Ok(forked)
}

/// What is said of the original session, and would be untrue of the copy.
fn is_left_out(subtype: Option<&str>) -> bool {
    matches!(
        subtype,
        Some("parent_session" | "session_source" | "turn_result" | "session_sources_snapshot")
    )
}

/// What a copied record says otherwise than its original.
#[derive(Debug)]
struct Copied<'a> {
    session_id: &'a str,
    cwd: &'a str,
    parent: Option<&'a str>,
    gap_before: bool,
}

impl Copied<'_> {
    /// `None` where the text is no record.
    fn write(&self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        let envelope = Envelope::of(text)?;
        let record: Members<'_> = serde_json::from_str(text).ok()?;
        let prompt_ids = (envelope.subtype.as_deref() == Some("ui_telemetry")).then(|| {
            let of = |session_id: &str| format!("\"prompt_id\":\"{session_id}#");
            (of(&envelope.session_id), of(self.session_id))
        });
        let mut object = Object::begin(out);
        let mut has_cwd = false;
        for (name, value) in &record.0 {
            match &**name {
                "parentUuid" => object.member(name, &json(&self.parent)?)?,
                "sessionId" => object.member(name, &json(&self.session_id)?)?,
                "cwd" => {
                    has_cwd = true;
                    object.member(name, &json(&self.cwd)?)?;
                }
                "forkedFrom" | "gapBefore" => {}
                "systemPayload" if let Some((from, to)) = &prompt_ids => {
                    object.member(name, &value.get().replace(from, to))?;
                }
                _ => object.member(name, value.get())?,
            }
        }
        if !has_cwd {
            object.member("cwd", &json(&self.cwd)?)?;
        }
        if self.gap_before {
            object.member("gapBefore", "true")?;
        }
        let from = ForkedFrom {
            session_id: &envelope.session_id,
            message_uuid: &envelope.uuid,
        };
        object.member("forkedFrom", &json(&from)?)?;
        object.end();
        Some(())
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ForkedFrom<'a> {
    session_id: &'a str,
    message_uuid: &'a str,
}

fn json(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

/// Writes one line.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    separator: u8,
}

impl<'o> Object<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        Self {
            out,
            separator: b'{',
        }
    }

    fn member(&mut self, name: &str, value: &str) -> Option<()> {
        self.out.push(self.separator);
        self.separator = b',';
        serde_json::to_writer(&mut *self.out, name).ok()?;
        self.out.push(b':');
        self.out.extend_from_slice(value.as_bytes());
        Some(())
    }

    fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }
}

/// An object's members as they stand.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Collecting;

        impl<'de> Visitor<'de> for Collecting {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        json.deserialize_map(Collecting)
    }
}

/// A file that is removed unless it is given its name.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(request: &Fork<'_>) -> io::Result<Self> {
        let dir = request.target.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let name = format!(".{}.{}.tmp", request.session_id, uuid::Uuid::new_v4());
        let path = dir.join(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }

    /// Gives the file its name, where nobody has taken it.
    fn settle(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        match fs::hard_link(&self.path, target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Some file systems know no links, and most of those can do this.
            Err(error) => rename_onto_nothing(&self.path, target).map_err(|_| error)?,
        }
        if let Some(dir) = target.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
}

fn rename_onto_nothing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Dropped: it may have got its name already; what is left otherwise is hidden and private.
        _ = fs::remove_file(&self.path);
    }
}
