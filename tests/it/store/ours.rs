//! Our own tables beside the gateway's, and the snapshots.

use chrono::{DateTime, NaiveDate};
use dreamer::memory::{RawMemory, Reconciled, Source, Trace, text_digest};
use dreamer::store::{Touched, read_before};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_another_models_vectors_is_an_error_and_not_a_panic() {
    let folder = fixture("js-0.30.0-new");
    let store = open(&folder).await;
    let row = store.rows(AGENT).await.unwrap().memories.remove(0);
    store.archive(&[leaving(&row, "r")]).await.unwrap();
    // The person starts a new table for a new model and keeps the archive.
    std::fs::remove_dir_all(folder.path().join("memories.lance")).unwrap();
    Store::create(folder.path().to_str().unwrap(), 5).await.unwrap();
    let store = open(&folder).await;
    store.insert(&[new_row(memory("n", "new"), 5, Inherit::Nothing)]).await.unwrap();
    let query = Query { vector: unit(5, 1), partition: Partition::of_agent(AGENT), exclude: None };
    for error in [
        store.archive_neighbours(&[query], Similarity(0.0), 3, AGENT).await.unwrap_err(),
        store.archive(&[leaving(&memory("n", "new"), "r")]).await.unwrap_err(),
    ] {
        let expected = matches!(&error, StoreError::Dimension { table: "memories_archive", expected: 8, .. });
        assert!(expected, "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_archived_again_by_a_later_run_has_one_copy_the_later_one() {
    let folder = fixture("js-0.31.0-old");
    let store = open(&folder).await;
    let row = store.rows(AGENT).await.unwrap().memories.remove(0);
    store.archive(&[leaving(&row, "first"), leaving(&row, "first")]).await.unwrap();
    edit(&gateway(&folder).await, &row.id, "said otherwise").await;
    let row = Memory { text: "said otherwise".to_string(), ..row };
    let later = Leaving { successor: None, reason: Departure::Faded, ..leaving(&row, "second") };
    assert_eq!(store.archive(&[later]).await.unwrap(), written(&[&row.id]));
    let archived = store.archived_all("me").await.unwrap();
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].run, "second");
    assert_eq!(archived[0].successor, None);
    assert_eq!(archived[0].memory.text, "said otherwise");
    assert_eq!(archived[0].memory.partition, Partition::of_agent("me"));
}

fn trace(id: &str, base: f64) -> Trace {
    Trace {
        id: id.to_string(),
        agent: AGENT.to_string(),
        digest: text_digest(id),
        base,
        written: base,
        clock: NaiveDate::from_ymd_opt(2026, 3, 10).unwrap(),
        stability: 1.5,
        recalled: [NaiveDate::from_ymd_opt(2026, 3, 9).unwrap()].into(),
        reinforced: Default::default(),
        sources: vec![source()],
        merged_from: vec!["x".to_string()],
        entities: vec!["张工".to_string()],
        tags: Vec::new(),
        emotion: 0.1,
        said_at: DateTime::from_timestamp_millis(1_795_000_000_123),
        about: None,
        pinned: false,
        reconciled: Reconciled::Waiting,
        model: "lexical".to_string(),
        run: "r".to_string(),
    }
}

