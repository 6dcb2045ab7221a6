//! Where the lines of the second output go.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
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
pub(crate) fn open(output: &SideOutput, data_root: Option<&Path>) -> Result<Channel, String> {
    match output {
        SideOutput::Descriptor(number) => descriptor(*number),
        SideOutput::File(path) => file(path, data_root),
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
///
/// A file of the data root is refused: lines of ours in a transcript would be damage.
fn file(path: &Path, data_root: Option<&Path>) -> Result<Channel, String> {
    let reason = |error: io::Error| format!("--json-file cannot be opened ({})", error.kind());
    let kind = match path.metadata() {
        Ok(metadata) => Some(metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(reason(error)),
    };
    let real = path.canonicalize().ok();
    let root = data_root.and_then(|root| root.canonicalize().ok());
    if let (Some(real), Some(root)) = (&real, &root)
        && real.starts_with(root)
    {
        return Err(
            "--json-file lies in the data root, where sessions are recorded; name another"
                .to_owned(),
        );
    }
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
    let file = file.map_err(reason)?;
    if is_standard_output(&file) {
        return Err("--json-file is standard output; name another".to_owned());
    }
    let mut channel = Patient(file);
    if kind.is_some_and(|kind| kind.is_file()) && ends_torn(path).map_err(reason)? {
        // What was torn is not ours to cut, and must not swallow our first line.
        channel.write_all(b"\n").map_err(reason)?;
    }
    Ok(Box::new(channel))
}

/// Whether both write to the same file or pipe. A device such as `/dev/null` mixes nothing.
fn is_standard_output(file: &File) -> bool {
    let (Ok(ours), Ok(theirs)) = (rustix::fs::fstat(file), rustix::fs::fstat(io::stdout())) else {
        return false;
    };
    let is_device = file
        .metadata()
        .is_ok_and(|metadata| metadata.file_type().is_char_device());
    !is_device && (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
}

/// Whether a file ends within a line. One that may not be read is taken for whole.
fn ends_torn(path: &Path) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        opened => opened?,
    };
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the second output is no file of a session"
)]
fn open_with(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}
