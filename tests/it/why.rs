//! What `dreamer why` tells of every memory there ever was, and the audit and the readable copies it rests on. This file
//! builds a home with a life in it; the modules below state behaviour.
#![allow(clippy::unwrap_used)]

mod audit;
mod copies;
mod program;
mod story;

use std::collections::{BTreeMap, BTreeSet};

use dreamer::memory::Archived;
use dreamer::plan::DreamPlan;
use dreamer::providers::replay::Replay;
use dreamer::providers::{Prompt, Reasoner};
use dreamer::report::DreamReport;
use dreamer::why::{Why, why};
use serde_json::{Map, Value, json};

use crate::home::{FULL, Home, at, day, memory, session};

const CATS: &str = "The user likes cats.";
const ALLERGIC: &str = "The user is allergic to cats now.";
const MERGED: &str = "The user used to like cats and is allergic to cats since 2026-01-03.";
const SHOTS: &str = "The user gets shots against the allergy to cats since 2026-01-04.";
const TWICE: &str = "The user used to like cats, is allergic to cats since 2026-01-03 and gets shots against it since 2026-01-04.";
const HERON: &str = "The user once saw a heron by the pond.";
const STANDUP: &str = "The team standup is at 9:00 every weekday.";
const LAMP: &str = "The user bought a brass lamp.";
const CATS_ID: &str = "c0ffee00-0000-4000-8000-000000000001";
const HERON_ID: &str = "4e505000-0000-4000-8000-000000000002";
const LAMP_1: &str = "1a300001-0000-4000-8000-000000000003";
const LAMP_2: &str = "1a300002-0000-4000-8000-000000000004";

/// A model that remembers what it is told to and judges what it knows; a wrong number makes the check refuse it.
fn model() -> Reasoner<'static> {
    let rule = |prompt: &Prompt| {
        let lines = prompt.user.as_str().lines().filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.filter(Value::is_object).collect();
        let reply = if prompt.schema_name == "memories" { distil(&lines) } else { relate(&lines) };
        Some(Ok(reply.to_string()))
    };
    Reasoner::Model(Box::new(Replay::new().by(rule)))
}

fn text_of(line: &Value) -> &str {
    line["text"].as_str().unwrap()
}

fn distil(lines: &[Value]) -> Value {
    let drafts = [
        ("allergic to cats now", ALLERGIC),
        ("get shots", SHOTS),
        ("heron", HERON),
        ("standup", STANDUP),
        ("locker", "The user's locker has the number 4712."),
    ];
    let chunks = lines.iter().filter(|line| line["chunk"].is_number());
    let memories = chunks.flat_map(|chunk| {
        let said = drafts.iter().filter(|(words, _)| text_of(chunk).contains(words));
        said.map(|(_, draft)| {
            json!({
                "reason": "scripted", "chunks": [chunk["chunk"]], "text": draft, "category": "fact",
                "importance": 0.6, "entities": [], "tags": [], "about": null, "emotion": 0.0, "decision": "keep",
            })
        })
    });
    json!({ "memories": memories.collect::<Vec<_>>() })
}

fn relate(lines: &[Value]) -> Value {
    let verdicts = lines[1..].iter().map(|old| {
        let (relation, merged) = match (text_of(&lines[0]), text_of(old)) {
            (ALLERGIC, CATS) => ("state_change", vec![MERGED]),
            (SHOTS, MERGED) => ("different_aspects", vec![TWICE]),
            _ => ("unrelated", vec![]),
        };
        json!({
            "memory": old["memory"], "reason": "it says what became of it", "relation": relation,
            "new_subject": "The user", "old_subject": "The user", "texts": merged,
        })
    });
    json!({ "verdicts": verdicts.collect::<Vec<_>>() })
}

/// What is there before and after a night.
struct Snapshot {
    rows: BTreeMap<String, Map<String, Value>>,
    archived: BTreeMap<String, Archived>,
}

async fn snapshot(home: &Home) -> Snapshot {
    let store = home.store().await;
    let rows = store.row_json(None, false).await.unwrap();
    let archived = store.archived_all("main").await.unwrap();
    Snapshot {
        rows: rows.into_iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row)).collect(),
        archived: archived.into_iter().map(|a| (a.memory.id.clone(), a)).collect(),
    }
}

