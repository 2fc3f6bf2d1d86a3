#![allow(clippy::unwrap_used)]

use serde_json::Value;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::providers::budget::Spent;
use crate::providers::embedding::estimate_tokens;
use crate::providers::fixtures::{answer, bodies, budget, outbound, server};

fn embedder(server: &MockServer, dim: Option<usize>) -> OllamaEmbedder {
    OllamaEmbedder::new(&server.uri(), "nomic-embed-text", dim, budget(50)).unwrap()
}

fn refusal(status: u16, message: &str) -> ResponseTemplate {
    answer(status, json!({ "error": message }))
}

/// Answers every text with a vector that tells its length, and refuses those beyond `longest` bytes.
async fn embedding_server(longest: usize) -> MockServer {
    let server = MockServer::start().await;
    let embedded = move |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let texts = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().len());
        let vectors: Vec<Value> = texts.clone().map(|length| json!([length, 1])).collect();
        match texts.max() {
            Some(length) if length > longest => refusal(400, "the input length exceeds the context length"),
            _ => answer(200, json!({ "model": "m", "embeddings": vectors, "prompt_eval_count": 5 })),
        }
    };
    Mock::given(method("POST")).and(path("/api/embed")).respond_with(embedded).mount(&server).await;
    server
}

#[tokio::test]
async fn a_request_has_the_documented_shape_and_vectors_have_length_one() {
    let server = embedding_server(9_999).await;
    let embedder = embedder(&server, None);
    let found = embedder.embed(&outbound(&["a", "bbb", "a"])).await.unwrap();
    assert!((found[1][0] - 3.0 / 10f32.sqrt()).abs() < 1e-6 && found[0] == found[2]);
    let spent = Spent { calls: 1, input_tokens: 5, output_tokens: 0 };
    assert_eq!(embedder.remote.endpoint.budget().spent(), spent);
    let body = json!({
        "model": "nomic-embed-text", "input": ["a", "bbb"], "truncate": false, "keep_alive": "30m",
    });
    assert_eq!(bodies(&server).await, [body]);
}

