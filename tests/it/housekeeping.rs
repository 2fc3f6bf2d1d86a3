//! What a night does last: what goes, what stays, and what a gateway beside it notices (nothing).
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use dreamer::dream::Options;
use dreamer::error::Error;
use dreamer::housekeeping::keep_house;
use dreamer::memory::{Memory, RawMemory, Source, Trace};
use dreamer::plan::Phase;
use dreamer::providers::Reasoner;
use dreamer::state::versions::{Versions, last_version};
use dreamer::store::{Inherit, MEMORIES, NewRow, Store, TABLES};

use crate::days::{FIRST, Gateway, night};
use crate::home::{DRY, FULL, Home, at, copy, day, digests, memory, strange_sentences};

const TEA: &str = "The user drinks green tea in the morning.";

async fn with_tea(settings: &[(&str, &str)]) -> Home {
    let home = Home::new(settings).await;
    home.add(&[memory("tea", TEA, 0.8)]).await;
    home
}

fn runs(home: &Home) -> BTreeSet<String> {
    let names = home.config.runs_dir().read_dir().unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

async fn house(home: &Home, n: u64) -> Vec<String> {
    keep_house(&home.config, &home.store().await, at(n, 20)).await
}

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn names(folder: &Path) -> BTreeSet<String> {
    folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_runs_go_and_those_somebody_needs_stay() {
    let home = with_tea(&[("DREAMER_SNAPSHOT_DAYS", "3")]).await;
    let old = home.night(at(0, 20)).await.run;
    let preview = home.try_night(DRY, Reasoner::Extractive, at(0, 21)).await.unwrap().run;
    let parked = home.try_night(DRY, Reasoner::Extractive, at(0, 22)).await.unwrap().run;
    let state = home.config.runs_dir().join(&parked).join("state.json");
    let text = std::fs::read_to_string(&state).unwrap().replace("previewed", "parked");
    // Half removed by a night that was killed; killed before its plan was stored; unreadable; no run at all.
    let dir = home.config.runs_dir();
    write(dir.join(".removing-20251201-200000-00000a/before/memories.arrow"), "x");
    write(dir.join("20251231-200000-00000b/before/memories.arrow"), "x");
    write(dir.join("my notes/todo.md"), "x");
    let newest = home.night(at(2, 20)).await.run;
    write(dir.join("20251231-200000-00000c/state.json"), "{");
    std::fs::write(&state, text).unwrap();
    let expected = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let strange = ["20251231-200000-00000c", "my notes", &parked];

    let told = house(&home, 3).await;
    assert_eq!(runs(&home), expected(&[&strange[..], &[&newest, &preview]].concat()), "{old} went");
    assert!(told.len() == 1 && told[0].contains("00000c") && told[0].contains("kept"), "{told:?}");
    house(&home, 40).await;
    assert_eq!(runs(&home), expected(&[&strange[..], &[&newest]].concat()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_run_is_kept_however_old_it_is_and_ended_by_the_next_night() {
    let home = with_tea(&[]).await;
    let run = home.try_night(DRY, Reasoner::Extractive, at(0, 20)).await.unwrap().run;
    home.run(&run).enter(Phase::Applying, at(0, 20)).unwrap();
    assert_eq!(house(&home, 40).await, Vec::<String>::new());
    assert!(runs(&home).contains(&run));
    home.night(at(41, 20)).await;
    assert_eq!(home.run(&run).phase().unwrap(), Phase::Finished);
}

fn raw(id: &str, run: &str) -> RawMemory {
    RawMemory {
        id: id.into(),
        text: id.into(),
        vector: vec![0.5; 1024],
        agent: "main".into(),
        source: Source {
            episode: "2026-01-01.md".into(),
            lines: (1, 2),
            chunk: id.into(),
            speaker: "user".into(),
            said_at: at(0, 12),
        },
        memories: vec![],
        run: run.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_memories_go_with_the_date_of_the_run_that_wrote_them() {
    let mut home = with_tea(&[("DREAMER_RAW_DAYS", "off")]).await;
    home.night(at(40, 20)).await;
    let written = [("old", "20260110-200000-00000a"), ("new", "20260112-200000-00000a"), ("odd", "by-hand")];
    let written = written.map(|(id, run)| raw(id, run));
    home.store().await.put_raw(&written).await.unwrap();
    let left = async |home: &Home| -> BTreeSet<String> {
        home.store().await.raw_all().await.unwrap().into_iter().map(|raw| raw.id).collect()
    };
    house(&home, 41).await;
    assert_eq!(left(&home).await.len(), 3);
    home.set(&[]);
    // Day 40 is 2026-02-10: thirty days after 2026-01-11.
    assert_eq!(house(&home, 40).await, Vec::<String>::new());
    assert_eq!(left(&home).await, ["new", "odd"].map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_files_go_by_the_date_in_their_name_if_so_asked() {
    let mut home = with_tea(&[]).await;
    home.night(at(99, 20)).await;
    let (episodes, exports) = (home.config.archive_dir(), home.config.memory_archive_dir());
    for name in [
        "2026-01-01.md",
        "2026-04-08-tea.md",
        "2026-04-10.md",
        "2026-01-01.2.md",
        "2026-01-01x.md",
        "notes.txt",
    ] {
        write(episodes.join(name), "x");
    }
    for name in ["20260101-tea.json", "20260410-tea.json"] {
        write(exports.join(name), "x");
    }
    write(episodes.join("2026-01-02.md/inside.md"), "x");
    let before = (names(&episodes), names(&exports));
    house(&home, 100).await;
    assert_eq!((names(&episodes), names(&exports)), before);
    home.set(&[("DREAMER_ARCHIVE_DAYS", "2")]);
    // Day 100 is 2026-04-11.
    assert_eq!(house(&home, 100).await, Vec::<String>::new());
    let left = |list: &[&str]| list.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(names(&episodes), left(&["2026-01-01x.md", "2026-01-02.md", "2026-04-10.md", "notes.txt"]));
    assert_eq!(names(&exports), left(&["20260410-tea.json"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumped_removes_nothing_and_raises_no_importance() {
    let home = with_tea(&[]).await;
    for n in 0..=20 {
        home.hello(n);
        home.night(at(n, 20)).await;
    }
    let (faded, clock) = (home.live().await, home.trace("tea").await.clock);
    let all = runs(&home);
    // Ten days back; and a row is captured, which is as new as the last day the user was there.
    home.add(&[memory("new", "The user plays the violin badly.", 0.7)]).await;
    let report = home.night(at(10, 21)).await;
    assert_eq!((report.rem.faded, report.rem.decayed), (0, 0));
    let live = home.live().await;
    assert_eq!(live[0], faded[0]);
    assert_eq!((home.trace("tea").await.clock, home.trace("new").await.clock), (clock, day(20)));
    assert!(runs(&home).is_superset(&all), "nothing went");
    let told = house(&home, 10).await;
    assert!(told.len() == 1 && told[0].contains("10 days earlier than the last run"), "{told:?}");
    let told = house(&home, 100).await;
    assert!(told.len() == 1 && told[0].contains("80 days later than the last run"), "{told:?}");
    assert!(runs(&home).is_superset(&all), "nothing went");

    // Right again, it goes on as if nothing had been.
    home.hello(21);
    home.night(at(21, 20)).await;
    let live: BTreeMap<String, f64> = home.live().await.into_iter().collect();
    assert!((live[TEA] - 0.8 * 0.95_f64.powi(21)).abs() < 1e-9, "{live:?}");
    assert!((live["The user plays the violin badly."] - 0.7 * 0.95).abs() < 1e-9, "{live:?}");
    assert!(!runs(&home).is_superset(&all), "the oldest went");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_lifts_a_memory_also_while_the_clock_is_back() {
    let home = with_tea(&[]).await;
    (1..=20).for_each(|n| home.hello(n));
    home.night(at(0, 20)).await;
    home.night(at(20, 20)).await;
    let before = home.live().await[0].1;
    home.recall(&[r#"{"id":"tea","at":"2026-01-11T08:00:00Z"}"#]);
    home.night(at(10, 20)).await;
    assert!(home.live().await[0].1 > before);
}

/// A home whose table was written row by row over twelve days, with nights in between.
async fn worn() -> (Home, Vec<Memory>) {
    let home = Home::new(&[]).await;
    let texts = strange_sentences(60);
    let rows: Vec<Memory> =
        (0..60).map(|n| memory(&format!("row-{n:02}"), &texts[n], 0.9 - n as f64 / 100.0)).collect();
    let gateway = Gateway::of(&home).await;
    for (n, rows) in rows.chunks(5).enumerate() {
        gateway.capture(rows).await;
        home.hello(FIRST + n as u64);
        night(&home, FIRST + n as u64, 20).await;
    }
    (home, rows)
}

fn version_files(home: &Home) -> usize {
    let folder = Path::new(&home.config.lancedb_uri).join("memories.lance/_versions");
    names(&folder).iter().filter(|name| name.ends_with(".manifest")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_go_after_eight_days_and_an_open_handle_reads_on() {
    let (home, rows) = worn().await;
    let store = home.store().await;
    assert!(store.layout(MEMORIES).await.unwrap().unwrap().fragments < 20);
    // Eleven days have passed: the versions of the first three nights are gone, those of the last eight are there.
    let files = version_files(&home);
    let reader = home.gateway().await;
    let before = reader.count_rows(None).await.unwrap();
    let state = home.config.state_dir();
    assert_eq!(last_version(&state).unwrap().0, store.version().await.unwrap());
    // Row 60 comes a day later, and every night from then on the handle is as stale as can be.
    for n in 12..19 {
        home.hello(FIRST + n);
        night(&home, FIRST + n, 20).await;
        let count = reader.count_rows(Some("text IS NOT NULL".into())).await.unwrap();
        assert_eq!((count, before), (60, rows.len()), "night {n}");
    }
    assert!(version_files(&home) < files, "{files}");
    let live = home.texts().await;
    assert_eq!(live.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_put_back_from_a_backup_keeps_its_versions() {
    let (home, _) = worn().await;
    let backup = home.outside("backup");
    copy(Path::new(&home.config.lancedb_uri), &backup);
    (12..16).for_each(|n| home.hello(FIRST + n));
    night(&home, FIRST + 15, 20).await;
    std::fs::remove_dir_all(&home.config.lancedb_uri).unwrap();
    copy(&backup, Path::new(&home.config.lancedb_uri));
    let files = version_files(&home);
    // The record speaks of versions that the table does not have any more: none of them counts.
    assert!(last_version(&home.config.state_dir()).unwrap().0 > home.store().await.version().await.unwrap());
    house(&home, FIRST + 30).await;
    assert_eq!(version_files(&home), files);
    let versions = Versions::read(&home.config.state_dir()).unwrap();
    assert_eq!(versions.last(MEMORIES).unwrap().version, home.store().await.version().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_removed_that_the_machine_s_clock_calls_young() {
    let (home, _) = worn().await;
    let store = home.store().await;
    let version = store.version().await.unwrap();
    let files = version_files(&home);
    // These tests' days lie ahead; a night of a day before the files were made must leave all of them.
    let long_ago = at(0, 0) - TimeDelta::days(8);
    let pruned = store.prune_versions(MEMORIES, version, long_ago).await.unwrap();
    assert_eq!((pruned.versions, version_files(&home)), (0, files));
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_loses_no_row_that_is_written_meanwhile() {
    let home = Home::new(&[]).await;
    let texts = strange_sentences(400);
    let row = |n: usize| memory(&format!("row-{n:03}"), &texts[n], 0.5);
    let old: Vec<Memory> = (0..100).map(row).collect();
    home.add(&old).await;
    let gateway = Gateway::of(&home).await;
    gateway.capture(&(100..120).map(row).collect::<Vec<_>>()).await;

    let writing = async {
        let mut expected: BTreeMap<String, String> =
            (0..120).map(|n| (row(n).id, texts[n].clone())).collect();
        for n in 120..180 {
            let new = row(n);
            gateway.capture(std::slice::from_ref(&new)).await;
            expected.insert(new.id, new.text);
            let edited = row(n - 100);
            expected.insert(edited.id.clone(), gateway.edit(&edited).await);
            gateway.delete(&row(n - 40).id).await;
            expected.remove(&row(n - 40).id);
        }
        expected
    };
    let store = home.store().await;
    let compacting = tokio::spawn(async move {
        let mut done = 0;
        for _ in 0..40 {
            done += usize::from(store.compact(MEMORIES).await.is_ok_and(|compacted| compacted));
            tokio::task::yield_now().await;
        }
        done
    });
    let expected = writing.await;
    let compacted = compacting.await.unwrap();
    let live = home.store().await.rows("main").await.unwrap().memories;
    let live: BTreeMap<String, String> = live.into_iter().map(|row| (row.id, row.text)).collect();
    assert_eq!(live, expected);
    assert!(compacted > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_every_gateway_are_compacted_in_their_own_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lancedb");
    let mut seen = 0;
    for fixture in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        let place = tempfile::tempdir().unwrap();
        copy(&fixture, place.path());
        let uri = place.path().to_str().unwrap();
        let Ok(store) = Store::open(uri).await else { continue };
        let before = store.rows("main").await.unwrap();
        let Some(row) = before.memories.first().cloned() else { continue };
        for n in 0..12 {
            let id = format!("captured-{n}");
            let memory = Memory { id, text: format!("text {n}"), ..row.clone() };
            let (vector, inherit) = (vec![0.1; store.dim()], Inherit::Row(row.id.clone()));
            let outcome = store.insert(&[NewRow { memory, vector, inherit, only_if: vec![] }]).await.unwrap();
            assert_eq!(outcome.written.len(), 1, "{}", fixture.display());
        }
        let formats = formats_of(uri).await;
        let rows = store.row_json(None, true).await.unwrap();
        let layout = store.layout(MEMORIES).await.unwrap().unwrap();
        assert!(store.compact(MEMORIES).await.unwrap(), "{} {layout:?}", fixture.display());
        let by_id = |rows: Vec<serde_json::Map<String, serde_json::Value>>| -> BTreeMap<String, _> {
            rows.into_iter().map(|row| (row["id"].to_string(), row)).collect()
        };
        assert_eq!(by_id(store.row_json(None, true).await.unwrap()), by_id(rows), "{}", fixture.display());
        assert_eq!(formats_of(uri).await, formats, "{}", fixture.display());
        assert_eq!(store.layout(MEMORIES).await.unwrap().unwrap().fragments, 1, "{}", fixture.display());
        seen += 1;
    }
    assert!(seen >= 15, "{seen} fixtures");
}

/// The file format of every data file the latest version uses.
async fn formats_of(uri: &str) -> BTreeSet<String> {
    let connection = lancedb::connect(uri).execute().await.unwrap();
    let table = connection.open_table("memories").execute().await.unwrap();
    let dataset = table.dataset().unwrap().get().await.unwrap();
    let fragments = dataset.get_fragments();
    let files = fragments.iter().flat_map(|fragment| fragment.metadata().files.clone());
    files.map(|file| format!("{}.{}", file.file_major_version, file.file_minor_version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_on_the_disk_nothing_is_written() {
    let home = with_tea(&[("DREAMER_MIN_FREE_MB", "1000000000")]).await;
    home.hello(0);
    let before = digests(&home.config.home);
    for options in [FULL, DRY, Options { accept_vanished: true, ..FULL }] {
        let error = home.try_night(options, Reasoner::Extractive, at(0, 20)).await.unwrap_err();
        assert!(matches!(&error, Error::NoSpace(no) if no.folder == home.config.home), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
    let mut after = digests(&home.config.home);
    after.remove(Path::new("state/lock"));
    assert_eq!(after, before);
    assert!(!home.config.runs_dir().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_told_and_left_alone() {
    let home = with_tea(&[]).await;
    home.night(at(0, 20)).await;
    let path = home.config.state_dir().join("versions.json");
    std::fs::write(&path, "{").unwrap();
    let told = house(&home, 1).await;
    assert!(told.len() == 1 && told[0].contains("versions.json"), "{told:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_a_night_are_all_on_record() {
    let home = with_tea(&[]).await;
    home.night(at(0, 20)).await;
    let versions = Versions::read(&home.config.state_dir()).unwrap();
    let store = home.store().await;
    for table in TABLES {
        let layout = store.layout(table).await.unwrap();
        assert_eq!(
            versions.last(table).map(|seen| seen.version),
            layout.map(|layout| layout.version),
            "{table}"
        );
    }
    let pinned = Trace { pinned: true, ..home.trace("tea").await };
    store.put_traces(&[pinned]).await.unwrap();
    house(&home, 1).await;
    let again = Versions::read(&home.config.state_dir()).unwrap();
    assert_eq!(again.last(MEMORIES), versions.last(MEMORIES));
    assert_ne!(again.last("memory_traces"), versions.last("memory_traces"));
}
