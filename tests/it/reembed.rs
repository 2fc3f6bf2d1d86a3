//! `dreamer reembed`: every vector becomes another model's, and nothing else changes; interrupted it is ended, and nothing
//! is paid for twice; the way back costs nothing.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use dreamer::config::MaskPii;
use dreamer::dream::{Models, dream_with};
use dreamer::error::Error;
use dreamer::privacy::{Outbound, Privacy};
use dreamer::providers::budget::{Budget, Limits};
use dreamer::providers::{Embedder, ProviderError, Reasoner, local, normalise};
use dreamer::reembed::{Moved, Mover, ReembedError, Wish, look, reembed};
use dreamer::state::lock::Half;
use dreamer::state::{StateError, audit};
use dreamer::store::{MEMORIES, Store, VECTORED, read_before};
use dreamer::undo;

use crate::forget::told;
use crate::home::{DRY, FULL, Home, at, digests, eventful, memory, strange_sentences};
use crate::undo::{Rows, table};

/// Another model: the numbers of the builtin one in reverse order, and as many of them as wanted.
struct Another {
    inner: Box<dyn Embedder>,
    length: usize,
    asked: Arc<AtomicUsize>,
    /// Fails once it was asked for so many texts.
    until: usize,
    /// Turns the vectors: another model behind the same name.
    turned: usize,
}

fn another(length: usize) -> Another {
    let inner = local::open("lexical", "".as_ref()).unwrap();
    Another { inner, length, asked: Arc::default(), until: usize::MAX, turned: 0 }
}

#[async_trait]
impl Embedder for Another {
    fn model(&self) -> &str {
        "another"
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        if self.asked.load(Ordering::Relaxed) >= self.until {
            return Err(ProviderError::Malformed { model: "another".into(), detail: "it is gone".into() });
        }
        self.asked.fetch_add(texts.len(), Ordering::Relaxed);
        let mut vectors = self.inner.embed(texts).await?;
        for vector in &mut vectors {
            vector.reverse();
            vector.rotate_left(self.turned);
            vector.truncate(self.length);
            vector[0] += 0.01;
            assert!(normalise(vector));
        }
        Ok(vectors)
    }
}

fn mover(embedder: impl Embedder + 'static) -> Mover {
    let budget = Budget::new(Limits::new(u32::MAX, 60, 1, Instant::now()));
    Mover { embedder: Box::new(embedder), budget }
}

fn back() -> Mover {
    Mover { embedder: local::open("lexical", "".as_ref()).unwrap(), ..mover(another(1024)) }
}

async fn move_to(home: &Home, mover: &Mover, wish: &Wish) -> Result<Moved, Error> {
    reembed(&home.config, mover, wish, &|_, _| {}, at(5, 10)).await
}

/// A night with that model.
async fn night(
    home: &Home,
    embedder: impl Embedder + 'static,
    day: u64,
) -> Result<dreamer::report::DreamReport, Error> {
    let Mover { embedder, budget } = mover(embedder);
    let models = Models { embedder, reasoner: Reasoner::Extractive, budget };
    dream_with(&home.config, FULL, &models, at(day, 20), Instant::now()).await
}

/// What every table holds, and its vectors apart.
async fn tables(home: &Home) -> (BTreeMap<&'static str, Rows>, BTreeMap<String, Vec<String>>) {
    let (mut all, mut vectors) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
    for name in VECTORED {
        let mut rows = table(home, name).await;
        for row in rows.values_mut() {
            vectors.entry(row["text"].clone()).or_default().push(row.remove("vector").unwrap());
        }
        all.insert(name, rows);
    }
    (all, vectors)
}

fn bits(vector: &[f32]) -> String {
    vector.iter().map(|x| format!("{:08x}", x.to_bits())).collect()
}

async fn embedded(embedder: &dyn Embedder, texts: &[&String]) -> Vec<Vec<f32>> {
    let privacy = Privacy::new(MaskPii::Never, false);
    let words: Vec<_> = texts.iter().map(|text| privacy.to_embed(text)).collect();
    embedder.embed(&words).await.unwrap()
}

