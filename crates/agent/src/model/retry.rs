//! When a model call that brought nothing is tried again.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use uuid::Uuid;
use wire::limits::{MODEL_ATTEMPTS_MAX, MODEL_RETRY_WAIT_FIRST, MODEL_RETRY_WAIT_MAX};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Whether another try may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It would end the same.
    Never,
    /// After a wait that doubles with every try.
    AfterBackOff,
    /// After the wait that the provider asks for.
    After(Duration),
}

/// How often and how slowly a call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries of one call, the first included.
    pub n_attempts_max: u32,
    /// The wait after the first try; it doubles with every one.
    pub wait_first: Duration,
    /// The longest wait, whatever a provider asks for.
    pub wait_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            n_attempts_max: MODEL_ATTEMPTS_MAX,
            wait_first: MODEL_RETRY_WAIT_FIRST,
            wait_max: MODEL_RETRY_WAIT_MAX,
        }
    }
}

impl Retries {
    /// The wait after the failed try `attempt`, from 1; `None` where there is to be no other.
    pub(super) fn wait(&self, attempt: u32, again: Again) -> Option<Duration> {
        if attempt >= self.n_attempts_max {
            return None;
        }
        match again {
            Again::Never => None,
            Again::After(wait) => Some(wait.min(self.wait_max)),
            Again::AfterBackOff => {
                let full = self
                    .wait_first
                    .saturating_mul(2u32.saturating_pow(attempt - 1));
                Some(jittered(full.min(self.wait_max), Uuid::new_v4().as_u128()))
            }
        }
    }
}

/// Between three quarters of `wait` and all of it, so that clients that failed together do not come
/// back together.
fn jittered(wait: Duration, random: u128) -> Duration {
    let per_mille = 750 + u32::try_from(random % 251).unwrap_or(250);
    wait * per_mille / 1000
}

/// What the provider asks for: `Retry-After` in seconds or as a date, or its finer cousin.
///
/// A date is read against the answer's own `Date`, for our clock may be another.
pub(super) fn asked(headers: &HeaderMap) -> Again {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(ms) = text(&RETRY_AFTER_MS).and_then(|ms| ms.trim().parse().ok()) {
        return Again::After(Duration::from_millis(ms));
    }
    let Some(asked) = text(&RETRY_AFTER).map(str::trim) else {
        return Again::AfterBackOff;
    };
    if let Ok(seconds) = asked.parse::<f64>() {
        // Dropped: a negative, infinite or absurd wait is as good as none.
        let wait = Duration::try_from_secs_f64(seconds);
        return wait.map_or(Again::AfterBackOff, Again::After);
    }
    let wait = match (date(asked), text(&DATE).and_then(date)) {
        (Some(then), Some(now)) => Duration::try_from(then.duration_since(now)).ok(),
        _ => None,
    };
    wait.map_or(Again::AfterBackOff, Again::After)
}

fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let row = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_tries_end() {
        let retries = Retries {
            n_attempts_max: 5,
            wait_first: Duration::from_secs(1),
            wait_max: Duration::from_secs(5),
        };
        for (attempt, full) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0)] {
            let wait = retries
                .wait(attempt, Again::AfterBackOff)
                .unwrap()
                .as_secs_f64();
            assert!((0.75 * full..=full).contains(&wait), "{attempt}: {wait}");
        }
        assert_eq!(retries.wait(5, Again::AfterBackOff), None);
        assert_eq!(retries.wait(1, Again::Never), None);
        let hour = Again::After(Duration::from_secs(3600));
        assert_eq!(retries.wait(1, hour), Some(Duration::from_secs(5)));
    }

    #[test]
    fn jitter_stays_below_the_wait() {
        let wait = Duration::from_secs(1);
        assert_eq!(jittered(wait, 0), Duration::from_millis(750));
        assert_eq!(jittered(wait, 250), wait);
        assert_eq!(jittered(wait, 251), Duration::from_millis(750));
    }

    #[test]
    fn what_the_provider_asks_for_is_understood() {
        let now = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
        for (rows, expected) in [
            (&[][..], Again::AfterBackOff),
            (
                &[("retry-after", "2")],
                Again::After(Duration::from_secs(2)),
            ),
            (&[("retry-after", " 0 ")], Again::After(Duration::ZERO)),
            (
                &[("retry-after", "0.5")],
                Again::After(Duration::from_millis(500)),
            ),
            (&[("retry-after", "-1")], Again::AfterBackOff),
            (&[("retry-after", "inf")], Again::AfterBackOff),
            (&[("retry-after", "soon")], Again::AfterBackOff),
            (
                &[("retry-after", "9"), ("retry-after-ms", "7")],
                Again::After(Duration::from_millis(7)),
            ),
            (
                &[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"), now],
                Again::After(Duration::from_secs(30)),
            ),
            (
                &[("retry-after", "Wed, 21 Oct 2015 07:27:30 GMT"), now],
                Again::AfterBackOff,
            ),
            (
                &[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")],
                Again::AfterBackOff,
            ),
        ] {
            assert_eq!(asked(&headers(rows)), expected, "{rows:?}");
        }
    }
}
