//! What the whole program takes: start, one turn, a listing. A run includes everything from before
//! the process is started until it has ended.

#![expect(
    clippy::disallowed_methods,
    reason = "it makes the sessions that are listed"
)]

use std::{fs, path::Path, process::Command};

use testkit::{
    home::Home,
    measure::{Bound::AtMost, Samples, Usage, measure, print, print_reference},
    stub_model::StubModel,
    transcripts::{CWD, small_session},
};
use transcript::layout::DataRoot;

const ONRECORD: &str = env!("CARGO_BIN_EXE_onrecord");
const ROUNDS: usize = 41;
const N_SESSIONS: u64 = 5_000;

fn main() {
    // First, while this process is small: a child's memory is never less than its parent's.
    let home = Home::new();
    let version = runs(|| home.command(ONRECORD), &["--version"]);
    print("`--version`", wall_ms(&version), "ms", AtMost(3.0));
    print("`--version`, memory", rss_mib(&version), "MiB", AtMost(6.0));
    let bytes = fs::metadata(ONRECORD).expect("it was just built").len();
    print("binary, stripped", megabytes(bytes), "MB", AtMost(20.0));
    let nothing = runs(|| home.command("true"), &[]);
    print_reference("`true`, for comparison", wall_ms(&nothing), "ms");

    let stub = StubModel::hello(20);
    let turn = runs(
        || {
            let mut command = home.command(ONRECORD);
            command
                .env("OPENAI_API_KEY", "unused")
                .env("OPENAI_MODEL", "stub")
                .env("OPENAI_BASE_URL", stub.base_url());
            command
        },
        &["-p", "hello", "--output-format", "stream-json"],
    );
    print(
        "one turn, recorded, stream-json",
        wall_ms(&turn),
        "ms",
        AtMost(25.0),
    );
    print(
        "one turn, recorded, stream-json, memory",
        rss_mib(&turn),
        "MiB",
        AtMost(18.0),
    );
    drop(stub);

    let home = Home::new();
    fill(&home);
    let list = |limit| {
        runs(
            || home.command(ONRECORD),
            &["sessions", "list", "--limit", limit],
        )
    };
    print(
        "`sessions list`, newest 50 of 5,000",
        wall_ms(&list("50")),
        "ms",
        AtMost(15.0),
    );
    print(
        "`sessions list --limit 0`, all 5,000",
        wall_ms(&list("0")),
        "ms",
        AtMost(100.0),
    );
}

fn runs(command: impl Fn() -> Command, arguments: &[&str]) -> Vec<Usage> {
    let run = || {
        let usage = measure(command().args(arguments));
        assert_eq!(usage.code, Some(0), "{arguments:?}");
        usage
    };
    // The first run warms what the others find warm.
    run();
    (0..ROUNDS).map(|_| run()).collect()
}

fn wall_ms(runs: &[Usage]) -> f64 {
    runs.iter()
        .map(|run| run.wall.as_secs_f64() * 1e3)
        .collect::<Samples>()
        .median()
}

fn rss_mib(runs: &[Usage]) -> f64 {
    let mebibytes = |run: &Usage| megabytes(run.rss_bytes_max) * 1e6 / f64::from(1 << 20);
    runs.iter().map(mebibytes).collect::<Samples>().median()
}

fn megabytes(n_bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^52 bytes")]
    let n_bytes = n_bytes as f64;
    n_bytes / 1e6
}

/// Fills the project of the home's workspace with small sessions.
fn fill(home: &Home) {
    let project = DataRoot::new(home.data_root()).project(&home.workspace());
    write_sessions(&project.chats_dir(), &home.workspace());
}

fn write_sessions(folder: &Path, workspace: &Path) {
    let workspace = workspace
        .to_str()
        .expect("temporary folders have plain names");
    fs::create_dir_all(folder).expect("the home is ours");
    for n in 0..N_SESSIONS {
        let (name, bytes) = small_session(n);
        let text = String::from_utf8(bytes).expect("sessions are JSON");
        fs::write(folder.join(name), text.replace(CWD, workspace)).expect("the home is ours");
    }
}
