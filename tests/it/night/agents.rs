//! Several agents in one table, tables of every age, and the probe that keeps another model's vectors out.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use dreamer::error::Error;
use dreamer::providers::Embedder;
use dreamer::state::journal::Fate;
use serde_json::{Map, Value};

use super::models::{By, Script, extractive, lexical, models, reasoner, scripted};
use super::{FULL, Night};
use crate::fake_openai::vector;

const TEA: &str = "The user drinks green tea every morning.";

#[tokio::test(flavor = "multi_thread")]
async fn agents_with_the_same_words_never_meet() {
    let mut night = Night::new().await;
    let a = night.known_of("a", TEA, "2026-01-05").await;
    let b = night.known_of("b", TEA, "2026-01-06").await;
    let model = Script::new()
        .remember("green tea", TEA)
        .remember("allergic", "The user is allergic to cats now.")
        .judge("", "", "duplicate", ("The user", "The user"), "")
        .model();
    // Rows of two agents alone: nothing to compare, nothing to settle.
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.candidates, report.rem.reinforced, model.prompts().len()), (0, 0, 0));
    assert_eq!(night.memories().await.len(), 2);

    // Agent a hears it again; both hear of the cats, in the same words.
    let cats = ("user", "Bad news: I am allergic to cats now.");
    night.session_of("a", "2026-03-11", "1200", &[("user", "I drink green tea every morning."), cats]);
    night.session_of("b", "2026-03-11", "1300", &[cats]);
    let report = night.next().dream(&scripted(&model)).await;
    assert_eq!((report.created.len(), report.strengthened.len(), report.rem.candidates), (2, 1, 0));
    let rows = night.memories().await;
    assert_eq!(rows.len(), 4);
    let importance = |id: &str| rows.iter().find(|row| row.id == id).unwrap().importance;
    assert!((importance(&a) - 0.73).abs() < 1e-9 && (importance(&b) - 0.7).abs() < 1e-9);
    let cats: Vec<&str> =
        rows.iter().filter(|row| row.text.contains("cats")).map(|row| row.partition.agent.as_str()).collect();
    assert_eq!(cats.iter().collect::<std::collections::BTreeSet<_>>().len(), 2, "{cats:?}");
    for agent in ["a", "b"] {
        let row = rows.iter().find(|row| row.text.contains("cats") && row.partition.agent == agent).unwrap();
        assert_eq!(night.trace(&row.id).await.agent, agent);
    }
    assert!(night.archive().await.is_empty());
}

/// An embedder that knows the rows' own vectors, as the model that wrote them would.
async fn writer_of(night: &Night, dim: usize) -> Box<dyn Embedder> {
    let store = night.store().await;
    let rows = store.rows(super::AGENT).await.unwrap().memories;
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut vectors = store.vectors(&ids).await.unwrap();
    let known: HashMap<String, Vec<f32>> = rows
        .into_iter()
        .map(|row| {
            let mut own = vectors.remove(&row.id).unwrap();
            assert!(dreamer::providers::normalise(&mut own));
            (row.text, own)
        })
        .collect();
    let known = Arc::new(known);
    Box::new(By(move |text: &str| known.get(text).cloned().unwrap_or_else(|| vector(text, dim))))
}

async fn rows_by_id(night: &Night) -> HashMap<String, Map<String, Value>> {
    let rows = night.store().await.row_json(None, true).await.unwrap();
    rows.into_iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row)).collect()
}

