//! What recording costs its caller, and how much a recorder takes, against a bare loop of one
//! `write(2)` for each ready record on the same file system in the same run.
//!
//! Between paced appends the caller is busy, as one that streams an answer is, and it has just made the
//! record; before a lone append it sleeps, and the core with it. What `serde_json` alone takes for the
//! message at the same pace is a reference: caches are as cold for it.

use std::{
    fs::{self, File},
    hint,
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

/// What the caller does before each append.
#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    Works(Duration),
    Sleeps(Duration),
}

fn main() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is ours");
    let cases = [
        (
            "100 records/s",
            Between::Works(Duration::from_millis(10)),
            500,
        ),
        (
            "1,000 records/s",
            Between::Works(Duration::from_millis(1)),
            4_000,
        ),
        ("flat out", Between::Nothing, 100_000),
    ];
    for (name, between, n) in cases {
        let serialized = quantiles(|| serializations(between, n));
        print_reference(
            &format!("serde_json alone, {name}, p50"),
            serialized[0],
            "µs",
        );
        print_reference(
            &format!("serde_json alone, {name}, p99"),
            serialized[1],
            "µs",
        );
        let appended = quantiles(|| appends(folder.path(), between, n));
        print(
            &format!("append, 1 KiB, {name}, p50"),
            appended[0],
            "µs",
            AtMost(2.0),
        );
        print(
            &format!("append, 1 KiB, {name}, p99"),
            appended[1],
            "µs",
            AtMost(10.0),
        );
    }
    let lone = appends(
        folder.path(),
        Between::Sleeps(Duration::from_millis(80)),
        60,
    );
    print(
        "lone append after idle, p50",
        lone.median(),
        "µs",
        AtMost(50.0),
    );
    print_reference("lone append after idle, p99", lone.quantile(0.99), "µs");
    throughput(folder.path());
}

/// Medians of p50 and p99 over three rounds.
fn quantiles(round: impl Fn() -> Samples) -> [f64; 2] {
    let rounds: Vec<_> = (0..3).map(|_| round()).collect();
    [0.5, 0.99].map(|part| {
        let parts = rounds.iter().map(|round| round.quantile(part));
        parts.collect::<Samples>().median()
    })
}

/// Microseconds of each of `n` appends.
fn appends(folder: &Path, between: Between, n: usize) -> Samples {
    let path = folder.join("caller.jsonl");
    let recorder = recorder(&path);
    // The file is created and the thread is there before anything is measured.
    recorder.append(message());
    flushed(&recorder);
    let samples = timed(between, n, |body| {
        recorder.append(body);
    });
    closed(recorder);
    fs::remove_file(path).expect("the transcript was just written");
    samples
}

/// Microseconds of each of `n` messages that are serialized and nothing else.
fn serializations(between: Between, n: usize) -> Samples {
    let mut scratch = Vec::new();
    timed(between, n, |body| {
        let Body::Assistant { message, .. } = body else {
            unreachable!("see `message`")
        };
        scratch.clear();
        serde_json::to_writer(&mut scratch, &message).expect("it is JSON");
        hint::black_box(&scratch);
    })
}

/// Microseconds that `work` takes for each of `n` records that were just made.
fn timed(between: Between, n: usize, mut work: impl FnMut(Body)) -> Samples {
    let samples = (0..n).map(|_| {
        pause(between);
        let body = message();
        let start = Instant::now();
        work(body);
        start.elapsed().as_secs_f64() * 1e6
    });
    samples.collect()
}

fn pause(between: Between) {
    match between {
        Between::Nothing => {}
        Between::Works(time) => {
            let start = Instant::now();
            while start.elapsed() < time {
                hint::spin_loop();
            }
        }
        Between::Sleeps(time) => thread::sleep(time),
    }
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
