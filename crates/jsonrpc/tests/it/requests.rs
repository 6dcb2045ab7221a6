//! Requests both ways: each has one answer, or a reason.

use std::time::Duration;

use jsonrpc::{RequestError, RpcError, SendError};
use serde_json::{json, value::RawValue};
use tokio::time::Instant;

use crate::rig::{Rig, request, rig, settle};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[tokio::test]
async fn requests_are_numbered_from_zero_and_matched_whatever_their_order() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    drop(incoming);
    let (first, second) = (peer.request("a", &json!({"x": 1})), peer.request("b", &()));
    assert_eq!(
        far.line().await.unwrap(),
        r#"{"jsonrpc":"2.0","id":0,"method":"a","params":{"x":1}}"#
    );
    assert_eq!(
        far.line().await.unwrap(),
        r#"{"jsonrpc":"2.0","id":1,"method":"b"}"#
    );
    far.answer(1, json!("second")).await;
    far.answer(0, json!("first")).await;
    assert_eq!(first.await.unwrap().get(), "\"first\"");
    assert_eq!(second.await.unwrap().get(), "\"second\"");
}

#[tokio::test]
async fn values_pass_unchanged_both_ways() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    let value = r#"{"b" :1e400, "a":["\ud800", 18446744073709551616 ]}"#;
    far.say(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{value}}}"#
    ))
    .await;
    let asked = request(&mut incoming).await;
    let params = asked.params.unwrap();
    assert_eq!(params.get(), value);
    asked.responder.respond(Ok(params)).await.unwrap();
    assert_eq!(
        far.line().await.unwrap(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{value}}}"#)
    );

    drop(incoming);
    let reply = peer.request("m", &raw(value));
    assert_eq!(
        far.line().await.unwrap(),
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"m","params":{value}}}"#)
    );
    far.say(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{value}}}"#))
        .await;
    assert_eq!(reply.await.unwrap().get(), value);
}

#[tokio::test]
async fn ids_of_the_other_side_are_echoed_as_they_were_written() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    for id in ["18446744073709551616", "-1.50", r#""\u0061\ud800""#, "null"] {
        far.say(&format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#))
            .await;
        let asked = request(&mut incoming).await;
        assert_eq!(asked.responder.id().as_json(), id);
        asked.responder.respond(Ok(())).await.unwrap();
        assert_eq!(
            far.line().await.unwrap(),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#)
        );
    }
}

#[tokio::test]
async fn an_id_that_comes_twice_is_served_twice() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.ask(7, "a").await;
    far.ask(7, "b").await;
    let (first, second) = (request(&mut incoming).await, request(&mut incoming).await);
    second.responder.respond(Ok("b")).await.unwrap();
    first.responder.respond(Ok("a")).await.unwrap();
    assert_eq!(far.heard_short().await, r#"7: "b""#);
    assert_eq!(far.heard_short().await, r#"7: "a""#);
}

#[tokio::test]
async fn an_error_of_the_other_side_comes_whole() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    drop(incoming);
    let reply = peer.request("a", &());
    far.say(
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32002,"message":"gone","data":{"uri" : 1}}}"#,
    )
    .await;
    let RequestError::Remote(error) = reply.await.unwrap_err() else {
        panic!("the other side answered with an error");
    };
    assert_eq!((error.code, &*error.message), (-32_002, "gone"));
    assert_eq!(error.data.unwrap().get(), r#"{"uri" : 1}"#);
}

#[tokio::test]
async fn an_answer_that_is_none_fails_its_request_and_is_not_answered() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    drop(incoming);
    for (id, answer) in [
        r#"{"jsonrpc":"2.0","id":0,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
        // A program that leaves out a result that is nothing.
        r#"{"jsonrpc":"2.0","id":2}"#,
    ]
    .iter()
    .enumerate()
    {
        let reply = peer.request("a", &());
        assert_eq!(far.heard().await["id"], id);
        far.say(answer).await;
        let error = reply.await.unwrap_err();
        assert!(matches!(error, RequestError::Malformed), "{error:?}");
    }
    assert_eq!(peer.bad_lines().borrow().n_total, 3);
    peer.notify("next", &()).await.unwrap();
    assert_eq!(far.heard_short().await, "next");
}

