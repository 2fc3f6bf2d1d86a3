//! The store against tables that real gateways wrote, and against a second writer that behaves like a gateway.

#![allow(clippy::unwrap_used)]

mod columns;
mod neighbours;
mod ours;
mod shared;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dreamer::memory::{Category, Departure, Memory, Partition, Similarity};
use dreamer::store::{Created, Inherit, Leaving, NewRow, Outcome, Query, Store, StoreError};
use serde_json::{Map, Value};

const AGENT: &str = "main";

type Dump = BTreeMap<String, Map<String, Value>>;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lancedb");
    let mut all: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    all.sort();
    assert!(all.len() >= 18, "fixtures are missing");
    all
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in walkdir::WalkDir::new(from).min_depth(1) {
        let entry = entry.unwrap();
        let target = to.path().join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
    to
}

fn fixture(name: &str) -> tempfile::TempDir {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lancedb").join(name))
}

async fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(folder.path().to_str().unwrap()).await.unwrap()
}

/// Every column of every row, by id.
async fn dump(store: &Store) -> Dump {
    let rows = store.row_json(None, true).await.unwrap();
    rows.into_iter().map(|row| (row["id"].as_str().unwrap().to_string(), row)).collect()
}

/// A second writer on the same table, as a gateway is.
async fn gateway(folder: &tempfile::TempDir) -> lancedb::Table {
    let connection = lancedb::connect(folder.path().to_str().unwrap()).execute().await.unwrap();
    connection.open_table("memories").execute().await.unwrap()
}

async fn edit(gateway: &lancedb::Table, id: &str, text: &str) {
    let text = format!("'{}'", text.replace('\'', "''"));
    gateway.update().only_if(format!("id = '{id}'")).column("text", text).execute().await.unwrap();
}

fn unit(dim: usize, at: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dim];
    vector[at % dim] = 1.0;
    vector
}

fn memory(id: &str, text: &str) -> Memory {
    Memory {
        id: id.to_string(),
        text: text.to_string(),
        importance: 0.61,
        category: Category::Decision,
        created_at: 1_790_000_000_123,
        partition: Partition::of_agent(AGENT),
    }
}

fn new_row(memory: Memory, dim: usize, inherit: Inherit) -> NewRow {
    NewRow { memory, vector: unit(dim, 1), inherit, only_if: Vec::new() }
}

fn leaving(memory: &Memory, run: &str) -> Leaving {
    Leaving {
        id: memory.id.clone(),
        text: memory.text.clone(),
        reason: Departure::Superseded,
        successor: Some("successor".to_string()),
        run: run.to_string(),
        at: 1_795_000_000_000,
    }
}

fn written(ids: &[&str]) -> Outcome {
    Outcome { written: ids.iter().map(ToString::to_string).collect(), ..Outcome::default() }
}

fn already(ids: &[&str]) -> Outcome {
    Outcome { already: ids.iter().map(ToString::to_string).collect(), ..Outcome::default() }
}

fn changed(ids: &[&str]) -> Outcome {
    Outcome { changed: ids.iter().map(ToString::to_string).collect(), ..Outcome::default() }
}

fn gone(ids: &[&str]) -> Outcome {
    Outcome { gone: ids.iter().map(ToString::to_string).collect(), ..Outcome::default() }
}

