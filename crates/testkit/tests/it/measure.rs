use std::process::Command;

use testkit::measure::{Samples, forget_rss_max, measure, rss_bytes_max};

#[test]
fn quantiles_are_samples() {
    let samples: Samples = [5.0, 1.0, 4.0, 2.0, 3.0].into_iter().collect();
    assert_eq!(samples.median(), 3.0);
    assert_eq!(
        (
            samples.quantile(0.0),
            samples.quantile(0.99),
            samples.quantile(1.0)
        ),
        (1.0, 5.0, 5.0)
    );
}

#[test]
fn a_program_is_measured_to_its_end() {
    let usage = measure(Command::new("sh").args(["-c", "exit 3"]));
    assert_eq!(usage.code, Some(3));
    assert!(usage.rss_bytes_max > 100 << 10, "{usage:?}");
    assert!(!usage.wall.is_zero());
}

#[test]
fn memory_that_was_touched_is_counted_even_when_it_is_gone() {
    forget_rss_max().unwrap();
    let before = rss_bytes_max().unwrap();
    drop(std::hint::black_box(vec![1_u8; 64 << 20]));
    let after = rss_bytes_max().unwrap();
    assert!(after - before > 32 << 20, "{before} {after}");
}