#[tokio::test]
async fn answers_to_nothing_are_dropped() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    drop(incoming);
    let reply = peer.request("a", &());
    far.say(r#"{"jsonrpc":"2.0","id":5,"result":1}"#).await;
    far.say(r#"{"jsonrpc":"2.0","id":"0","result":1}"#).await;
    far.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#)
        .await;
    far.answer(0, json!("right")).await;
    // It is answered already, which is late and no fault.
    far.answer(0, json!("again")).await;
    assert_eq!(reply.await.unwrap().get(), "\"right\"");
    settle().await;
    assert_eq!(peer.bad_lines().borrow().n_total, 3);
    assert_eq!(far.heard_short().await, "a");
    peer.notify("next", &()).await.unwrap();
    assert_eq!(far.heard_short().await, "next");
}

#[tokio::test]
async fn a_request_that_is_dropped_is_forgotten_and_its_answer_is_late() {
    let Rig {
        peer,
        incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    drop(incoming);
    drop(peer.request("a", &()));
    let second = peer.request("b", &());
    far.answer(0, json!(0)).await;
    far.answer(1, json!(1)).await;
    assert_eq!(second.await.unwrap().get(), "1");
    assert_eq!(peer.bad_lines().borrow().n_total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_have_a_time_limit() {
    let Rig {
        peer,
        far,
        connection: _connection,
        ..
    } = rig();
    let start = Instant::now();
    let limit = Duration::from_secs(10);
    let error = peer.request("a", &()).within(limit).await.unwrap_err();
    assert!(matches!(error, RequestError::TimedOut), "{error:?}");
    assert_eq!(start.elapsed(), limit);
    drop(far);
}

#[tokio::test]
async fn a_request_that_is_dropped_by_whoever_took_it_is_answered() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.ask(1, "a").await;
    drop(request(&mut incoming).await);
    let answer = far.heard().await;
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["code"], -32_603);
}

#[tokio::test]
async fn without_anybody_who_takes_requests_are_unknown_and_notifications_ignored() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.ask(1, "waits/in/the/queue").await;
    settle().await;
    drop(incoming.next().await);
    far.ask(2, "waits").await;
    settle().await;
    drop(incoming);
    far.tell("unknown").await;
    far.ask(3, "comes/later").await;
    assert_eq!(far.heard_short().await, "1: -32603");
    assert_eq!(far.heard_short().await, "2: -32601");
    let answer = far.heard().await;
    assert_eq!(
        answer["error"],
        json!({
            "code": -32601,
            "message": "\"Method not found\": comes/later",
            "data": {"method": "comes/later"},
        })
    );
}

#[tokio::test]
async fn params_of_the_wrong_type_are_invalid() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.say(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":"x"}}"#)
        .await;
    let asked = request(&mut incoming).await;
    let error = asked
        .parse_params::<std::collections::BTreeMap<String, u8>>()
        .unwrap_err();
    asked.responder.refuse(error).await.unwrap();
    let answer = far.heard().await;
    assert_eq!(answer["error"]["code"], -32_602);
    assert!(answer["error"]["data"]["details"].is_string());
}

#[tokio::test]
async fn a_result_that_cannot_be_said_is_an_error_on_both_sides() {
    let Rig {
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.ask(1, "a").await;
    let map = std::collections::BTreeMap::from([(vec![1], 2)]);
    let sent = request(&mut incoming).await.responder.respond(Ok(map));
    assert!(matches!(sent.await, Err(SendError::Encode(_))));
    assert_eq!(far.heard_short().await, "1: -32603");
}

#[tokio::test]
async fn a_request_is_cancelled_by_its_id_until_it_is_answered() {
    let Rig {
        peer,
        mut incoming,
        mut far,
        connection: _connection,
        ..
    } = rig();
    far.ask(1, "a").await;
    far.ask(2, "b").await;
    let (first, second) = (request(&mut incoming).await, request(&mut incoming).await);
    let id = first.responder.id().clone();
    let token = first.responder.cancellation().clone();
    assert!(peer.cancel(&id));
    token.cancelled().await;
    assert!(!second.responder.cancellation().is_cancelled());
    let error = RpcError::new(-32_800, "cancelled");
    first.responder.refuse(error).await.unwrap();
    assert!(!peer.cancel(&id));
    assert_eq!(far.heard_short().await, "1: -32800");
}
