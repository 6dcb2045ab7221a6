//! Programs that tests need and a machine may lack, brought by name from package registries.
//!
//! A laptop is left as it is unless it is asked to: what is missing is said, and its tests skip.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// What may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Everything,
    /// Only what the run requires.
    Required {
        faults: bool,
        peers: bool,
    },
}

impl Wish {
    pub(crate) fn from_env() -> Self {
        let required = |name| env::var_os(name).is_some_and(|word| word == "require");
        Self::Required {
            faults: required("ONRECORD_FAULTS"),
            peers: required("ONRECORD_PEERS"),
        }
    }

    fn faults(self) -> bool {
        matches!(self, Self::Everything | Self::Required { faults: true, .. })
    }

    fn peers(self) -> bool {
        matches!(self, Self::Everything | Self::Required { peers: true, .. })
    }
}

/// Programs and the Debian packages that hold them.
const FAULT_PROGRAMS: &[(&str, &[&str])] = &[
    ("unshare", &["util-linux"]),
    ("setpriv", &["util-linux"]),
    ("prlimit", &["util-linux"]),
    ("mount", &["mount"]),
    ("chattr", &["e2fsprogs"]),
    ("cc", &["gcc", "libc6-dev"]),
];
const PEER_PROGRAMS: &[(&str, &[&str])] = &[
    ("chromium", &["chromium"]),
    ("node", &["nodejs"]),
    ("npm", &["npm"]),
    ("python3", &["python3", "python3-venv"]),
];

/// The npm packages of the peers. `node` brings the Node that Qwen Code needs.
const NPM_PACKAGES: [&str; 5] = [
    "@agentclientprotocol/sdk@2.4.0",
    "@qwen-code/qwen-code@0.24.4",
    "@qwen-code/sdk@0.1.7",
    "node@22.23.3",
    "playwright-core@1.65.1",
];

/// The Python packages of the peers, with all that they need.
const PYTHON_PACKAGES: [&str; 33] = [
    "agent-client-protocol==0.12.1",
    "annotated-types==0.8.0",
    "anyio==4.16.0",
    "certifi==2026.10.19.post1",
    "charset-normalizer==3.5.3",
    "click==8.5.1",
    "graphql-core==3.3.2",
    "harfile==0.6.0",
    "hypothesis-graphql==0.13.5",
    "hypothesis==6.170.17",
    "idna==3.20",
    "iniconfig==2.3.1",
    "jsonschema_rs==0.60.3",
    "markdown-it-py==4.3.0",
    "MarkupSafe==3.0.4",
    "mdurl==0.1.2",
    "packaging==26.4",
    "pluggy==1.7.0",
    "pydantic-core==2.50.5",
    "pydantic==2.14.4",
    "Pygments==2.21.0",
    "pyrate-limiter==4.5.1",
    "pytest==9.2.0",
    "PyYAML==6.0.4",
    "qwen-code-sdk==0.1.0rc0",
    "requests==2.34.2",
    "rich==15.0.0",
    "schemathesis==4.32.5",
    "sortedcontainers==2.4.0",
    "typing-extensions==4.16.0",
    "typing-inspection==0.4.5",
    "urllib3==2.8.0",
    "Werkzeug==3.1.9",
];

/// Installs what is wished and says what else is missing. Answers with the folder of the peers.
pub(crate) fn everything(workspace: &Workspace, wish: Wish) -> Result<PathBuf> {
    programs(FAULT_PROGRAMS, wish.faults(), "tests of real faults")?;
    let named = env::var_os("ONRECORD_PEERS_DIR").filter(|folder| !folder.is_empty());
    let folder = named.map_or_else(|| workspace.target().join("peers"), |at| workspace.join(at));
    programs(PEER_PROGRAMS, wish.peers(), "peers")?;
    if wish.peers() {
        web_sdk(workspace)?;
    }
    if has_peers(&folder) {
        return Ok(folder);
    }
    if !wish.peers() {
        eprintln!("programs that speak our formats are not installed: their tests skip");
        return Ok(folder);
    }
    peers(&folder)?;
    Ok(folder)
}

/// Builds our SDK in TypeScript, and its tests, with what its lock file names.
fn web_sdk(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root().join("web/sdk");
    let npm = |words: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(words).current_dir(&folder);
        must_run(&mut npm)
    };
    if !folder.join("node_modules/.package-lock.json").is_file() {
        npm(&["ci", "--no-audit", "--no-fund"])?;
    }
    npm(&["run", "build"])?;
    npm(&["run", "build:test"])
}

