//! One server after the other: what it refuses, in its own words as documented or recorded in its issue tracker, and what
//! goes over the wire next.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use wiremock::{MockServer, ResponseTemplate};

use super::*;
use crate::providers::fixtures::{answer, bodies, budget, prompt, server};

const KEY: &str = "azure-4f9a0123456789abcdef";
const ANSWER: &str = "{\"memories\":[{\"text\":\"a\"}]}";

/// A prompt whose schema has a name at its top.
fn asking() -> Prompt {
    let schema = json!({
        "type": "object", "properties": { "memories": { "type": "array" } }, "required": ["memories"],
        "additionalProperties": false,
    });
    Prompt { schema, ..prompt("the day") }
}

/// The same with bounds, as the night asks.
fn asking_with_bounds() -> Prompt {
    let mut prompt = asking();
    prompt.schema["properties"]["memories"]["maxItems"] = json!(4);
    prompt.schema["properties"]["memories"]["items"] = json!({ "type": "string", "maxLength": 600 });
    prompt
}

fn is_bounded(body: &Value) -> bool {
    body["response_format"]["json_schema"].to_string().contains("maxItems")
}

fn message(message: Value, finish_reason: &str, tokens: u64) -> ResponseTemplate {
    answer(
        200,
        json!({
            "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
            "usage": { "prompt_tokens": 70, "completion_tokens": tokens, "total_tokens": 70 + tokens },
        }),
    )
}

fn said(content: &str) -> ResponseTemplate {
    message(json!({ "role": "assistant", "content": content }), "stop", 7)
}

fn fine() -> ResponseTemplate {
    said(ANSWER)
}

/// A refusal as FastAPI servers write it.
fn plain_error(status: u16, message: &str) -> ResponseTemplate {
    let body = json!({ "object": "error", "message": message, "type": "BadRequestError", "param": null, "code": status });
    answer(status, body)
}

fn chat(server: &MockServer, kind: Kind, path: &str) -> OpenAiChat {
    let key = Some(SecretString::from(KEY));
    OpenAiChat::at(kind, &format!("{}{path}", server.uri()), key, "small", budget(50)).unwrap()
}

/// Asks twice and expects the answer both times; gives the bodies the server saw.
async fn ask_twice(kind: Kind, answers: Vec<ResponseTemplate>) -> Vec<Value> {
    let server = server(answers).await;
    let chat = chat(&server, kind, "/v1");
    for _ in 0..2 {
        assert_eq!(chat.complete(&asking()).await.unwrap().text, ANSWER);
    }
    bodies(&server).await
}

/// Asks twice with bounds; gives for each request its format and whether the schema had its bounds.
async fn ask_with_bounds(kind: Kind, answers: Vec<ResponseTemplate>) -> Vec<(String, bool)> {
    let server = server(answers).await;
    let chat = chat(&server, kind, "/v1");
    for _ in 0..2 {
        assert_eq!(chat.complete(&asking_with_bounds()).await.unwrap().text, ANSWER);
    }
    bodies(&server).await.iter().map(|body| (format_of(body).to_owned(), is_bounded(body))).collect()
}

/// Asks once and expects an error; gives it and the bodies the server saw.
async fn refused(kind: Kind, answers: Vec<ResponseTemplate>) -> (ProviderError, Vec<Value>) {
    let server = server(answers).await;
    let error = chat(&server, kind, "/v1").complete(&asking()).await.unwrap_err();
    (error, bodies(&server).await)
}

fn format_of(body: &Value) -> &str {
    body["response_format"]["type"].as_str().unwrap_or("none")
}

fn formats(bodies: &[Value]) -> Vec<&str> {
    bodies.iter().map(format_of).collect()
}

#[tokio::test]
async fn lm_studio_takes_a_schema_or_text_and_nothing_between() {
    let bodies = ask_twice(
        Kind::Other,
        vec![
            answer(400, json!({ "error": "Error in json schema: unsupported keyword" })),
            answer(400, json!({ "error": "'response_format.type' must be 'json_schema' or 'text'" })),
            fine(),
        ],
    )
    .await;
    assert_eq!(formats(&bodies), ["json_schema", "json_object", "none", "none"]);
    assert!(bodies[2]["messages"][0]["content"].as_str().unwrap().contains("\"required\":[\"memories\"]"));
}

