//! The commands: one file each.

mod doctor;
mod remote;
mod sessions;

use std::ffi::OsString;

use clap::{Parser, error::ErrorKind};

use crate::{
    acp,
    args::{Cli, Command},
    exit::Exit,
    run, serve, stdio,
};

/// Parses what was typed; help and version are printed here, and mistakes named in one line.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Cli, Exit> {
    Cli::try_parse_from(args).map_err(|error| {
        if matches!(
            error.kind(),
            ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        ) {
            let printed = stdio::print(error.to_string().as_bytes());
            return match stdio::deliver(printed) {
                Ok(()) => Exit::Success,
                Err(refusal) => refusal.tell(),
            };
        }
        stdio::say(&format!("onrecord: {}", one_line(&error.to_string())));
        Exit::Failure
    })
}

/// Runs what was asked; answers how the process ends.
pub(crate) fn dispatch(cli: Cli) -> Exit {
    match cli.command {
        None if cli.run.acp => acp::run(cli.run),
        None => run::run(cli.run),
        Some(Command::Acp(args)) => acp::run(*args),
        Some(Command::Serve(args)) => serve::run(*args),
        Some(Command::Remote(args)) => remote::run(args),
        Some(Command::Sessions(command)) => sessions::run(command),
        Some(Command::Doctor { json }) => doctor::run(json),
    }
}

/// The reason and the hint of a usage error, without the usage text.
fn one_line(error: &str) -> String {
    let told: Vec<&str> = error
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .collect();
    format!("{} (see `onrecord --help`)", told.join(" "))
}