fn programs(needed: &[(&str, &[&str])], install: bool, what_for: &str) -> Result<()> {
    let missing: Vec<_> = needed
        .iter()
        .filter(|(program, _)| !is_on_path(program))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<_> = missing
        .iter()
        .flat_map(|(_, packages)| *packages)
        .copied()
        .collect();
    packages.sort_unstable();
    packages.dedup();
    if !install {
        eprintln!(
            "missing for {what_for}: {} (--install brings them)",
            names.join(", ")
        );
        return Ok(());
    }
    debian_packages(&packages)
}

fn debian_packages(packages: &[&str]) -> Result<()> {
    must_run(Command::new("apt-get").args(["update", "-q"]))?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-q", "-y", "--no-install-recommends"])
        .args(packages);
    must_run(apt.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // A user's PATH may lack the folders where Debian keeps tools of the administrator.
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .into_iter()
        .any(|folder| folder.join(program).is_file())
}

/// The programs that run the peers, in their folder.
const NODE: &str = "node_modules/node/bin/node";
const PYTHON: &str = "venv/bin/python";

/// What the folder holds, for a look that starts no program.
fn stamp() -> String {
    [&NPM_PACKAGES[..], &PYTHON_PACKAGES].concat().join("\n")
}

fn stamp_path(folder: &Path) -> PathBuf {
    folder.join("installed")
}

fn has_peers(folder: &Path) -> bool {
    // A virtual environment is hollow once the Python that it was made of is gone.
    [NODE, PYTHON].iter().all(|at| folder.join(at).is_file())
        && fs::read_to_string(stamp_path(folder)).is_ok_and(|text| text == stamp())
}

fn peers(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    // What is half installed is not installed.
    fs::write(stamp_path(folder), "")?;
    npm_packages(folder)?;
    python_packages(folder)?;
    fs::write(stamp_path(folder), stamp())?;
    Ok(())
}

fn npm_packages(folder: &Path) -> Result<()> {
    // npm climbs to the next package.json above; this one makes the folder its end.
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--save-exact"])
        .args(NPM_PACKAGES);
    must_run(npm.current_dir(folder))?;
    // The package `node` places its binary in an install script, which a strict npm leaves out.
    let node = folder.join(NODE);
    if !node.is_file() {
        let mut place = Command::new("node");
        place.arg("installArchSpecificPackage.js");
        must_run(place.current_dir(folder.join("node_modules/node")))?;
    }
    must_run(Command::new(node).arg("--version"))
}

fn python_packages(folder: &Path) -> Result<()> {
    // Debian's Python leaves out what a virtual environment gets its pip from.
    let mut has_pip = Command::new("python3");
    has_pip.args(["-c", "import ensurepip"]);
    if must_run(&mut has_pip).is_err() {
        debian_packages(&["python3-venv"])?;
    }
    let mut make = Command::new("python3");
    must_run(
        make.args(["-m", "venv", "--clear"])
            .arg(folder.join("venv")),
    )?;
    let python = folder.join(PYTHON);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(PYTHON_PACKAGES);
    must_run(&mut pip)?;
    must_run(Command::new(python).args(["-c", "import acp, qwen_code_sdk"]))
}

fn must_run(command: &mut Command) -> Result<()> {
    eprintln!("==> {command:?}");
    let status = command.status();
    let status = status.with_context(|| format!("failed to start {:?}", command.get_program()))?;
    ensure!(
        status.success(),
        "{:?} ended with {status}",
        command.get_program()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_programs_are() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("onrecord-no-such-program"));
    }

    #[test]
    fn other_versions_of_peers_are_not_the_wanted_ones() {
        let folder = folder_with_programs();
        assert!(!has_peers(folder.path()));
        fs::write(stamp_path(folder.path()), "node@1.0.0").unwrap();
        assert!(!has_peers(folder.path()));
        fs::write(stamp_path(folder.path()), stamp()).unwrap();
        assert!(has_peers(folder.path()));
    }

    #[test]
    fn peers_whose_python_is_gone_are_not_there() {
        let folder = folder_with_programs();
        fs::write(stamp_path(folder.path()), stamp()).unwrap();
        fs::remove_file(folder.path().join(PYTHON)).unwrap();
        assert!(!has_peers(folder.path()));
    }

    fn folder_with_programs() -> tempfile::TempDir {
        let folder = tempfile::TempDir::new().unwrap();
        for program in [NODE, PYTHON] {
            let path = folder.path().join(program);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }
}
