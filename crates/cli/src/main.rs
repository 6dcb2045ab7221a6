//! The product's binary: reads arguments and environment, wires the crates together, and decides
//! the exit code. It holds no logic that another crate could hold.

use std::{panic, process::ExitCode};

mod acp;
mod args;
mod command;
mod config_file;
mod conversation;
mod drive;
mod exit;
mod host;
mod open_files;
mod output;
mod permissions;
mod place;
mod prompts;
mod questions;
mod resolve;
mod run;
mod serve;
mod side;
mod signals;
mod slash;
mod stdin;
mod stdio;

fn main() -> ExitCode {
    // One line instead of a trace: making a trace takes memory and locks, which a process that is
    // out of memory does not get.
    panic::set_hook(Box::new(|info| {
        let at = info
            .location()
            .map_or_else(String::new, |at| format!(" at {at}"));
        stdio::say(&format!(
            "onrecord: internal error{at}: this is a bug, please report it"
        ));
    }));
    // What was handed to us is for us: programs that we start do not get it.
    close_fds::set_fds_cloexec(3, &[]);
    // A limit on file size is an ordinary failed write for us; programs we start get the default
    // action back. Where the handler cannot be set, the signal keeps its default.
    // Dropped: nothing here could mend it, and the run works without.
    _ = signals::survive_file_size_limit();
    match command::parse(std::env::args_os()) {
        Ok(cli) => command::dispatch(cli).into(),
        Err(exit) => exit.into(),
    }
}
