//! The first nights on a table a gateway has filled: nothing fades, nobody is asked more than allowed, and the rest
//! follows on later nights.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use dreamer::dream::{Models, dream_with};
use dreamer::memory::{Memory, Reconciled, Trace};
use dreamer::providers::Reasoner;
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::openai::{OpenAiChat, OpenAiEmbedder};
use dreamer::report::DreamReport;
use serde_json::{Value, json};

use crate::fake_openai::{FakeOpenAi, Reply, Running};
use crate::home::{FULL, Home, at, memory, strange_sentences};

/// Rows of a gateway, the newest last: 2,000 or so, among them pairs with the same words, pairs that say the same in
/// other words, and pairs that contradict each other.
fn old_rows(count: usize) -> Vec<Memory> {
    const PAIRS: usize = 50;
    let names = strange_sentences(4 * count);
    let name = |n: usize| {
        let word = names[n].split(' ').next().unwrap();
        word[..1].to_uppercase() + &word[1..]
    };
    let mut texts = Vec::new();
    for n in 0..PAIRS {
        texts.push(names[count + n].clone());
        texts.push(names[count + n].clone());
        let wine = format!("{} {}", name(2 * count + n), name(3 * count + n));
        texts.push(format!("The user thinks that the wine from {wine} is the best one of all."));
        texts.push(format!("The user thinks the wine from {wine} is the best one of all."));
        texts.push(format!("{} lives in {}.", name(n), name(n + 200)));
        texts.push(format!("{} lives in {} now.", name(n), name(n + 400)));
    }
    let left = count - texts.len();
    texts.extend(names[count + PAIRS..].iter().take(left).cloned());
    // Spread the pairs over the whole table, some of them among the newest.
    let step = 7;
    let order = (0..step).flat_map(|start| (start..count).step_by(step).rev().collect::<Vec<_>>());
    let row = |(age, n): (usize, usize)| {
        let row = memory(&format!("row-{n:05}"), &texts[n], 0.2 + 0.7 * (n % 10) as f64 / 10.0);
        Memory { created_at: row.created_at - (count - age) as i64 * 60_000, ..row }
    };
    order.enumerate().map(row).collect()
}

/// Says of every pair that the two have nothing to do with each other.
async fn judge_of_strangers() -> Running {
    let verdict = |body: &Value| {
        let asked = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let verdicts: Vec<Value> = (1..=asked.matches("\"memory\":").count())
            .map(|n| {
                json!({ "memory": n, "reason": "strangers", "relation": "unrelated", "new_subject": "", "old_subject": "",
                        "texts": [] })
            })
            .collect();
        Reply::json(&json!({ "verdicts": verdicts }))
    };
    FakeOpenAi::new().dim(1024).chat(verdict).start().await
}

/// A night that asks the server for everything, embeddings too.
async fn night(home: &Home, server: &Running, now: DateTime<Utc>) -> DreamReport {
    let limits = Limits::new(home.config.max_calls, home.config.max_minutes, 4, Instant::now());
    let budget = Budget::new(limits);
    let (url, key) = (server.base_url(), Some(String::from("test").into()));
    let embedder =
        Box::new(OpenAiEmbedder::new(&url, key.clone(), "lexical", Some(1024), budget.clone()).unwrap());
    let chat = OpenAiChat::new(&url, key, "judge", budget.clone()).unwrap();
    let models = Models { embedder, reasoner: Reasoner::Model(Box::new(chat)), budget };
    dream_with(&home.config, FULL, &models, now, Instant::now()).await.unwrap()
}

async fn rows(home: &Home) -> BTreeMap<String, Memory> {
    let rows = home.store().await.rows("main").await.unwrap().memories;
    rows.into_iter().map(|row| (row.id.clone(), row)).collect()
}

async fn waiting(home: &Home) -> BTreeSet<String> {
    let (live, store) = (rows(home).await, home.store().await);
    let traces = store.traces().await.unwrap().traces.into_values();
    let open = traces.filter(|trace| trace.reconciled != Reconciled::Done && live.contains_key(&trace.id));
    open.map(|trace| trace.id).collect()
}

