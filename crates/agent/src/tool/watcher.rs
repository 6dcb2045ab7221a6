//! Ends a command's process group when we die without having ended it, be it by SIGKILL.

use std::{
    io::{self, PipeWriter},
    process::Stdio,
};

use tokio::process::{Child, Command};

/// Waits for the end of its input, which comes when every holder of the other end is gone.
const SCRIPT: &str = r#"read -r _; kill -s KILL -- "-$1""#;

/// A small process that outlives us for a moment, outside the group that it watches over.
///
/// It is started after the command, as it has to know the group: who is killed between the two
/// leaves the command running.
#[derive(Debug)]
pub(super) struct Watcher {
    // Dropped first: it is killed before its input ends.
    child: Child,
    _lifeline: PipeWriter,
}

impl Watcher {
    /// Watches over the group with this id.
    pub(super) fn over(group: i32) -> io::Result<Self> {
        let (input, lifeline) = io::pipe()?;
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "onrecord-watcher", &group.to_string()])
            .current_dir("/")
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            _lifeline: lifeline,
        })
    }

    /// Calls it off: the group has ended.
    pub(super) async fn call_off(mut self) {
        // Dropped: where it cannot be killed it is gone already.
        _ = self.child.kill().await;
    }
}
