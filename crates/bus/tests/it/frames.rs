//! How events look on a stream.

use bus::own_frame;
use wire::event::NewEvent;

use crate::rig::{bus, chunk, frames, live, publish_together, raw, told};

fn rendered(event: &NewEvent<'_>) -> String {
    let bus = bus();
    let mut stream = live(&bus);
    bus.publish(event).unwrap();
    String::from_utf8(chunk(&mut stream).to_vec()).unwrap()
}

#[test]
fn an_event_is_one_frame_on_one_line() {
    let data = raw("{\"sessionId\":\"s\",\r\n \"n\" : 1}");
    let mut event = NewEvent {
        kind: "turn_complete",
        data: &data,
        prompt_id: None,
        originator: None,
        at_ms: 1_796_078_466_684,
    };
    assert_eq!(
        rendered(&event),
        "id: 1\nevent: turn_complete\ndata: {\"id\":1,\"v\":1,\"type\":\"turn_complete\",\
         \"data\":{\"sessionId\":\"s\",   \"n\" : 1},\
         \"_meta\":{\"serverTimestamp\":1796078466684}}\n\n"
    );
    event.prompt_id = Some("p-1");
    event.originator = Some("it's \"me\"\n");
    assert_eq!(
        rendered(&event),
        "id: 1\nevent: turn_complete\ndata: {\"id\":1,\"v\":1,\"type\":\"turn_complete\",\
         \"data\":{\"sessionId\":\"s\",   \"n\" : 1},\"promptId\":\"p-1\",\
         \"originatorClientId\":\"it's \\\"me\\\"\\n\",\
         \"_meta\":{\"serverTimestamp\":1796078466684}}\n\n"
    );
}

#[test]
fn a_frame_of_one_stream_has_no_id() {
    let frame = own_frame("stream_error", &serde_json::json!({"error": "e"}), 5);
    assert_eq!(
        frame,
        "event: stream_error\ndata: {\"v\":1,\"type\":\"stream_error\",\"data\":{\"error\":\"e\"},\
         \"_meta\":{\"serverTimestamp\":5}}\n\n"
    );
}

#[test]
fn no_kind_can_end_its_line() {
    let data = raw("{}");
    let event = NewEvent {
        kind: "a\nid: 7\r",
        data: &data,
        prompt_id: None,
        originator: None,
        at_ms: 0,
    };
    assert!(rendered(&event).starts_with("id: 1\nevent: a id: 7 \ndata: "));
}

#[test]
fn what_is_ready_is_given_at_once_and_shared() {
    let bus = bus();
    let mut streams = [live(&bus), live(&bus)];
    publish_together(&bus, 100);
    let [first, second] = streams.each_mut().map(chunk);
    assert_eq!(frames(&first).len(), 100);
    assert_eq!(
        (first.as_ptr(), first.len()),
        (second.as_ptr(), second.len())
    );
    assert!(streams.iter_mut().all(|stream| told(stream).is_empty()));
}
