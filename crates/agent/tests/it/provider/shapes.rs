//! Shapes of events and chunks that servers have.

use super::*;

#[test]
fn crlf_comments_ids_and_missing_blanks_are_understood() {
    let event = |text| frame(&delta(json!({"content": text}), None)).replace('\n', "\r\n");
    let end = frame(&delta(json!({}), Some("stop"))).replace('\n', "\r\n");
    let stream = format!(
        ": ping\r\n\r\n{}id: 4\r\nevent: message\r\nretry: 10\r\n{}{end}data:[DONE]\r\n\r\n",
        event("a"),
        event("b"),
    );
    check(
        Reply::stream().bytes(stream),
        expect![[r#"
        text a|b
        done Stop"#]],
    );
}

#[test]
fn multidata_is_one_event() {
    let event = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"multi\"},\"finish_reason\":null}]}\n\n";
    check(
        Reply::stream().bytes(event).finish("stop").done(),
        expect![[r#"
        text multi
        done Stop"#]],
    );
}

#[test]
fn azure_sends_chunks_without_choices_and_null_content() {
    check(
        Reply::stream()
            .event(&json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}))
            .text("hello ")
            .event(&delta(json!({"content": null}), Some("stop")))
            .done(),
        expect![[r#"
            text hello 
            done Stop"#]],
    );
}

#[test]
fn usagenull_is_no_usage() {
    let chunk = |content: Value, finish, usage: Value| {
        let mut chunk = delta(content, finish);
        chunk["usage"] = usage;
        chunk
    };
    check(
        Reply::stream()
            .event(&chunk(json!({"content": "a"}), None, Value::Null))
            .event(&chunk(json!({"content": "b"}), None, Value::Null))
            .event(&chunk(
                json!({}),
                Some("stop"),
                json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
            ))
            .done(),
        expect![[r#"
            text a|b
            done Stop 1+2=3 cached 0 thoughts 0"#]],
    );
}

#[test]
fn usageinline_gives_way_to_the_last() {
    let mut first = delta(json!({"content": "a"}), None);
    first["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let last = delta(json!({"content": "b"}), Some("stop"));
    check(
        Reply::stream()
            .event(&first)
            .event(&last)
            .event(&usage())
            .done(),
        expect![[r#"
        text a|b
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn minimal_chunks_are_enough() {
    check(
        Reply::stream()
            .event(&json!({"choices": [{"delta": {"content": "mini"}}]}))
            .event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
            .done(),
        expect![[r#"
            text mini
            done Stop"#]],
    );
}

#[test]
fn content_in_parts_and_refusals_are_text() {
    check(
        Reply::stream()
            .event(&delta(
                json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
                None,
            ))
            .event(&delta(json!({"refusal": "no"}), Some("stop")))
            .done(),
        expect![[r#"
            text ab|no
            done Stop"#]],
    );
    check(
        Reply::stream()
            .event(&delta(json!({"content": 5}), None))
            .done(),
        expect!["error Protocol None: the answer holds content of an unknown shape"],
    );
}

#[test]
fn reasoning_spelled_twice_is_told_once() {
    check(
        Reply::stream()
            .event(&delta(
                json!({"reasoning": "r", "reasoning_content": "r"}),
                None,
            ))
            .event(&delta(
                json!({"reasoning": "s", "content": "t"}),
                Some("stop"),
            ))
            .done(),
        expect![[r#"
            thought r|s
            text t
            done Stop"#]],
    );
}

#[test]
fn keep_alives_are_nothing() {
    let noise = "event: ping\ndata: {}\n\nevent: heartbeat\ndata: x\n\ndata:\n\ndata: {\"type\":\"ping\"}\n\n";
    check(
        hi().bytes(noise).finish("stop").done(),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}
