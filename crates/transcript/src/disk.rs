//! The one door of the recorder to the file system, so that a test can stand in it.
//!
//! It is synchronous on purpose: the recorder writes on a thread of its own, and `std` reports a
//! failed write at that write.

use std::{
    fmt::Debug,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
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

    /// Makes a file that is not there, for the owner alone (0600), and opens it for appending.
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

    /// One read; may be short.
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
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A FIFO in the file's place must not hold the writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .custom_flags(flags)
            .open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        std::fs::metadata(path).map(|metadata| Stat::of(&metadata))
    }

    fn lock(&self, path: &Path) -> Option<Lock> {
        // Whoever was quicker than we with our own new file holds it; we write all the same (R5).
        lock::acquire(path).unwrap_or_default()
    }
}

impl Stat {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
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
