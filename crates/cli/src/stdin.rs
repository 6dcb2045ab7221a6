//! A prompt, or a part of one, piped to standard input.

use std::{
    io::{self, IsTerminal, Read},
    sync::mpsc,
    thread,
};

use wire::limits::{STDIN_FIRST_BYTE_WAIT_MAX, STDIN_PROMPT_BYTES_MAX};

use crate::{
    resolve::Refusal,
    stdio::{self, Patient},
};

/// The prompt of the run: what is piped comes before what was typed.
pub(crate) fn prompt_with_piped(typed: Option<String>) -> Result<String, Refusal> {
    let piped = if io::stdin().is_terminal() {
        String::new()
    } else {
        read(typed.is_some())?
    };
    let prompt = match (piped.trim_end().is_empty(), typed) {
        (true, Some(typed)) => typed,
        (false, Some(typed)) => format!("{}\n\n{typed}", piped.trim_end()),
        (_, None) => piped,
    };
    if prompt.trim().is_empty() {
        return Err(Refusal::usage(
            "no prompt: give one with -p \"…\", as an argument, or through a pipe",
        ));
    }
    Ok(prompt)
}

/// Reads to the end. Where there is a typed prompt, a pipe that stays silent is not waited for.
fn read(has_typed: bool) -> Result<String, Refusal> {
    let (first, arrival) = mpsc::sync_channel(1);
    let (rest, all) = mpsc::sync_channel(1);
    let reading = thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = Patient(io::stdin());
            let mut byte = [0];
            let started = input.read(&mut byte);
            // Dropped: nobody listens any more where the first byte came too late.
            _ = first.send(());
            let mut bytes = Vec::new();
            let result = started.and_then(|n| {
                bytes.extend_from_slice(&byte[..n]);
                let limit = STDIN_PROMPT_BYTES_MAX as u64;
                if n > 0 {
                    input.take(limit).read_to_end(&mut bytes)
                } else {
                    Ok(0)
                }
            });
            // Dropped: as above.
            _ = rest.send(result.map(|_| bytes));
        });
    if let Err(error) = reading {
        return Err(Refusal::usage(format!(
            "cannot start a thread: {}",
            error.kind()
        )));
    }
    if has_typed && arrival.recv_timeout(STDIN_FIRST_BYTE_WAIT_MAX).is_err() {
        return Ok(String::new());
    }
    let bytes = match all.recv() {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if !has_typed => {
            return Err(Refusal::usage(format!(
                "standard input cannot be read ({}); give the prompt with -p",
                error.kind()
            )));
        }
        Ok(Err(_)) | Err(_) => return Ok(String::new()),
    };
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if text.len() > STDIN_PROMPT_BYTES_MAX {
        text.truncate(agent::tool::cut::floor(&text, STDIN_PROMPT_BYTES_MAX));
        stdio::say(&format!(
            "Warning: only the first {} MiB of standard input are used.",
            STDIN_PROMPT_BYTES_MAX >> 20
        ));
    }
    Ok(text)
}
