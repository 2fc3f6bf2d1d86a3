//! `dreamer preview`: reads only, and what it says at most is at most what the night then costs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Instant, SystemTime};

use dreamer::dream::Models;
use dreamer::preview::{preview, show};
use dreamer::providers::Reasoner;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::openai::{OpenAiChat, OpenAiEmbedder};
use dreamer::store::Store;
use serde_json::{Value, json};

use super::models::{Script, scripted};
use super::{AGENT, Night};
use crate::fake_openai::{FakeOpenAi, Reply};

/// Every file and folder with its content's digest and when it was changed.
fn everything(night: &Night) -> BTreeMap<PathBuf, (Option<SystemTime>, Vec<u8>)> {
    walkdir::WalkDir::new(night.dir.path())
        .into_iter()
        .map(Result::unwrap)
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().ok();
            let bytes =
                if entry.file_type().is_file() { std::fs::read(entry.path()).unwrap() } else { vec![] };
            (entry.into_path(), (changed, bytes))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_changes_nothing_and_says_how_things_are() {
    let mut night = Night::new().await;
    for (agent, text) in
        [(AGENT, "The user likes tea."), (AGENT, "The user likes tea."), ("other", "Carol lives in Lisbon.")]
    {
        night.known_of(agent, text, "2026-01-05").await;
    }
    night.insert(AGENT, "A vector of length 2.", "2026-02-05", vec![2.0; 1024]).await;
    night.session("2026-03-09", &[("user", "I moved to Lisbon."), ("user", "Hi!")]);
    night.session("2026-03-10", &[("user", "My dog is called Biscuit.")]);
    let before = everything(&night);
    let first = preview(&night.config(), night.now).await.unwrap();
    assert_eq!(everything(&night), before);

    let material = &first.material;
    assert_eq!(
        (material.episodes, material.days, material.chunks_new, material.chunks_evidence),
        (2, 2, 3, 2)
    );
    assert_eq!((material.rows_tonight, material.chunks_held_back), (4, 0));
    let table = &first.table;
    assert_eq!((table.rows, table.duplicates, table.never_traced, table.agents["other"]), (4, 1, 4, 1));
    assert_eq!((table.vectors.not_unit, table.vectors.missing, table.vectors.length), (1, 0, 1024));
    assert_eq!(table.ages.unwrap().oldest.to_string(), "2026-01-05");
    assert_eq!((table.tiers["active"], table.categories["fact"]), (4, 4));
    assert_eq!(table.fading.not_in_force, ["main", "other"], "it is off");
    assert!(first.last_run.is_none());
    assert_eq!((first.cost.calls, first.cost.tokens), (0, 0), "without models a night costs nothing");
    let told = show(&first, &night.config());
    for words in
        ["2 of 2 days", "attention  1 memories say exactly", "none has finished yet", "now, until 05:00"]
    {
        assert!(told.contains(words), "{words}\n{told}");
    }

    let model = Script::new().remember("Lisbon", "The user moved to Lisbon.").poison("Biscuit").model();
    night.dream(&scripted(&model)).await;
    night.next();
    let before = everything(&night);
    let second = preview(&night.config(), night.now).await.unwrap();
    assert_eq!(everything(&night), before);
    assert_eq!(
        (second.material.chunks_new, second.material.chunks_held_back, second.waiting.retry),
        (0, 1, 1)
    );
    assert_eq!((second.table.archive.reasons["duplicate"], second.table.never_traced), (1, 0));
    assert_eq!(second.last_run.unwrap().status.as_deref(), Some("done"));

    let mut config = night.config();
    config.only_agent = Some("other".into());
    let other = preview(&config, night.now).await.unwrap();
    assert_eq!((other.table.rows, other.material.chunks_held_back), (1, 0));
    config.only_agent = Some("nobody".into());
    assert_eq!(preview(&config, night.now).await.unwrap_err().exit_code(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_fade_soon_is_told() {
    let mut night = Night::new().await.set("DREAMER_FADE", "on");
    night.known("The user likes cats.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", "The sky over the harbour looked grey today.")]);
    night.dream(&scripted(&Script::new().model())).await;
    night.next();
    // 0.7 · 0.95^n < 0.15 from the 31st active day on.
    let fading = preview(&night.config(), night.now).await.unwrap().table.fading;
    assert_eq!((fading.now, fading.in_7_days, fading.in_30_days), (0, 0, 0));
    let night = night.set("IMPORTANCE_DECAY_RATE", "0.1");
    let fading = preview(&night.config(), night.now).await.unwrap().table.fading;
    assert_eq!((fading.now, fading.in_7_days, fading.in_30_days), (0, 0, 1));
    let night = night.set("IMPORTANCE_DECAY_RATE", "0.3");
    let fading = preview(&night.config(), night.now).await.unwrap().table.fading;
    assert_eq!((fading.now, fading.in_7_days, fading.in_30_days), (0, 1, 1));
}

fn obedient(request: &Value) -> Reply {
    let material = request["messages"][1]["content"].as_str().unwrap();
    let lines: Vec<Value> = material.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if request["response_format"]["json_schema"]["name"] == "verdicts" {
        let verdicts = lines.iter().filter(|line| line.get("memory").is_some()).map(|old| {
            json!({ "memory": old["memory"], "reason": "strangers", "relation": "unrelated",
                    "new_subject": "", "old_subject": "", "texts": [] })
        });
        return Reply::json(&json!({ "verdicts": verdicts.collect::<Vec<_>>() }));
    }
    let memories = lines.iter().filter(|line| line["speaker"] == "user").map(|line| {
        json!({ "reason": "said", "chunks": [line["chunk"]], "text": format!("The user said: “{}”", line["text"].as_str().unwrap()),
                "category": "fact", "importance": 0.5, "entities": [], "tags": [], "about": null, "emotion": 0.0,
                "decision": "keep" })
    });
    Reply::json(&json!({ "memories": memories.collect::<Vec<_>>() }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_costs_at_most_what_the_preview_said_whatever_the_model_says() {
    for obeys in [true, false] {
        let rubbish = |_: &Value| Reply::Text("What a lovely day.".into());
        let server = match obeys {
            true => FakeOpenAi::new().chat(obedient).start().await,
            false => FakeOpenAi::new().chat(rubbish).start().await,
        };
        let mut night = Night::without_table()
            .scripted_embedder(64)
            .set("OPENAI_BASE_URL", &server.base_url())
            .set("DREAMER_LLM_PROVIDER", "openai")
            .set("DREAMER_MAX_CALLS", "100000")
            .set("CONTRADICTION_SIMILARITY", "0.1");
        Store::create(&night.config().lancedb_uri, 64).await.unwrap();
        for n in 0..6 {
            let text = format!("Person number {n} lives in house {n} by the sea.");
            night.insert(AGENT, &text, "2026-01-05", crate::fake_openai::vector(&text, 64)).await;
        }
        for day in ["2026-03-08", "2026-03-09"] {
            let messages: Vec<String> =
                (0..15).map(|n| format!("On {day} I saw bird number {n} near bridge {}.", n * 7)).collect();
            let messages: Vec<(&str, &str)> = messages.iter().map(|text| ("user", text.as_str())).collect();
            night.session(day, &messages);
        }
        let said = preview(&night.config(), night.now).await.unwrap().cost;
        let budget = Budget::new(Limits::new(100_000, 60, 4, Instant::now()));
        let (url, key) = (server.base_url(), || Some(String::from("sk-fake").into()));
        let models = Models {
            embedder: Box::new(OpenAiEmbedder::new(&url, key(), "scripted", None, budget.clone()).unwrap()),
            reasoner: Reasoner::Model(Box::new(
                OpenAiChat::new(&url, key(), "fake-chat", budget.clone()).unwrap(),
            )),
            budget,
        };
        let report = night.dream(&models).await;
        let cost = report.cost;
        assert!(u64::from(cost.calls) <= said.calls, "{} calls, said {said:?}", cost.calls);
        assert!(cost.input_tokens + cost.output_tokens <= said.tokens, "{cost:?}, said {said:?}");
        if obeys {
            // And it is no wild guess: the usual number of calls is within sight.
            assert!(
                said.chat_calls_usual <= 4 * u64::from(cost.calls).max(1) + 40,
                "{cost:?}, said {said:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_cap_what_is_said() {
    let night = Night::without_table()
        .scripted_embedder(64)
        .set("DREAMER_LLM_PROVIDER", "openai")
        .set("DREAMER_MAX_CALLS", "3")
        .set("DREAMER_MAX_TOKENS", "5000");
    Store::create(&night.config().lancedb_uri, 64).await.unwrap();
    let messages: Vec<String> =
        (0..30).map(|n| format!("I saw bird number {n} near bridge {}.", n * 7)).collect();
    let messages: Vec<(&str, &str)> = messages.iter().map(|text| ("user", text.as_str())).collect();
    night.session("2026-03-09", &messages);
    let cost = preview(&night.config(), night.now).await.unwrap().cost;
    assert_eq!((cost.calls, cost.tokens), (3, 5_000));
    assert_eq!(cost.limits, ["DREAMER_MAX_CALLS", "DREAMER_MAX_TOKENS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_it_and_setup_shows_it_before_the_first_night() {
    let mut night = Night::new().await;
    night.known("The user likes tea.", "2026-01-05").await;
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", night.dir.path())
            .env("DREAMER_HOME", night.home())
            .envs(night.settings.iter())
            .current_dir(night.dir.path())
            .args(args)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = run(&["preview", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["table"]["rows"].clone()), (Some(0), json!(1)));
    assert_eq!(run(&["preview", "--agent", "nobody"]).0, Some(2));
    assert_eq!(run(&["--agent", "nobody"]).0, Some(2));
    assert!(run(&["preview"]).1.contains("memories   1: main 1"));
    let (code, told) = run(&["setup"]);
    assert!(
        code == Some(0) && told.contains("The first night") && told.contains("memories   1: main 1"),
        "{told}"
    );
    // After a night there is nothing first about the next one.
    assert_eq!(run(&[]).0, Some(0));
    assert!(!run(&["setup"]).1.contains("The first night"));
}
