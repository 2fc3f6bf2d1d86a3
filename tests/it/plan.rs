//! A plan is shown without changing anything, applied as it was shown, and gives way to whoever was there first. And
//! where episodes go.
#![allow(clippy::unwrap_used)]

mod episodes;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dreamer::error::Error;
use dreamer::plan::{Phase, PlanError};
use dreamer::providers::Reasoner;
use dreamer::state::journal::Fate;

use crate::home::{DRY, Home, at, day, digests, eventful, memory};

async fn preview(home: &Home, day: u64, hour: u32) -> String {
    home.try_night(DRY, Reasoner::Extractive, at(day, hour)).await.unwrap().run
}

async fn id_of(home: &Home, words: &str) -> String {
    let rows = home.store().await.rows("main").await.unwrap().memories;
    rows.into_iter().find(|row| row.text.contains(words)).unwrap().id
}

async fn edit(home: &Home, id: &str, column: &str, value: &str) {
    let gateway = home.gateway().await;
    let updated =
        gateway.update().only_if(format!("id = '{id}'")).column(column, value).execute().await.unwrap();
    assert_eq!(updated.rows_updated, 1);
}

async fn log_of(home: &Home, run: &str, hour: u32) -> (String, Vec<String>) {
    let report = home.apply(run, at(2, hour)).await.unwrap();
    (std::fs::read_to_string(report.dream_log.unwrap()).unwrap(), report.warnings)
}

