//! Nights against a server that fails: nothing is lost, nothing is stored twice, and the log says what waits.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use dreamer::dream::Models;
use dreamer::providers::Reasoner;
use dreamer::providers::budget::{Budget, Limits, Patience};
use dreamer::providers::openai::{OpenAiChat, OpenAiEmbedder};
use dreamer::report::Status;
use dreamer::state::journal::Fate;
use serde_json::{Value, json};

use super::memorybank::{check_end, home_of};
use super::{FULL, Night};
use crate::fake_openai::{FakeOpenAi, Reply};

/// What an obedient model would say: a memory of each cluster's first statement; every pair is unrelated.
fn obedient(request: &Value) -> Reply {
    let material = request["messages"][1]["content"].as_str().unwrap();
    let lines = material.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    if request["response_format"]["json_schema"]["name"] == "verdicts" {
        let verdicts = lines.filter(|line| line.get("memory").is_some()).map(|old| {
            json!({
                "memory": old["memory"], "reason": "strangers", "relation": "unrelated",
                "new_subject": "", "old_subject": "", "texts": [],
            })
        });
        return Reply::json(&json!({ "verdicts": verdicts.collect::<Vec<_>>() }));
    }
    let memories = lines.filter(|line| line["speaker"] == "user").map(|line| {
        let said: String = line["text"].as_str().unwrap().chars().take(120).collect();
        let cjk = said.chars().any(|c| c >= '\u{3000}');
        json!({
            "reason": "said", "chunks": [line["chunk"]],
            "text": if cjk { format!("用户说：“{said}”") } else { format!("The user said: “{said}”") },
            "category": "fact", "importance": 0.5, "entities": [], "tags": [], "about": null, "emotion": 0.0,
            "decision": "keep",
        })
    });
    Reply::json(&json!({ "memories": memories.collect::<Vec<_>>() }))
}

fn models(base_url: &str, calls: u32) -> Models {
    let delay = Duration::from_millis(1);
    let patience = Patience {
        request: Duration::from_secs(2),
        first_delay: delay,
        longest_delay: delay,
        least_tokens_a_second: u32::MAX,
        ..Patience::default()
    };
    let budget = Budget::with_patience(Limits::new(calls, 60, 4, Instant::now()), patience);
    let key = || Some("sk-fake".to_owned().into());
    Models {
        embedder: Box::new(OpenAiEmbedder::new(base_url, key(), "fake-embed", None, budget.clone()).unwrap()),
        reasoner: Reasoner::Model(Box::new(
            OpenAiChat::new(base_url, key(), "fake-chat", budget.clone()).unwrap(),
        )),
        budget,
    }
}

