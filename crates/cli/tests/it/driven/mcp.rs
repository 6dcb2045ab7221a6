//! MCP servers in the host: what they offer, what they answer, and what they do not.

use serde_json::{Value, json};
use testkit::{
    home::Home,
    run::Outcome,
    stub_model::{Reply, StubModel},
};

use super::{Host, of_subtype, tool_results};
use crate::world::{messages, tool, transcript, valid_prefix};

const ADD: &str = "mcp__calc__add";

/// A server that adds. `None` is a message that needs no answer of its own.
fn calc(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "calc", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "add",
            "description": "adds",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
        }]}),
        "tools/call" => {
            let args = &message["params"]["arguments"];
            let sum = args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap();
            json!({"content": [{"type": "text", "text": sum.to_string()}]})
        }
        other => {
            let error = json!({"code": -32601, "message": format!("no {other}")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Answers questions for the server with `serve` until one asks `method`, and answers that one too
/// where `serve` does.
fn serve_until(host: &mut Host, method: &str, serve: impl Fn(&Value) -> Option<Value>) -> Value {
    loop {
        let question = host.question("mcp_message");
        let message = question["request"]["message"].clone();
        // What needs no answer is answered as SDKs do.
        let nothing = json!({"jsonrpc": "2.0", "result": {}, "id": 0});
        let answer = serve(&message).unwrap_or(nothing);
        host.reply(&question, &json!({"mcp_response": answer}));
        if message["method"] == method {
            return question;
        }
    }
}

/// A session with the server, connected.
fn connected(home: &Home, stub: &StubModel) -> Host {
    let mut host = Host::of_stub(home, stub, &[]);
    host.initialize(json!({"sdkMcpServers": {"calc": {"type": "sdk", "name": "calc"}}}));
    let question = serve_until(&mut host, "tools/list", calc);
    assert_eq!(question["request"]["server_name"], "calc");
    host
}

fn status(host: &mut Host) -> Value {
    let answer = host.ask(&json!({"subtype": "mcp_server_status"}));
    answer["response"]["status"]["calc"].clone()
}

fn one_call(ran: &Outcome) -> Value {
    let messages = messages(ran);
    let calls = tool_results(&messages);
    assert_eq!(calls.len(), 1);
    calls[0].clone()
}

#[test]
fn a_tool_of_the_host_is_offered_called_and_its_result_reaches_the_model() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = connected(&home, &stub);
    host.prompt(&tool(ADD, &json!({"a": 2, "b": 3})));
    let init = host.system("init");
    assert_eq!(
        init["mcp_servers"],
        json!([{"name": "calc", "status": "connected"}])
    );
    assert!(init["tools"].as_array().unwrap().contains(&json!(ADD)));
    let question = serve_until(&mut host, "tools/call", calc);
    let params = &question["request"]["message"]["params"];
    assert_eq!(
        (&params["name"], &params["arguments"]),
        (&json!("add"), &json!({"a": 2, "b": 3}))
    );
    assert_eq!(host.result()["result"], "done.");
    assert_eq!(status(&mut host), "connected");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let call = one_call(&ran);
    assert_eq!(
        (&call["is_error"], &call["content"]),
        (&json!(false), &json!("5"))
    );
    let requests = stub.requests();
    let offered = requests[0].body["tools"].to_string();
    assert!(
        offered.contains(ADD) && offered.contains("adds"),
        "{offered}"
    );
    assert_eq!(requests[1].last_text().unwrap(), "5");
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

#[test]
fn a_server_that_says_no_is_disconnected_and_the_turn_runs() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({"sdkMcpServers": {"calc": {"type": "sdk", "name": "calc"}}}));
    // The prompt waits for the server, and not for ever.
    host.prompt("hello");
    let question = host.question("mcp_message");
    assert_eq!(question["request"]["message"]["method"], "initialize");
    // The first answer shows that the prompt was read, the second that its turn could have begun.
    for _ in 0..2 {
        assert_eq!(status(&mut host), "connecting");
    }
    assert!(of_subtype(host.seen(), "init").is_empty());
    host.reply_with_error(&question, "server exploded");
    let warning = host.system("warning");
    let said = warning["data"]["message"].as_str().unwrap();
    assert!(
        said.contains("calc") && said.contains("server exploded"),
        "{said}"
    );
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(status(&mut host), "disconnected");
    let messages = messages(&host.end());
    let init = of_subtype(&messages, "init")[0];
    assert_eq!(
        init["mcp_servers"],
        json!([{"name": "calc", "status": "disconnected"}])
    );
    assert!(!init["tools"].to_string().contains("mcp__"));
    assert_eq!(of_subtype(&messages, "warning").len(), 1);
}

#[test]
fn an_answer_that_is_no_message_of_a_server_is_a_server_that_cannot_be_used() {
    for answer in [
        json!({"mcp_response": "text"}),
        json!({"mcp_response": {"jsonrpc": "2.0", "id": 0, "result": {"no": "server"}}}),
        json!({"mcp_response": null}),
        json!({}),
        json!("text"),
        Value::Null,
    ] {
        let home = Home::new();
        let mut host = Host::offline(&home, &[]);
        host.initialize(json!({"sdkMcpServers": {"calc": {"type": "sdk", "name": "calc"}}}));
        let question = host.question("mcp_message");
        host.reply(&question, &answer);
        host.system("warning");
        assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success", "{answer}");
        assert_eq!(status(&mut host), "disconnected");
        assert_eq!(host.end().code, 0);
    }
}

#[test]
fn a_call_that_the_server_refuses_is_an_error_for_the_model() {
    let fails = |message: &Value| -> Option<Value> {
        if message["method"] != "tools/call" {
            return calc(message);
        }
        let content = json!([{"type": "text", "text": "no such number"}]);
        let result = json!({"isError": true, "content": content});
        Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    };
    let refuses = |message: &Value| -> Option<Value> {
        if message["method"] != "tools/call" {
            return calc(message);
        }
        let error = json!({"code": -32602, "message": "no such number"});
        Some(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
    };
    type Serve = fn(&Value) -> Option<Value>;
    let ways: [Serve; 2] = [fails, refuses];
    for serve in ways {
        let home = Home::new();
        let stub = StubModel::prompts(1);
        let mut host = connected(&home, &stub);
        host.prompt(&tool(ADD, &json!({"a": 2, "b": 3})));
        serve_until(&mut host, "tools/call", serve);
        assert_eq!(host.result()["subtype"], "success");
        let call = one_call(&host.end());
        assert_eq!(call["is_error"], true);
        assert!(
            call["content"].as_str().unwrap().contains("no such number"),
            "{call}"
        );
    }
}

#[test]
fn an_error_of_the_host_is_the_result_of_the_call() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = connected(&home, &stub);
    host.prompt(&tool(ADD, &json!({"a": 2, "b": 3})));
    let question = host.question("mcp_message");
    host.reply_with_error(&question, "host exploded");
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(
        status(&mut host),
        "connected",
        "one failed call is no lost server"
    );
    let call = one_call(&host.end());
    assert_eq!(call["is_error"], true);
    assert!(
        call["content"].as_str().unwrap().contains("host exploded"),
        "{call}"
    );
}

#[test]
fn a_call_that_the_server_does_not_answer_ends_with_an_interrupt() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = connected(&home, &stub);
    host.prompt(&tool(ADD, &json!({"a": 2, "b": 3})));
    host.question("mcp_message");
    host.ask(&json!({"subtype": "interrupt"}));
    assert_eq!(host.result()["error"]["message"], "Operation cancelled.");
    assert_eq!(host.end().code, 0);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 3);
}