fn everything(home: &Home) -> BTreeMap<PathBuf, String> {
    let mut all = digests(&home.outside(""));
    all.remove(&PathBuf::from("home/state/lock"));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_but_its_own_folder() {
    for outside in [false, true] {
        let mut home = Home::new(&[]).await;
        if outside {
            let (notes, database) = (home.outside("notes"), home.outside("database"));
            std::fs::create_dir_all(&notes).unwrap();
            dreamer::store::Store::create(database.to_str().unwrap(), 1024).await.unwrap();
            home.set(&[
                ("DREAMER_EPISODES_DIR", notes.to_str().unwrap()),
                ("DREAMER_LANCEDB_URI", database.to_str().unwrap()),
            ]);
        }
        home.prepare_eventful_night().await;
        let (before, version) = (everything(&home), home.store().await.version().await.unwrap());
        let run = preview(&home, 2, 20).await;
        let mut after = everything(&home);
        let folder = PathBuf::from("home/runs").join(&run);
        let own = after.extract_if(.., |path, _| path.starts_with(&folder)).count();
        assert!(own >= 3, "{own}");
        assert_eq!(after, before);
        assert_eq!(home.store().await.version().await.unwrap(), version);
        assert_eq!(home.run(&run).phase().unwrap(), Phase::Previewed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_does_what_the_dry_run_showed() {
    let home = eventful(&[]).await;
    let run = preview(&home, 2, 20).await;
    let plan = home.plan(&run);
    let before: Vec<String> = home.texts().await;
    let report = home.apply(&run, at(2, 21)).await.unwrap();
    assert_eq!((report.status.as_str(), report.warnings.len()), ("done", 0), "{:?}", report.warnings);
    let mut expected = before;
    expected
        .retain(|text| !plan.leaving.iter().any(|leaving| leaving.text == *text) || text.contains("lamp"));
    // Two rows said the same; one of them stays.
    let lamp = expected.iter().position(|text| text.contains("lamp")).unwrap();
    expected.remove(lamp);
    expected.extend(plan.inserts.iter().map(|row| row.memory.text.clone()));
    expected.sort();
    assert_eq!(home.texts().await, expected);
    assert!(expected.iter().any(|text| text.contains("10:00") && text.contains("9:00")), "{expected:?}");
    for trace in &plan.traces {
        assert_eq!(home.trace(&trace.id).await, *trace);
    }
    assert_eq!(home.run(&run).phase().unwrap(), Phase::Finished);
    assert_eq!(home.night(at(2, 22)).await.status.as_str(), "nothing_new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_no_longer_holds_is_refused() {
    let home = eventful(&[]).await;
    let (first, second) = (preview(&home, 2, 8).await, preview(&home, 2, 9).await);
    let refused = async |run: &str, day, hour| match home.apply(run, at(day, hour)).await.unwrap_err() {
        Error::Plan(error) => error,
        error => panic!("{error}"),
    };
    let before = everything(&home);
    let error = refused(&first, 2, 20).await;
    assert!(matches!(error, PlanError::Stale { .. }) && error.to_string().contains("12 hours"), "{error}");
    for id in ["../x", "..", "", "/etc", "x", "20260103-080000-000000"] {
        let error = refused(id, 2, 9).await;
        assert!(matches!(error, PlanError::NoSuchRun { .. }), "{id}: {error}");
        assert!(id.is_empty() || error.to_string().contains(id), "{error}");
    }
    assert_eq!(everything(&home), before);

    home.apply(&second, at(2, 10)).await.unwrap();
    let before = everything(&home);
    let error = refused(&second, 2, 10).await;
    assert!(matches!(error, PlanError::Over { .. }) && error.to_string().contains("finished"), "{error}");
    let error = refused(&first, 2, 10).await;
    assert!(matches!(error, PlanError::Stale { .. }) && error.to_string().contains(&second), "{error}");
    assert_eq!(everything(&home), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_comes_before_previews() {
    let home = eventful(&[]).await;
    let killed = preview(&home, 2, 20).await;
    home.run(&killed).enter(Phase::Applying, at(2, 20)).unwrap();
    let before = everything(&home);
    let report = home.try_night(DRY, Reasoner::Extractive, at(2, 21)).await.unwrap();
    assert!(report.warnings.iter().any(|w| w.contains(&killed)), "{:?}", report.warnings);
    let mut after = everything(&home);
    after.retain(|path, _| !path.starts_with(format!("home/runs/{}", report.run)));
    assert_eq!(after, before);
    let error = home.apply(&report.run, at(2, 21)).await.unwrap_err().to_string();
    assert!(error.contains(&killed), "{error}");
    assert_eq!(home.apply(&killed, at(2, 21)).await.unwrap().status.as_str(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_changed_meanwhile_are_left_alone_and_told() {
    let home = eventful(&[]).await;
    home.add(&[
        memory("rain", "The user dislikes rain.", 0.9),
        memory("snow", "The user skis in winter.", 0.9),
    ])
    .await;
    home.night(at(1, 20)).await;
    home.hello(2);
    let lamp = "The user collects old maps of Norway.";
    home.add(&[memory("maps-1", lamp, 0.7), memory("maps-2", lamp, 0.5)]).await;
    let run = preview(&home, 2, 20).await;
    assert!(home.plan(&run).leaving.iter().any(|leaving| leaving.id == "maps-2"));
    edit(&home, "maps-2", "text", "'The user sold the maps.'").await;
    edit(&home, "rain", "text", "'The user likes rain.'").await;
    edit(&home, "snow", "importance", "0.95").await;
    home.add(&[memory("added", "The user adopted a greyhound.", 0.7)]).await;
    let (log, warnings) = log_of(&home, &run, 20).await;
    for told in [
        "1 memory edited meanwhile: left in place",
        "1 memory edited meanwhile: importance kept",
        "1 memory given another importance",
    ] {
        assert!(warnings.iter().any(|w| w.starts_with(told)) && log.contains(told), "{told}: {warnings:?}");
    }
    let live: BTreeMap<String, f64> = home.live().await.into_iter().collect();
    assert!(live.contains_key("The user sold the maps."));
    assert_eq!((live["The user likes rain."], live["The user skis in winter."]), (0.9, 0.95));
    assert_eq!(live["The user adopted a greyhound."], 0.7);
    assert!(!home.archived().await.contains(&"maps-2".to_string()));
    home.night(at(2, 21)).await;
    assert_eq!(home.trace("snow").await.base, 0.95);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_row_does_not_come_back() {
    let home = eventful(&[]).await;
    let run = preview(&home, 2, 20).await;
    home.gateway().await.delete("id in ('lamp-2', 'heron')").await.unwrap();
    let (_, warnings) = log_of(&home, &run, 20).await;
    let told = "2 memories to leave, deleted meanwhile";
    assert!(warnings.iter().any(|w| w == told), "{warnings:?}");
    let live = home.texts().await;
    assert!(!live.iter().any(|text| text.contains("heron")), "{live:?}");
    assert_eq!(live.iter().filter(|text| text.contains("lamp")).count(), 1);
    let archived = home.archived().await;
    assert!(!archived.contains(&"heron".into()) && !archived.contains(&"lamp-2".into()), "{archived:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_stays_when_the_row_that_carries_it_says_something_else_by_then() {
    let home = eventful(&[]).await;
    let run = preview(&home, 2, 20).await;
    assert!(home.plan(&run).leaving.iter().any(|leaving| leaving.id == "lamp-2"));
    edit(&home, "lamp-1", "text", "'The user bought a clock.'").await;
    let (_, warnings) = log_of(&home, &run, 20).await;
    assert!(warnings.iter().any(|w| w.contains("what was to carry the content")), "{warnings:?}");
    let live = home.texts().await;
    assert!(live.contains(&"The user bought a brass lamp.".into()), "{live:?}");
    assert!(!home.archived().await.contains(&"lamp-2".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_whose_source_changed_is_dropped_and_its_words_come_again() {
    for deleted in [false, true] {
        let home = eventful(&[]).await;
        let standup = id_of(&home, "standup").await;
        let run = preview(&home, 2, 20).await;
        let plan = home.plan(&run);
        let merged = plan.inserts.iter().find(|row| !row.only_if.is_empty()).unwrap().memory.id.clone();
        let draft = plan.merged_drafts[0].row.memory.id.clone();
        if deleted {
            home.gateway().await.delete(&format!("id = '{standup}'")).await.unwrap();
        } else {
            edit(&home, &standup, "text", "'The standup was given up.'").await;
        }
        let report = home.apply(&run, at(2, 20)).await.unwrap();
        assert!(
            report.warnings.iter().any(|w| w.starts_with("1 memory not merged")),
            "{:?}",
            report.warnings
        );
        assert_eq!(report.fates.get(&Fate::HeldBack), Some(&1));
        assert_eq!(report.fates.values().sum::<usize>(), report.chunks);
        let traces = home.store().await.traces().await.unwrap().traces;
        let archived = home.archived().await;
        for id in [&merged, &draft] {
            assert!(!traces.contains_key(id) && !archived.contains(id), "{deleted}");
        }
        assert!(!archived.contains(&standup), "{deleted}");
        assert!(!home.texts().await.iter().any(|text| text.contains("10:00")));
        // Its episode is not done, and the next night learns what was said.
        assert_eq!(report.archived_episodes, [format!("{}.md", day(1))]);
        let next = home.night(at(2, 21)).await;
        assert_eq!((next.chunks, next.held_back_before), (1, 1));
        assert!(home.texts().await.iter().any(|text| text.contains("10:00")), "{deleted}");
        assert!(!home.config.episodes_dir.join(format!("{}.md", day(2))).exists());
    }
}
