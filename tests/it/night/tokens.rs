//! `DREAMER_MAX_TOKENS`: a night spends no more, takes the oldest first, and what is left comes first the next night.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use dreamer::dream::Models;
use dreamer::providers::Reasoner;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::openai::{OpenAiChat, OpenAiEmbedder};
use dreamer::state::journal::Fate;
use dreamer::store::Store;
use serde_json::{Value, json};

use super::Night;
use crate::fake_openai::{FakeOpenAi, Reply, Running};

const DAYS: [&str; 6] = ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06"];
const WORDS: [&str; 6] = ["Lisbon", "Biscuit", "Violin", "Peanuts", "Carol", "Bicycle"];

/// Keeps every user's words, and notes which chunks it was asked about.
fn keeper(asked: Arc<Mutex<Vec<String>>>) -> impl Fn(&Value) -> Reply + Send + Sync + 'static {
    move |request| {
        let material = request["messages"][1]["content"].as_str().unwrap();
        if request["response_format"]["json_schema"]["name"] == "verdicts" {
            let lines = material.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let verdicts = lines.filter(|line| line.get("memory").is_some()).map(|old| {
                json!({ "memory": old["memory"], "reason": "strangers", "relation": "unrelated",
                        "new_subject": "", "old_subject": "", "texts": [] })
            });
            return Reply::json(&json!({ "verdicts": verdicts.collect::<Vec<_>>() }));
        }
        let lines: Vec<Value> = material.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let chunks = lines.iter().filter(|line| line["speaker"] == "user");
        let memories: Vec<Value> = chunks
            .map(|line| {
                asked.lock().unwrap().push(line["said"].as_str().unwrap().to_owned());
                json!({
                    "reason": "said", "chunks": [line["chunk"]], "text": format!("The user said: “{}”", line["text"].as_str().unwrap().split(',').next().unwrap()),
                    "category": "fact", "importance": 0.5, "entities": [], "tags": [], "about": null, "emotion": 0.0,
                    "decision": "keep",
                })
            })
            .collect();
        Reply::json(&json!({ "memories": memories }))
    }
}

fn models(night: &Night, server: &Running) -> Models {
    let config = night.config();
    let limits = Limits::new(200, 60, 1, Instant::now()).with_tokens(config.max_tokens);
    let budget = Budget::new(limits);
    let (url, key) = (server.base_url(), || Some(String::from("sk-fake").into()));
    Models {
        embedder: Box::new(OpenAiEmbedder::new(&url, key(), "fake-embed", None, budget.clone()).unwrap()),
        reasoner: Reasoner::Model(Box::new(
            OpenAiChat::new(&url, key(), "fake-chat", budget.clone()).unwrap(),
        )),
        budget,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_come_first_and_what_is_left_is_first_in_line() {
    let asked = Arc::new(Mutex::new(vec![]));
    let server = FakeOpenAi::new().chat(keeper(asked.clone())).start().await;
    let mut night = Night::without_table()
        .scripted_embedder(64)
        .set("OPENAI_BASE_URL", &server.base_url())
        .set("DREAMER_LLM_PROVIDER", "openai")
        .set("DREAMER_MAX_TOKENS", "9000");
    Store::create(&night.config().lancedb_uri, 64).await.unwrap();
    for (day, word) in DAYS.iter().zip(WORDS) {
        let long = format!(
            "{word} is what I thought about today, {}",
            format!("and about {word} again ").repeat(60)
        );
        night.session(day, &[("user", &long)]);
    }
    let mut held_back = 0;
    for nights in 1.. {
        let report = night.dream(&models(&night, &server)).await;
        assert!(report.cost.input_tokens + report.cost.output_tokens <= 9_000, "{:?}", report.cost);
        night.next();
        let left = report.fates.get(&Fate::HeldBack).copied().unwrap_or(0);
        if left == 0 {
            break;
        }
        held_back += left;
        assert!(
            report.limit.as_ref().is_some_and(|why| why.contains("DREAMER_MAX_TOKENS")),
            "{:?}",
            report.limit
        );
        assert!(report.failure.is_none(), "a limit is no failure");
        assert!(!report.created.is_empty(), "every night gets on: {report:?}");
        assert!(nights < 7, "it never ends");
    }
    assert!(held_back > 0, "the limit was not felt");
    let asked = asked.lock().unwrap().clone();
    let mut sorted = asked.clone();
    sorted.sort();
    assert_eq!(asked, sorted, "the oldest day first, over all nights");
    let days: std::collections::BTreeSet<String> = asked.into_iter().collect();
    assert_eq!(days.len(), DAYS.len());
    assert_eq!(
        night.texts().await.len(),
        night.texts().await.into_iter().collect::<std::collections::BTreeSet<_>>().len()
    );
}
