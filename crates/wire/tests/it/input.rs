//! Lines of a program that drives a session: what each comes to, and what is wrong with a bad one.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::stream_json::{
    control::HostRequest,
    input::{Input, InvalidInput, InvalidReason, parse},
};

fn understood(line: impl AsRef<[u8]>) -> Input {
    parse(line.as_ref()).unwrap()
}

fn refused(line: impl AsRef<[u8]>) -> InvalidInput {
    parse(line.as_ref()).unwrap_err()
}

/// The prompt of a `user` line with this content; `None` where there is none.
fn prompt(content: &Value) -> Option<String> {
    prompt_of(json!({"type": "user", "message": {"content": content}}).to_string())
}

fn prompt_of(line: impl AsRef<[u8]>) -> Option<String> {
    let understood = understood(line);
    if matches!(understood, Input::Nothing) {
        return None;
    }
    let Input::User(prompt) = understood else {
        panic!("no prompt: {understood:?}")
    };
    Some(prompt)
}

fn request(request: &Value) -> Result<HostRequest, InvalidInput> {
    let line = json!({"type": "control_request", "request_id": "r1", "request": request});
    let understood = parse(line.to_string().as_bytes())?;
    let Input::Request {
        request_id,
        subtype,
        request: asked,
    } = understood
    else {
        panic!("no request: {understood:?}")
    };
    assert_eq!(
        (request_id.as_str(), &json!(subtype)),
        ("r1", &request["subtype"])
    );
    Ok(asked)
}

/// The answer of a `control_response` with these fields.
fn answer(response: &Value) -> Result<String, String> {
    let line = json!({"type": "control_response", "response": response});
    let understood = understood(line.to_string());
    let Input::Response { request_id, answer } = understood else {
        panic!("no answer: {understood:?}")
    };
    assert_eq!(request_id, "q1");
    answer.map(|raw| raw.get().to_owned())
}

#[test]
fn what_says_nothing_is_nothing() {
    for line in [
        "",
        " ",
        "\r",
        "\t \r",
        r#"{"type":"keep_alive"}"#,
        r#"{"type":"","x":[1,{}]}"#,
    ] {
        assert!(matches!(understood(line), Input::Nothing), "{line:?}");
    }
    for content in [
        json!(""),
        json!(" \n\t"),
        json!([]),
        json!([{"type": "text", "text": ""}]),
    ] {
        assert_eq!(prompt(&content), None, "{content}");
    }
}

#[test]
fn white_space_around_a_line_is_no_part_of_its_prompt() {
    let line = "  \t{ \"type\" : \"user\", \"message\": {\"content\": \" a\\r\\n\"} } \r";
    assert_eq!(prompt_of(line).unwrap(), " a\r\n");
}

