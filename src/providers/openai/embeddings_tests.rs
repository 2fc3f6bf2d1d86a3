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
        (json!([{ "embedding": "AAAA" }, { "embedding": "AAAA" }]), "neither numbers nor base64"),
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

/// What an embedder of these answers gives for one text after another, and the bodies the server saw.
async fn embed_each(texts: &[&str], answers: Vec<ResponseTemplate>) -> (Vec<Vec<f32>>, Vec<Value>) {
    let server = server(answers).await;
    let embedder = embedder(&server, Some(2));
    let found = embedder.embed(&outbound(texts)).await.unwrap();
    (found, bodies(&server).await)
}

#[tokio::test]
async fn vllm_does_not_shorten_vectors_of_a_model_that_was_not_made_for_it() {
    let said = "Model \"bge-m3\" does not support matryoshka representation, changing output dimensions will lead to poor results.";
    let refusal = answer(
        400,
        json!({ "object": "error", "message": said, "type": "BadRequestError", "param": null, "code": 400 }),
    );
    let (found, bodies) = embed_each(&["a"], vec![refusal, vectors(json!([{ "embedding": [3, 4] }]))]).await;
    assert_eq!(found, [[0.6, 0.8]]);
    assert_eq!((&bodies[0]["dimensions"], &bodies[1]["dimensions"]), (&json!(2), &Value::Null));
    assert_eq!(bodies[1]["encoding_format"], "float");
}

#[tokio::test]
async fn a_server_that_does_not_know_encoding_format_may_give_base64() {
    let detail = json!([{ "type": "extra_forbidden", "loc": ["body", "encoding_format"], "msg": "Extra inputs are not permitted" }]);
    // 3.0 and 4.0 as little-endian floats.
    let reply = answer(200, json!({ "data": [{ "index": 0, "embedding": "AABAQAAAgEA=" }], "usage": {} }));
    let (found, bodies) = embed_each(&["a"], vec![answer(422, json!({ "detail": detail })), reply]).await;
    assert_eq!(found, [[0.6, 0.8]]);
    assert!(bodies[1].get("encoding_format").is_none() && bodies[1]["dimensions"] == 2);
}

#[tokio::test]
async fn azure_says_how_many_texts_it_takes_and_gets_no_more() {
    let server = MockServer::start().await;
    let few = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        match body["input"].as_array().unwrap().len() {
            0..=16 => embedded(request),
            _ => error(
                400,
                "Too many inputs. The max number of inputs is 16.  We hope to increase the number of inputs per request soon.",
            ),
        }
    };
    Mock::given(path("/openai/deployments/vectors/embeddings")).respond_with(few).mount(&server).await;
    let address = format!("{}/openai?api-version=2024-10-21", server.uri());
    let embedder = OpenAiEmbedder::new(&address, None, "vectors", None, budget(50)).unwrap();
    let texts: Vec<String> = (0..40).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(embedder.embed(&outbound(&texts)).await.unwrap().len(), 40);
    let sizes: Vec<usize> =
        bodies(&server).await.iter().map(|body| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [40, 16, 16, 8]);
}

#[tokio::test]
async fn llama_cpp_s_physical_batch_bounds_a_text_and_not_their_number() {
    let server = MockServer::start().await;
    let small = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let longest = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().len()).max();
        let said = "input (596 tokens) is too large to process. increase the physical batch size (current batch size: 512)";
        match longest {
            Some(longest) if longest > 2_000 => {
                answer(500, json!({ "error": { "code": 500, "message": said, "type": "server_error" } }))
            }
            _ => embedded(request),
        }
    };
    Mock::given(path("/v1/embeddings")).respond_with(small).mount(&server).await;
    embedder(&server, None).embed(&outbound(&[&"word ".repeat(1_000), "short"])).await.unwrap();
    let longest =
        |body: &Value| body["input"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().len()).max();
    let sizes: Vec<Option<usize>> = bodies(&server).await.iter().map(longest).collect();
    // Not one of them was sent again as it was.
    assert!(sizes.len() > 1 && sizes.last().unwrap().unwrap() <= 2_000, "{sizes:?}");
}

#[tokio::test]
async fn llama_cpp_of_old_answers_with_a_list_and_a_row_a_text() {
    let reply =
        answer(200, json!([{ "index": 1, "embedding": [[0, 2]] }, { "index": 0, "embedding": [[3, 4]] }]));
    let (found, _) = embed_each(&["a", "b"], vec![reply]).await;
    assert_eq!(found, [[0.6, 0.8], [0.0, 1.0]]);
}

#[tokio::test]
async fn llama_cpp_without_pooling_or_embeddings_says_so_at_once() {
    let unpooled = answer(200, json!([{ "index": 0, "embedding": [[0, 2], [1, 1]] }]));
    let off = answer(
        501,
        json!({ "error": { "code": 501, "message": "This server does not support embeddings. Start it with `--embeddings`", "type": "not_supported_error" } }),
    );
    for (reply, word) in [(unpooled, "--pooling mean"), (off, "Start it with `--embeddings`")] {
        let server = server([reply]).await;
        let told = embedder(&server, None).embed(&outbound(&["a"])).await.unwrap_err().to_string();
        assert!(told.contains(word), "{told}");
        assert_eq!(bodies(&server).await.len(), 1, "{word}");
    }
}

#[tokio::test]
async fn a_server_that_embeds_alone_is_named_by_its_own_variables() {
    for (status, word) in [(401, "check OPENAI_EMBEDDING_API_KEY"), (404, "OPENAI_EMBEDDING_BASE_URL")] {
        let server = server([error(status, "no")]).await;
        let address = format!("{}/v1", server.uri());
        let embedder = OpenAiEmbedder::at_its_own_server(&address, None, "vectors", None, budget(9)).unwrap();
        let told = embedder.embed(&outbound(&["a"])).await.unwrap_err().to_string();
        assert!(told.contains(word), "{told}");
    }
}
