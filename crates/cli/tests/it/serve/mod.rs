//! Daemons over HTTP: the real `qwen serve` with our agent, and ours with our agent and with the real one.

mod api;
mod cases;
mod degraded;
mod page;
mod remote;
mod samples;
mod sdk;
mod stories;
mod storm;
mod typescript;

use std::{fs, process::Command};

use serde_json::json;
use testkit::{home::Home, peers::Qwen, served::Served, stub_model::StubModel};

use crate::world::ONRECORD;

/// Which daemon starts which agent.
#[derive(Debug, Clone, Copy)]
enum Hosted {
    /// The real `qwen serve`, and `onrecord acp`.
    OursByReal,
    /// `onrecord serve`, and its own agent.
    Ours,
    /// `onrecord serve`, and the real agent.
    RealByOurs,
}

/// Our daemon in a home, against a model.
fn ours(home: &Home, stub: &StubModel) -> Command {
    let mut command = home.command(ONRECORD);
    command
        .args(["serve", "--port", "0", "--workspace"])
        .arg(home.workspace())
        .env("OPENAI_API_KEY", "unused")
        .env("OPENAI_MODEL", "stub")
        .env("OPENAI_BASE_URL", stub.base_url());
    command
}

impl Hosted {
    /// The real one forgets what a cancelled answer had said.
    fn agent_is_ours(self) -> bool {
        matches!(self, Self::OursByReal | Self::Ours)
    }

    /// Starts it; `None`, said clearly, where a peer is missing.
    fn start(self, home: &Home, stub: &StubModel) -> Option<Served> {
        let mut command = match self {
            Self::OursByReal => {
                let shim = home.path().join("shim.mjs");
                let program = json!(ONRECORD);
                let lines = format!(
                    "const program = {program};\n\
                     const args = [program, ...process.argv.slice(2)];\n\
                     process.execve(program, args, process.env);\n"
                );
                fs::write(&shim, lines).unwrap();
                let mut command = Qwen::find()?.command(home, &stub.base_url());
                command
                    .args(["serve", "--no-web", "--port", "0", "--workspace"])
                    .arg(home.workspace())
                    .env("QWEN_CLI_ENTRY", shim);
                command
            }
            Self::Ours => ours(home, stub),
            Self::RealByOurs => {
                let real = Qwen::find()?.command(home, &stub.base_url());
                let words = [real.get_program()].into_iter().chain(real.get_args());
                let words: Vec<String> = words
                    .map(|word| format!("'{}'", word.to_str().unwrap()))
                    .collect();
                let mut command = ours(home, stub);
                command
                    .args(["--agent-command", &format!("{} --acp", words.join(" "))])
                    .env("QWEN_HOME", home.data_root());
                command
            }
        };
        Some(Served::start(&mut command))
    }
}

/// Every story as a test of one pair.
macro_rules! told_by {
    ($pair:ident, $hosted:expr) => {
        mod $pair {
            use super::{Hosted, stories};

            #[test]
            fn a_session_is_created_prompted_closed_loaded_and_archived() {
                stories::a_session_is_created_prompted_closed_loaded_and_archived($hosted);
            }

            #[test]
            fn a_vote_decides_about_a_call_and_a_cancel_frees_it() {
                stories::a_vote_decides_about_a_call_and_a_cancel_frees_it($hosted);
            }

            #[test]
            fn a_cancel_in_mid_stream_ends_the_turn_and_keeps_what_was_said() {
                stories::a_cancel_in_mid_stream_ends_the_turn_and_keeps_what_was_said($hosted);
            }

            #[test]
            fn a_lost_record_is_an_event_a_level_and_a_refused_archive() {
                stories::a_lost_record_is_an_event_a_level_and_a_refused_archive($hosted);
            }
        }
    };
}

told_by!(our_agent_under_the_real_daemon, Hosted::OursByReal);
told_by!(our_agent_under_our_daemon, Hosted::Ours);
told_by!(the_real_agent_under_our_daemon, Hosted::RealByOurs);