fn source() -> Source {
    Source {
        episode: "2026-03-10.md".to_string(),
        lines: (3, 9),
        chunk: "c0ffee".to_string(),
        speaker: "user".to_string(),
        said_at: DateTime::from_timestamp_millis(1_795_000_000_123).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_are_kept_by_id_and_an_unreadable_one_is_told() {
    let folder = fixture("js-latest-new");
    let store = open(&folder).await;
    assert_eq!(store.traces().await.unwrap(), Default::default());
    let first = [trace("a", 0.1), trace("b", 0.2), trace("a", 0.3)];
    assert_eq!(store.put_traces(&first).await.unwrap(), written(&["a", "b"]));
    assert_eq!(store.put_traces(&first[1..]).await.unwrap(), already(&["a", "b"]));
    let next = store.put_traces(&[trace("b", 0.9), trace("a", 0.3), trace("c", 0.4)]).await.unwrap();
    assert_eq!((next.written, next.already), (vec!["b".into(), "c".into()], vec!["a".to_string()]));
    let read = store.traces().await.unwrap();
    let expected = [trace("a", 0.3), trace("b", 0.9), trace("c", 0.4)];
    let expected: HashMap<_, _> = expected.into_iter().map(|trace| (trace.id.clone(), trace)).collect();
    assert_eq!(read.traces, expected);

    let connection = lancedb::connect(folder.path().to_str().unwrap()).execute().await.unwrap();
    let table = connection.open_table("memory_traces").execute().await.unwrap();
    table.update().only_if("id = 'a'").column("trace", "'{'").execute().await.unwrap();
    table.update().only_if("id = 'c'").column("format", "99").execute().await.unwrap();
    let read = store.traces().await.unwrap();
    assert_eq!(read.unreadable, ["a", "c"]);
    assert_eq!(read.traces.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_memories_are_kept_by_id() {
    let folder = fixture("js-0.30.0-old");
    let store = open(&folder).await;
    let raw = |id: &str, memories: &[&str]| RawMemory {
        id: id.to_string(),
        text: "I said\n\"so\"".to_string(),
        vector: unit(8, 3),
        agent: AGENT.to_string(),
        source: source(),
        memories: memories.iter().map(ToString::to_string).collect(),
        run: "r".to_string(),
    };
    let all = [raw("a", &["m1"]), raw("b", &[])];
    assert_eq!(store.put_raw(&all).await.unwrap(), written(&["a", "b"]));
    assert_eq!(store.put_raw(&all).await.unwrap(), already(&["a", "b"]));
    assert_eq!(store.put_raw(&[raw("b", &["m2", "m3"])]).await.unwrap(), written(&["b"]));
    let mut read = store.raw_all().await.unwrap();
    read.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(read, [raw("a", &["m1"]), raw("b", &["m2", "m3"])]);
    let short = RawMemory { vector: unit(3, 0), ..raw("c", &[]) };
    assert!(matches!(store.put_raw(&[short]).await.unwrap_err(), StoreError::Dimension { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn before_images_hold_whole_rows_and_are_taken_once() {
    let folder = fixture("js-latest-scope");
    let run = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let rows = store.rows(AGENT).await.unwrap().memories;
    let before = dump(&store).await;
    store.archive(&[leaving(&rows[2], "r")]).await.unwrap();
    store.put_traces(&[trace("t", 0.5), trace("u", 0.5)]).await.unwrap();
    let ids: Vec<String> = rows[..2].iter().map(|row| row.id.clone()).collect();
    let (archived, traces) = ([rows[2].id.clone()], ["t".to_string()]);
    let touched = Touched { memories: &ids, archived: &archived, traces: &traces };
    store.before_images(touched, run.path()).await.unwrap();

    // The run goes on, is killed, and starts over.
    store.delete(&[(rows[0].id.clone(), rows[0].text.clone())]).await.unwrap();
    store.before_images(touched, run.path()).await.unwrap();
    let read = read_before(run.path()).unwrap();
    assert_eq!(read.memories.len(), 2);
    for image in &read.memories {
        assert_eq!(image.row, before[&image.id]);
        assert_eq!(image.digest, text_digest(before[&image.id]["text"].as_str().unwrap()));
    }
    assert_eq!(read.archived[0].row["reason"], "superseded");
    assert_eq!(read.archived[0].row["vector"], before[&rows[2].id]["vector"]);
    assert_eq!(read.traces, [trace("t", 0.5)]);

    let file = run.path().join("before/memories.arrow");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(matches!(read_before(run.path()).unwrap_err(), StoreError::SnapshotChanged { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_snapshot_reads_back_empty() {
    let folder = fixture("js-0.23.0-old");
    let run = tempfile::tempdir().unwrap();
    open(&folder).await.before_images(Touched::default(), run.path()).await.unwrap();
    assert_eq!(read_before(run.path()).unwrap(), Default::default());
}