#[test]
fn the_text_of_a_prompt_is_a_string_or_its_blocks_a_line_each() {
    let image = json!({"type": "image", "source": {"data": "AA=="}});
    let cases = [
        (json!("a"), "a"),
        (json!([{"type": "text", "text": "a"}]), "a"),
        (
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "a\nb",
        ),
        (json!(["a", "b"]), "a\nb"),
        (
            json!([{"type": "text", "text": "a", "cache_control": {}}]),
            "a",
        ),
        // What is no text is not lost: the model is given its JSON.
        (
            json!([{"type": "text", "text": "a"}, image]),
            r#"a
{"type":"image","source":{"data":"AA=="}}"#,
        ),
        (json!([{"type": "text"}]), r#"{"type":"text"}"#),
        (
            json!([{"type": "text", "text": 1}]),
            r#"{"type":"text","text":1}"#,
        ),
        (json!([1, null, ["text", "a"]]), "1\nnull\n[\"text\",\"a\"]"),
    ];
    for (content, text) in cases {
        assert_eq!(prompt(&content).as_deref(), Some(text), "{content}");
    }
}

#[test]
fn escapes_are_undone_and_halves_of_characters_replaced() {
    let cases = [
        (r"\ud83d\ude00", "\u{1f600}"),
        (r"\uD83D\uDE00", "\u{1f600}"),
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude00b", "\u{fffd}b"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\ud83d\n\ude00", "\u{fffd}\n\u{fffd}"),
        (r"\ud83d\\ude00", "\u{fffd}\\ude00"),
        (r"\\ud83d", "\\ud83d"),
        (r"\\\ud83d", "\\\u{fffd}"),
        (r"\u00e9\u0000", "\u{e9}\0"),
        (r#"\"\/\b"#, "\"/\u{8}"),
    ];
    for (escaped, text) in cases {
        let line = format!(r#"{{"type":"user","message":{{"content":"{escaped}"}}}}"#);
        assert_eq!(prompt_of(line).unwrap(), text, "{escaped}");
        let block = format!(r#"{{"type":"text","text":"{escaped}"}}"#);
        let line = format!(r#"{{"type":"user","message":{{"content":[{block}]}}}}"#);
        assert_eq!(prompt_of(line).unwrap(), text, "in a block: {escaped}");
    }
    let line = r#"{"\u0074ype":"us\u0065r","message":{"content":"a"}}"#;
    assert_eq!(prompt_of(line).unwrap(), "a");
}

#[test]
fn fields_that_are_not_known_cost_nothing() {
    let line = r#"{"type":"user","session_id":7,"uuid":null,"x":{"y":[]},"x":1,"request":null,
        "message":{"role":3,"content":"a","more":{}},"parent_tool_use_id":null}"#;
    assert_eq!(prompt_of(line).unwrap(), "a");
}

#[test]
fn a_line_that_is_none_of_the_protocol_says_what_is_wrong() {
    use InvalidReason::{BadField, NoType, NotAnObject, NotJson};
    let cases: &[(&[u8], InvalidReason)] = &[
        (b"{", NotJson),
        (b"hello", NotJson),
        (b"{} {}", NotJson),
        (b"{\"type\":\"user\",}", NotJson),
        (
            b"{\"type\":\"user\",\"message\":{\"content\":\"\n\"}}",
            NotJson,
        ),
        (b"\xff", NotJson),
        (
            b"{\"type\":\"user\",\"message\":{\"content\":\"\xc3\x28\"}}",
            NotJson,
        ),
        (b"\xef\xbb\xbf{}", NotJson),
        (b"\0", NotJson),
        (b"[]", NotAnObject),
        (b"[{\"type\":\"user\"}]", NotAnObject),
        (b"null", NotAnObject),
        (b"1", NotAnObject),
        (b"\"user\"", NotAnObject),
        (b"{}", NoType),
        (b"{\"Type\":\"user\"}", NoType),
        (b"{\"type\":null}", NoType),
        (b"{\"type\":1}", NoType),
        (b"{\"type\":[\"user\"]}", NoType),
        (b"{\"type\":\"user\",\"type\":\"user\"}", BadField),
    ];
    for (line, reason) in cases {
        let error = refused(line);
        let shown = String::from_utf8_lossy(line);
        assert_eq!(
            (error.reason, &error.request_id),
            (*reason, &None),
            "{shown}"
        );
        assert!(!error.message.is_empty(), "{shown}");
    }
    for (kind, body) in [
        ("user", r#""x":1"#),
        ("user", r#""message":null"#),
        ("user", r#""message":"a""#),
        ("user", r#""message":["a"]"#),
        ("user", r#""message":{}"#),
        ("user", r#""message":{"content":null}"#),
        ("user", r#""message":{"content":1}"#),
        (
            "user",
            r#""message":{"content":{"type":"text","text":"a"}}"#,
        ),
        ("user", r#""message":{"content":"a","content":"b"}"#),
        ("control_request", r#""request":{"subtype":"interrupt"}"#),
        (
            "control_request",
            r#""request_id":1,"request":{"subtype":"interrupt"}"#,
        ),
        (
            "control_request",
            r#""request_id":null,"request":{"subtype":"interrupt"}"#,
        ),
        ("control_response", r#""x":1"#),
        ("control_response", r#""response":null"#),
        ("control_response", r#""response":["success","q1"]"#),
        ("control_response", r#""response":{"request_id":"q1"}"#),
        ("control_response", r#""response":{"subtype":"success"}"#),
        (
            "control_response",
            r#""response":{"subtype":"success","request_id":1}"#,
        ),
        (
            "control_response",
            r#""response":{"subtype":"perhaps","request_id":"q1"}"#,
        ),
    ] {
        let error = refused(format!(r#"{{"type":"{kind}",{body}}}"#));
        assert_eq!(
            (error.reason, &error.request_id),
            (BadField, &None),
            "{kind} {body}"
        );
        assert!(error.message.contains(&format!("`{kind}`")), "{error}");
    }
}

#[test]
fn every_request_is_understood_by_its_subtype() {
    macro_rules! assert_is {
        ($request:tt, $pattern:pat $(if $guard:expr)?) => {
            let asked = request(&json!($request)).unwrap();
            assert!(matches!(&asked, $pattern $(if $guard)?), "{asked:?}");
        };
    }
    use HostRequest::{
        CanUseTool, ContinueLastTurn, GetAvailableModels, GetContextUsage, GetUsageInfo, Interrupt,
        McpServerStatus, SetEffort, SetModel, SetPermissionMode, SupportedCommands, Unknown,
    };
    assert_is!({"subtype": "interrupt"}, Interrupt);
    assert_is!({"subtype": "continue_last_turn"}, ContinueLastTurn);
    assert_is!({"subtype": "set_permission_mode", "mode": "x"}, SetPermissionMode { mode } if mode == "x");
    assert_is!({"subtype": "set_model", "model": "m"}, SetModel { model } if model == "m");
    assert_is!({"subtype": "set_effort", "effort": "low"}, SetEffort { effort } if effort == "low");
    assert_is!({"subtype": "supported_commands"}, SupportedCommands);
    assert_is!({"subtype": "mcp_server_status"}, McpServerStatus);
    assert_is!({"subtype": "get_available_models"}, GetAvailableModels);
    assert_is!({"subtype": "get_context_usage"}, GetContextUsage { show_details: None });
    assert_is!(
        {"subtype": "get_context_usage", "show_details": null},
        GetContextUsage { show_details: None }
    );
    assert_is!(
        {"subtype": "get_context_usage", "show_details": true},
        GetContextUsage { show_details: Some(true) }
    );
    assert_is!({"subtype": "get_usage_info"}, GetUsageInfo { range: None });
    assert_is!(
        {"subtype": "get_usage_info", "range": "week"},
        GetUsageInfo { range: Some(range) } if range == "week"
    );
    assert_is!(
        {"subtype": "can_use_tool", "tool_name": "edit", "input": {"a": []}},
        CanUseTool { tool_name } if tool_name == "edit"
    );
    assert_is!({"subtype": "hook_callback", "callback_id": 1}, Unknown);
    assert_is!({"subtype": "", "more": [{}]}, Unknown);
}

#[test]
fn initialize_takes_what_it_knows_and_leaves_the_rest() {
    let initialize = |mut fields: Value| {
        fields["subtype"] = "initialize".into();
        let asked = request(&fields)?;
        let HostRequest::Initialize(initialize) = asked else {
            panic!("no `initialize`: {asked:?}")
        };
        Ok::<_, InvalidInput>(initialize)
    };
    assert!(initialize(json!({})).unwrap().timeout.is_none());
    let nothing = json!({
        "hooks": null,
        "sdkMcpServers": null,
        "mcpServers": null,
        "agents": null,
        "timeout": null,
        "effort": null,
    });
    assert!(initialize(nothing).unwrap().sdk_mcp_servers.is_none());
    let all = json!({
        "hooks": {"PreToolUse": []},
        "sdkMcpServers": {"b": {"type": "sdk", "name": "b"}, "a": null},
        "mcpServers": {"far": {"command": "x"}},
        "agents": [{"name": "helper"}],
        "timeout": {"canUseTool": 1000, "mcpRequest": 5},
        "effort": "high",
    });
    let all = initialize(all).unwrap();
    assert_eq!(
        Vec::from_iter(all.sdk_mcp_servers.unwrap().into_keys()),
        ["a", "b"]
    );
    assert_eq!(all.mcp_servers.unwrap().len(), 1);
    assert_eq!(all.timeout.unwrap().can_use_tool, Some(1000));
    assert_eq!(all.agents.unwrap().len(), 1);
    assert_eq!(all.effort.unwrap(), "high");
    for wrong in [
        json!({"timeout": {"canUseTool": -1}}),
        json!({"timeout": {"canUseTool": "60"}}),
        json!({"timeout": 60}),
        json!({"sdkMcpServers": ["a"]}),
        json!({"effort": 1}),
    ] {
        assert!(initialize(wrong.clone()).is_err(), "{wrong}");
    }
}

/// Whoever sent it waits for its answer, so that its id is kept.
#[test]
fn a_request_with_a_bad_body_can_be_answered() {
    for body in [
        "",
        r#","request":null"#,
        r#","request":"interrupt""#,
        r#","request":["interrupt"]"#,
        r#","request":{}"#,
        r#","request":{"subtype":1}"#,
        r#","request":{"subtype":"interrupt","subtype":"interrupt"}"#,
        r#","request":{"subtype":"set_model"}"#,
        r#","request":{"subtype":"set_model","model":null}"#,
        r#","request":{"subtype":"set_model","model":"a","model":"b"}"#,
        r#","request":{"subtype":"get_context_usage","show_details":"yes"}"#,
        r#","request":{"subtype":"initialize","timeout":5}"#,
    ] {
        let error = refused(format!(
            r#"{{"type":"control_request","request_id":"r1"{body}}}"#
        ));
        assert_eq!(error.reason, InvalidReason::BadField, "{body}");
        assert_eq!(error.request_id.as_deref(), Some("r1"), "{body}");
    }
    let line = r#"{"type":"control_request","request_id":"","request":{"subtype":"set_effort"}}"#;
    let error = refused(line);
    assert_eq!(error.request_id.as_deref(), Some(""));
    assert!(
        error.message.contains("`set_effort`") && error.message.contains("`effort`"),
        "{error}"
    );
}

#[test]
fn an_answer_is_kept_as_it_is() {
    let success = |response: Value| {
        answer(&json!({"subtype": "success", "request_id": "q1", "response": response})).unwrap()
    };
    assert_eq!(
        success(json!({"behavior": "allow"})),
        r#"{"behavior":"allow"}"#
    );
    assert_eq!(success(json!(5)), "5");
    assert_eq!(success(Value::Null), "null");
    assert_eq!(
        answer(&json!({"subtype": "success", "request_id": "q1"})).unwrap(),
        "null"
    );
    let kept = r#"{ "b":1.0e2, "a":9007199254740993 }"#;
    let line = format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"q1","response":{kept}}}}}"#
    );
    let understood = understood(line);
    assert!(
        matches!(&understood, Input::Response { answer: Ok(raw), .. } if raw.get() == kept),
        "{understood:?}"
    );
}

#[test]
fn an_error_answer_keeps_the_words_of_the_host() {
    let error = |error: Value| {
        answer(&json!({"subtype": "error", "request_id": "q1", "error": error, "response": {}}))
            .unwrap_err()
    };
    assert_eq!(error(json!("no")), "no");
    assert_eq!(error(json!({"message": "no"})), r#"{"message":"no"}"#);
    assert_eq!(error(Value::Null), "the host gave no reason");
    let silent = json!({"subtype": "error", "request_id": "q1"});
    assert_eq!(answer(&silent).unwrap_err(), "the host gave no reason");
}

#[test]
fn a_cancellation_names_one_request_or_all() {
    let cases = [
        (
            r#"{"type":"control_cancel_request","request_id":"r1"}"#,
            Some("r1"),
        ),
        (r#"{"type":"control_cancel_request"}"#, None),
        (
            r#"{"type":"control_cancel_request","request_id":null}"#,
            None,
        ),
        (r#"{"type":"control_cancel_request","request_id":1}"#, None),
    ];
    for (line, id) in cases {
        let understood = understood(line);
        let Input::Cancel { request_id } = understood else {
            panic!("{line}: {understood:?}")
        };
        assert_eq!(request_id.as_deref(), id, "{line}");
    }
}

/// Neither the stack nor the time may grow beyond the line.
#[test]
fn nesting_of_any_depth_is_survived() {
    const DEPTH: usize = 200_000;
    for (open, leaf, close) in [("[", "", "]"), (r#"{"a":"#, "1", "}")] {
        let deep = format!("{}{leaf}{}", open.repeat(DEPTH), close.repeat(DEPTH));
        let line = format!(r#"{{"type":"user","message":{{"content":[{deep}]}}}}"#);
        assert!(prompt_of(line).unwrap() == deep);
        let line =
            format!(r#"{{"type":"user","x":{deep},"message":{{"y":{deep},"content":"a"}}}}"#);
        assert_eq!(prompt_of(line).unwrap(), "a");
        let line = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"q1","response":{deep}}}}}"#
        );
        let is_kept =
            |input| matches!(input, Input::Response { answer: Ok(raw), .. } if raw.get() == deep);
        assert!(is_kept(understood(line)));
        let line = format!(
            r#"{{"type":"control_request","request_id":"r1","request":{{"subtype":"initialize","agents":[{deep}]}}}}"#
        );
        assert_eq!(refused(line).request_id.as_deref(), Some("r1"));
        let cut = format!(r#"{{"type":{}"#, open.repeat(DEPTH));
        assert_eq!(refused(cut).reason, InvalidReason::NotJson);
    }
}

/// Bytes that are nearly lines.
fn almost_a_line() -> impl Strategy<Value = Vec<u8>> {
    let lines = prop::sample::select(vec![
        r#"{"type":"user","message":{"content":[{"type":"text","text":"a\ud83d"}]}}"#,
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"initialize","timeout":{"canUseTool":1}}}"#,
        r#"{"type":"control_response","response":{"subtype":"error","request_id":"q","error":{}}}"#,
        r#"{"type":"control_cancel_request","request_id":"r"}"#,
    ]);
    let place = any::<prop::sample::Index>();
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    (lines, place, 0..8usize, bytes).prop_map(|(line, place, n_cut, bytes)| {
        let mut line = line.as_bytes().to_vec();
        let at = place.index(line.len());
        let end = line.len().min(at + n_cut);
        line.splice(at..end, bytes);
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_stop_the_reader(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}\",:\\\\ud8eftyp0-9 ]{0,60}".prop_map(String::into_bytes),
        almost_a_line(),
    ]) {
        if let Err(error) = parse(&bytes) {
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn what_was_written_is_read(
        texts in prop::collection::vec("\\PC{0,20}|[\\x00-\\x1f\u{2028}\u{1f600}\"\\\\]{1,5}", 1..4),
        as_blocks: bool,
    ) {
        let text = texts.join("\n");
        let content = if as_blocks {
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
        } else {
            json!(text)
        };
        let expected = (!text.trim().is_empty()).then_some(text);
        prop_assert_eq!(prompt(&content), expected);
    }
}
