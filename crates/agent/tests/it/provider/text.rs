//! Text: characters cut in two, broken ones, and sizes.

use super::*;

/// case-E02
#[test]
fn surrogate_halves_of_two_chunks_are_joined() {
    check(
        hi().bytes(raw_text("A\\ud83d"))
            .bytes(raw_text("\\ude00B"))
            .text("tail")
            .finish("stop")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello |A|😀B|tail
            done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

/// case-E02
#[test]
fn a_lone_surrogate_half_is_replaced_and_the_answer_goes_on() {
    check(
        hi().bytes(raw_text("A\\ud83d"))
            .text("tail")
            .bytes(raw_text("\\ude00"))
            .bytes(raw_text("\\ud83d"))
            .finish("stop")
            .done(),
        expect![[r#"
            text hello |A|�tail|�|�
            done Stop"#]],
    );
}

#[test]
fn a_surrogate_half_before_a_cut_is_told() {
    check(
        hi().bytes(raw_text("A\\ud83d")),
        expect![[r#"
        text hello |A|�
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn garbage_ends_the_answer_with_an_error() {
    check(
        hi().bytes("data: {not json\n\n")
            .text("tail")
            .finish("stop")
            .done(),
        expect![[r#"
        text hello 
        error Protocol None: the answer holds an event that is no JSON; part of it is lost"#]],
    );
}

#[test]
fn badutf8_costs_the_broken_bytes_alone() {
    let broken: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\xff\xfey\"},\"finish_reason\":null}]}\n\n";
    check(
        hi().bytes(broken).text("tail").finish("stop").done(),
        expect![[r#"
        text hello |x��y|tail
        done Stop"#]],
    );
}

#[test]
fn mbsplit_is_put_together() {
    let event = raw_text("é😀z");
    let n = event.find('😀').unwrap() + 2;
    check(
        hi().bytes(&event.as_bytes()[..n])
            .bytes(&event.as_bytes()[n..])
            .finish("stop")
            .done(),
        expect![[r#"
            text hello |é😀z
            done Stop"#]],
    );
}

#[test]
fn spaces_are_kept_in_text_and_dropped_around_json() {
    let event = raw_text("x").replace("\n\n", " \n\n");
    check(
        Reply::stream()
            .text("  lead")
            .bytes(event)
            .finish("stop")
            .done(),
        expect![[r#"
        text   lead|x
        done Stop"#]],
    );
}

#[test]
fn bigevent_of_32_mib_arrives() {
    let started = Instant::now();
    check(
        Reply::stream()
            .text(&"x".repeat(32 << 20))
            .finish("stop")
            .done(),
        expect![[r#"
        text <33554432 bytes>
        done Stop"#]],
    );
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn ev_of_middle_sizes_arrive() {
    for n_kib in [1, 64, 1024] {
        let text = "x".repeat(n_kib << 10);
        let stub = StubModel::replies(vec![Reply::says(&text)]);
        let events = collect(&stub);
        assert!(
            matches!(&events[0], Ok(ModelEvent::Text(came)) if *came == text),
            "{n_kib} KiB"
        );
        assert!(
            matches!(&events[1..], [Ok(ModelEvent::Done(_))]),
            "{n_kib} KiB"
        );
    }
}

#[test]
fn endless_is_ended_at_the_limit() {
    let mut reply =
        Reply::stream().bytes("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    let piece = vec![b'y'; 1 << 20];
    for _ in 0..64 {
        reply = reply.bytes(&piece);
    }
    check(
        reply.bytes("\"}}]}\n\n").done(),
        expect![
            "error Protocol None: the answer cannot be read: a server-sent event is larger than 50331648 bytes"
        ],
    );
}

#[test]
fn an_answer_of_many_events_is_ended_at_the_limit() {
    let event = frame(&delta(json!({"content": "x".repeat(1 << 20)}), None));
    let stub = StubModel::replies(vec![
        Reply::stream()
            .bytes(event.repeat(70))
            .finish("stop")
            .done(),
    ]);
    let events = collect(&stub);
    assert_eq!(
        events.len(),
        66,
        "64 MiB, and the piece that is over it before the error"
    );
    assert!(matches!(&events[65], Err(error) if error.kind == ModelErrorKind::Protocol));
}
