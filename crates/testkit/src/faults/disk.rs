//! A small disk for one program: a tmpfs of a few KiB or inodes in a mount namespace of its own.

use std::{ffi::OsString, fs, path::PathBuf};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::Fault;

/// Mounts the disk, brings what was there before, fills it up, runs the program and carries what
/// is left out of the namespace. The exit code is the program's.
const SCRIPT: &str = r#"
disk=$1 before=$2 after=$3 options=$4 leave_bytes=$5; shift 5
mount -t tmpfs -o "$options" tmpfs "$disk" && cp -a "$before/." "$disk/" || exit 125
if [ -n "$leave_bytes" ]; then
  dd if=/dev/zero of="$disk/.filler" bs=4096 2>/dev/null
  truncate -s "-$leave_bytes" "$disk/.filler" || exit 125
fi
"$@"
code=$?
rm -f "$disk/.filler"
cp -a "$disk/." "$after/" || exit 125
exit $code
"#;

/// A disk of a few KiB that a program finds at [`SmallDisk::path`].
///
/// The disk lives as long as the program: it starts with what lies in [`SmallDisk::before`], and
/// what it holds at the end lies in [`SmallDisk::after`].
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    options: String,
    leave_bytes: Option<u64>,
}

impl SmallDisk {
    /// A disk of `size_kib`, rounded up to whole pages. Names take no room on it, files do by page.
    #[must_use]
    pub fn with_size_kib(size_kib: u64) -> Option<Self> {
        Self::with_options(&format!("size={size_kib}k"))
    }

    /// A disk with room for bytes, but not for more than `n_inodes` files and folders, its root
    /// and what it starts with among them.
    #[must_use]
    pub fn with_inodes(n_inodes: u64) -> Option<Self> {
        Self::with_options(&format!("size=1m,nr_inodes={n_inodes}"))
    }

    fn with_options(options: &str) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("onrecord-disk-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        for name in ["disk", "before", "after"] {
            fs::create_dir(folder.path().join(name)).expect("a new folder is writable");
        }
        let options = format!("mode=0777,{options}");
        let disk = Self {
            folder,
            options,
            leave_bytes: None,
        };
        disk.fault().tried("tmpfs mount").map(|_| disk)
    }

    /// Fills the disk before the program starts, but for `bytes` (rounded to whole pages of 4 KiB).
    /// The program can make the room that a test gives it by removing `.filler`.
    #[must_use]
    pub fn leaving_bytes(mut self, bytes: u64) -> Self {
        self.leave_bytes = Some(bytes);
        self
    }

    /// Where the program finds the disk. Empty for everyone else.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// What the disk holds at the start; fill it before the program is started.
    #[must_use]
    pub fn before(&self) -> PathBuf {
        self.folder.path().join("before")
    }

    /// What the disk held when the program ended.
    #[must_use]
    pub fn after(&self) -> PathBuf {
        self.folder.path().join("after")
    }

    /// The disk as seen from outside while the program runs; `pid` is that of the spawned command.
    #[must_use]
    pub fn live(&self, pid: u32) -> PathBuf {
        let path = self.path();
        let path = path
            .strip_prefix("/")
            .expect("temporary folders have absolute paths");
        PathBuf::from(format!("/proc/{pid}/root")).join(path)
    }

    /// Starts a program on this disk.
    pub fn fault(&self) -> Fault {
        let leave_bytes = self
            .leave_bytes
            .map(|bytes| bytes.to_string())
            .unwrap_or_default();
        let arguments = [
            self.path().into(),
            self.before().into(),
            self.after().into(),
            OsString::from(&self.options),
            leave_bytes.into(),
        ];
        in_mount_namespace(SCRIPT, arguments)
    }
}

/// A shell script with mounts of its own. It is given `arguments`, then the program and its own.
pub(super) fn in_mount_namespace(
    script: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Fault {
    // Who is not root becomes the root of a user namespace, where the kernel allows it.
    let flags = if geteuid().is_root() { "-m" } else { "-Urm" };
    let words = ["unshare", flags, "sh", "-c", script, "onrecord-fault"];
    Fault::from_words(words.into_iter().map(OsString::from).chain(arguments))
}
