//! The end of a transcript that is taken up again (B3): a whole last record gets its line end, and a
//! fragment is cut, its bytes kept beside the local log.
//!
//! Only the last line is read. What looks like a record to the reader is never cut.

use std::io::{self, ErrorKind};

use serde::de::IgnoredAny;
use wire::limits::{RECORDER_INTERRUPTIONS_MAX, TRANSCRIPT_LINE_BYTES_MAX};

use crate::{disk::DiskFile, local_log::LocalLog, scan::holds_record};

/// Bytes of one step back through the last line.
const STEP_BYTES: u64 = 64 << 10;

/// Where the file's end is once it is mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) size: u64,
    /// Whether what is there lacks its line end, which our first write brings.
    pub(super) is_unended: bool,
}

/// Mends the end of a file of this size.
///
/// # Errors
/// The end cannot be read, so nobody knows what would be appended to.
pub(super) fn mend(
    file: &mut dyn DiskFile,
    size: u64,
    session_id: &str,
    log: &LocalLog,
) -> io::Result<End> {
    let ended = |size| End {
        size,
        is_unended: false,
    };
    let unended = End {
        size,
        is_unended: true,
    };
    let Some(line) = last_line(file, size)? else {
        // Too long for a record. It is left for a person to look at.
        return Ok(unended);
    };
    if line.is_empty() {
        return Ok(ended(size));
    }
    if is_whole(&line) {
        return Ok(unended);
    }
    let start = size - line.len() as u64;
    // A fragment that cannot be kept is not cut, and neither is one that somebody has gone on with.
    let is_cut = log.keep_fragment(session_id, &line)
        && file.stat().is_ok_and(|stat| stat.size == size)
        && file.truncate(start).is_ok();
    Ok(if is_cut { ended(start) } else { unended })
}

/// What stands behind the last line end; `None` where it is longer than any record.
fn last_line(file: &dyn DiskFile, size: u64) -> io::Result<Option<Vec<u8>>> {
    let mut steps = Vec::new();
    let mut start = size;
    while start > 0 {
        let n_bytes = start.min(STEP_BYTES);
        start -= n_bytes;
        // At most `STEP_BYTES`, which is small.
        let mut step = vec![0; usize::try_from(n_bytes).unwrap_or_default()];
        read_exact_at(file, &mut step, start)?;
        if let Some(at) = memchr::memrchr(b'\n', &step) {
            steps.push(step.split_off(at + 1));
            break;
        }
        steps.push(step);
        if size - start > TRANSCRIPT_LINE_BYTES_MAX as u64 {
            return Ok(None);
        }
    }
    steps.reverse();
    Ok(Some(steps.concat()))
}

/// Whether the line is more than a fragment: JSON, or anything in which the reader finds a record.
fn is_whole(line: &[u8]) -> bool {
    holds_record(line) || serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Reads all of it, or fails.
pub(super) fn read_exact_at(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut n_read = 0;
    let mut n_interruptions = 0;
    while n_read < bytes.len() {
        match file.read_at(&mut bytes[n_read..], offset + n_read as u64) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n_bytes) => n_read += n_bytes,
            Err(error)
                if error.kind() == ErrorKind::Interrupted
                    && n_interruptions < RECORDER_INTERRUPTIONS_MAX =>
            {
                n_interruptions += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
