//! How fast a transcript of 1 GiB is checked and loaded, and how much memory that takes, against a
//! loop that only reads it. The file is warm: it was just written.

use std::{
    fs::File,
    io::{BufWriter, Read, Write},
    path::Path,
    time::Instant,
};

use tempfile::TempDir;
use testkit::{
    measure::{
        Bound::{AtLeast, AtMost},
        Samples, forget_rss_max, print, print_reference, rss_bytes_max,
    },
    transcripts::big,
};
use transcript::{reader::load, verify::verify};

const FILE_BYTES: u64 = 1 << 30;
const RECORD_BYTES: usize = 2048;
const ROUNDS: usize = 3;

fn main() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is ours");
    let path = folder.path().join("big.jsonl");
    let file = File::create(&path).expect("the folder is ours");
    let mut file = BufWriter::with_capacity(1 << 20, file);
    big(&mut file, FILE_BYTES, RECORD_BYTES, true).expect("there is room for 1 GiB");
    file.flush().expect("there is room for 1 GiB");
    drop(file);

    let read = megabytes_per_second(&path, || {
        let mut file = File::open(&path).expect("it was just written");
        let mut buffer = vec![0; 1 << 20];
        while file.read(&mut buffer).expect("it can be read") > 0 {}
    });
    print_reference("read alone, 1 GiB", read, "MB/s");

    forget_rss_max().expect("the kernel counts memory");
    let before = rss_bytes_max().expect("the kernel counts memory");
    let verified = megabytes_per_second(&path, || {
        let report = verify(&path).expect("it can be read");
        assert!(report.sound(), "{report:?}");
    });
    print("verify, 1 GiB", verified, "MB/s", AtLeast(600.0));
    print(
        "verify, 1 GiB, memory",
        mebibytes_since(before),
        "MiB",
        AtMost(64.0),
    );

    let mut kept_bytes = 0;
    forget_rss_max().expect("the kernel counts memory");
    let before = rss_bytes_max().expect("the kernel counts memory");
    let loaded = megabytes_per_second(&path, || {
        let loaded = load(&path).expect("it can be read");
        kept_bytes = loaded.records.iter().map(|record| record.raw().len()).sum();
    });
    print(
        "load of the active chain, 1 GiB",
        loaded,
        "MB/s",
        AtLeast(400.0),
    );
    print_reference(
        "load, bytes of the chain itself",
        mebibytes(kept_bytes as u64),
        "MiB",
    );
    print_reference("load, memory", mebibytes_since(before), "MiB");
}

fn megabytes_per_second(path: &Path, mut work: impl FnMut()) -> f64 {
    let n_bytes = path.metadata().expect("it was just written").len();
    #[expect(clippy::cast_precision_loss, reason = "about 1 GiB")]
    let megabytes = n_bytes as f64 / 1e6;
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work();
        megabytes / start.elapsed().as_secs_f64()
    });
    rounds.collect::<Samples>().median()
}

fn mebibytes_since(before: u64) -> f64 {
    let now = rss_bytes_max().expect("the kernel counts memory");
    mebibytes(now.saturating_sub(before))
}

fn mebibytes(n_bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^52 bytes")]
    let n_bytes = n_bytes as f64;
    n_bytes / f64::from(1 << 20)
}
