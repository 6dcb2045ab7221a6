//! Tool calls, whole and in pieces.

use super::*;

#[test]
fn full_has_thoughts_text_a_call_and_tokens() {
    check(
        Reply::stream()
            .event(&delta(json!({"role": "assistant", "content": ""}), None))
            .event(&delta(json!({"reasoning_content": "think "}), None))
            .event(&delta(json!({"reasoning_content": "more"}), None))
            .text("ok ")
            .event(&delta(
                json!({"content": "fine", "reasoning_content": "both"}),
                None,
            ))
            .event(&read_file(""))
            .event(&more("{\"pa"))
            .event(&more("th\":\"/x\"}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            thought think |more
            text ok 
            thought both
            text fine
            call call_a read_file {"path":"/x"}
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn badargs_come_as_the_text_they_are() {
    check(
        hi().event(&read_file(""))
            .event(&more("{\"path\": \"a"))
            .event(&more("b\", }"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file "{\"path\": \"ab\", }"
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn emptyargs_are_an_empty_object() {
    check(
        hi().event(&read_file(""))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn strargs_stay_a_string() {
    check(
        hi().event(&read_file("\"quoted\""))
            .finish("tool_calls")
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file "quoted"
        done ToolCalls"#]],
    );
}

#[test]
fn objargs_are_the_object() {
    let mut chunk = call(
        json!(0),
        json!("call_a"),
        json!("read_file"),
        json!({"path": "/x"}),
    );
    chunk["choices"][0]["finish_reason"] = json!("tool_calls");
    check(
        hi().event(&chunk).done(),
        expect![[r#"
        text hello 
        call call_a read_file {"path":"/x"}
        done ToolCalls"#]],
    );
}

#[test]
fn twotools_are_not_mixed() {
    let second = |id, name, args| call(json!(1), id, name, json!(args));
    check(
        hi().event(&read_file("{\"a\""))
            .event(&second(json!("call_b"), json!("read_file"), "{\"b\""))
            .event(&more(":1}"))
            .event(&second(Value::Null, Value::Null, ":2}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file {"a":1}
            call call_b read_file {"b":2}
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn noindex_is_a_call() {
    let part = call(
        Value::Null,
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn noid_is_given_one() {
    let part = call(
        json!(0),
        Value::Null,
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call ? read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn idrepeat_is_one_call() {
    check(
        hi().event(&read_file("{\"a\""))
            .event(&read_file(":1}"))
            .finish("tool_calls")
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file {"a":1}
            done ToolCalls"#]],
    );
}

#[test]
fn bigindex_costs_nothing() {
    let part = call(
        json!(2_000_000),
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn index1first_is_one_call() {
    let part = call(
        json!(1),
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part).finish("tool_calls").done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls"#]],
    );
}

#[test]
fn bigargs_take_time_in_proportion() {
    let part = frame(&more("abcdefghij".repeat(5).as_str()));
    let started = Instant::now();
    check(
        hi().event(&read_file("{\"path\":\""))
            .bytes(part.repeat(20_000))
            .event(&more("\"}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file <1000011 bytes>
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn too_many_calls_are_an_error() {
    let part = |n: usize| {
        frame(&call(
            json!(n),
            json!(format!("c{n}")),
            json!("x"),
            json!("{}"),
        ))
    };
    check(
        hi().bytes((0..200).map(part).collect::<String>())
            .finish("tool_calls")
            .done(),
        expect![[r#"
        text hello 
        error Protocol None: the answer holds too many tool calls"#]],
    );
}
