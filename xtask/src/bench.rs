//! Measures a release build.

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::Workspace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    Print,
    Write,
}

pub(crate) fn run(_workspace: &Workspace, _report: Report) -> Result<ExitCode> {
    anyhow::bail!("to come")
}
