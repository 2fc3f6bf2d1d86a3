#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::providers::budget::Spent;
use crate::providers::embedding::estimate_tokens;
use crate::providers::fixtures::{answer, bodies, budget, error, outbound, server};

fn embedder(server: &MockServer, dim: Option<usize>) -> OpenAiEmbedder {
    OpenAiEmbedder::new(&format!("{}/v1", server.uri()), None, "vectors", dim, budget(50)).unwrap()
}

/// A vector that tells the text's length: its direction is (length, 1).
fn vector_of(text: &str) -> Vec<f32> {
    vec![text.len() as f32, 1.0]
}

fn embedded(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let inputs = body["input"].as_array().unwrap();
    let items = inputs.iter().enumerate().rev().map(|(index, text)| {
        json!({ "object": "embedding", "index": index, "embedding": vector_of(text.as_str().unwrap()) })
    });
    answer(
        200,
        json!({ "data": items.collect::<Vec<_>>(), "usage": { "prompt_tokens": 5, "total_tokens": 5 } }),
    )
}

/// Answers every text, last one first, as the API allows.
async fn embedding_server() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(path("/v1/embeddings")).respond_with(embedded).mount(&server).await;
    server
}

fn vectors(data: Value) -> ResponseTemplate {
    answer(200, json!({ "data": data }))
}

#[tokio::test]
async fn vectors_come_back_in_order_and_with_length_one() {
    let server = embedding_server().await;
    let embedder = embedder(&server, None);
    let found = embedder.embed(&outbound(&["a", "bbb", "cc"])).await.unwrap();
    for (vector, text) in found.iter().zip(["a", "bbb", "cc"]) {
        let length = (text.len() as f32).hypot(1.0);
        assert!(
            (vector[0] - text.len() as f32 / length).abs() < 1e-6 && (vector[1] - 1.0 / length).abs() < 1e-6
        );
    }
    assert_eq!(
        embedder.remote.endpoint.budget().spent(),
        Spent { calls: 1, input_tokens: 5, output_tokens: 0 }
    );
    let body = json!({ "model": "vectors", "input": ["a", "bbb", "cc"], "encoding_format": "float" });
    assert_eq!(bodies(&server).await, [body]);
}

#[tokio::test]
async fn equal_texts_are_sent_once() {
    let server = embedding_server().await;
    let found = embedder(&server, None).embed(&outbound(&["cats", "dogs!", "cats"])).await.unwrap();
    assert_eq!(bodies(&server).await[0]["input"], json!(["cats", "dogs!"]));
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0], found[1]);
}

