//! Times as bodies show them.

use jiff::Timestamp;

/// ISO 8601 with milliseconds, in UTC.
pub(crate) fn iso(ms: u64) -> String {
    let time = i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let time = time.unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}
