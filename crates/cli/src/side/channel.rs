//! Where the lines of the second output go.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use filedescriptor::FileDescriptor;

use crate::{resolve::SideOutput, stdio::Patient};

/// An open channel.
pub(crate) type Channel = Box<dyn Write + Send>;

/// Opens the channel.
///
/// # Errors
/// It cannot be opened; one line that names the mend. The run goes on without it.
pub(crate) fn open(output: &SideOutput) -> Result<Channel, String> {
    match output {
        SideOutput::Descriptor(number) => descriptor(*number),
        SideOutput::File(path) => file(path),
    }
    .map_err(|reason| format!("Warning: there is no second output: {reason}."))
}

/// A descriptor that was handed to us is duplicated, never reopened: opening it again would start at
/// the beginning of its file.
fn descriptor(number: i32) -> Result<Channel, String> {
    if number < 3 {
        return Err(format!(
            "--json-fd {number} is standard input, output or error; give 3 or above"
        ));
    }
    let copy = FileDescriptor::dup(&number).map_err(|_error| {
        format!("--json-fd {number} is not open; open it for us, as in `{number}>FILE`")
    })?;
    let file = copy
        .as_file()
        .map_err(|_error| format!("--json-fd {number} cannot be duplicated"))?;
    let writable = rustix::fs::fcntl_getfl(&file)
        .is_ok_and(|flags| flags.intersects(rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::RDWR));
    if !writable {
        return Err(format!("--json-fd {number} is not open for writing"));
    }
    Ok(Box::new(Patient(file)))
}

/// A file is appended to, so that nothing that it holds is overwritten. A FIFO is opened for reading as
/// well: that needs no reader yet, and a reader that comes later finds what was written.
fn file(path: &Path) -> Result<Channel, String> {
    let reason = |error: io::Error| format!("--json-file cannot be opened ({})", error.kind());
    let kind = match path.metadata() {
        Ok(metadata) => Some(metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(reason(error)),
    };
    let file = match kind {
        Some(kind) if kind.is_fifo() => open_with(OpenOptions::new().read(true).write(true), path),
        Some(kind) if kind.is_file() || kind.is_char_device() => {
            open_with(OpenOptions::new().append(true), path)
        }
        Some(kind) if kind.is_dir() => {
            return Err("--json-file is a folder; name a file".to_owned());
        }
        Some(_) => return Err("--json-file is no file, FIFO or terminal".to_owned()),
        None => open_with(
            OpenOptions::new().append(true).create_new(true).mode(0o600),
            path,
        ),
    };
    Ok(Box::new(Patient(file.map_err(reason)?)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the second output is no file of a session"
)]
fn open_with(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}