#[tokio::test]
async fn nothing_is_sent_for_nothing_or_for_a_blank_text() {
    let server = embedding_server().await;
    let embedder = embedder(&server, None);
    assert_eq!(embedder.embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
    let blank = embedder.embed(&outbound(&["cats", " \n"])).await.unwrap_err();
    assert!(matches!(blank, ProviderError::Blank { index: 1, .. }), "{blank}");
    assert_eq!(bodies(&server).await.len(), 0);
}

#[tokio::test]
async fn a_request_has_at_most_2048_inputs() {
    let server = embedding_server().await;
    let texts: Vec<String> = (0..2_500).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = embedder(&server, None).embed(&outbound(&texts)).await.unwrap();
    assert_eq!(found.len(), 2_500);
    let sizes: Vec<usize> =
        bodies(&server).await.iter().map(|b| b["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2_048, 452]);
}

#[tokio::test]
async fn a_request_has_at_most_300k_tokens() {
    let server = embedding_server().await;
    // 100 texts of 2,001 words: more than 300,000 tokens by the estimate, so one request would be too much.
    let texts: Vec<String> = (0..100).map(|n| format!("{n:03} {}", "word ".repeat(2_000))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    embedder(&server, None).embed(&outbound(&texts)).await.unwrap();
    let bodies = bodies(&server).await;
    assert!(bodies.len() > 1);
    for body in bodies {
        let inputs =
            body["input"].as_array().unwrap().iter().map(|text| estimate_tokens(text.as_str().unwrap()));
        assert!(inputs.sum::<usize>() <= 300_000);
    }
}

#[tokio::test]
async fn a_long_text_is_split_and_never_cut() {
    let server = embedding_server().await;
    let long = format!("{}末。", "一句話。".repeat(4_000));
    let found = embedder(&server, None).embed(&outbound(&["short", &long])).await.unwrap();
    assert_eq!(found.len(), 2);
    let inputs = bodies(&server).await[0]["input"].clone();
    let pieces: Vec<&str> =
        inputs.as_array().unwrap()[1..].iter().map(|piece| piece.as_str().unwrap()).collect();
    assert!(pieces.len() > 1 && pieces.concat() == long, "{} pieces", pieces.len());
    assert!(pieces.iter().all(|piece| estimate_tokens(piece) <= 8_191 && piece.ends_with('。')));
    let norm: f32 = found[1].iter().map(|x| x * x).sum();
    assert!((norm - 1.0).abs() < 1e-5);
}

#[tokio::test]
async fn a_server_with_a_shorter_context_gets_shorter_pieces() {
    let server = MockServer::start().await;
    let short = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let longest = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().len()).max();
        match longest {
            Some(longest) if longest > 2_000 => error(400, "the input length exceeds the context length"),
            _ => embedded(request),
        }
    };
    Mock::given(path("/v1/embeddings")).respond_with(short).mount(&server).await;
    let embedder = embedder(&server, None);
    let long = "word ".repeat(3_000);
    embedder.embed(&outbound(&[&long])).await.unwrap();
    let paid = bodies(&server).await.len();
    embedder.embed(&outbound(&[&long])).await.unwrap();
    assert_eq!(bodies(&server).await.len(), paid + 1, "what a server takes is found out once");
}

#[tokio::test]
async fn dimensions_are_asked_for_and_dropped_once_when_refused() {
    let server = server([
        error(400, "This model does not support specifying dimensions."),
        vectors(json!([{ "embedding": [3.0, 4.0] }])),
    ])
    .await;
    let embedder = embedder(&server, Some(2));
    assert_eq!(embedder.embed(&outbound(&["a"])).await.unwrap(), [[0.6, 0.8]]);
    embedder.embed(&outbound(&["b"])).await.unwrap();
    let dimensions: Vec<Value> =
        bodies(&server).await.iter().map(|body| body["dimensions"].clone()).collect();
    assert_eq!(dimensions, [json!(2), Value::Null, Value::Null]);
}

#[tokio::test]
async fn vectors_of_another_dimension_than_configured_are_an_error() {
    let server = server([vectors(json!([{ "embedding": [3.0, 4.0] }]))]).await;
    let error = embedder(&server, Some(3)).embed(&outbound(&["a"])).await.unwrap_err();
    assert!(
        error.to_string().contains("its vectors have 2 dimensions, DREAMER_EMBEDDING_DIM is 3"),
        "{error}"
    );
}

#[tokio::test]
async fn every_vector_is_checked() {
    for (data, wrong) in [
        (json!([{ "index": 0, "embedding": [1, 0] }]), "1 vectors for 2 texts"),
        (
            json!([{ "embedding": [1, 0] }, { "embedding": [1, 0] }, { "embedding": [1, 0] }]),
            "3 vectors for 2 texts",
        ),
        (json!([{ "index": 0, "embedding": [1, 0] }, { "index": 0, "embedding": [0, 1] }]), "do not count"),
        (json!([{ "index": 1, "embedding": [1, 0] }, { "index": 2, "embedding": [0, 1] }]), "do not count"),
        (
            json!([{ "embedding": [1, 0] }, { "embedding": [0, 1, 0] }]),
            "one vector has 2 dimensions, another 3",
        ),
        (json!([{ "embedding": [1, 0] }, { "embedding": [0, 0] }]), "zero or not finite"),
        (json!([{ "embedding": [1, 0] }, { "embedding": [1e300, 0] }]), "zero or not finite"),
        (json!([{ "embedding": [1, 0] }, { "embedding": [null, 0] }]), "invalid type: null"),
        (json!([{ "embedding": [] }, { "embedding": [] }]), "zero or not finite"),
        (json!([{ "embedding": "AAAA" }, { "embedding": "AAAA" }]), "invalid type: string"),
    ] {
        let server = server([vectors(data)]).await;
        let error = embedder(&server, None).embed(&outbound(&["a", "b"])).await.unwrap_err();
        assert!(
            matches!(&error, ProviderError::Malformed { detail, .. } if detail.contains(wrong)),
            "{wrong}: {error}"
        );
    }
}

#[tokio::test]
async fn a_number_that_is_none_is_not_json_and_tried_again() {
    let nan = ResponseTemplate::new(200).set_body_string(r#"{"data":[{"embedding":[NaN,1]}]}"#);
    let server = server([nan, vectors(json!([{ "embedding": [0, 2] }]))]).await;
    assert_eq!(embedder(&server, None).embed(&outbound(&["a"])).await.unwrap(), [[0.0, 1.0]]);
}

#[tokio::test]
async fn a_server_with_small_batches_gets_small_batches() {
    let server = MockServer::start().await;
    let small = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        match body["input"].as_array().unwrap().len() {
            0..=32 => embedded(request),
            _ => error(422, "batch size 100 > maximum allowed batch size 32"),
        }
    };
    Mock::given(path("/v1/embeddings")).respond_with(small).mount(&server).await;
    let texts: Vec<String> = (0..100).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(embedder(&server, None).embed(&outbound(&texts)).await.unwrap().len(), 100);
}