/// A night of the life, with what was there before and after it.
struct Dreamt {
    before: Snapshot,
    after: Snapshot,
    report: DreamReport,
    plan: DreamPlan,
}

struct Life {
    home: Home,
    nights: Vec<Dreamt>,
}

impl Life {
    async fn night(&mut self, n: u64) {
        let before = snapshot(&self.home).await;
        let report = self.home.try_night(FULL, model(), at(n, 20)).await.unwrap();
        let (plan, after) = (self.home.plan(&report.run), snapshot(&self.home).await);
        self.nights.push(Dreamt { before, after, report, plan });
    }

    fn said(&self, n: u64, messages: &[&str]) {
        let messages: Vec<(&str, &str)> =
            messages.iter().flat_map(|text| [("user", *text), ("assistant", "Noted.")]).collect();
        self.home.episode(&format!("{}.md", day(n)), &session(day(n), &messages));
    }

    async fn why(&self, id: &str) -> Why {
        why(&self.home.config, id, day(5)).await.unwrap()
    }

    /// Every id that was ever a row, a draft that was merged, or a successor.
    fn ids(&self) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for night in &self.nights {
            for state in [&night.before, &night.after] {
                ids.extend(state.rows.keys().chain(state.archived.keys()).cloned());
            }
            ids.extend(night.plan.inserts.iter().map(|row| row.memory.id.clone()));
            ids.extend(night.plan.merged_drafts.iter().map(|draft| draft.row.memory.id.clone()));
        }
        ids
    }

    async fn id_of(&self, text: &str) -> String {
        let store = self.home.store().await;
        let live = store.rows("main").await.unwrap().memories;
        let archived = store.archived_all("main").await.unwrap().into_iter().map(|a| a.memory);
        let mut all = live.into_iter().chain(archived);
        all.find(|memory| memory.text == text).unwrap_or_else(|| panic!("no memory says {text}")).id
    }
}

/// Five nights: duplicates, a new memory, a quote, a merge, a fading, a merge of the merge, a revival, a re-occurrence
/// and a recall.
async fn life() -> Life {
    let home = Home::new(&[]).await;
    home.add(&[
        memory(CATS_ID, CATS, 0.7),
        memory(HERON_ID, HERON, 0.1575),
        memory(LAMP_1, LAMP, 0.7),
        memory(LAMP_2, LAMP, 0.5),
    ])
    .await;
    let mut life = Life { home, nights: vec![] };
    life.said(0, &["Our team standup is at 9:00 every weekday.", "My locker has the number 4711."]);
    life.night(0).await;
    life.home.hello(1);
    life.said(2, &["Bad news: I am allergic to cats now."]);
    life.night(2).await;
    life.said(
        3,
        &[
            "I get shots against my allergy to cats from now on.",
            "Remember that I once saw a heron by the pond.",
        ],
    );
    life.night(3).await;
    life.said(4, &["As you know, our team standup is at 9:00 every weekday."]);
    life.home.recall(&[&format!(r#"{{"id":"{LAMP_1}","at":"{}T08:00:00Z"}}"#, day(4))]);
    life.night(4).await;
    let [first, second, third, fourth] = &life.nights[..] else { panic!("four nights") };
    // A life in which one of these did not happen would prove nothing.
    assert_eq!(first.report.created.len(), 2, "{:#?}", first.report);
    assert_eq!((first.report.rem.reinforced, first.report.first_seen), (1, 4));
    assert_eq!((second.report.rem.merged, second.report.rem.faded), (1, 1), "{:#?}", second.report);
    assert_eq!(
        (third.report.rem.consolidated, third.report.strengthened.len()),
        (1, 1),
        "{:#?}",
        third.report
    );
    assert!(third.report.strengthened[0].revived);
    assert_eq!(
        (fourth.report.strengthened.len(), fourth.report.rem.recalled),
        (1, 1),
        "{:#?}",
        fourth.report
    );
    life
}
