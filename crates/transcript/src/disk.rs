//! The one door of the recorder to the file system, so that a test can stand in it.
//!
//! It is synchronous on purpose: the recorder writes on a thread of its own, and `std` reports a
//! failed write at that write. It knows files and folders, and nothing of what is in them.

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use crate::lock::{self, Lock};

/// What is compared to know that a file is still the one at its path (B2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The device.
    pub dev: u64,
    /// The file on it.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Names that the file has in folders; 0 once it is unlinked.
    pub n_links: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Makes a folder and those above it, for the owner alone (0700). One that is there is fine.
    ///
    /// # Errors
    /// It cannot be made.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that is not there, for the owner alone (0600), and opens it for appending and
    /// reading.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there for appending and reading.
    ///
    /// # Errors
    /// It is not there, or cannot be opened.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// What is at a path.
    ///
    /// # Errors
    /// Nothing is, or it cannot be known.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Takes the advisory lock of a transcript that was just made (R5); no lock is no failure.
    fn lock(&self, path: &Path) -> Option<Lock>;
}

/// An open file.
pub trait DiskFile: Debug + Send {
    /// One write at the end; may be short.
    ///
    /// # Errors
    /// Nothing was written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// The file behind the descriptor, wherever its path points by now.
    ///
    /// # Errors
    /// It cannot be known.
    fn stat(&self) -> io::Result<Stat>;

    /// Cuts the file.
    ///
    /// # Errors
    /// It keeps its size.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// One read; may be short, and is empty at the end of the file.
    ///
    /// # Errors
    /// Nothing was read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        match create_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let Some(parent) = path.parent() else {
                    return Err(error);
                };
                self.create_dir_all(parent)?;
                create_dir(path)
            }
            result => result,
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        // Dropped: a umask can only have taken bits away, which is in the way of the next opener and
        // not of this one.
        _ = file.set_permissions(Permissions::from_mode(0o600));
        Ok(Box::new(OsFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A FIFO in the file's place must not hold the writer.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        fs::metadata(path).map(|metadata| Stat::of(&metadata))
    }

    fn lock(&self, path: &Path) -> Option<Lock> {
        // Somebody who was quicker has it; that is no failure of ours.
        lock::acquire(path).unwrap_or_default()
    }
}

fn create_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            // Dropped: whether the umask left enough shows when something is made in the folder.
            _ = fs::set_permissions(path, Permissions::from_mode(0o700));
            Ok(())
        }
        // Whether it is a folder shows in the same way.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl Stat {
    fn of(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            n_links: metadata.nlink(),
            is_file: metadata.is_file(),
        }
    }
}

#[derive(Debug)]
struct OsFile(File);

impl DiskFile for OsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.0.metadata().map(|metadata| Stat::of(&metadata))
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, bytes, offset)
    }
}
