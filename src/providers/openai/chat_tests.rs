#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use wiremock::{MockServer, ResponseTemplate};

use super::*;
use crate::providers::budget::Spent;
use crate::providers::fixtures::{answer, bodies, budget, error, prompt, server};

fn said(content: Value, finish_reason: &str) -> ResponseTemplate {
    answer(
        200,
        json!({
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": content }, "finish_reason": finish_reason }],
            "usage": { "prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77 },
        }),
    )
}

fn fine() -> ResponseTemplate {
    said(json!("{\"memories\":[]}"), "stop")
}

fn chat(server: &MockServer, max_calls: u32) -> OpenAiChat {
    OpenAiChat::new(&format!("{}/v1", server.uri()), None, "small", budget(max_calls)).unwrap()
}

/// Asks twice; gives the bodies the server saw.
async fn ask_twice(answers: Vec<ResponseTemplate>) -> Vec<Value> {
    let server = server(answers).await;
    let chat = chat(&server, 50);
    for _ in 0..2 {
        chat.complete(&prompt("the day")).await.unwrap();
    }
    bodies(&server).await
}

#[tokio::test]
async fn the_first_request_has_the_documented_shape() {
    let server = server([fine()]).await;
    let key = SecretString::from("sk-test-1234567890");
    let chat = OpenAiChat::new(&format!("{}/v1", server.uri()), Some(key), "small", budget(9)).unwrap();
    let reply = chat.complete(&prompt("the day")).await.unwrap();
    assert_eq!(reply, Reply { text: "{\"memories\":[]}".into(), input_tokens: 70, output_tokens: 7 });
    assert_eq!(chat.endpoint.budget().spent(), Spent { calls: 1, input_tokens: 70, output_tokens: 7 });
    let request = &server.received_requests().await.unwrap()[0];
    assert_eq!(request.url.path(), "/v1/chat/completions");
    assert_eq!(request.headers["authorization"], "Bearer sk-test-1234567890");
    let schema = json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false });
    let body = json!({
        "model": "small",
        "messages": [
            { "role": "system", "content": "Say what is remembered." },
            { "role": "user", "content": "the day" },
        ],
        "response_format": { "type": "json_schema", "json_schema": { "name": "memories", "strict": true, "schema": schema } },
        "max_completion_tokens": 900,
        "temperature": 0.1,
    });
    assert_eq!(request.body_json::<Value>().unwrap(), body);
}

#[tokio::test]
async fn each_step_down_from_the_schema_is_paid_once() {
    let refusal = || error(400, "This response_format type is unavailable now");
    let bodies = ask_twice(vec![refusal(), refusal(), fine()]).await;
    assert_eq!(bodies.len(), 4);
    assert_eq!(bodies[1]["response_format"], json!({ "type": "json_object" }));
    for plain in &bodies[2..] {
        assert!(plain.get("response_format").is_none());
        let system = plain["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("JSON") && system.contains("\"additionalProperties\":false"), "{system}");
        // What the server did not complain about stays.
        assert_eq!((&plain["max_completion_tokens"], &plain["temperature"]), (&json!(900), &json!(0.1)));
    }
}

#[tokio::test]
async fn other_statuses_that_name_the_format_step_down_too() {
    for status in [404, 422, 500, 501] {
        let bodies = ask_twice(vec![error(status, "response_format json_schema: unsupported"), fine()]).await;
        let formats: Vec<_> =
            bodies.iter().map(|body| body["response_format"]["type"].as_str().unwrap()).collect();
        assert_eq!(formats, ["json_schema", "json_object", "json_object"], "{status}");
    }
}

#[tokio::test]
async fn a_named_limit_or_temperature_changes_alone_and_once() {
    let limit = error(400, "Unsupported parameter: 'max_completion_tokens'. Use 'max_tokens'.");
    let temperature = answer(
        400,
        json!({ "error": { "message": "Only the default (1) is supported.", "param": "temperature" } }),
    );
    let bodies = ask_twice(vec![limit, temperature, fine()]).await;
    assert_eq!(bodies.len(), 4);
    for body in &bodies[2..] {
        assert_eq!(body["max_tokens"], 900);
        assert!(body.get("max_completion_tokens").is_none() && body.get("temperature").is_none());
        assert_eq!(body["response_format"]["type"], "json_schema");
    }
}

