//! How fast a client reads its stream: bytes into events, events into a session, and a reconnect that replays the
//! whole ring. The same in TypeScript, where that is built: `web/sdk/bench/reduce.mjs`.

use std::{path::Path, process::Command, time::Instant};

use sdk::validate::frame;
use serde_json::{Value, json};
use testkit::measure::{
    Bound::{AtLeast, AtMost},
    Samples, print, print_reference,
};
use wire::{
    sse,
    state::{Event, Session},
};

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";
const EVENTS: u32 = 1_000_000;
const REPLAYED: u32 = 8_000;
const ROUNDS: usize = 7;

/// An event of turns with 200 pieces of text and 10 calls of tools.
fn event(id: u32) -> Value {
    let (turn, at) = (id / 223, id % 223);
    let prompt = format!("p{turn}");
    let update = |update: Value| {
        let data = json!({"sessionId": ID, "update": update});
        ("session_update", data)
    };
    let text = |kind: &str, text: &str| {
        update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}))
    };
    let (kind, data) = match (at, at % 22) {
        (0, _) => {
            let data = json!({"sessionId": ID, "promptId": prompt, "stopReason": "end_turn"});
            ("turn_complete", data)
        }
        (1, _) => text("user_message_chunk", "again"),
        (_, 0) => update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": format!("c{id}"),
            "title": "read",
            "kind": "read",
            "status": "pending",
            "content": [],
            "locations": [],
            "rawInput": {"path": "a"},
        })),
        (_, 1) => update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": format!("c{}", id - 1),
            "status": "completed",
        })),
        _ => text("agent_message_chunk", "a few words "),
    };
    json!({"id": id, "v": 1, "type": kind, "promptId": prompt, "data": data})
}

fn main() {
    let events: Vec<Value> = (1..=REPLAYED).map(event).collect();
    let stream: String = events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            format!("id: {}\nevent: {kind}\ndata: {event}\n\n", event["id"])
        })
        .collect();
    let decoded: Vec<Event> = events
        .iter()
        .map(|event| frame(&event.to_string(), ID).expect("it is valid"))
        .collect();

    let seconds = median(|| {
        let mut session = Session::new(ID);
        for (id, event) in (1..=u64::from(EVENTS)).zip(decoded.iter().cycle()) {
            let mut event = event.clone();
            event.id = Some(id);
            session.apply(event);
        }
        assert_eq!(session.last_event_id, u64::from(EVENTS));
    });
    print(
        "decoded events folded, their copies included",
        f64::from(EVENTS) / seconds,
        "events/s",
        AtLeast(2_000_000.0),
    );
    let seconds = median(|| {
        let mut n_events = 0;
        decode(&stream, |_| n_events += 1);
        assert_eq!(n_events, REPLAYED);
    });
    let n_bytes = u32::try_from(stream.len()).expect("the stream is small");
    print(
        "stream decoded and checked",
        f64::from(n_bytes) / 1e6 / seconds,
        "MB/s",
        AtLeast(200.0),
    );
    let seconds = median(|| {
        let mut session = Session::new(ID);
        decode(&stream, |event| session.apply(event));
        assert_eq!(session.last_event_id, u64::from(REPLAYED));
    });
    print(
        "8,000 events replayed into a session",
        seconds * 1e3,
        "ms",
        AtMost(100.0),
    );
    in_typescript();
}

/// Reads a stream as it comes from a socket.
fn decode(stream: &str, mut each: impl FnMut(Event)) {
    let mut decoder = sse::Decoder::new();
    for piece in stream.as_bytes().chunks(64 << 10) {
        decoder.push(piece);
        while let Ok(Some(event)) = decoder.next_event() {
            let text = std::str::from_utf8(event.data).expect("it is text");
            each(frame(text, ID).expect("it is valid"));
        }
    }
}

fn median(round: impl Fn()) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        round();
        began.elapsed().as_secs_f64()
    });
    times.collect::<Samples>().median()
}

fn in_typescript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/sdk");
    let ran = Command::new("node")
        .arg("bench/reduce.mjs")
        .current_dir(&folder)
        .output();
    let told = ran.ok().filter(|ran| ran.status.success());
    let told = told.and_then(|ran| serde_json::from_slice::<Value>(&ran.stdout).ok());
    let told = told.expect("web/sdk is built: `npm ci && npm run build` there");
    let of = |name: &str| told[name].as_f64().unwrap_or_default();
    let (folded, replayed) = (of("eventsPerSecond"), of("replayOf8000Ms"));
    let name = "decoded events folded in TypeScript";
    print(name, folded, "events/s", AtLeast(300_000.0));
    let name = "8,000 events replayed in TypeScript";
    print(name, replayed, "ms", AtMost(100.0));
    print_reference("text of those events", of("replayedMegabytes"), "MB");
}