#[tokio::test]
async fn lm_studio_lays_the_schema_over_the_thoughts_so_it_is_asked_without() {
    let thought = json!({ "role": "assistant", "content": "", "reasoning_content": "{\"memories\":[{\"text\":\"no\"}]}" });
    let bodies = ask_twice(Kind::Other, vec![message(thought, "stop", 40), fine()]).await;
    assert_eq!(formats(&bodies), ["json_schema", "none", "none"]);
}

#[tokio::test]
async fn a_model_that_only_thinks_gives_no_memory() {
    let thought = || {
        let thought = json!({ "content": null, "reasoning": ANSWER, "reasoning_details": [] });
        message(thought, "stop", 40)
    };
    let server = server([thought(), thought(), fine()]).await;
    let chat = chat(&server, Kind::Other, "/v1");
    let error = chat.complete(&asking()).await.unwrap_err();
    assert!(error.to_string().contains("only thought aloud"), "{error}");
    assert_eq!(chat.endpoint.budget().spent().output_tokens, 80, "both replies are paid");
    // What did not help is not kept.
    chat.complete(&asking()).await.unwrap();
    assert_eq!(formats(&bodies(&server).await), ["json_schema", "none", "json_schema"]);
}

#[tokio::test]
async fn vllm_forbids_a_field_it_does_not_know() {
    let refusal = plain_error(
        400,
        "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 900}]",
    );
    let bodies = ask_twice(Kind::Other, vec![refusal, fine()]).await;
    assert_eq!(bodies.len(), 3);
    assert!(bodies[1].get("max_completion_tokens").is_none());
    assert_eq!((&bodies[1]["max_tokens"], format_of(&bodies[1])), (&json!(900), "json_schema"));
}

#[tokio::test]
async fn vllm_names_the_field_in_a_list_too() {
    let detail = json!([{ "type": "extra_forbidden", "loc": ["body", "response_format"], "msg": "Extra inputs are not permitted" }]);
    let bodies = ask_twice(Kind::Other, vec![answer(422, json!({ "detail": detail })), fine()]).await;
    assert_eq!(formats(&bodies), ["json_schema", "json_object", "json_object"]);
    assert_eq!(bodies[1]["max_completion_tokens"], 900);
}

#[tokio::test]
async fn vllm_with_a_template_without_a_system_role_gets_one_message() {
    let bodies = ask_twice(Kind::Other, vec![plain_error(400, "System role not supported"), fine()]).await;
    assert_eq!(bodies.len(), 3);
    for body in &bodies[1..] {
        assert_eq!(body["messages"].as_array().unwrap().len(), 1);
        let only = body["messages"][0]["content"].as_str().unwrap();
        assert!(
            body["messages"][0]["role"] == "user"
                && only.starts_with("Say what")
                && only.ends_with("the day")
        );
        assert_eq!(format_of(body), "json_schema");
    }
}

#[tokio::test]
async fn a_server_that_ignores_the_newer_limit_gets_the_older() {
    // vLLM before 0.6.3, llamafile and llama-cpp-python write on: a warning in their log, none in the reply.
    let long = message(json!({ "content": ANSWER }), "stop", 2_400);
    let bodies = ask_twice(Kind::Other, vec![long, fine()]).await;
    assert_eq!((&bodies[0]["max_completion_tokens"], &bodies[0]["max_tokens"]), (&json!(900), &Value::Null));
    assert_eq!((&bodies[1]["max_completion_tokens"], &bodies[1]["max_tokens"]), (&Value::Null, &json!(900)));
}

#[tokio::test]
async fn llama_cpp_cannot_make_a_grammar_of_a_schema() {
    for (status, said) in [
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (400, "Either \"json_schema\" or \"grammar\" can be specified, but not both"),
        (500, "JSON schema conversion failed: unrecognized schema"),
        (500, "failed to parse grammar"),
    ] {
        let refusal = answer(
            status,
            json!({ "error": { "code": status, "message": said, "type": "invalid_request_error" } }),
        );
        let bodies = ask_twice(Kind::Other, vec![refusal, fine()]).await;
        assert_eq!(formats(&bodies), ["json_schema", "json_object", "json_object"], "{said}");
        assert!(bodies[1]["response_format"].get("schema").is_none());
    }
}