async fn file_format(folder: &Path, table: &str) -> String {
    let path = folder.join(format!("{table}.lance"));
    let dataset = lance::Dataset::open(path.to_str().unwrap()).await.unwrap();
    dataset.manifest().data_storage_format.version.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fixture_takes_every_write_and_comes_back_as_it_was() {
    for path in fixtures() {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let folder = copy(&path);
        let format = file_format(folder.path(), "memories").await;
        let store = open(&folder).await;
        let before = dump(&store).await;
        let rows = store.rows(AGENT).await.unwrap();
        assert!(rows.memories.len() >= 3, "{name}");
        assert_eq!(rows.memories.len() + rows.ownerless, before.len(), "{name}");
        let [faded, louder, source] = &rows.memories[..3] else { panic!("{name}") };

        // A successor of `source`.
        let mut successor = memory("0a0a", "it's \"new\" 🦉\nand has two lines");
        successor.partition = source.partition.clone();
        let successor = new_row(successor, store.dim(), Inherit::Row(source.id.clone()));
        assert_eq!(
            store.insert(std::slice::from_ref(&successor)).await.unwrap(),
            written(&["0a0a"]),
            "{name}"
        );
        assert_eq!(store.insert(&[successor]).await.unwrap(), already(&["0a0a"]), "{name}");
        let inserted = dump(&store).await.remove("0a0a").unwrap();
        assert_eq!(inserted["text"], "it's \"new\" 🦉\nand has two lines", "{name}");
        assert_eq!(inserted["createdAt"], 1_790_000_000_123_i64, "{name}");
        assert_eq!(inserted.get("scope"), before[&source.id].get("scope"), "{name}");
        assert_eq!(inserted.get("agentId"), before[&source.id].get("agentId"), "{name}");
        assert_eq!(
            inserted.keys().collect::<Vec<_>>(),
            before[&source.id].keys().collect::<Vec<_>>(),
            "{name}"
        );

        // Another importance.
        let change = [(louder.id.clone(), 0.123, louder.text.clone())];
        assert_eq!(store.set_importance(&change).await.unwrap(), written(&[&louder.id]), "{name}");
        assert_eq!(store.set_importance(&change).await.unwrap(), already(&[&louder.id]), "{name}");
        let mut expected = before.clone();
        expected.get_mut(&louder.id).unwrap().insert("importance".into(), 0.123.into());
        expected.insert("0a0a".into(), inserted);
        assert_eq!(dump(&store).await, expected, "{name}");

        // To the archive and out of the table.
        assert_eq!(store.archive(&[leaving(faded, "r1")]).await.unwrap(), written(&[&faded.id]), "{name}");
        assert_eq!(store.archive(&[leaving(faded, "r1")]).await.unwrap(), already(&[&faded.id]), "{name}");
        let going = [(faded.id.clone(), faded.text.clone())];
        assert_eq!(store.delete(&going).await.unwrap(), written(&[&faded.id]), "{name}");
        assert_eq!(store.delete(&going).await.unwrap(), gone(&[&faded.id]), "{name}");
        assert_eq!(store.archive(&[leaving(faded, "r1")]).await.unwrap(), already(&[&faded.id]), "{name}");
        expected.remove(&faded.id);
        assert_eq!(dump(&store).await, expected, "{name}");
        let archived = store.archived_all(AGENT).await.unwrap();
        assert_eq!(archived.len(), 1, "{name}");
        assert_eq!(archived[0].memory, *faded, "{name}");
        assert_eq!(archived[0].reason, Departure::Superseded, "{name}");
        assert_eq!(archived[0].successor.as_deref(), Some("successor"), "{name}");

        // And everything back.
        let vector =
            store.archived_vectors(std::slice::from_ref(&faded.id)).await.unwrap()[&faded.id].clone();
        let back = NewRow {
            memory: archived[0].memory.clone(),
            vector,
            inherit: Inherit::Archived(faded.id.clone()),
            only_if: Vec::new(),
        };
        assert_eq!(store.insert(&[back]).await.unwrap(), written(&[&faded.id]), "{name}");
        assert_eq!(
            store.unarchive(std::slice::from_ref(&faded.id)).await.unwrap(),
            written(&[&faded.id]),
            "{name}"
        );
        assert_eq!(
            store.unarchive(std::slice::from_ref(&faded.id)).await.unwrap(),
            gone(&[&faded.id]),
            "{name}"
        );
        let undo = [(louder.id.clone(), louder.importance, louder.text.clone())];
        store.set_importance(&undo).await.unwrap();
        let inserted = ("0a0a".to_string(), "it's \"new\" 🦉\nand has two lines".to_string());
        store.delete(&[inserted]).await.unwrap();
        assert_eq!(dump(&store).await, before, "{name}");
        assert_eq!(file_format(folder.path(), "memories").await, format, "{name}");
        assert_eq!(file_format(folder.path(), "memories_archive").await, "2.0", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fixtures_of_every_age_read_alike() {
    for (name, columns, agent) in [
        ("js-0.23.0-old", 6, false),
        ("js-0.30.0-new", 7, true),
        ("js-latest-scope", 8, true),
        ("openclaw-4.15-real-6col", 6, false),
        ("openclaw-4.15-migrated-7col", 7, true),
        ("openclaw-9.6-standin-7col", 7, true),
    ] {
        let folder = fixture(name);
        let store = open(&folder).await;
        assert_eq!(store.columns().len(), columns, "{name}");
        assert_eq!(store.has_agent(), agent, "{name}");
        assert_eq!(store.dim(), if name.starts_with("js") { 8 } else { 64 }, "{name}");
        let rows = store.rows("somebody").await.unwrap();
        assert_eq!((rows.memories.len(), rows.ownerless, rows.unreadable), (3, 0, 0), "{name}");
        for memory in &rows.memories {
            assert_eq!(memory.partition.agent == "somebody", !agent, "{name}");
            assert_eq!(memory.partition.scope.is_some(), columns == 8, "{name}");
            assert!(memory.created_at >= 1_700_000_000_000, "{name}");
        }
        let ids: Vec<String> = rows.memories.iter().map(|memory| memory.id.clone()).collect();
        let vectors = store.vectors(&ids).await.unwrap();
        assert_eq!(vectors.len(), 3, "{name}");
        assert!(vectors.values().all(|vector| vector.len() == store.dim()), "{name}");
        assert!(store.unusable_vectors().await.unwrap().is_empty(), "{name}");
        assert!(!store.row_json(Some(&ids[..1]), false).await.unwrap()[0].contains_key("vector"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_dreamer_creates_has_seven_columns_and_a_format_every_gateway_reads() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("lancedb");
    let uri = folder.to_str().unwrap();
    assert_eq!(Store::create(uri, 5).await.unwrap(), Created::New);
    let store = Store::open(&format!("file://{uri}")).await.unwrap();
    assert_eq!(store.columns(), ["id", "text", "vector", "importance", "category", "createdAt", "agentId"]);
    assert_eq!((store.dim(), store.version().await.unwrap()), (5, 1));
    assert_eq!(file_format(&folder, "memories").await, "2.0");
    let dataset = lance::Dataset::open(folder.join("memories.lance").to_str().unwrap()).await.unwrap();
    assert!(!dataset.manifest().uses_stable_row_ids());
    assert!(dataset.schema().fields.iter().all(|field| field.nullable));

    store.insert(&[new_row(memory("a", "one"), 5, Inherit::Nothing)]).await.unwrap();
    assert_eq!(Store::create(uri, 9).await.unwrap(), Created::Existed);
    let rows = Store::open(uri).await.unwrap().rows(AGENT).await.unwrap().memories;
    assert_eq!(rows, [memory("a", "one")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_may_have_any_name() {
    let home = tempfile::tempdir().unwrap();
    for name in ["with space", "数据", "50% off#1", "it's+\"q\"?x=1&b", "trailing/"] {
        let folder = home.path().join(name);
        let uri = folder.to_str().unwrap();
        assert_eq!(Store::create(uri, 3).await.unwrap(), Created::New, "{name}");
        assert!(folder.join("memories.lance").is_dir(), "{name}");
        let store = Store::open(uri).await.unwrap();
        store.insert(&[new_row(memory("a", "one"), 3, Inherit::Nothing)]).await.unwrap();
        let row = store.rows(AGENT).await.unwrap().memories.remove(0);
        assert_eq!(store.archive(&[leaving(&row, "r")]).await.unwrap(), written(&["a"]), "{name}");
        assert_eq!(store.archived_all(AGENT).await.unwrap().len(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_an_error_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("nothing");
    let error = Store::open(missing.to_str().unwrap()).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert!(!missing.exists());

    let error = Store::open(home.path().to_str().unwrap()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoTable { .. }), "{error}");
    assert_eq!(home.path().read_dir().unwrap().count(), 0);

    let error = Store::open("s3://bucket/memories").await.unwrap_err();
    assert!(matches!(error, StoreError::Remote { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_manifest_is_an_error_and_not_a_panic() {
    let folder = fixture("js-0.30.0-new");
    let versions = folder.path().join("memories.lance/_versions");
    for entry in versions.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
    }
    for error in [
        Store::open(folder.path().to_str().unwrap()).await.unwrap_err(),
        Store::create(folder.path().to_str().unwrap(), 8).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
}
