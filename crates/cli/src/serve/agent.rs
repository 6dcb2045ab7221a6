//! The agent that the daemon starts: this same binary, or another one.

use std::{env, ffi::OsString, path::Path};

use bridge::Command;

use crate::{args::ServeArgs, open_files::SOFT_LIMIT_VARIABLE, resolve::Refusal};

/// Variables that are for the daemon alone.
const OURS: [&str; 3] = ["ONRECORD_TOKEN", "ONRECORD_WEB_DIR", "QWEN_SERVER_TOKEN"];

/// How the agent is started in `workspace`; `open_files` is the soft limit that its tools get back.
pub(super) fn command(
    args: &ServeArgs,
    workspace: &Path,
    open_files: Option<u64>,
) -> Result<Command, Refusal> {
    let (program, arguments) = match &args.agent_command {
        Some(line) => (OsString::from("sh"), shell_arguments(line)),
        None => {
            let program = env::current_exe().map_err(|error| {
                Refusal::usage(format!("this program cannot find itself: {}", error.kind()))
            })?;
            (program.into_os_string(), acp_arguments(args))
        }
    };
    let mut env: Vec<(OsString, Option<OsString>)> =
        OURS.map(|name| (name.into(), None)).into_iter().collect();
    // The real `qwen --acp` starts itself a second time where this is not set, and leaves an orphan.
    env.push(("QWEN_CODE_NO_RELAUNCH".into(), Some("true".into())));
    env.push(("QWEN_CODE_SERVE".into(), Some("1".into())));
    if let Some(limit) = open_files {
        env.push((SOFT_LIMIT_VARIABLE.into(), Some(limit.to_string().into())));
    }
    Ok(Command {
        program,
        args: arguments,
        cwd: workspace.to_owned(),
        env,
    })
}

/// The shell is replaced by the command, so that signals reach it; unless the line is more than a command, and
/// says so itself.
fn shell_arguments(line: &str) -> Vec<OsString> {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_more = line.contains([';', '&', '|', '\n', '(']) || first.contains('=');
    let line = if is_more || matches!(first, "exec" | "cd") {
        line.to_owned()
    } else {
        format!("exec {line}")
    };
    ["-c".into(), line.into()].into()
}

fn acp_arguments(args: &ServeArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["acp".into()];
    if let Some(model) = &args.model {
        arguments.extend(["--model".into(), model.into()]);
    }
    if args.require_recording {
        arguments.push("--require-recording".into());
    }
    arguments.extend(args.agent_args.iter().cloned());
    arguments
}