async fn file_format(night: &Night) -> String {
    let path = night.home().join("lancedb/memories.lance");
    let dataset = lance::Dataset::open(path.to_str().unwrap()).await.unwrap();
    dataset.manifest().data_storage_format.version.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_every_age_take_a_night_and_keep_what_is_not_ours() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lancedb");
    let mut seen = 0;
    for entry in folder.read_dir().unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().into_string().unwrap();
        let dim = if name.starts_with("openclaw") { 64 } else { 8 };
        // Only the words decide in so few dimensions: nothing of the table is taken for the same.
        let night =
            Night::on_fixture(&name, dim).set("DEDUP_SIMILARITY", "1").set("CONTRADICTION_SIMILARITY", "1");
        let (before, format) = (rows_by_id(&night).await, file_format(&night).await);
        let columns = night.store().await.columns();
        let embedder = writer_of(&night, dim).await;
        night.session_of("newcomer", "2026-03-10", "1200", &[("user", "I moved to Lisbon in March.")]);
        let model = Script::new().remember("Lisbon", "The user moved to Lisbon in March.").model();
        let report = night.dream(&models(embedder, reasoner(&model))).await;
        assert_eq!(report.created.len(), 1, "{name}: {report:?}");

        let after = rows_by_id(&night).await;
        let new = &after[&report.created[0].memory.id];
        assert_eq!(after.len(), before.len() + 1, "{name}");
        for (id, row) in &before {
            assert_eq!(&after[id], row, "{name}");
        }
        assert_eq!(new["text"], "The user moved to Lisbon in March.");
        assert_eq!(new["vector"].as_array().unwrap().len(), dim);
        if columns.contains(&"agentId".to_owned()) {
            assert_eq!(new["agentId"], "newcomer", "{name}");
        }
        if columns.contains(&"scope".to_owned()) {
            assert_eq!(new["scope"], Value::Null, "{name}");
        }
        assert_eq!((night.store().await.columns(), file_format(&night).await), (columns, format), "{name}");
        seen += 1;
    }
    assert!(seen >= 18);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_model_stops_the_night_before_anything_is_paid_or_written() {
    let other =
        |report: Result<_, Error>| -> Error { report.map(|_: dreamer::report::DreamReport| ()).unwrap_err() };
    let mut night = Night::new().await;
    night.known(TEA, "2026-01-05").await;
    night.dream(&extractive()).await;
    let mut night = night.scripted_embedder(1024);
    night.session("2026-03-10", &[("user", "I am allergic to cats now.")]);
    let before = night.digests();
    let runs = std::fs::read_dir(night.home().join("runs")).unwrap().count();

    let model = Script::new().model();
    let stranger: Box<dyn Embedder> = Box::new(By(|text: &str| {
        let mut turned = vector(text, 1024);
        turned.rotate_right(1);
        turned
    }));
    let error = other(night.next().try_dream(FULL, &models(stranger, reasoner(&model))).await);
    assert_eq!(error.exit_code(), 78);
    let told = error.to_string();
    for part in ["1024", "scripted", "the last run used lexical"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    assert!(model.prompts().is_empty(), "no call is paid");
    assert_eq!(night.digests(), before, "nothing is written");
    assert_eq!(std::fs::read_dir(night.home().join("runs")).unwrap().count(), runs);

    // Another dimension, found by asking.
    let small: Box<dyn Embedder> = Box::new(By(|text: &str| vector(text, 256)));
    let error = other(night.try_dream(FULL, &models(small, reasoner(&model))).await);
    assert!(matches!(error, Error::OtherDimension { table: 1024, model_dim: 256, .. }), "{error}");
    assert!(!error.to_string().contains("remove"), "somebody's memories are in it: {error}");
    assert_eq!(error.exit_code(), 78);
    // And one the settings tell: nobody is asked.
    let night = night.set("DREAMER_EMBEDDING_DIM", "512");
    let silent: Box<dyn Embedder> = Box::new(By(|_: &str| panic!("nobody asks")));
    let error = other(night.try_dream(FULL, &models(silent, reasoner(&model))).await);
    assert!(matches!(error, Error::OtherDimension { table: 1024, model_dim: 512, .. }), "{error}");
    assert!(model.prompts().is_empty());
    assert_eq!(night.digests(), before);

    // The model that wrote the table goes on.
    let night = night.set("DREAMER_EMBEDDING_PROVIDER", "builtin").set("DREAMER_EMBEDDING_DIM", "1024");
    let report = night.dream(&models(lexical(), reasoner(&model))).await;
    assert_eq!(report.fates.keys().copied().collect::<Vec<_>>(), [Fate::Noise]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_of_another_dimension_stops_the_night_too() {
    let night = Night::new().await;
    night.session("2026-03-10", &[("user", "I am allergic to cats now.")]);
    let before = night.digests();
    let mut night = night.scripted_embedder(1024);
    night.settings.remove("DREAMER_EMBEDDING_DIM");
    let small: Box<dyn Embedder> = Box::new(By(|text: &str| vector(text, 256)));
    let error = night.try_dream(FULL, &models(small, reasoner(&Script::new().model()))).await.unwrap_err();
    assert!(
        matches!(error, Error::OtherDimension { table: 1024, model_dim: 256, empty: true, .. }),
        "{error}"
    );
    let folder = night.home().join("lancedb/memories.lance");
    assert!(
        folder.is_dir() && error.to_string().contains(&format!("remove {} and", folder.display())),
        "{error}"
    );
    assert_eq!(night.digests(), before);
}
