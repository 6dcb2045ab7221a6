//! Commands of a second program, which it adds to a file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use agent::feed::Feed;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wire::{
    limits::{COMMAND_FILE_NAP, INPUT_LINE_BYTES_MAX},
    stream_json::{
        Message,
        command::Command,
        control::{Answer, ControlResponse, Response},
        input::{InvalidInput, InvalidReason},
    },
};

use crate::{
    host::Board,
    host::Line,
    output::{line, messages::Messages},
    prompts::{WeakSender, Work},
    questions::{Questions, Reply},
};

/// What is needed to follow a file of commands.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) path: PathBuf,
    pub(crate) prompts: WeakSender,
    pub(crate) questions: Questions,
    /// The second output, which is told of what is wrong.
    pub(crate) beside: Option<Feed>,
    /// Names the session of now.
    pub(crate) board: Board,
}

/// Follows the file until `end` fires. Only what is added from now on counts.
pub(crate) async fn follow(commands: Commands, mut tail: Tail, end: CancellationToken) {
    let mut number = 0;
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(COMMAND_FILE_NAP) => {}
        }
        for line in tail.added(&commands.path) {
            number += 1;
            let obeyed = match line {
                Line::Whole(bytes) => commands.obey(&bytes),
                Line::TooLong => Err(InvalidInput::too_long()),
            };
            if let Err(error) = obeyed {
                commands.complain(&error, number);
            }
        }
    }
}

/// Why a line is no command, in the words of the other input.
fn reason_of(line: &[u8]) -> InvalidReason {
    match serde_json::from_slice::<Value>(line) {
        Err(_) => InvalidReason::NotJson,
        Ok(value) if !value.is_object() => InvalidReason::NotAnObject,
        Ok(value) if !value["type"].is_string() => InvalidReason::NoType,
        Ok(_) => InvalidReason::BadField,
    }
}

impl Commands {
    fn obey(&self, bytes: &[u8]) -> Result<(), InvalidInput> {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            return Ok(());
        }
        match serde_json::from_slice(bytes) {
            Ok(Command::Submit { text }) if text.trim().is_empty() => Ok(()),
            Ok(Command::Submit { text }) => self.submit(text),
            Ok(Command::ConfirmationResponse {
                request_id,
                allowed,
            }) => {
                // Told from here, so that answers are answered in their order.
                let response = if self.questions.answer(&request_id, Reply::Beside(allowed)) {
                    Response::Success {
                        request_id,
                        response: Answer::Decided { allowed },
                    }
                } else {
                    Response::Error {
                        request_id,
                        error: "unknown request_id (already resolved, cancelled, or never issued)"
                            .to_owned(),
                    }
                };
                self.tell(&Message::ControlResponse(ControlResponse { response }));
                Ok(())
            }
            Ok(Command::Unknown) => Ok(()),
            Err(error) => Err(invalid(
                reason_of(bytes),
                format!(
                    "the line is no command ({error}); send `submit` with `text`, or `confirmation_response` with `request_id` and `allowed`"
                ),
            )),
        }
    }

    fn submit(&self, text: String) -> Result<(), InvalidInput> {
        let full = || {
            invalid(
                InvalidReason::TooManyPrompts,
                "the prompt was not taken: too many wait, or the run is over",
            )
        };
        let prompts = self.prompts.upgrade().ok_or_else(full)?;
        prompts.send(Work::Prompt(text)).map_err(|_full| full())
    }

    fn complain(&self, error: &InvalidInput, number: u64) {
        self.tell(&Messages::invalid_input(
            &self.board.session_id(),
            error,
            number,
        ));
    }

    fn tell(&self, message: &Message) {
        if let Some(beside) = &self.beside {
            beside.offer_line(line(message));
        }
    }
}

fn invalid(reason: InvalidReason, message: impl Into<String>) -> InvalidInput {
    InvalidInput {
        reason,
        message: message.into(),
        request_id: None,
    }
}

