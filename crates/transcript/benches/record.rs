//! What recording costs its caller, and how much a recorder takes, against a bare loop of one
//! `write(2)` for each ready record on the same file system in the same run.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use tempfile::TempDir;
use testkit::measure::{
    Bound::{AtLeast, AtMost},
    Samples, print, print_reference,
};
use transcript::{
    disk::OsDisk,
    local_log::LocalLog,
    record::{Body, Content, Part},
    recorder::{Bounds, Options, Recorder, Start},
};

/// Bytes of a record's line, head and all.
const RECORD_BYTES: usize = 1024;

const ROUNDS: usize = 5;
const RECORDS_A_ROUND: usize = 200_000;

fn main() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is ours");
    for per_second in [100, 1000] {
        let n = if per_second == 100 { 500 } else { 4000 };
        let gap = Duration::from_secs(1) / per_second;
        caller_side(
            folder.path(),
            &format!("append, 1 KiB, {per_second} records/s"),
            gap,
            n,
            [2.0, 10.0],
        );
    }
    caller_side(
        folder.path(),
        "append, 1 KiB, flat out",
        Duration::ZERO,
        100_000,
        [2.0, 10.0],
    );
    let idle = Duration::from_millis(80);
    let samples = appends(folder.path(), idle, 60);
    print(
        "lone append after idle, p50",
        samples.median(),
        "µs",
        AtMost(50.0),
    );
    print_reference("lone append after idle, p99", samples.quantile(0.99), "µs");
    throughput(folder.path());
}

fn caller_side(folder: &Path, name: &str, gap: Duration, n: usize, [p50, p99]: [f64; 2]) {
    let rounds: Vec<_> = (0..3).map(|_| appends(folder, gap, n)).collect();
    let median_of = |part| {
        rounds
            .iter()
            .map(|round| round.quantile(part))
            .collect::<Samples>()
            .median()
    };
    print(&format!("{name}, p50"), median_of(0.5), "µs", AtMost(p50));
    print(&format!("{name}, p99"), median_of(0.99), "µs", AtMost(p99));
}

/// Microseconds of each of `n` appends, `gap` apart.
fn appends(folder: &Path, gap: Duration, n: usize) -> Samples {
    let recorder = recorder(&folder.join("caller.jsonl"));
    let bodies = vec![message(); n];
    // The file is created and the thread is there before anything is measured.
    recorder.append(message());
    flushed(&recorder);
    let mut next = Instant::now();
    let mut samples = Samples::default();
    for body in bodies {
        next += gap;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let start = Instant::now();
        recorder.append(body);
        samples.extend([start.elapsed().as_secs_f64() * 1e6]);
    }
    closed(recorder);
    fs::remove_file(folder.join("caller.jsonl")).expect("the transcript was just written");
    samples
}

fn throughput(folder: &Path) {
    let path = folder.join("throughput.jsonl");
    let line = ready_line(&path);
    let ready = format!(
        "{{\"text\":\"{}\"}}",
        "x".repeat(line.len().saturating_sub(420))
    );
    let ready = RawValue::from_string(ready).expect("it is JSON");
    let ready = move || Body::System {
        subtype: "measured",
        payload: ready.clone(),
    };
    let (mut bare, mut serialized, mut copied) =
        (Samples::default(), Samples::default(), Samples::default());
    let (mut serialized_ratio, mut copied_ratio) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let bare_rate = bare_loop(&path, &line);
        let serialized_rate = recorded(&path, message);
        let copied_rate = recorded(&path, &ready);
        bare.extend([bare_rate]);
        serialized.extend([serialized_rate]);
        copied.extend([copied_rate]);
        serialized_ratio.extend([serialized_rate / bare_rate]);
        copied_ratio.extend([copied_rate / bare_rate]);
    }
    print_reference(
        "bare loop, one write(2) for each ready record",
        bare.median(),
        "records/s",
    );
    print_reference(
        "recorded, serialization included",
        serialized.median(),
        "records/s",
    );
    print_reference("recorded, payload ready", copied.median(), "records/s");
    print(
        "recorded against bare, serialization included",
        serialized_ratio.median(),
        "×",
        AtLeast(0.7),
    );
    print(
        "recorded against bare, payload ready",
        copied_ratio.median(),
        "×",
        AtLeast(1.0),
    );
}

/// Records a second of a loop that does nothing but write.
fn bare_loop(path: &Path, line: &[u8]) -> f64 {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("the folder is ours");
    let start = Instant::now();
    for _ in 0..RECORDS_A_ROUND {
        file.write_all(line).expect("there is room");
    }
    let rate = per_second(start.elapsed());
    fs::remove_file(path).expect("it was just written");
    rate
}

/// Records a second until the last one is on disk.
fn recorded(path: &Path, body: impl Fn() -> Body) -> f64 {
    let bodies: Vec<_> = (0..RECORDS_A_ROUND).map(|_| body()).collect();
    let recorder = recorder(path);
    let start = Instant::now();
    for body in bodies {
        recorder.append(body);
    }
    flushed(&recorder);
    let rate = per_second(start.elapsed());
    closed(recorder);
    fs::remove_file(path).expect("it was just written");
    rate
}

fn per_second(time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a round number of records")]
    let n = RECORDS_A_ROUND as f64;
    n / time.as_secs_f64()
}

/// The line that a recorder makes of [`message`].
fn ready_line(path: &Path) -> Vec<u8> {
    let recorder = recorder(path);
    recorder.append(message());
    closed(recorder);
    let line = fs::read(path).expect("the transcript was just written");
    fs::remove_file(path).expect("the transcript was just written");
    let off = line.len().abs_diff(RECORD_BYTES);
    assert!(
        off < 64,
        "a record of {} bytes is not about 1 KiB",
        line.len()
    );
    line
}

fn message() -> Body {
    Body::Assistant {
        model: "measured".to_owned(),
        message: Content {
            role: "model".to_owned(),
            parts: vec![Part::text("words of an answer\n".repeat(RECORD_BYTES / 32))],
        },
        usage: None,
    }
}

fn recorder(path: &Path) -> Recorder {
    let options = Options {
        path: Some(path.to_owned()),
        session_id: "5e551014-0000-4000-8000-000000000001".to_owned(),
        cwd: "/home/user/project".to_owned(),
        version: "measured".to_owned(),
        start: Start::New,
        log: LocalLog::default(),
        disk: Arc::new(OsDisk),
        clock: Arc::new(jiff::Timestamp::now),
        bounds: Bounds::default(),
    };
    Recorder::start(options, |failure| panic!("{failure:?}"))
}

fn flushed(recorder: &Recorder) {
    let saved = recorder.flush().wait_blocking(Duration::from_secs(60));
    saved.expect("the disk answers").expect("there is room");
}

fn closed(recorder: Recorder) {
    let saved = recorder.close().wait_blocking(Duration::from_secs(60));
    saved.expect("the disk answers").expect("there is room");
}
