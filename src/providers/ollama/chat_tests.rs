#![allow(clippy::unwrap_used)]

use std::time::Duration;

use wiremock::{MockServer, ResponseTemplate};

use super::*;
use crate::providers::budget::{Patience, Spent};
use crate::providers::fixtures::{answer, bodies, budget, limits, patience, prompt, server};

fn said(content: &str, done_reason: &str) -> ResponseTemplate {
    answer(
        200,
        json!({
            "model": "qwen2.5:3b",
            "created_at": "2026-03-10T02:00:00Z",
            "message": { "role": "assistant", "content": content, "thinking": "Let me see …" },
            "done": true,
            "done_reason": done_reason,
            "prompt_eval_count": 70,
            "eval_count": 7,
        }),
    )
}

fn fine() -> ResponseTemplate {
    said("{\"memories\":[]}", "stop")
}

fn refusal(status: u16, message: &str) -> ResponseTemplate {
    answer(status, json!({ "error": message }))
}

fn chat(server: &MockServer) -> OllamaChat {
    OllamaChat::new(&server.uri(), "qwen2.5:3b", budget(50)).unwrap()
}

/// Asks twice; gives the bodies the server saw.
async fn ask_twice(answers: Vec<ResponseTemplate>) -> Vec<Value> {
    let server = server(answers).await;
    let chat = chat(&server);
    for _ in 0..2 {
        chat.complete(&prompt("the day")).await.unwrap();
    }
    bodies(&server).await
}

#[tokio::test]
async fn the_first_request_has_the_documented_shape() {
    let server = server([fine()]).await;
    let chat = chat(&server);
    let reply = chat.complete(&prompt("the day")).await.unwrap();
    assert_eq!(reply, Reply { text: "{\"memories\":[]}".into(), input_tokens: 70, output_tokens: 7 });
    assert_eq!(chat.endpoint.budget().spent(), Spent { calls: 1, input_tokens: 70, output_tokens: 7 });
    assert_eq!(server.received_requests().await.unwrap()[0].url.path(), "/api/chat");
    let body = json!({
        "model": "qwen2.5:3b",
        "messages": [
            { "role": "system", "content": "Say what is remembered." },
            { "role": "user", "content": "the day" },
        ],
        "stream": false,
        "truncate": false,
        "think": false,
        "keep_alive": "30m",
        "format": { "type": "object", "properties": {}, "required": [], "additionalProperties": false },
        "options": { "num_ctx": 2_048, "num_predict": 900, "temperature": 0.1 },
    });
    assert_eq!(bodies(&server).await, [body]);
}

#[tokio::test]
async fn the_context_fits_prompt_and_reply_and_never_shrinks() {
    let server = server([fine()]).await;
    let chat = chat(&server);
    for (words, max_tokens) in [(1, 900), (3_000, 900), (1, 900), (10_000, 30_000)] {
        let asked = Prompt { max_tokens, ..prompt(&"word ".repeat(words)) };
        chat.complete(&asked).await.unwrap();
    }
    let rooms: Vec<(u64, u64)> = bodies(&server)
        .await
        .iter()
        .map(|body| &body["options"])
        .map(|options| (options["num_ctx"].as_u64().unwrap(), options["num_predict"].as_u64().unwrap()))
        .collect();
    assert_eq!(rooms[..3], [(2_048, 900), (8_192, 900), (8_192, 900)]);
    let (context, reply) = rooms[3];
    assert!(context == 32_768 && (10_000..20_000).contains(&reply), "{context} {reply}");
    // Beyond that nothing is sent, since the server would cut the prompt.
    let error = chat.complete(&prompt(&"word ".repeat(30_000))).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Malformed { detail, .. } if detail.contains("32768")), "{error}");
    assert_eq!(bodies(&server).await.len(), 4);
}

#[tokio::test]
async fn a_server_that_rejects_the_flag_for_thinking_is_asked_without_it_and_only_once() {
    for message in ["\"qwen2.5:3b\" does not support thinking", "invalid think value: false"] {
        let bodies = ask_twice(vec![refusal(400, message), fine()]).await;
        let flags: Vec<Option<&Value>> = bodies.iter().map(|body| body.get("think")).collect();
        assert_eq!(flags, [Some(&json!(false)), None, None]);
        assert!(bodies.iter().all(|body| body["format"].is_object()), "what nobody complained about stays");
    }
}

#[tokio::test]
async fn an_old_server_is_asked_for_json_and_then_for_nothing() {
    let old = "json: cannot unmarshal object into Go struct field ChatRequest.format of type string";
    let bodies = ask_twice(vec![refusal(400, old), refusal(500, "invalid format"), fine()]).await;
    assert_eq!(bodies.len(), 4);
    assert_eq!(bodies[1]["format"], "json");
    for plain in &bodies[2..] {
        assert!(plain.get("format").is_none() && plain["think"] == false);
        let system = plain["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("JSON") && system.contains("\"additionalProperties\":false"), "{system}");
    }
}

