//! `initialize`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::or_default;

/// The version of ACP that is spoken.
const PROTOCOL_VERSION: u32 = 1;

/// Key of the acknowledgement that Qwen Code's daemon asks of its child.
const GUARD_READY: &str = "qwen-code/external-tool-guard-ready";

/// Key of the proof that a client is the program which started us.
const PARENT_CAPABILITY: &str = "qwen-code/private-parent-capability";

/// Params.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Initialize {
    #[serde(deserialize_with = "or_default")]
    pub(crate) client_capabilities: ClientCapabilities,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Map<String, Value>>,
}

/// What a client can do.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClientCapabilities {
    /// It offers its files.
    #[serde(deserialize_with = "or_default")]
    pub(crate) fs: FileSystem,
    /// It takes the update `notice`, which older schemas do not know.
    pub(crate) notice: Option<Value>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Map<String, Value>>,
}

/// What a client offers of its files.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FileSystem {
    #[serde(deserialize_with = "or_default")]
    pub(crate) read_text_file: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) write_text_file: bool,
}

impl ClientCapabilities {
    /// Whether `notice` may be sent to it.
    pub(crate) fn takes_notices(&self) -> bool {
        let offered = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let in_meta = self.meta.as_ref().and_then(|meta| meta.get("notice"));
        self.notice.as_ref().is_some_and(offered) || in_meta.is_some_and(offered)
    }
}

/// What the daemon around us offered, and we keep.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Offers {
    /// It pings.
    pub(crate) liveness: bool,
    /// It wants to know what is at work, this often.
    pub(crate) active_work: Option<ActiveWork>,
}

/// The active-work heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveWork {
    pub(crate) interval_ms: u64,
    pub(crate) categories: Vec<String>,
}

const INTERVAL_MS_MIN: u64 = 5_000;
const INTERVAL_MS_MAX: u64 = 60_000;
const CATEGORIES: [&str; 5] = ["agent", "notification", "shell", "session", "workflow"];

impl Initialize {
    pub(crate) fn offers(&self) -> Offers {
        let offer = |key: &str| {
            let offer = self.meta.as_ref()?.get(key)?;
            (offer.get("v").and_then(Value::as_u64) == Some(1)).then_some(offer)
        };
        Offers {
            liveness: offer("qwen.daemon.channelLiveness").is_some(),
            active_work: offer("qwen.daemon.activeWorkHeartbeat").map(active_work),
        }
    }

    /// The parent's proof, where it gave one.
    pub(crate) fn parent_capability(&self) -> Option<&str> {
        self.meta.as_ref()?.get(PARENT_CAPABILITY)?.as_str()
    }
}

fn active_work(offer: &Value) -> ActiveWork {
    let interval_ms = offer.get("intervalMs").and_then(Value::as_u64);
    let offered = offer.get("categories").and_then(Value::as_array);
    let categories = offered.into_iter().flatten().filter_map(Value::as_str);
    ActiveWork {
        interval_ms: interval_ms
            .unwrap_or(INTERVAL_MS_MIN)
            .clamp(INTERVAL_MS_MIN, INTERVAL_MS_MAX),
        categories: categories
            .filter(|category| CATEGORIES.contains(category))
            .map(str::to_owned)
            .collect(),
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialized {
    protocol_version: u32,
    agent_info: Value,
    auth_methods: [Value; 1],
    agent_capabilities: Value,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

impl Initialized {
    /// Ours. The guard is acknowledged to a parent that proved itself.
    pub(crate) fn new(offers: &Offers, is_child: bool, version: &str) -> Self {
        let mut meta = Map::new();
        if is_child {
            meta.insert(GUARD_READY.to_owned(), json!("required-v1"));
        }
        if let Some(work) = &offers.active_work {
            let echo =
                json!({"v": 1, "intervalMs": work.interval_ms, "categories": work.categories});
            meta.insert("qwen.daemon.activeWorkHeartbeat".to_owned(), echo);
        }
        if offers.liveness {
            meta.insert("qwen.daemon.channelLiveness".to_owned(), json!({"v": 1}));
        }
        Self {
            protocol_version: PROTOCOL_VERSION,
            agent_info: json!({
                "name": "onrecord",
                "title": "onrecord",
                "version": version,
            }),
            auth_methods: [json!({
                "id": "openai",
                "name": "OpenAI-compatible endpoint",
                "description": "Set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL) before the start",
            })],
            agent_capabilities: json!({
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
                "mcpCapabilities": {"http": false, "sse": false},
            }),
            meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{ActiveWork, ClientCapabilities, Initialize, Offers};

    #[test]
    fn offers_are_kept_within_their_bounds_and_others_are_not() {
        let initialize: Initialize = from_value(json!({"_meta": {
            "qwen.daemon.channelLiveness": {"v": 2},
            "qwen.daemon.activeWorkHeartbeat":
                {"v": 1, "intervalMs": 1, "categories": ["shell", "other"]},
        }}))
        .expect("it is one");
        let kept = Offers {
            liveness: false,
            active_work: Some(ActiveWork {
                interval_ms: 5_000,
                categories: vec!["shell".to_owned()],
            }),
        };
        assert_eq!(initialize.offers(), kept);
    }

    #[test]
    fn null_is_as_good_as_absent() {
        for params in [
            json!({"clientCapabilities": null}),
            json!({"clientCapabilities": {"fs": null}}),
            json!({"clientCapabilities": {"fs": {"readTextFile": null, "writeTextFile": true}}}),
        ] {
            let initialize = from_value::<Initialize>(params.clone());
            let initialize = initialize.unwrap_or_else(|error| panic!("{params}: {error}"));
            assert!(!initialize.client_capabilities.fs.read_text_file);
        }
    }

    #[test]
    fn notices_go_only_to_clients_that_take_them() {
        let takes = |capabilities| {
            from_value::<ClientCapabilities>(capabilities)
                .expect("it is one")
                .takes_notices()
        };
        assert!(takes(json!({"notice": {}})));
        assert!(takes(json!({"_meta": {"notice": true}})));
        assert!(!takes(
            json!({"notice": false, "fs": {"readTextFile": true}})
        ));
        assert!(!takes(json!({})));
    }
}