#[tokio::test]
async fn a_refusal_that_names_nothing_walks_down_the_ladder() {
    let bodies = ask_twice(vec![
        error(400, "Bad Request"),
        error(400, "Bad Request"),
        error(400, "Bad Request"),
        fine(),
    ])
    .await;
    assert_eq!(bodies.len(), 5);
    let last = &bodies[4];
    assert!(last.get("response_format").is_none());
    assert_eq!((&last["max_tokens"], &last["temperature"]), (&json!(900), &json!(0.1)));
}

#[tokio::test]
async fn a_walk_that_helped_nothing_is_not_repeated_and_not_remembered() {
    let server = server([error(400, "Bad Request")]).await;
    let chat = chat(&server, 50);
    for _ in 0..2 {
        let refused = chat.complete(&prompt("the day")).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Refused { status: 400, .. }), "{refused}");
    }
    let bodies = bodies(&server).await;
    // Schema, object, plain, max_tokens, no limit, no temperature; then one more.
    assert_eq!(bodies.len(), 7);
    assert_eq!(bodies[6]["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn after_a_success_a_refusal_is_about_the_content() {
    let server = server([fine(), error(400, "Bad Request"), fine()]).await;
    let chat = chat(&server, 50);
    chat.complete(&prompt("one")).await.unwrap();
    assert!(matches!(chat.complete(&prompt("two")).await, Err(ProviderError::Refused { .. })));
    chat.complete(&prompt("three")).await.unwrap();
    assert_eq!(bodies(&server).await[2]["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_refused_at_once() {
    let server = server([error(400, "This model's maximum context length is 8192 tokens.")]).await;
    let chat = chat(&server, 50);
    assert!(matches!(chat.complete(&prompt("long")).await, Err(ProviderError::Refused { .. })));
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn requests_at_once_do_not_pay_for_an_adaptation_twice() {
    let server = server([error(400, "response_format is not supported"), fine()]).await;
    let chat = chat(&server, 50);
    let prompt = prompt("the day");
    let (a, b, c) = tokio::join!(chat.complete(&prompt), chat.complete(&prompt), chat.complete(&prompt));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(bodies(&server).await.len(), 4);
}

#[tokio::test]
async fn a_reply_at_the_limit_is_cut_off_and_paid() {
    let server = server([said(json!("{\"memories\":[{"), "length")]).await;
    let chat = chat(&server, 9);
    let cut_off = chat.complete(&prompt("the day")).await.unwrap_err();
    assert!(matches!(cut_off, ProviderError::CutOff { max_tokens: 900, .. }), "{cut_off}");
    assert_eq!(chat.endpoint.budget().spent(), Spent { calls: 1, input_tokens: 70, output_tokens: 7 });
}

#[tokio::test]
async fn a_reply_without_an_answer_is_malformed() {
    let refusal = answer(
        200,
        json!({ "choices": [{ "message": { "content": null, "refusal": "I can't." }, "finish_reason": "stop" }] }),
    );
    for (reply, word) in [
        (said(json!("{}"), "content_filter"), "content_filter"),
        (refusal, "refusal: I can't."),
        (said(Value::Null, "stop"), "empty"),
        (said(json!(" \n"), "stop"), "empty"),
        (answer(200, json!({ "choices": [] })), "no choices"),
        (answer(200, json!({ "id": "x" })), "missing field `choices`"),
    ] {
        let server = server([reply]).await;
        let malformed = chat(&server, 9).complete(&prompt("the day")).await.unwrap_err();
        assert!(
            matches!(&malformed, ProviderError::Malformed { detail, .. } if detail.contains(word)),
            "{malformed}"
        );
        assert_eq!(bodies(&server).await.len(), 1, "{word}: asking again would be paid again");
    }
}

#[tokio::test]
async fn a_reply_in_parts_is_joined_and_its_reasoning_left_out() {
    let parts = json!([{ "type": "text", "text": "{\"memo" }, { "type": "image" }, { "type": "text", "text": "ries\":[]}" }]);
    let reply =
        answer(200, json!({ "choices": [{ "message": { "content": parts, "reasoning_content": "hm" } }] }));
    let server = server([reply]).await;
    let reply = chat(&server, 9).complete(&prompt("the day")).await.unwrap();
    assert_eq!(reply, Reply { text: "{\"memories\":[]}".into(), input_tokens: 0, output_tokens: 0 });
}