/// What holds after every night: who is gone had a twin that stays, nobody else changed.
async fn check_rows(home: &Home, before: &BTreeMap<String, Memory>, report: &DreamReport) {
    let after = rows(home).await;
    assert_eq!(
        (report.rem.faded, report.rem.decayed, report.rem.merged, report.rem.consolidated),
        (0, 0, 0, 0)
    );
    let words = |text: &str| text.replace(" that ", " ");
    let stays: BTreeSet<String> = after.values().map(|row| words(&row.text)).collect();
    for (id, row) in before {
        match after.get(id) {
            Some(now) => assert_eq!(now, row),
            None => assert!(stays.contains(&words(&row.text)), "{row:?} is gone"),
        }
    }
    assert!(after.keys().all(|id| before.contains_key(id)));
    let archived: BTreeSet<String> = home.archived().await.into_iter().collect();
    assert!(before.keys().all(|id| after.contains_key(id) != archived.contains(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_old_rows_are_taken_in_within_the_budget_and_the_rest_follows() {
    let home = Home::new(&[]).await;
    let old = old_rows(2000);
    home.add(&old).await;
    let before = rows(&home).await;
    let server = judge_of_strangers().await;
    let first = night(&home, &server, at(0, 3)).await;
    check_rows(&home, &before, &first).await;
    assert!(server.calls() <= 200 && first.cost.calls as usize == server.calls(), "{} calls", server.calls());
    assert!(!server.chats().is_empty());
    assert_eq!(first.first_seen, 2000);
    let traces = home.store().await.traces().await.unwrap().traces;
    assert!(before.keys().all(|id| traces.contains_key(id)));

    // Exact duplicates go first, all of them; of the others two hundred at most are taken up, the newest.
    let live = rows(&home).await;
    let twice =
        old.iter().filter(|row| old.iter().filter(|other| other.text == row.text).count() > 1).count();
    assert_eq!(twice, 100);
    let texts: BTreeSet<&str> = live.values().map(|row| row.text.as_str()).collect();
    assert_eq!(texts.len(), live.len());
    assert!(first.settled_by_rules >= 50, "{}", first.settled_by_rules);
    let wait = waiting(&home).await;
    // Those beyond what a night takes up are material for the next, but for a few that left with their twins; open
    // conflicts are not.
    let beyond = |trace: &&Trace| trace.reconciled == Reconciled::Waiting && live.contains_key(&trace.id);
    let stored = home.store().await.traces().await.unwrap().traces;
    let beyond = stored.values().filter(beyond).count();
    assert!(
        (first.waiting.rows - 50..=first.waiting.rows).contains(&beyond),
        "{beyond} {}",
        first.waiting.rows
    );
    assert!(wait.len() >= 1600 && first.waiting.rows >= 1600, "{} {}", wait.len(), first.waiting.rows);
    let newest: Vec<&Memory> = old.iter().rev().filter(|row| live.contains_key(&row.id)).take(100).collect();
    let open = newest.iter().filter(|row| wait.contains(&row.id)).count();
    assert!(open < 10, "{open} of the newest wait");
    let log = std::fs::read_to_string(first.dream_log.as_ref().unwrap()).unwrap();
    let told = format!("{} memories seen for the first time or changed: compared", first.waiting.rows);
    assert!(log.contains(&told), "{log}");
    let told = format!("{} pairs of memories settled by rules, without a model", first.settled_by_rules);
    assert!(log.contains(&told), "{log}");

    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut nights = 1;
    let mut seen = 0;
    loop {
        for pair in server.chats()[seen..].iter().flat_map(pairs) {
            assert!(asked.insert(pair.clone()), "asked again: {pair}");
        }
        seen = server.chats().len();
        if waiting(&home).await.is_empty() {
            break;
        }
        let (left, calls) = (waiting(&home).await.len(), server.calls());
        let report = night(&home, &server, at(0, 3) + TimeDelta::hours(nights)).await;
        nights += 1;
        check_rows(&home, &before, &report).await;
        assert!(server.calls() - calls <= 200);
        assert!(waiting(&home).await.len() < left && nights < 20, "night {nights}: {left} wait");
    }
    assert!(nights >= 10, "{nights}");
    // Paraphrases went, contradictions stay and were asked about.
    let live = rows(&home).await;
    assert_eq!(live.len(), 2000 - 100);
    assert!(asked.iter().filter(|pair| pair.contains("lives in")).count() >= 50);
    let (calls, version) = (server.chats().len(), home.store().await.version().await.unwrap());
    assert_eq!(night(&home, &server, at(1, 3)).await.status.as_str(), "nothing_new");
    assert_eq!((server.chats().len(), home.store().await.version().await.unwrap()), (calls, version));
    assert_eq!(server.wrong(), Vec::<String>::new());
}

/// The pairs a prompt asks about, smaller text first.
fn pairs(chat: &Value) -> Vec<String> {
    let asked = chat["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let claims = asked.lines().filter(|line| line.starts_with('{'));
    let texts: Vec<String> = claims
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
        .collect();
    texts[1..]
        .iter()
        .map(
            |old| {
                if *old < texts[0] {
                    format!("{old} | {}", texts[0])
                } else {
                    format!("{} | {old}", texts[0])
                }
            },
        )
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_first_night_loses_nothing_either() {
    let home = Home::new(&[]).await;
    home.add(&old_rows(600)).await;
    let before = rows(&home).await;
    for n in 0..9 {
        let report = home.night(at(0, 3 + n)).await;
        assert_eq!((report.rem.faded, report.rem.decayed, report.cost.calls), (0, 0, 0));
        let after = rows(&home).await;
        let archived: BTreeSet<String> = home.archived().await.into_iter().collect();
        assert!(before.keys().all(|id| after.contains_key(id) != archived.contains(id)));
        // Every value is still in a live row; a merge keeps both, with their dates.
        let all: String = after.values().map(|row| format!("{}\n", row.text)).collect();
        for row in before.values().filter(|row| row.text.contains("lives in")) {
            assert!(all.contains(row.text.trim_end_matches('.')), "{}", row.text);
        }
    }
    assert_eq!(waiting(&home).await, BTreeSet::new());
}