#[tokio::test]
async fn llama_cpp_of_old_takes_the_schema_beside_json_object() {
    let said = "response_format type must be one of \"text\" or \"json_object\", but got: json_schema";
    let refusal = answer(500, json!({ "error": { "code": 500, "message": said, "type": "server_error" } }));
    let bodies = ask_twice(Kind::Other, vec![refusal, fine()]).await;
    assert_eq!(formats(&bodies), ["json_schema", "json_object", "json_object"]);
    assert_eq!(bodies[1]["response_format"]["schema"]["required"], json!(["memories"]));
}

#[tokio::test]
async fn llama_cpp_that_does_not_heed_the_schema_is_told_it_in_words() {
    for free in ["Sure! The user likes tea.", "{\"summary\":\"tea\"}", "[]"] {
        let bodies = ask_twice(Kind::Other, vec![said(free), fine()]).await;
        assert_eq!(formats(&bodies), ["json_schema", "json_object", "json_object"], "{free}");
        let system = bodies[1]["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("\"required\":[\"memories\"]"), "{system}");
    }
}

#[tokio::test]
async fn what_never_heeds_the_schema_is_taken_as_it_is_and_asked_no_third_way() {
    let server = server([said("no JSON"), said("none at all"), said("nor here")]).await;
    let chat = chat(&server, Kind::Other, "/v1");
    assert_eq!(chat.complete(&asking()).await.unwrap().text, "none at all");
    assert_eq!(chat.complete(&asking()).await.unwrap().text, "nor here");
    assert_eq!(formats(&bodies(&server).await), ["json_schema", "json_object", "json_schema"]);
}

