//! Daemons over HTTP: the real `qwen serve` with our agent, and ours with our agent and with the real one.

mod stories;

use std::fs;

use serde_json::json;
use testkit::{home::Home, peers::Qwen, served::Served, stub_model::StubModel};

use crate::world::ONRECORD;

/// Which daemon starts which agent.
#[derive(Debug, Clone, Copy)]
enum Hosted {
    /// The real `qwen serve`, and `onrecord acp`.
    OursByReal,
}

impl Hosted {
    /// Starts it; `None`, said clearly, where a peer is missing.
    fn start(self, home: &Home, stub: &StubModel) -> Option<Served> {
        let mut command = match self {
            Self::OursByReal => {
                let mut command = Qwen::find()?.command(home, &stub.base_url());
                let shim = home.path().join("shim.mjs");
                let program = json!(ONRECORD);
                let lines = format!(
                    "const program = {program};\n\
                     const args = [program, ...process.argv.slice(2)];\n\
                     process.execve(program, args, process.env);\n"
                );
                fs::write(&shim, lines).unwrap();
                command
                    .args(["serve", "--no-web"])
                    .env("QWEN_CLI_ENTRY", shim);
                command
            }
        };
        command
            .args(["--port", "0", "--workspace"])
            .arg(home.workspace());
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
