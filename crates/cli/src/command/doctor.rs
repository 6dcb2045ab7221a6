//! `onrecord doctor`: whether sessions can be recorded here, and what to do where not. Local only:
//! it is the one place that names paths and system errors (B4).

use std::{
    fmt::Write,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use serde::Serialize;
use transcript::local_log::Entry;
use wire::{recording::FaultClass, words};

use crate::{exit::Exit, place::Place, stdio};

/// Free bytes under which a warning is due: a long session fits into less, a day's does not.
const FREE_BYTES_LOW: u64 = 64 << 20;

/// Failures that are shown.
const FAILURES_SHOWN_MAX: usize = 10;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Whether a session that starts now can be recorded, as far as can be told without writing.
    ok: bool,
    /// As JSON takes it: what is no UTF-8 becomes U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_root: Option<String>,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<Space>,
    failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    /// `error` stops recording, `warning` does not.
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FaultClass>,
    message: String,
    remedy: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Space {
    free_bytes: u64,
    free_inodes: u64,
    /// Some file systems do not count inodes.
    counts_inodes: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    #[serde(flatten)]
    entry: Entry,
    remedy: &'static str,
}

/// Runs the command.
pub(crate) fn run(json: bool) -> Exit {
    let place = match Place::find() {
        Ok(place) => place,
        Err(refusal) => return refusal.tell(),
    };
    let report = examine(&place);
    let text = if json {
        serde_json::to_string(&report).map_or_else(|_| String::new(), |line| line + "\n")
    } else {
        render(&report)
    };
    let text = if json {
        text.into()
    } else {
        stdio::plain(&text)
    };
    if let Err(refusal) = stdio::deliver(stdio::print(text.as_bytes())) {
        return refusal.tell();
    }
    if report.ok {
        Exit::Success
    } else {
        Exit::Failure
    }
}

fn examine(place: &Place) -> Report {
    let mut findings = Vec::new();
    let mut space = None;
    let data_root = place.root.as_ref().map(|root| root.path().to_owned());
    match &data_root {
        None => findings.push(Finding {
            severity: "error",
            class: None,
            message: "neither ONRECORD_HOME nor HOME is set: there is no place for transcripts"
                .to_owned(),
            remedy: "set ONRECORD_HOME to a folder of yours".to_owned(),
        }),
        Some(root) => {
            // The first session makes the folder where it is missing.
            let existing = root
                .ancestors()
                .find(|folder| folder.symlink_metadata().is_ok());
            let existing = existing.unwrap_or(Path::new("/"));
            examine_folder(existing, &mut findings);
            if let Some(project) = place.project() {
                let chats = project.chats_dir();
                let below: Vec<_> = chats
                    .ancestors()
                    .take_while(|folder| *folder != existing)
                    .collect();
                for folder in below
                    .into_iter()
                    .rev()
                    .filter(|folder| folder.symlink_metadata().is_ok())
                {
                    examine_folder(folder, &mut findings);
                }
            }
            space = examine_space(existing, &mut findings);
        }
    }
    let mut failures: Vec<Failure> = place
        .log()
        .read_all()
        .into_iter()
        .map(|entry| Failure {
            remedy: words::remedy(entry.class),
            entry,
        })
        .collect();
    let first = failures.len().saturating_sub(FAILURES_SHOWN_MAX);
    failures.drain(..first);
    let ok = findings.iter().all(|finding| finding.severity != "error");
    Report {
        ok,
        data_root: data_root.map(|root| root.to_string_lossy().into_owned()),
        findings,
        space,
        failures,
    }
}

fn examine_folder(folder: &Path, findings: &mut Vec<Finding>) {
    let shown = folder.display();
    let mut error = |class: FaultClass, message: String, remedy: String| {
        findings.push(Finding {
            severity: "error",
            class: Some(class),
            message,
            remedy,
        });
    };
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(reason) => {
            let class = transcript::fault::class_of(&reason);
            error(
                class,
                format!("{shown} cannot be read: {reason}"),
                words::remedy(class).to_owned(),
            );
            return;
        }
    };
    if !metadata.is_dir() {
        error(
            FaultClass::Gone,
            format!("{shown} is no folder"),
            "move it away, or point ONRECORD_HOME elsewhere".to_owned(),
        );
        return;
    }
    let user = rustix::process::geteuid().as_raw();
    if let Err(reason) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        let reason = io::Error::from(reason);
        let class = transcript::fault::class_of(&reason);
        let remedy = if metadata.uid() == user {
            words::remedy(class).to_owned()
        } else {
            format!(
                "it belongs to user {}; run `sudo chown -R {user} {shown}`",
                metadata.uid()
            )
        };
        error(class, format!("{shown} is not writable: {reason}"), remedy);
    } else if metadata.uid() == user && metadata.permissions().mode() & 0o077 != 0 {
        let ours = folder
            .components()
            .any(|part| part.as_os_str() == ".onrecord")
            || folder.ends_with("chats");
        if ours {
            findings.push(Finding {
                severity: "warning",
                class: None,
                message: format!("{shown} can be read by other users"),
                remedy: format!("run `chmod 700 {shown}`"),
            });
        }
    }
}

fn examine_space(folder: &Path, findings: &mut Vec<Finding>) -> Option<Space> {
    let stat = statvfs(folder).ok()?;
    let space = Space {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        free_inodes: stat.f_favail,
        counts_inodes: stat.f_files > 0,
    };
    let shown = folder.display();
    let mut find = |severity, class, message| {
        let remedy = words::remedy(class).to_owned();
        findings.push(Finding {
            severity,
            class: Some(class),
            message,
            remedy,
        });
    };
    if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        find(
            "error",
            FaultClass::ReadOnly,
            format!("the file system of {shown} is read-only"),
        );
    }
    if space.free_bytes == 0 {
        find(
            "error",
            FaultClass::StorageFull,
            format!("the file system of {shown} has no free space"),
        );
    } else if space.free_bytes < FREE_BYTES_LOW {
        let message = format!(
            "the file system of {shown} has {} KiB left",
            space.free_bytes >> 10
        );
        find("warning", FaultClass::StorageFull, message);
    }
    if space.counts_inodes && space.free_inodes == 0 {
        find(
            "error",
            FaultClass::StorageFull,
            format!("the file system of {shown} has no free inodes"),
        );
    }
    Some(space)
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        // A string takes every line.
        text.write_fmt(words)
            .and_then(|()| text.write_char('\n'))
            .is_ok()
    };
    match &report.data_root {
        Some(root) => line(format_args!("data root  {root}")),
        None => line(format_args!("data root  unknown")),
    };
    if let Some(space) = &report.space {
        line(format_args!("free       {} MiB", space.free_bytes >> 20));
        if space.counts_inodes {
            line(format_args!("inodes     {} free", space.free_inodes));
        }
    }
    for finding in &report.findings {
        line(format_args!("{:<10} {}", finding.severity, finding.message));
        line(format_args!("           → {}", finding.remedy));
    }
    for Failure { entry, remedy } in &report.failures {
        line(format_args!(
            "failed     {}  session {}  {}: {}",
            entry.time,
            entry.session_id,
            entry.class.as_str(),
            entry.error
        ));
        if let Some(path) = &entry.path {
            line(format_args!("           {}", path.display()));
        }
        line(format_args!("           → {remedy}"));
    }
    line(format_args!(
        "{}",
        if report.ok {
            "Sessions can be recorded here."
        } else {
            "Sessions cannot be recorded here."
        }
    ));
    text
}