#[tokio::test]
async fn a_refusal_that_names_nothing_walks_down_once() {
    let server = server([refusal(400, "bad request")]).await;
    let chat = chat(&server);
    for _ in 0..2 {
        let refused = chat.complete(&prompt("the day")).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Refused { status: 400, .. }), "{refused}");
    }
    // With and without the flag, json, plain; then one more.
    assert_eq!(bodies(&server).await.len(), 5);
}

#[tokio::test]
async fn a_missing_model_is_final_at_once_and_names_its_command() {
    let server = server([refusal(404, "model \"qwen2.5:3b\" not found, try pulling it first")]).await;
    let chat = chat(&server);
    for _ in 0..2 {
        let refused = chat.complete(&prompt("the day")).await.unwrap_err().to_string();
        assert!(refused.contains("run `ollama pull qwen2.5:3b`"), "{refused}");
    }
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn a_model_that_only_embeds_is_told() {
    let server = server([refusal(400, "\"nomic-embed-text\" does not support chat")]).await;
    let refused = chat(&server).complete(&prompt("the day")).await.unwrap_err().to_string();
    assert!(refused.contains("OLLAMA_LLM_MODEL"), "{refused}");
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn a_reply_in_lines_is_read_as_one_and_a_torn_one_asked_for_again() {
    let part = |text: &str, done: bool| {
        let mut part = json!({ "message": { "role": "assistant", "content": text }, "done": done });
        if done {
            (part["prompt_eval_count"], part["eval_count"]) = (json!(70), json!(7));
            part["done_reason"] = json!("stop");
        }
        format!("{part}\n")
    };
    let lines = |parts: &[String]| ResponseTemplate::new(200).set_body_string(parts.concat());
    let torn = lines(&[part("{\"memo", false), part("ries\"", false)]);
    let dead = lines(&[part("{", false), "{\"error\":\"the runner died\"}\n".into()]);
    let whole = lines(&[part("{\"memories\"", false), part(":[]}", false), part("", true)]);
    let server = server([torn, dead, whole]).await;
    let reply = chat(&server).complete(&prompt("the day")).await.unwrap();
    assert_eq!(reply, Reply { text: "{\"memories\":[]}".into(), input_tokens: 70, output_tokens: 7 });
    assert_eq!(bodies(&server).await.len(), 3);
}

#[tokio::test]
async fn what_is_no_reply_is_told() {
    let empty = said(" ", "stop");
    let half = answer(200, json!({ "message": { "content": "{" }, "done": false }));
    for (reply, told) in [
        (said("{\"memories\":[", "length"), "cut off at 900 tokens"),
        (empty, "it is empty"),
        (half, "it breaks off"),
        (answer(200, json!({ "response": "of another endpoint" })), "missing field `message`"),
        (ResponseTemplate::new(200).set_body_string("<html>"), "not JSON"),
    ] {
        let server = server([reply]).await;
        let error = chat(&server).complete(&prompt("the day")).await.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[tokio::test]
async fn tokens_of_a_reply_that_is_cut_off_are_counted() {
    let server = server([said("{", "length")]).await;
    let chat = chat(&server);
    assert!(chat.complete(&prompt("the day")).await.is_err());
    assert_eq!(chat.endpoint.budget().spent().output_tokens, 7);
}

#[tokio::test]
async fn the_first_reply_may_take_longer_than_later_ones() {
    let late = || fine().set_delay(Duration::from_millis(400));
    let server = server([late(), late()]).await;
    let limits = crate::providers::budget::Limits { concurrency: 1, ..limits(50) };
    let patience = Patience {
        request: Duration::from_millis(100),
        cold: Duration::from_secs(20),
        tries: 1,
        ..patience()
    };
    let chat = OllamaChat::new(&server.uri(), "qwen2.5:3b", Budget::with_patience(limits, patience)).unwrap();
    chat.complete(&prompt("the day")).await.unwrap();
    let error = chat.complete(&prompt("the day")).await.unwrap_err().to_string();
    assert!(error.contains("too slow") && error.contains("DREAMER_CONCURRENCY"), "{error}");
}

#[tokio::test]
async fn bounds_that_a_server_cannot_make_a_grammar_of_are_left_out() {
    for (said, formats) in [
        (
            "failed to load model vocabulary required for format: failed to parse grammar",
            ["bounded", "schema", "schema"],
        ),
        (
            "json: cannot unmarshal object into Go struct field ChatRequest.format of type string",
            ["bounded", "json", "json"],
        ),
    ] {
        let server = server([refusal(400, said), fine()]).await;
        let chat = chat(&server);
        let mut asked = prompt("the day");
        asked.schema["properties"]["memories"] = json!({ "type": "array", "maxItems": 4 });
        chat.complete(&asked).await.unwrap();
        chat.complete(&asked).await.unwrap();
        let seen = bodies(&server).await;
        let format = |body: &Value| match &body["format"] {
            Value::String(word) => word.clone(),
            schema if schema.to_string().contains("maxItems") => "bounded".to_owned(),
            _ => "schema".to_owned(),
        };
        assert_eq!(seen.iter().map(format).collect::<Vec<_>>(), formats, "{said}");
    }
}
