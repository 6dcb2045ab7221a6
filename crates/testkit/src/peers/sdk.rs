//! The published SDKs, which run an executable as if it were Qwen Code.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{folder, installed, node, site_packages};
use crate::{faults::Fault, home::Home};

const TYPESCRIPT_DRIVER: &str = include_str!("../../peers/sdk.mjs");
const PYTHON_DRIVER: &str = include_str!("../../peers/sdk.py");

/// A published SDK, and the script that uses its public interface in the scenarios of tests.
///
/// What scenarios there are, what they take and what they print stands in the head of
/// `peers/sdk.mjs`.
#[derive(Debug, Clone)]
pub struct Sdk {
    program: PathBuf,
    /// The script, and what it is given before what a test gives.
    args: Vec<OsString>,
}

impl Sdk {
    /// The installed `@qwen-code/sdk`; `None`, said clearly, where there is none.
    #[must_use]
    pub fn typescript() -> Option<Self> {
        let folder = folder();
        let node = node(&folder);
        let package = folder.join("node_modules/@qwen-code/sdk/package.json");
        let files = [node.clone(), package];
        let words = ["--input-type=module", "--eval", TYPESCRIPT_DRIVER];
        let args = words.into_iter().map(OsString::from);
        let sdk = Self {
            program: node,
            args: args.chain([folder.into()]).collect(),
        };
        installed("@qwen-code/sdk", sdk, &files)
    }

    /// The installed `qwen-code-sdk`; `None`, said clearly, where there is none.
    #[must_use]
    pub fn python() -> Option<Self> {
        let venv = folder().join("venv");
        let program = venv.join("bin/python");
        let package = site_packages(&venv).join("qwen_code_sdk/__init__.py");
        let files = [program.clone(), package];
        let sdk = Self {
            program,
            args: vec!["-c".into(), PYTHON_DRIVER.into()],
        };
        installed("qwen-code-sdk", sdk, &files)
    }

    /// The SDK in this home, in a scenario that runs `executable` against an OpenAI-compatible
    /// endpoint.
    pub fn command(
        &self,
        home: &Home,
        executable: &Path,
        base_url: &str,
        scenario: &str,
        args: &Value,
    ) -> Command {
        self.command_under(&Fault::none(), home, executable, base_url, scenario, args)
    }

    /// As [`Sdk::command`]; the SDK and what it starts meet the fault.
    pub fn command_under(
        &self,
        fault: &Fault,
        home: &Home,
        executable: &Path,
        base_url: &str,
        scenario: &str,
        args: &Value,
    ) -> Command {
        let mut command = home.command_under(fault, &self.program);
        command
            .args(&self.args)
            .arg(executable)
            .args([scenario, &args.to_string()])
            .env("QWEN_HOME", home.data_root())
            .env("OPENAI_API_KEY", "unused")
            .env("OPENAI_BASE_URL", base_url)
            .env("OPENAI_MODEL", "stub");
        command
    }
}
