//! The published SDKs of ACP, as clients of an agent.

use std::{ffi::OsString, path::PathBuf, process::Command};

use serde_json::Value;

use super::{folder, installed, node, site_packages};
use crate::{faults::Fault, home::Home};

const TYPESCRIPT_DRIVER: &str = include_str!("../../peers/acp.mjs");
const PYTHON_DRIVER: &str = include_str!("../../peers/acp.py");

/// A published SDK, and the script that uses its public interface in the scenarios of tests.
///
/// What scenarios there are, what they take and what they print stands in the head of
/// `peers/acp.mjs`.
#[derive(Debug, Clone)]
pub struct AcpClient {
    program: PathBuf,
    /// The script, and what it is given before what a test gives.
    args: Vec<OsString>,
}

impl AcpClient {
    /// The installed `@agentclientprotocol/sdk`; `None`, said clearly, where there is none.
    #[must_use]
    pub fn typescript() -> Option<Self> {
        let folder = folder();
        let node = node(&folder);
        let package = folder.join("node_modules/@agentclientprotocol/sdk/package.json");
        let files = [node.clone(), package];
        let words = ["--input-type=module", "--eval", TYPESCRIPT_DRIVER];
        let args = words.into_iter().map(OsString::from);
        let client = Self {
            program: node,
            args: args.chain([folder.into()]).collect(),
        };
        installed("@agentclientprotocol/sdk", client, &files)
    }

    /// The installed `agent-client-protocol`; `None`, said clearly, where there is none.
    #[must_use]
    pub fn python() -> Option<Self> {
        let venv = folder().join("venv");
        let program = venv.join("bin/python");
        let package = site_packages(&venv).join("acp/__init__.py");
        let files = [program.clone(), package];
        let client = Self {
            program,
            args: vec!["-c".into(), PYTHON_DRIVER.into()],
        };
        installed("agent-client-protocol", client, &files)
    }

    /// The client in this home, in a scenario; it and the agent that it starts meet the fault.
    pub fn command_under(
        &self,
        fault: &Fault,
        home: &Home,
        scenario: &str,
        args: &Value,
    ) -> Command {
        let mut command = home.command_under(fault, &self.program);
        command.args(&self.args).args([scenario, &args.to_string()]);
        command
    }
}
