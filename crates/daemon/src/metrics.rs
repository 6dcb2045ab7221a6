//! What is counted, in the words of Prometheus. Labels have few values: routes as patterns, never ids.

use axum::http::Method;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::app::App;

/// Methods that are counted by their names; clients may make up any number of others.
const KNOWN: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
];

/// An answered request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: String,
    route: String,
    status: u16,
}

/// The counts since the start.
/// A record that failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    class: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Family<Request, Counter>,
    prompts: Counter,
}

impl Metrics {
    pub(crate) fn count_request(&self, method: &Method, route: &str, status: u16) {
        let method = if KNOWN.contains(&method.as_str()) {
            method.as_str()
        } else {
            "other"
        };
        let labels = Request {
            method: method.to_owned(),
            route: route.to_owned(),
            status,
        };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn count_prompt(&self) {
        self.prompts.inc();
    }

    /// All of it, with what the bridge counts.
    pub(crate) fn render(&self, app: &App) -> String {
        let mut registry = Registry::with_prefix("onrecord");
        registry.register("http_requests", "Answered requests", self.requests.clone());
        registry.register("prompts", "Prompts taken", self.prompts.clone());
        let health = app.bridge.health();
        let gauge = |registry: &mut Registry, name: &str, help: &str, value: usize| {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        };
        gauge(&mut registry, "sessions", "Live sessions", health.sessions);
        gauge(
            &mut registry,
            "active_prompts",
            "Turns that are running",
            health.active_prompts,
        );
        gauge(
            &mut registry,
            "pending_permissions",
            "Open permission requests",
            health.pending_permissions,
        );
        gauge(
            &mut registry,
            "subscribers",
            "Open event streams",
            app.n_streams(),
        );
        gauge(
            &mut registry,
            "sessions_recording_degraded",
            "Live sessions whose record failed",
            health.recording_degraded,
        );
        let counter = |registry: &mut Registry, name: &str, help: &str, value: u64| {
            let counter: Counter = Counter::default();
            counter.inc_by(value);
            registry.register(name, help, counter);
        };
        counter(
            &mut registry,
            "evictions",
            "Streams given up as too slow",
            health.evictions,
        );
        counter(
            &mut registry,
            "resyncs",
            "Streams told that something is missing",
            health.resyncs,
        );
        counter(
            &mut registry,
            "prompt_queue_full",
            "Prompts refused because too many waited",
            health.prompt_queue_full,
        );
        let tally = app.bridge.tally();
        counter(
            &mut registry,
            "early_events_kept",
            "Events about records of sessions that were not open yet",
            tally.early_kept,
        );
        counter(
            &mut registry,
            "early_events_dropped",
            "Events about records that belonged to no session",
            tally.early_dropped,
        );
        let failures: Family<Failure, Counter> = Family::default();
        for (class, n) in tally.recordings_degraded {
            failures.get_or_create(&Failure { class }).inc_by(n);
        }
        registry.register("recordings_degraded", "Records that failed", failures);
        let mut text = String::new();
        // Dropped: writing into memory does not fail.
        _ = encode(&mut text, &registry);
        text
    }
}
