//! `onrecord remote …`: the sessions of a daemon, for scripts.

mod list;
mod prompt;
mod watch;

use sdk::client::{Client, Error};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use wire::words;

use crate::{
    args::{RemoteArgs, RemoteCommand},
    exit::Exit,
    resolve::Refusal,
    signals, stdio,
};

/// A daemon, and how it is talked about.
#[derive(Debug)]
struct Remote {
    client: Client,
    json: bool,
    /// The person wants it to end.
    end: CancellationToken,
    ending: signals::Ending,
}

/// Runs the command.
pub(crate) fn run(args: RemoteArgs) -> Exit {
    match try_run(args) {
        Ok(exit) => exit,
        Err(refusal) => refusal.tell(),
    }
}

fn try_run(args: RemoteArgs) -> Result<Exit, Refusal> {
    let client = Client::new(&args.url, args.token.as_deref()).map_err(|error| told(&error))?;
    let end = CancellationToken::new();
    let ending = signals::cancel_on_signal(end.clone())
        .map_err(|error| Refusal::usage(format!("cannot handle signals: {}", error.kind())))?;
    let remote = Remote {
        client,
        json: args.json,
        end,
        ending,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::usage(format!("cannot start: {}", error.kind())))?;
    runtime.block_on(async {
        match args.command {
            RemoteCommand::Prompt(args) => prompt::run(&remote, &args).await,
            RemoteCommand::List { limit } => list::run(&remote, limit).await,
            RemoteCommand::Watch { session } => watch::run(&remote, &session).await,
        }
    })
}

impl Remote {
    /// How it ends where the person wanted that.
    fn ended(&self) -> Exit {
        self.ending.exit().unwrap_or(Exit::Cancelled)
    }
}

/// What went wrong, and what can be done.
fn told(error: &Error) -> Refusal {
    Refusal::usage(match error {
        Error::Refused(refusal) if refusal.status == 401 => {
            "the daemon wants another token: give it by --token or ONRECORD_TOKEN".to_owned()
        }
        Error::Refused(refusal) => match &refusal.code {
            Some(code) => format!("the daemon refuses: {} ({code})", refusal.message),
            None => format!("the daemon refuses: {}", refusal.message),
        },
        Error::Unreachable(_) => {
            "the daemon cannot be reached: start `onrecord serve`, or name another by --url or ONRECORD_URL"
                .to_owned()
        }
        Error::Late => "the daemon does not answer: see whether it is stopped, or another program listens there".to_owned(),
        Error::Url => "--url is no http address, such as http://127.0.0.1:4170".to_owned(),
        Error::Protocol | Error::Certificates => error.to_string(),
    })
}

/// Prints a line of JSON.
fn print_json(value: &impl Serialize) -> Result<(), Refusal> {
    let mut line = serde_json::to_vec(value)
        .map_err(|_unwritable| Refusal::usage("an answer cannot be written as JSON"))?;
    line.push(b'\n');
    stdio::deliver(stdio::print(&line))
}

/// Prints text as it is, but for what would steer the terminal.
fn print(text: &str) -> Result<(), Refusal> {
    stdio::deliver(stdio::print(stdio::plain(text).as_bytes()))
}

/// The record of the session failed.
fn say_degraded() {
    stdio::say(&format!("Warning: {}", words::DEGRADED_MESSAGE));
}