#[test]
fn a_server_that_does_not_answer_holds_no_interrupted_turn() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.initialize(json!({"sdkMcpServers": {"calc": {"type": "sdk", "name": "calc"}}}));
    host.prompt("SAY 1 chunks");
    host.question("mcp_message");
    host.ask(&json!({"subtype": "interrupt"}));
    assert_eq!(host.result()["error"]["message"], "Operation cancelled.");
    host.prompt("SAY 1 chunks");
    // Input that ends answers for the server: the prompt that waits is run.
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert_eq!(super::results(&messages(&ran))[1]["subtype"], "success");
}

#[test]
fn a_host_that_goes_away_in_a_call_leaves_a_whole_turn() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = connected(&home, &stub);
    host.prompt(&tool(ADD, &json!({"a": 2, "b": 3})));
    host.question("mcp_message");
    let ran = host.end();
    assert_eq!(ran.code, 0);
    let call = one_call(&ran);
    assert!(
        call["content"].as_str().unwrap().contains("Input closed"),
        "{call}"
    );
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// `plan` allows reading only, and what a tool of the host does is not known.
#[test]
fn a_tool_of_the_host_is_not_called_in_plan_mode() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = connected(&home, &stub);
    host.ask(&json!({"subtype": "set_permission_mode", "mode": "plan"}));
    let result = host.turn(&tool(ADD, &json!({"a": 2, "b": 3})));
    assert_eq!(result["permission_denials"][0]["tool_name"], ADD);
    assert_eq!(one_call(&host.end())["is_error"], true);
}

#[test]
fn what_is_not_supported_of_initialize_is_said_and_the_session_goes_on() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.initialize(json!({
        "mcpServers": {"outside": {"command": "true"}},
        "agents": [{"name": "helper", "description": "d", "systemPrompt": "p", "level": "session"}],
    }));
    assert!(
        host.system("warning")["data"]["message"]
            .to_string()
            .contains("outside")
    );
    assert!(
        host.system("warning")["data"]["message"]
            .to_string()
            .contains("ub-agents")
    );
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    assert_eq!(host.end().code, 0);
}

#[test]
fn a_server_with_many_pages_of_tools_is_asked_for_each() {
    let paged = |message: &Value| -> Option<Value> {
        if message["method"] != "tools/list" {
            return calc(message);
        }
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let result = match message["params"]["cursor"].as_str() {
            None => json!({"tools": [tool("one")], "nextCursor": "second"}),
            Some(_) => json!({"tools": [tool("two")]}),
        };
        Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    };
    let home = Home::new();
    let stub = StubModel::replies(vec![Reply::says("hello")]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({"sdkMcpServers": {"calc": {"type": "sdk", "name": "calc"}}}));
    serve_until(&mut host, "tools/list", paged);
    serve_until(&mut host, "tools/list", paged);
    host.turn("hello");
    let offered = stub.requests()[0].body["tools"].to_string();
    assert!(offered.contains("mcp__calc__one") && offered.contains("mcp__calc__two"));
    assert_eq!(host.end().code, 0);
}