/// The end of a file that grows: gives the whole lines that were added since the last look.
///
/// A file that was replaced, or that is shorter than it was or begins otherwise, is read from its
/// beginning.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Device and inode.
    file: Option<(u64, u64)>,
    /// How far it is read.
    n_read: u64,
    /// The bytes before that, as far as they are kept.
    before: Vec<u8>,
    /// A line whose end has not come.
    part: Vec<u8>,
    /// That line is too long, and its bytes are not kept.
    part_too_long: bool,
}

/// Bytes before the place that is read to, by which a rewritten file is known.
const BEFORE_BYTES: usize = 1 << 10;

/// Bytes read at one look; the rest is read at the next.
const LOOK_BYTES_MAX: u64 = 1 << 20;

impl Tail {
    /// Begins at the end that the file has now.
    pub(crate) fn from_end_of(path: &Path) -> Self {
        let mut tail = Self::default();
        // Dropped: a file that is not there yet is read from its beginning once it is.
        _ = tail.skip_to_end(path);
        tail
    }

    fn skip_to_end(&mut self, path: &Path) -> io::Result<()> {
        let mut file = open(path)?;
        let metadata = file.metadata()?;
        self.file = Some((metadata.dev(), metadata.ino()));
        self.n_read = metadata.len();
        self.before = read_before(&mut file, self.n_read)?;
        Ok(())
    }

    /// The lines that were added. A file that cannot be read has none.
    fn added(&mut self, path: &Path) -> Vec<Line> {
        self.look(path).unwrap_or_default()
    }

    fn look(&mut self, path: &Path) -> io::Result<Vec<Line>> {
        let mut file = open(path)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        let is_same = self.file == Some(identity)
            && metadata.len() >= self.n_read
            && read_before(&mut file, self.n_read)? == self.before;
        if !is_same {
            *self = Self {
                file: Some(identity),
                ..Self::default()
            };
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.n_read))?;
        let n_new = file.take(LOOK_BYTES_MAX).read_to_end(&mut bytes)?;
        self.n_read += u64::try_from(n_new).unwrap_or(0);
        self.before.extend_from_slice(&bytes);
        let n_old = self.before.len().saturating_sub(BEFORE_BYTES);
        self.before.drain(..n_old);
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.part.len() + piece.len() > INPUT_LINE_BYTES_MAX {
                self.part_too_long = true;
                self.part = Vec::new();
            }
            if !self.part_too_long {
                self.part.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let part = std::mem::take(&mut self.part);
                lines.push(if std::mem::take(&mut self.part_too_long) {
                    Line::TooLong
                } else {
                    Line::Whole(part)
                });
            }
        }
        Ok(lines)
    }
}

/// A FIFO or a device would block, so only a regular file is read.
fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)
}

fn read_before(file: &mut File, end: u64) -> io::Result<Vec<u8>> {
    let begin = end.saturating_sub(BEFORE_BYTES as u64);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(end - begin).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the file of commands is the test's own"
)]
mod tests {
    use std::{fs, io::Write};

    use wire::limits::INPUT_LINE_BYTES_MAX;

    use super::{Line, Tail};

    #[test]
    fn a_line_that_is_too_long_is_never_taken_in_part() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("commands");
        let mut tail = Tail::from_end_of(&path);
        let mut file = fs::File::create(&path).expect("the folder is ours");
        // Its end comes in a look of its own, and would fit again where bytes before it were left out.
        file.write_all(&vec![b'x'; INPUT_LINE_BYTES_MAX + 10])
            .and_then(|()| file.write_all(b"tail\nnext\n"))
            .expect("the folder is ours");
        let mut lines = Vec::new();
        while lines.len() < 2 {
            lines.extend(tail.added(&path));
        }
        assert_eq!(lines, [Line::TooLong, Line::Whole(b"next\n".to_vec())]);
    }
}