/// Every vector of every table is the model's.
async fn assert_of(embedder: &dyn Embedder, vectors: &BTreeMap<String, Vec<String>>) {
    let texts: Vec<&String> = vectors.keys().collect();
    for (text, new) in texts.iter().zip(embedded(embedder, &texts).await) {
        for stored in &vectors[*text] {
            assert_eq!(*stored, bits(&new), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vector_becomes_the_other_models_and_nothing_else_changes() {
    let home = eventful(&[]).await;
    let run = home.night(at(2, 20)).await.run;
    let preview = home.try_night(DRY, Reasoner::Extractive, at(3, 10)).await.unwrap().run;
    let (rows, old) = tables(&home).await;
    assert!(VECTORED.iter().all(|table| !rows[table].is_empty()), "{rows:?}");
    let model = another(1024);
    let asked = model.asked.clone();
    let moved = move_to(&home, &mover(model), &Wish::default()).await.unwrap();
    assert_eq!(moved.outlook.from.as_deref(), Some("lexical"));
    assert_eq!((moved.outlook.ready, moved.wordless), (0, 0));
    assert_eq!(moved.rows[MEMORIES], rows[MEMORIES].len());

    let (rows_after, new) = tables(&home).await;
    assert_eq!(rows_after, rows, "only vectors change");
    assert_of(&another(1024), &new).await;
    assert!(new.keys().eq(old.keys()) && old.iter().all(|(text, vectors)| new[text] != *vectors));
    // Each text once, and a few to see whether it is needed at all, first.
    assert!(asked.load(Ordering::Relaxed) <= moved.outlook.texts + 10, "{asked:?}");
    let traces = home.store().await.traces().await.unwrap().traces;
    assert!(traces.values().all(|trace| trace.model == "another"));
    let events = audit::Audit::read(&home.config.home).unwrap();
    let last = events.last().unwrap();
    assert_eq!((last.kind.word().as_str(), last.model.as_deref()), ("reembedded", Some("another")));

    // What the old model would still write is refused; the new one goes on.
    let refused = home.apply(&preview, at(5, 11)).await.unwrap_err().to_string();
    assert!(refused.contains("abandoned"), "{refused}");
    home.hello(5);
    let told = home.try_night(FULL, Reasoner::Extractive, at(5, 20)).await.unwrap_err();
    assert!(matches!(told, Error::OtherModel { .. }), "{told}");
    night(&home, another(1024), 5).await.unwrap();

    // What an undo brings back has the new vectors, too.
    assert!(!read_before(&home.run(&run).folder).unwrap().memories.is_empty());
    undo::rollback(&home.config, &run, None, at(6, 10), Instant::now()).await.unwrap();
    let (rows, vectors) = tables(&home).await;
    assert!(rows[MEMORIES].values().any(|row| row["text"].contains("heron")), "it had faded");
    assert_of(&another(1024), &vectors).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_move_pays_for_nothing_twice() {
    let home = Home::new(&[]).await;
    let rows: Vec<_> = strange_sentences(600)
        .iter()
        .enumerate()
        .map(|(n, text)| memory(&format!("row-{n:04}"), text, 0.7))
        .collect();
    home.add(&rows).await;
    let (before, old) = tables_of_memories(&home).await;
    let broken = Another { until: 300, ..another(1024) };
    let asked = broken.asked.clone();
    let error = move_to(&home, &mover(broken), &Wish::default()).await.unwrap_err();
    assert!(error.to_string().contains("it is gone"), "{error}");
    assert_eq!(
        tables_of_memories(&home).await,
        (before.clone(), old),
        "nothing is written before all is embedded"
    );
    assert!(Half::read(&home.config.state_dir()).unwrap().is_none());
    let paid = asked.load(Ordering::Relaxed);
    let model = another(1024);
    let asked = model.asked.clone();
    let moved = move_to(&home, &mover(model), &Wish::default()).await.unwrap();
    assert!(moved.outlook.ready >= 250, "{moved:?}");
    assert!(paid + asked.load(Ordering::Relaxed) <= 600 + 15, "{paid} and {asked:?}");
    let (after, new) = tables_of_memories(&home).await;
    assert_eq!(after, before);
    assert_of(&another(1024), &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_that_another_model_left_behind_the_same_name_are_not_used() {
    let home = Home::new(&[]).await;
    let rows: Vec<_> = strange_sentences(600)
        .iter()
        .enumerate()
        .map(|(n, text)| memory(&format!("row-{n:04}"), text, 0.7))
        .collect();
    home.add(&rows).await;
    let broken = Another { until: 300, ..another(1024) };
    move_to(&home, &mover(broken), &Wish::default()).await.unwrap_err();
    let changed = || Another { turned: 300, ..another(1024) };
    let moved = move_to(&home, &mover(changed()), &Wish::default()).await.unwrap();
    assert_eq!(moved.outlook.ready, 0, "{moved:?}");
    assert_of(&changed(), &tables_of_memories(&home).await.1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_another_database_stays() {
    let home = eventful(&[]).await;
    let half = Half { to: "another".into(), database: "/elsewhere/lancedb".into(), since: at(5, 9) };
    half.begin(&home.config.state_dir()).unwrap();
    let error = move_to(&home, &mover(another(1024)), &Wish::default()).await.unwrap_err().to_string();
    assert!(error.contains("/elsewhere/lancedb"), "{error}");
    assert!(Half::read(&home.config.state_dir()).unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_forgotten_stays_forgotten_under_the_other_model() {
    let (home, row) = crate::forget::allergic().await;
    crate::forget::forget(&home, &row.id, dreamer::forget::Manner::Archive, at(1, 10)).await;
    move_to(&home, &mover(another(1024)), &Wish::default()).await.unwrap();
    let tombstones = crate::forget::tombstones(&home);
    let tombstone = tombstones.get(&row.id).unwrap();
    assert_eq!(tombstone.model, "another");
    let new = embedded(&another(1024), &[&row.text]).await;
    assert_eq!(tombstone.vector.as_deref(), Some(new[0].as_slice()));
}

async fn tables_of_memories(home: &Home) -> (Rows, BTreeMap<String, Vec<String>>) {
    let mut rows = table(home, MEMORIES).await;
    let vector =
        |row: &mut BTreeMap<String, String>| (row["text"].clone(), vec![row.remove("vector").unwrap()]);
    let vectors = rows.values_mut().map(vector).collect();
    (rows, vectors)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_writes_no_other_run_begins_until_it_is_ended() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let model = another(1024);
    let store = home.store().await;
    let texts = store.texts().await.unwrap();
    let texts: Vec<&String> = texts.iter().collect();
    let vectors = embedded(&model, &texts).await;
    let half = Half { to: "another".into(), database: home.config.lancedb_uri.clone(), since: at(5, 9) };
    half.begin(&home.config.state_dir()).unwrap();
    // One table is done, the others are not.
    let all = texts.into_iter().cloned().zip(vectors).collect();
    store.set_vectors(MEMORIES, &all).await.unwrap();
    for error in [
        night(&home, another(1024), 5).await.unwrap_err(),
        home.try_night(FULL, Reasoner::Extractive, at(5, 20)).await.unwrap_err(),
        dreamer::restore::restore(&home.config, "heron", crate::home::day(5)).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::State(StateError::HalfMoved { .. })), "{error}");
        assert!(error.to_string().contains("run `dreamer reembed` again"), "{error}");
    }
    let outlook = look(&home.config, &mover(another(1024)), &Wish::default()).await.unwrap();
    assert!(outlook.interrupted && !outlook.is_done(), "{outlook:?}");
    move_to(&home, &mover(model), &Wish::default()).await.unwrap();
    assert_of(&another(1024), &tables(&home).await.1).await;
    night(&home, another(1024), 5).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_is_the_same_command_and_costs_nothing() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let (rows, old) = tables(&home).await;
    move_to(&home, &mover(another(1024)), &Wish::default()).await.unwrap();
    home.add(&[]).await;
    let outlook = look(&home.config, &back(), &Wish::default()).await.unwrap();
    assert_eq!((outlook.ready, outlook.tokens), (outlook.texts, 0), "{outlook:?}");
    move_to(&home, &back(), &Wish::default()).await.unwrap();
    assert_eq!(tables(&home).await, (rows, old), "bit for bit");
    home.night(at(6, 20)).await;
    let again = look(&home.config, &back(), &Wish::default()).await.unwrap();
    assert!(again.is_done(), "{again:?}");
    let moved = move_to(&home, &back(), &Wish::default()).await.unwrap();
    assert!(moved.rows.is_empty(), "there is nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_another_length_go_into_a_database_beside_the_old_one() {
    let mut home = eventful(&[]).await;
    let run = home.night(at(2, 20)).await.run;
    let gateway = home.gateway().await;
    let scope = lancedb::table::NewColumnTransform::SqlExpressions(vec![("scope".into(), "'home'".into())]);
    gateway.add_columns().transform(scope).execute().await.unwrap();
    let (rows, old) = tables(&home).await;
    let folder = std::path::PathBuf::from(&home.config.lancedb_uri);
    let untouched = digests(&folder);
    let told =
        move_to(&home, &mover(another(64)), &Wish { to: Some(folder.clone()), ..Wish::default() }).await;
    assert!(matches!(told, Err(Error::Reembed(ReembedError::NoPlace { .. }))), "{told:?}");
    std::fs::create_dir(home.outside("there")).unwrap();
    for (place, exists) in
        [(home.outside("there"), true), ("~/new".into(), false), (home.outside("no/where"), false)]
    {
        let told = move_to(&home, &mover(another(64)), &Wish { to: Some(place), ..Wish::default() }).await;
        let error = told.unwrap_err();
        assert_eq!(matches!(error, Error::Reembed(ReembedError::Exists { .. })), exists, "{error}");
    }
    let moved = move_to(&home, &mover(another(64)), &Wish::default()).await.unwrap();
    let new = folder.with_file_name("lancedb-64");
    assert_eq!(moved.outlook.beside.as_deref(), Some(new.as_path()));
    assert_eq!(digests(&folder), untouched, "the old database stays as it is");
    assert_eq!(tables(&home).await, (rows.clone(), old));
    assert!(!Path::new(&format!("{}.partial", new.display())).exists());

    let live = home.texts().await;
    home.set(&[("DREAMER_LANCEDB_URI", new.to_str().unwrap())]);
    let store = Store::open(new.to_str().unwrap()).await.unwrap();
    assert_eq!(store.dim(), 64);
    let (copied, vectors) = tables(&home).await;
    assert_eq!(copied, rows, "every column and row");
    assert_of(&another(64), &vectors).await;
    let traces = store.traces().await.unwrap().traces;
    assert!(!traces.is_empty() && traces.values().all(|trace| trace.model == "another"));
    assert_eq!(home.texts().await, live);
    let wish = Wish { to: Some("x".into()), anyway: true, ..Wish::default() };
    let told = move_to(&home, &mover(another(64)), &wish).await;
    assert!(matches!(told, Err(Error::Reembed(ReembedError::NeedsNoFolder { .. }))), "{told:?}");
    // What was written before cannot be put back here, and nothing of it is tried.
    let version = store.version().await.unwrap();
    let told = undo::rollback(&home.config, &run, None, at(6, 10), Instant::now()).await.unwrap_err();
    assert!(told.to_string().contains("vectors of 1024 numbers"), "{told}");
    assert_eq!(store.version().await.unwrap(), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nobody_and_the_sentinel_are_moved_and_left() {
    let home = Home::new(&[]).await;
    home.add(&[memory("mine", "The user drinks tea.", 0.7), memory("nobodys", "The user drinks mate.", 0.7)])
        .await;
    let gateway = home.gateway().await;
    let set =
        |filter: &str, column: &str, value: &str| gateway.update().only_if(filter).column(column, value);
    set("id = 'nobodys'", "agentId", "NULL").execute().await.unwrap();
    home.add(&[memory("__schema__", "x", 0.0)]).await;
    let before = table(&home, MEMORIES).await["__schema__"].clone();
    move_to(&home, &mover(another(1024)), &Wish::default()).await.unwrap();
    let after = table(&home, MEMORIES).await;
    assert_eq!(after["__schema__"], before);
    let texts: BTreeSet<String> = ["mine", "nobodys"].iter().map(|id| after[*id]["text"].clone()).collect();
    let texts: Vec<&String> = texts.iter().collect();
    for (text, vector) in texts.iter().zip(embedded(&another(1024), &texts).await) {
        assert!(after.values().any(|row| row["text"] == **text && row["vector"] == bits(&vector)), "{text}");
    }
    assert_eq!(after["nobodys"]["agentId"], "NULL");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_answers_is_not_written_beside() {
    let home = eventful(&[]).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = Some(listener.local_addr().unwrap().to_string());
    let version = home.store().await.version().await.unwrap();
    let error =
        move_to(&home, &mover(another(1024)), &Wish { gateway, ..Wish::default() }).await.unwrap_err();
    assert!(matches!(error, Error::Reembed(ReembedError::GatewayRuns { .. })), "{error}");
    assert_eq!(error.exit_code(), 75);
    assert_eq!(home.store().await.version().await.unwrap(), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_before_it_asks_and_has_nothing_to_do_twice() {
    let home = eventful(&[]).await;
    let (out, _) = told(&home, &["reembed"], 0);
    assert!(out.contains("the table's vectors are this model's already"), "{out}");
    let (out, _) = told(&home, &["reembed", "--dry-run", "--json"], 0);
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&object["status"], &object["dim"]), (&"nothing_to_do".into(), &1024.into()));
    let (out, err) = told(&home, &["reembed", "--anyway"], 2);
    assert!(out.contains("in place") && err.contains("--yes"), "{out}{err}");
    let (_, err) = told(&home, &["reembed", "--anyway", "--to", "elsewhere", "--yes"], 2);
    assert!(err.contains("leave --to out"), "{err}");
}