#[tokio::test]
async fn batches_are_small_in_number_and_tokens() {
    let server = embedding_server(9_999).await;
    let texts: Vec<String> = (0..300).map(|n| format!("{n} {}", "word ".repeat(n % 100))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(embedder(&server, None).embed(&outbound(&texts)).await.unwrap().len(), 300);
    for body in bodies(&server).await {
        let inputs = body["input"].as_array().unwrap();
        let tokens: usize = inputs.iter().map(|text| estimate_tokens(text.as_str().unwrap())).sum();
        assert!(inputs.len() <= 128 && tokens <= 16_000, "{} {tokens}", inputs.len());
    }
}

#[tokio::test]
async fn a_long_text_is_split_never_cut_and_further_where_the_model_takes_less() {
    let server = embedding_server(700).await;
    let embedder = embedder(&server, None);
    let long = format!("{}end.", "a word or two. ".repeat(300));
    let found = embedder.embed(&outbound(&["short", &long])).await.unwrap();
    assert_eq!((found.len(), found[1].len()), (2, 2));
    let last = bodies(&server).await.pop().unwrap();
    let pieces: Vec<&str> =
        last["input"].as_array().unwrap()[1..].iter().map(|piece| piece.as_str().unwrap()).collect();
    assert!(pieces.len() > 6 && pieces.concat() == long);
    let paid = bodies(&server).await.len();
    embedder.embed(&outbound(&[&long])).await.unwrap();
    assert_eq!(bodies(&server).await.len(), paid + 1, "what the model takes is found out once");
}

#[tokio::test]
async fn what_is_no_vector_for_each_text_is_malformed() {
    for (embeddings, wrong) in [
        (json!([[1, 0]]), "1 vectors for 2 texts"),
        (json!([[1, 0], [0, 0]]), "zero or not finite"),
        (json!([[1, 0], [0, 1, 0]]), "one vector has 2 dimensions, another 3"),
        (json!([[1, 0], null]), "invalid type: null"),
    ] {
        let server = server([answer(200, json!({ "embeddings": embeddings }))]).await;
        let error = embedder(&server, None).embed(&outbound(&["a", "b"])).await.unwrap_err();
        assert!(
            matches!(&error, ProviderError::Malformed { detail, .. } if detail.contains(wrong)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_set_dimension_is_asked_for_and_checked() {
    let server = embedding_server(9_999).await;
    let error = embedder(&server, Some(3)).embed(&outbound(&["a"])).await.unwrap_err();
    assert!(error.to_string().contains("2 dimensions, DREAMER_EMBEDDING_DIM is 3"), "{error}");
    assert_eq!(bodies(&server).await[0]["dimensions"], 3);
}

#[tokio::test]
async fn a_refusal_that_concerns_all_names_its_remedy_and_is_asked_for_once() {
    for (reply, remedy) in [
        (
            refusal(404, "model \"nomic-embed-text\" not found, try pulling it first"),
            "run `ollama pull nomic-embed-text`",
        ),
        (refusal(404, "model 'nomic-embed-text' not found"), "run `ollama pull nomic-embed-text`"),
        (ResponseTemplate::new(404).set_body_string("404 page not found"), "of version 0.3 or newer"),
        (refusal(500, "this model does not support embeddings"), "OLLAMA_EMBEDDING_MODEL"),
        (refusal(500, "model requires more system memory (9.1 GiB) than is available"), "smaller model"),
        (refusal(401, "unauthorized"), "login"),
        (ResponseTemplate::new(302).insert_header("location", "http://127.0.0.1:9/"), "redirects"),
    ] {
        let server = server([reply]).await;
        let embedder = embedder(&server, None);
        for _ in 0..2 {
            let error = embedder.embed(&outbound(&["a"])).await.unwrap_err().to_string();
            assert!(error.contains(remedy) && !error.contains("OPENAI"), "{error}");
        }
        assert_eq!(bodies(&server).await.len(), 1, "{remedy}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_run_is_to_be_started() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let embedder =
        OllamaEmbedder::new(&format!("http://127.0.0.1:{port}"), "nomic-embed-text", None, budget(50))
            .unwrap();
    let error = embedder.embed(&outbound(&["a"])).await.unwrap_err().to_string();
    assert!(error.contains("`ollama serve`") && error.contains("OLLAMA_BASE_URL"), "{error}");
    assert_eq!(embedder.version().await, None);
}

#[tokio::test]
async fn the_version_is_the_digest_of_the_weights() {
    let server = MockServer::start().await;
    let tags = json!({ "models": [
        { "name": "qwen2.5:3b", "model": "qwen2.5:3b", "digest": "1111", "size": 1 },
        { "name": "nomic-embed-text:latest", "model": "nomic-embed-text:latest", "digest": "2222", "size": 1 },
    ] });
    Mock::given(method("GET")).and(path("/api/tags")).respond_with(answer(200, tags)).mount(&server).await;
    let of = |model: &str| OllamaEmbedder::new(&server.uri(), model, None, budget(0)).unwrap();
    assert_eq!(of("nomic-embed-text").version().await.as_deref(), Some("2222"));
    assert_eq!(of("bge-m3").version().await, None);
}

#[tokio::test]
async fn a_model_that_was_used_is_released_and_another_left_alone() {
    let server = embedding_server(9_999).await;
    let unload = Mock::given(method("POST")).and(path("/api/generate"));
    unload.respond_with(answer(200, json!({ "done": true, "done_reason": "unload" }))).mount(&server).await;
    // Two requests: the budget is used up by the embedding, and releasing is outside it.
    let embedder = OllamaEmbedder::new(&server.uri(), "nomic-embed-text", None, budget(1)).unwrap();
    embedder.release().await;
    assert_eq!(bodies(&server).await.len(), 0);
    embedder.embed(&outbound(&["a"])).await.unwrap();
    embedder.release().await;
    let released = json!({ "model": "nomic-embed-text", "keep_alive": 0, "stream": false });
    assert_eq!(bodies(&server).await.pop(), Some(released));
    assert_eq!(embedder.remote.endpoint.budget().spent().calls, 1);
}
