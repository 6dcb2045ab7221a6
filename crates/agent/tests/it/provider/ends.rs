//! How answers end, and how they are cut.

use super::*;

#[test]
fn cut_chunked_is_told() {
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ha";
    check(
        hi().framed(Framing::Chunked).bytes(cut).ends(End::Cut),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the connection broke; try again"#]],
    );
}

#[test]
fn cut_close_is_told() {
    check(
        hi().bytes("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ha"),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn cut_chunked_mid_is_told() {
    check(
        hi().framed(Framing::Chunked)
            .unframed("400\r\ndata: {\"choi")
            .ends(End::Cut),
        expect![[r#"
            text hello 
            error Cut None: the answer was cut off: the connection broke; try again"#]],
    );
}

#[test]
fn cut_clean_is_told() {
    check(
        hi(),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn a_cut_before_anything_is_tried_again() {
    let stub = StubModel::replies(vec![Reply::stream(), Reply::hello(1)]);
    expect![[r#"
        retry 1 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        text hello world 
        done Stop 10+1=11 cached 0 thoughts 0"#]].assert_eq(&told(&collect(&stub)));
}

#[test]
fn nodone_is_an_end_where_the_model_was_done() {
    check(
        hi().finish("stop").event(&usage()),
        expect![[r#"
        text hello 
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn a_last_event_without_its_blank_line_counts() {
    check(
        hi().bytes(frame(&delta(json!({}), Some("stop"))).trim_end()),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
    check(
        hi().bytes("data: [DONE]"),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}

#[test]
fn rst_is_told() {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![hi().gate(&gate).ends(End::Reset)]);
    let events = block_on(async {
        let mut stream = ask(&provider(stub.base_url()));
        let mut events = vec![stream.next().await.unwrap()];
        gate.open();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        events
    });
    expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the connection broke; try again"#]]
    .assert_eq(&told(&events));
}

#[test]
fn a_reset_after_the_model_was_done_spoils_nothing() {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![hi().finish("stop").gate(&gate).ends(End::Reset)]);
    let events = block_on(async {
        let mut stream = ask(&provider(stub.base_url()));
        let mut events = vec![stream.next().await.unwrap()];
        gate.open();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        events
    });
    expect![[r#"
        text hello 
        done Stop"#]]
    .assert_eq(&told(&events));
}

#[test]
fn instream_error_is_told_after_what_came() {
    check(
        hi().bytes("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n")
            .text("tail")
            .done(),
        expect![[r#"
            text hello 
            error Provider None: the provider failed (overloaded); try again later"#]],
    );
}

#[test]
fn instream_ev_error_is_told() {
    check(
        hi().bytes("event: error\ndata: {\"message\":\"overloaded\"}\n\n")
            .done(),
        expect![[r#"
        text hello 
        error Provider None: the provider failed (overloaded); try again later"#]],
    );
}

#[test]
fn an_error_before_anything_is_tried_again() {
    let overloaded = "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n";
    let stub = StubModel::replies(vec![
        Reply::stream().bytes(overloaded).done(),
        Reply::hello(1),
    ]);
    expect![[r#"
        retry 1 after 0ns: the provider failed (overloaded); try again later
        text hello world 
        done Stop 10+1=11 cached 0 thoughts 0"#]]
    .assert_eq(&told(&collect(&stub)));
}

#[test]
fn unkfinish_is_an_end() {
    check(
        hi().finish("weird_reason").event(&usage()).done(),
        expect![[r#"
        text hello 
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn known_ends_are_told_apart() {
    check(
        hi().finish("length").done(),
        expect![[r#"
        text hello 
        done Length"#]],
    );
    check(
        hi().finish("content_filter").done(),
        expect![[r#"
        text hello 
        done Filtered"#]],
    );
}

#[test]
fn afterdone_is_not_heard() {
    check(
        hi().finish("stop").done().event(&usage()).text("late"),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}

#[test]
fn done_alone_ends_an_answer_that_has_words() {
    check(
        hi().done(),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
    check(
        Reply::stream().done(),
        expect!["error Protocol None: the provider ended the answer without a word of it"],
    );
}

#[test]
fn a_connection_that_stays_open_holds_no_answer_back() {
    let never = Gate::new();
    check(
        hi().finish("stop").gate(&never),
        expect![[r#"
            text hello 
            done Stop"#]],
    );
}