/// A user's home that a server with vectors of 64 numbers serves.
async fn home(user: &str, base_url: &str) -> (Night, BTreeSet<String>) {
    let (night, names) = home_of(user).await;
    std::fs::remove_dir_all(night.home().join("lancedb")).unwrap();
    let night = night
        .scripted_embedder(64)
        .set("OPENAI_BASE_URL", base_url)
        .set("OPENAI_EMBEDDING_MODEL", "fake-embed")
        .set("OPENAI_LLM_MODEL", "fake-chat")
        .set("OPENAI_API_KEY", "sk-fake")
        .set("DREAMER_LLM_PROVIDER", "openai")
        .set("CLUSTER_SIMILARITY", "0.6")
        .set("CONTRADICTION_SIMILARITY", "0.8");
    dreamer::store::Store::create(&night.config().lancedb_uri, 64).await.unwrap();
    (night, names)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_now_and_then_loses_no_chunk_and_stores_none_twice() {
    for (user, every) in [("en-02", 3), ("zh-01", 2)] {
        let failures = [
            Reply::Busy(1),
            Reply::Status(500),
            Reply::CutOff(r#"{"memories":[{"text":"The user lik"#.into()),
            Reply::NotJson,
            Reply::Text("I am sorry, I cannot do that. {".into()),
            Reply::Filtered,
            Reply::Late(Duration::from_secs(60)),
            Reply::Status(503),
        ];
        let server = FakeOpenAi::new().key("sk-fake").chat(obedient).every(every, failures).start().await;
        let (mut night, names) = home(user, &server.base_url()).await;
        let mut held_back = 0;
        for nights in 0.. {
            assert!(nights < 15, "{user}: it never ends");
            let report = night.dream(&models(&server.base_url(), 200)).await;
            night.next();
            held_back += report.fates.get(&Fate::HeldBack).copied().unwrap_or(0);
            let waits = report.fates.contains_key(&Fate::HeldBack) || report.waiting.days > 0;
            if !waits && report.status != Status::Failed {
                break;
            }
        }
        assert!(held_back > 0, "{user}: the failures were not felt");
        assert_eq!(server.wrong(), Vec::<String>::new());
        check_end(&night, &names, user);
        let texts = night.texts().await;
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len(), "{user}: stored twice");
        assert!(texts.len() > 10, "{user}: {texts:?}");

        // What the journal calls stored is in the table: a memory rests on each such chunk.
        let traces = night.store().await.traces().await.unwrap().traces;
        let rested_on: BTreeSet<String> =
            traces.values().flat_map(|trace| &trace.sources).map(|source| source.chunk.clone()).collect();
        for (chunk, fate) in night.final_fates() {
            let must = matches!(fate, Fate::Stored | Fate::Merged | Fate::Reinforced);
            assert!(!must || rested_on.contains(&chunk), "{user}: nothing rests on {chunk}");
        }
        // Raw text of what a person is asked about, and of all that was learned, is kept.
        let raw = night.store().await.raw_all().await.unwrap();
        let kept = |fate: &Fate| !matches!(fate, Fate::Noise | Fate::Excluded);
        assert_eq!(raw.len(), night.final_fates().values().filter(|fate| kept(fate)).count(), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_holds_everything_back_and_a_living_one_takes_it_up() {
    // A port nobody listens on.
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    };
    let (night, names) = home("en-01", &dead).await;
    let before = night.digests();
    let report = night.dream(&models(&dead, 200)).await;
    assert_eq!(report.status, Status::Failed);
    assert_eq!(report.fates.keys().copied().collect::<Vec<_>>(), [Fate::HeldBack]);
    assert!(report.chunks > 20);
    assert_eq!(night.files("episodes"), names);
    assert!(night.texts().await.is_empty());
    for (path, digest) in &before {
        assert_eq!(night.digests().get(path), Some(digest), "{} changed", path.display());
    }
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    assert!(
        log.contains("Something failed") && log.contains("fake-embed") && log.contains("held back"),
        "{log}"
    );

    let server = FakeOpenAi::new().key("sk-fake").chat(obedient).start().await;
    let mut night = night.set("OPENAI_BASE_URL", &server.base_url());
    let first = night.next().dream(&models(&server.base_url(), 200)).await;
    assert_eq!(first.held_back_before, report.chunks);
    assert!(!first.created.is_empty());
    let reports = night.next().dream_all(|| models(&server.base_url(), 200), 10).await;
    assert!(reports.iter().all(|report| report.status != Status::Failed));
    check_end(&night, &names, "en-01");
    assert_eq!(server.wrong(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_chat_is_dead_holds_chunks_back_but_keeps_what_needs_no_model() {
    let server = FakeOpenAi::new().chat(|_| Reply::Status(500)).start().await;
    let (mut night, _) = home("en-01", &server.base_url()).await;
    let report = night.dream(&models(&server.base_url(), 200)).await;
    assert_eq!(report.status, Status::Failed);
    assert!(
        report.fates.keys().all(|fate| matches!(fate, Fate::HeldBack | Fate::Noise)),
        "{:?}",
        report.fates
    );
    assert!(night.texts().await.is_empty());
    // Failing is not competing: however often, no chunk is passed over for it.
    for _ in 0..4 {
        let report = night.next().dream(&models(&server.base_url(), 200)).await;
        assert!(!report.fates.contains_key(&Fate::PassedOver), "{:?}", report.fates);
        assert!(!report.fates.contains_key(&Fate::PendingReview), "{:?}", report.fates);
    }
    assert_eq!(server.wrong(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_calls_holds_back_what_is_left_and_is_no_failure() {
    let server = FakeOpenAi::new().chat(obedient).start().await;
    let (night, names) = home("en-03", &server.base_url()).await;
    let mut night = night.set("MAX_NEW_MEMORIES", "100");
    let report = night.dream(&models(&server.base_url(), 4)).await;
    assert_eq!(report.status, Status::Done);
    assert!(report.limit.as_ref().is_some_and(|why| why.contains("DREAMER_MAX_CALLS")), "{:?}", report.limit);
    assert!(report.cost.calls <= 4 && server.calls() <= 4);
    assert!(report.fates.contains_key(&Fate::HeldBack), "{:?}", report.fates);
    night.next().dream_all(|| models(&server.base_url(), 200), 10).await;
    check_end(&night, &names, "en-03");
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_stay_unreadable_end_in_a_question_after_three_nights() {
    let server = FakeOpenAi::new().chat(|_| Reply::Text("What a lovely day.".into())).start().await;
    let (mut night, _) = home("en-01", &server.base_url()).await;
    let mut night = std::mem::replace(&mut night, Night::without_table()).set("MAX_EPISODES_PER_RUN", "100");
    let fates: Vec<_> = {
        let mut fates = vec![];
        for _ in 0..3 {
            let report = night.dream(&models(&server.base_url(), 200)).await;
            assert_eq!(report.status, Status::Failed, "a model that says nothing usable is no success");
            fates.push(report.fates.clone());
            night.next();
        }
        fates
    };
    assert!(fates[0].contains_key(&Fate::HeldBack) && fates[1].contains_key(&Fate::HeldBack), "{fates:?}");
    assert!(!fates[1].contains_key(&Fate::PendingReview), "{fates:?}");
    assert!(fates[2].contains_key(&Fate::PendingReview), "{fates:?}");
    let queue = std::fs::read_to_string(night.home().join("queues/review.jsonl")).unwrap();
    assert_eq!(queue.lines().count(), fates[2][&Fate::PendingReview]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_ends_the_program_with_exit_1_and_nothing_lost() {
    let server = FakeOpenAi::new().key("sk-right").start().await;
    let (night, names) = home("en-01", &server.base_url()).await;
    let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", night.dir.path())
        .env("DREAMER_HOME", night.home())
        .envs(night.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())))
        .env("OPENAI_API_KEY", "sk-wrong-0123456789")
        .current_dir(night.dir.path())
        .arg("--json")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["status"], "failed");
    let fates = summary["nrem"]["fates"].as_object().unwrap();
    assert_eq!(fates["held_back"], summary["nrem"]["chunks"]);
    assert_eq!(night.files("episodes"), names);
    let log = std::fs::read_to_string(summary["dream_log"].as_str().unwrap()).unwrap();
    assert!(log.contains("401"), "{log}");
    for key in ["sk-wrong-0123456789", "0123456789"] {
        assert!(!told.contains(key) && night.holding(key).is_empty(), "{:?}", night.holding(key));
    }
    // The living server's night, with the right key.
    let report = night.try_dream(FULL, &models(&server.base_url(), 200)).await.unwrap();
    assert_eq!(report.status, Status::Failed, "the test's own models have another key");
}