#[tokio::test]
async fn llama_cpp_with_too_small_a_context_is_asked_once() {
    let said = "request (25837 tokens) exceeds the available context size (25088 tokens), try increasing it";
    let error = json!({ "code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": 25837, "n_ctx": 25088 });
    let (error, bodies) = refused(Kind::Other, vec![answer(400, json!({ "error": error }))]).await;
    assert!(matches!(error, ProviderError::Refused { status: 400, .. }), "{error}");
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn llama_cpp_takes_a_schema_with_bounds() {
    // Recorded with llama.cpp: without bounds the model counted chunks until its tokens ended.
    let asked = ask_with_bounds(Kind::Other, vec![fine()]).await;
    assert_eq!(asked, [("json_schema".to_owned(), true), ("json_schema".to_owned(), true)]);
}

#[tokio::test]
async fn a_server_that_does_not_take_bounds_gets_the_schema_without_them() {
    let refusals = [
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (400, "The provided JSON schema contains features not supported by xgrammar."),
        (
            400,
            "Invalid schema for response_format 'memories': In context=('properties', 'memories'), 'maxLength' is not permitted.",
        ),
        (400, "Bad Request"),
    ];
    for (status, said) in refusals {
        let asked = ask_with_bounds(Kind::Other, vec![plain_error(status, said), fine()]).await;
        let schema = |bounded: bool| ("json_schema".to_owned(), bounded);
        assert_eq!(asked, [schema(true), schema(false), schema(false)], "{said}");
    }
}

#[tokio::test]
async fn a_server_without_schemas_is_not_asked_for_one_without_bounds() {
    let refusal = plain_error(400, "This response_format type is unavailable now");
    let asked = ask_with_bounds(Kind::Other, vec![refusal, fine()]).await;
    assert_eq!(
        asked.iter().map(|(format, _)| format.as_str()).collect::<Vec<_>>(),
        ["json_schema", "json_object", "json_object"]
    );
}

#[tokio::test]
async fn openai_azure_and_openrouter_get_no_bounds_at_all() {
    for kind in [Kind::OpenAi, Kind::Azure, Kind::OpenRouter] {
        let asked = ask_with_bounds(kind, vec![fine()]).await;
        assert_eq!(asked, [("json_schema".to_owned(), false), ("json_schema".to_owned(), false)], "{kind:?}");
    }
}

#[tokio::test]
async fn openrouter_is_told_to_choose_servers_that_know_the_parameters() {
    let bodies = ask_twice(Kind::OpenRouter, vec![fine()]).await;
    assert_eq!(bodies[0]["provider"], json!({ "require_parameters": true }));
    assert!(ask_twice(Kind::Other, vec![fine()]).await[0].get("provider").is_none());
}

#[tokio::test]
async fn openrouter_without_such_a_server_may_leave_parameters_out() {
    let routing = || {
        answer(
            404,
            json!({ "error": { "message": "No endpoints found that can handle the requested parameters.", "code": 404 } }),
        )
    };
    let bodies = ask_twice(Kind::OpenRouter, vec![routing(), routing(), fine()]).await;
    assert_eq!(formats(&bodies), ["json_schema", "json_schema", "json_object", "json_object"]);
    let required: Vec<bool> = bodies.iter().map(|body| body.get("provider").is_some()).collect();
    assert_eq!(required, [true, false, false, false]);
}

#[tokio::test]
async fn openrouter_without_credits_is_final_and_not_taken_for_a_limit_refused() {
    let said = "This request requires more credits, or fewer max_tokens. You requested up to 900 tokens, but can only afford 90.";
    let (error, bodies) =
        refused(Kind::OpenRouter, vec![answer(402, json!({ "error": { "code": 402, "message": said } }))])
            .await;
    let told = error.to_string();
    assert!(
        matches!(error, ProviderError::Refused { status: 402, .. }) && told.contains("check its billing"),
        "{told}"
    );
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn openrouter_s_daily_limit_is_not_waited_for() {
    let error = json!({
        "code": 429, "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
        "metadata": { "headers": { "X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "32503680000000" } },
    });
    let (error, bodies) = refused(Kind::OpenRouter, vec![answer(429, json!({ "error": error }))]).await;
    assert!(matches!(error, ProviderError::Unreachable { tries: 1, .. }), "{error}");
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn openrouter_s_errors_with_status_200_are_tried_again() {
    let upstream = answer(
        200,
        json!({ "error": { "code": 502, "message": "Provider returned error", "metadata": { "provider_name": "x" } } }),
    );
    let broke_off = answer(
        200,
        json!({ "choices": [{ "message": { "content": "{\"memories\":[{\"text\":\"ha" }, "finish_reason": "error",
            "error": { "code": 502, "message": "Upstream idle timeout exceeded" } }] }),
    );
    let silent = message(json!({ "content": "{\"memo" }), "error", 3);
    let kept_alive = ResponseTemplate::new(200).set_body_string(format!(
        ": OPENROUTER PROCESSING\n\n{}",
        json!({ "choices": [{ "message": { "content": ANSWER, "refusal": null, "reasoning": "hm" }, "finish_reason": "stop" }], "usage": null })
    ));
    let bodies = ask_twice(Kind::OpenRouter, vec![upstream, broke_off, silent, kept_alive]).await;
    assert_eq!(formats(&bodies), ["json_schema"; 5]);
}

#[tokio::test]
async fn openrouter_s_moderation_concerns_one_request_alone() {
    let error = json!({ "code": 403, "message": "small requires moderation on Some. Your input was flagged for \"violence\"",
        "metadata": { "reasons": ["violence"], "flagged_input": "…" } });
    let server = server([answer(403, json!({ "error": error })), fine()]).await;
    let chat = chat(&server, Kind::OpenRouter, "/api/v1");
    let error = chat.complete(&asking()).await.unwrap_err().to_string();
    assert!(!error.contains("OPENAI_API_KEY"), "{error}");
    assert!(chat.complete(&asking()).await.is_ok());
    assert_eq!(server.received_requests().await.unwrap()[0].url.path(), "/api/v1/chat/completions");
}

#[tokio::test]
async fn azure_gets_its_key_in_a_header_of_its_own_and_the_version_in_the_query() {
    for (base, path, query) in [
        (
            "/openai?api-version=2024-10-21",
            "/openai/deployments/small/chat/completions",
            Some("api-version=2024-10-21"),
        ),
        (
            "/openai/deployments/mine?api-version=2024-10-21",
            "/openai/deployments/mine/chat/completions",
            Some("api-version=2024-10-21"),
        ),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions", Some("api-version=preview")),
    ] {
        let server = server([fine()]).await;
        let address = format!("{}{base}", server.uri());
        let key = Some(SecretString::from(KEY));
        let chat = OpenAiChat::new(&address, key, "small", budget(9)).unwrap();
        chat.complete(&asking()).await.unwrap();
        let request = &server.received_requests().await.unwrap()[0];
        assert_eq!((request.url.path(), request.url.query()), (path, query));
        assert_eq!(request.headers["api-key"], KEY);
        assert!(request.headers.get("authorization").is_none());
    }
}

#[tokio::test]
async fn azure_of_an_older_version_knows_no_schema_and_no_newer_limit() {
    let bodies = ask_twice(
        Kind::Azure,
        vec![
            answer(
                400,
                json!({ "error": { "code": "BadRequest", "message": "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later" } }),
            ),
            answer(400, json!({ "error": { "message": "Unrecognized request argument supplied: max_completion_tokens", "type": "invalid_request_error" } })),
            fine(),
        ],
    )
    .await;
    assert_eq!(formats(&bodies), ["json_schema", "json_object", "json_object", "json_object"]);
    assert_eq!((&bodies[2]["max_tokens"], &bodies[2]["max_completion_tokens"]), (&json!(900), &Value::Null));
}

#[tokio::test]
async fn azure_s_filter_concerns_one_request_alone_and_no_other_way_is_tried() {
    let error = json!({
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.",
        "type": null, "param": "prompt", "code": "content_filter", "status": 400,
        "innererror": { "code": "ResponsibleAIPolicyViolation", "content_filter_result": { "violence": { "filtered": true, "severity": "medium" } } },
    });
    let server = server([answer(400, json!({ "error": error })), fine()]).await;
    let chat = chat(&server, Kind::Azure, "/openai/v1");
    let refused = chat.complete(&asking()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Refused { status: 400, .. }), "{refused}");
    assert!(chat.complete(&asking()).await.is_ok());
    assert_eq!(formats(&bodies(&server).await), ["json_schema"; 2]);
}

#[tokio::test]
async fn azure_s_refusals_name_what_to_correct_and_never_the_key() {
    for (status, error, word) in [
        (
            404,
            json!({ "code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again." }),
            "the name of the deployment",
        ),
        (
            404,
            json!({ "code": "404", "message": "Resource not found" }),
            "check the model's name and OPENAI_BASE_URL",
        ),
        (
            400,
            json!({ "code": "BadRequest", "message": "API version not supported" }),
            "api-version in OPENAI_BASE_URL",
        ),
        (
            401,
            json!({ "code": "401", "message": format!("Access denied due to invalid subscription key {KEY} or wrong API endpoint.") }),
            "check OPENAI_API_KEY",
        ),
    ] {
        let (error, bodies) = refused(Kind::Azure, vec![answer(status, json!({ "error": error }))]).await;
        let told = format!("{error} {error:?}");
        assert!(told.contains(word) && !told.contains("4f9a"), "{told}");
        assert_eq!(bodies.len(), 1, "{word}");
    }
}

#[tokio::test]
async fn thoughts_in_the_content_are_left_out_of_its_parts() {
    let parts = json!([
        { "type": "thinking", "thinking": [{ "type": "text", "text": "{\"memories\":[]}" }] },
        { "type": "reasoning", "text": "hm" },
        { "type": "text", "text": ANSWER },
    ]);
    let server = server([message(json!({ "content": parts }), "stop", 7)]).await;
    assert_eq!(chat(&server, Kind::Other, "/v1").complete(&asking()).await.unwrap().text, ANSWER);
}

#[tokio::test]
async fn an_error_in_plain_text_is_read_as_it_stands() {
    let (error, _) = refused(
        Kind::Other,
        vec![ResponseTemplate::new(400).set_body_string("<html>\n Bad Request </html>")],
    )
    .await;
    assert!(error.to_string().contains("<html> Bad Request </html>"), "{error}");
}
