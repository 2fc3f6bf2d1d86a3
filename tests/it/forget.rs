//! What was forgotten on purpose: rows deleted behind Dreamer's back, and `dreamer forget`. It does not come back from
//! old text, it does when the user says it again, and an erased memory stands nowhere any more.
#![allow(clippy::unwrap_used)]

mod command;
pub(crate) use command::told;
mod erase;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use dreamer::dream::Options;
use dreamer::error::Error;
use dreamer::forget::{self, Manner};
use dreamer::memory::{Departure, Memory, RawMemory, Source};
use dreamer::plan::apply::{Step, apply, apply_until};
use dreamer::plan::{Phase, Purpose, RunId};
use dreamer::providers::Reasoner;
use dreamer::report::Status;
use dreamer::restore::restore;
use dreamer::state::journal::Fate;
use dreamer::state::tombstones::{How, Tombstones};
use dreamer::store::{Leaving, Touched, read_before};

use crate::home::{DRY, FULL, Home, at, copy, day, digests, memory, session};

pub(crate) const PEANUTS: &str = "I am severely allergic to peanuts and walnuts.";

/// A home that learned on day 0 that the user is allergic, and the id of that memory.
pub(crate) async fn allergic() -> (Home, Memory) {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    say(&home, 0, PEANUTS);
    home.night(at(0, 20)).await;
    let rows = home.store().await.rows("main").await.unwrap().memories;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].text.contains(PEANUTS));
    (home, rows[0].clone())
}

/// A session of that day at noon in which the user says this.
pub(crate) fn say(home: &Home, n: u64, words: &str) -> PathBuf {
    home.episode(&format!("{}.md", day(n)), &session(day(n), &[("user", words), ("assistant", "Noted.")]))
}

/// Deletes a row as a gateway does.
pub(crate) async fn gateway_deletes(home: &Home, id: &str) {
    home.gateway().await.delete(&format!("id = '{id}'")).await.unwrap();
}

pub(crate) fn tombstones(home: &Home) -> Tombstones {
    Tombstones::read(&home.config.state_dir()).unwrap()
}

/// Files under a folder that hold these bytes.
pub(crate) fn holding(folder: &Path, bytes: &str) -> Vec<PathBuf> {
    let files =
        walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
    let holds = |path: &PathBuf| {
        std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes.as_bytes())
    };
    files.map(|entry| entry.into_path()).filter(holds).collect()
}

pub(crate) async fn forget(home: &Home, id: &str, manner: Manner, now: DateTime<Utc>) -> forget::Touched {
    forget::forget(&home.config, &[id.to_owned()], &manner, now).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_fact_in_tonights_episode_does_not_come_back_and_said_again_next_week_it_does() {
    let (home, row) = allergic().await;
    gateway_deletes(&home, &row.id).await;
    // It still stands in tonight's episode.
    say(&home, 1, PEANUTS);
    let report = home.night(at(1, 20)).await;
    assert_eq!((report.forgotten.vanished, report.forgotten.skipped), (1, 1), "{report:?}");
    assert_eq!(report.fates[&Fate::Excluded], 1, "{:?}", report.groups);
    assert!(report.groups.iter().any(|group| group.why == "forgotten on purpose"), "{:?}", report.groups);
    let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
    assert!(log.contains("| not learned again | 1") && !log.contains("peanuts"), "{log}");
    assert!(home.texts().await.is_empty());
    let store = home.store().await;
    assert!(store.traces().await.unwrap().traces.is_empty());
    assert!(store.raw_all().await.unwrap().is_empty(), "raw text would keep it");
    let kept = tombstones(&home);
    let tombstone = kept.get(&row.id).unwrap();
    assert_eq!(tombstone.how, How::Vanished);
    assert!(tombstone.vector.is_some() && tombstone.words.is_some(), "an older version of the table knew it");
    let file = std::fs::read_to_string(Tombstones::path(&home.config.state_dir())).unwrap();
    assert!(!file.contains("peanuts") && !file.contains("allergic"), "{file}");

    // Said before, read late.
    let late = at(3, 20);
    home.episode("2025-12-20.md", &session("2025-12-20".parse().unwrap(), &[("user", PEANUTS)]));
    let report = home.night(late).await;
    assert_eq!(report.forgotten.skipped, 1);
    assert!(home.texts().await.is_empty());

    // Said again next week.
    say(&home, 8, PEANUTS);
    let report = home.night(at(8, 20)).await;
    assert_eq!((report.forgotten.skipped, report.forgotten.said_again), (0, 1), "{report:?}");
    assert_eq!(report.created.len(), 1);
    assert!(home.texts().await[0].contains(PEANUTS));
    assert_eq!(tombstones(&home).all().count(), 0);
    say(&home, 9, PEANUTS);
    home.night(at(9, 20)).await;
    assert_eq!(home.texts().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_is_another_claim_and_another_agent_another_memory() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    say(&home, 0, "Our daily team standup is at 9:00 in the small room.");
    home.night(at(0, 20)).await;
    let id = home.store().await.rows("main").await.unwrap().memories[0].id.clone();
    gateway_deletes(&home, &id).await;
    let other = session(day(1), &[("user", "Our daily team standup is at 9:00 in the small room.")]);
    home.episode("2026-01-02-other.md", &other.replace("agent:main:main", "agent:work:main"));
    say(&home, 1, "Our daily team standup is at 10:00 in the small room.");
    home.night(at(1, 20)).await;
    let rows = home.store().await.rows("main").await.unwrap().memories;
    let told: BTreeSet<(String, bool)> =
        rows.iter().map(|row| (row.partition.agent.clone(), row.text.contains("10:00"))).collect();
    assert_eq!(told, [("main".to_owned(), true), ("work".to_owned(), false)].into(), "{rows:?}");
    assert_eq!(tombstones(&home).all().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_respects_what_would_become_a_tombstone_and_writes_none() {
    let (home, row) = allergic().await;
    gateway_deletes(&home, &row.id).await;
    say(&home, 1, PEANUTS);
    let before = digests(&home.config.state_dir());
    let report = home.try_night(DRY, Reasoner::Extractive, at(1, 20)).await.unwrap();
    assert_eq!(digests(&home.config.state_dir()), before);
    let plan = home.plan(&report.run);
    assert_eq!((plan.tombstones.len(), plan.erased.as_slice()), (1, std::slice::from_ref(&row.id)));
    assert!(plan.inserts.is_empty() && plan.raw.is_empty());
    home.apply(&report.run, at(1, 21)).await.unwrap();
    assert!(tombstones(&home).get(&row.id).is_some());
    assert!(home.store().await.traces().await.unwrap().traces.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_that_buries_and_is_killed_after_any_step_ends_as_a_clean_one() {
    let (home, row) = allergic().await;
    home.add(&[memory("violin", "The user plays the violin badly.", 0.8)]).await;
    home.night(at(0, 21)).await;
    gateway_deletes(&home, &row.id).await;
    say(&home, 1, PEANUTS);
    let run = home.try_night(DRY, Reasoner::Extractive, at(1, 20)).await.unwrap().run;
    copy(&home.config.home, &home.outside("saved"));
    let go_back = || {
        std::fs::remove_dir_all(&home.config.home).unwrap();
        copy(&home.outside("saved"), &home.config.home);
    };
    home.apply(&run, at(1, 20)).await.unwrap();
    home.night(at(1, 22)).await;
    let clean = home.state().await;
    assert!(clean.traces.len() == 1 && clean.raw == 0, "{clean:#?}");
    for step in Step::ALL {
        go_back();
        home.run(&run).enter(Phase::Applying, at(1, 20)).unwrap();
        apply_until(&home.plan(&run), &home.store().await, &home.config, step).await.unwrap();
        home.night(at(1, 22)).await;
        home.state().await.assert_same(&clean, &format!("{step:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_vanished_merge_was_made_from_goes_with_it() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    let rows = [
        memory("merge", "The user moved from Oslo to Bergen in 2024.", 0.7),
        memory("original", "The user lives in Oslo with a parrot.", 0.7),
        memory("shared", "The user paints small ships on Sundays.", 0.7),
        memory("stays", "The user paints small ships and sells them at the harbour.", 0.7),
    ];
    home.add(&rows).await;
    home.night(at(0, 3)).await;
    let store = home.store().await;
    let leaving = |row: &Memory, successor: &str| Leaving {
        id: row.id.clone(),
        text: row.text.clone(),
        reason: Departure::Superseded,
        successor: Some(successor.into()),
        run: "long-ago".into(),
        at: 0,
    };
    store.archive(&[leaving(&rows[1], "merge"), leaving(&rows[2], "stays")]).await.unwrap();
    let going = [(rows[1].id.clone(), rows[1].text.clone()), (rows[2].id.clone(), rows[2].text.clone())];
    store.delete(&going).await.unwrap();
    for (id, from) in [("merge", vec!["original", "shared"]), ("stays", vec!["shared"])] {
        let mut trace = home.trace(id).await;
        trace.merged_from = from.into_iter().map(str::to_owned).collect();
        store.put_traces(&[trace]).await.unwrap();
    }
    let raw = |id: &str, memories: &[&str]| RawMemory {
        id: id.into(),
        text: format!("raw words of {id}"),
        vector: vec![0.5; 1024],
        agent: "main".into(),
        source: Source {
            episode: "2026-01-01.md".into(),
            lines: (1, 1),
            chunk: id.into(),
            speaker: "user".into(),
            said_at: at(0, 1),
        },
        memories: memories.iter().map(|id| (*id).to_owned()).collect(),
        run: "long-ago".into(),
    };
    store.put_raw(&[raw("alone", &["merge"]), raw("both", &["merge", "stays"])]).await.unwrap();
    let run = home.run("20260101-010000-000001");
    let ids = ["merge".to_owned(), "stays".to_owned()];
    let touched = Touched { memories: &ids, archived: &[], traces: &ids };
    store.before_images(touched, &run.folder).await.unwrap();
    std::fs::create_dir_all(home.config.memory_archive_dir()).unwrap();
    let export = home.config.memory_archive_dir().join("long-ago.json");
    std::fs::write(&export, r#"[{"id":"original","text":"in Oslo"},{"id":"shared","text":"ships"}]"#)
        .unwrap();

    gateway_deletes(&home, "merge").await;
    home.night(at(1, 3)).await;
    let kept = tombstones(&home);
    assert_eq!(kept.all().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["merge", "original"]);
    assert_eq!(home.archived().await, ["shared"], "another memory carries it");
    let raw = home.store().await.raw_all().await.unwrap();
    assert_eq!(raw.len(), 1);
    assert_eq!((raw[0].id.as_str(), raw[0].memories.as_slice()), ("both", &["stays".to_owned()][..]));
    let before = read_before(&run.folder).unwrap();
    assert_eq!(before.memories.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["stays"]);
    assert_eq!(before.traces.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["stays"]);
    assert_eq!(std::fs::read_to_string(&export).unwrap(), r#"[{"id":"shared","text":"ships"}]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_up_a_duplicate_forbids_nothing() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    let text = "The user bought a brass lamp.";
    home.add(&[memory("lamp-1", text, 0.7), memory("lamp-2", text, 0.5)]).await;
    for id in ["lamp-1", "lamp-2"] {
        dreamer::pin::pin(&home.config, id, dreamer::pin::Pin::Set, at(0, 1)).await.unwrap();
    }
    home.night(at(0, 3)).await;
    assert_eq!(home.texts().await.len(), 2);
    gateway_deletes(&home, "lamp-2").await;
    home.night(at(1, 3)).await;
    assert_eq!(tombstones(&home).all().count(), 0);
    let traces = home.store().await.traces().await.unwrap().traces;
    assert_eq!(traces.keys().collect::<Vec<_>>(), ["lamp-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_buries_nothing_until_it_was_meant() {
    let home = Home::new(&[]).await;
    let rows: Vec<Memory> = (0..20)
        .map(|n| memory(&format!("row-{n:03}"), &format!("Box {n} holds part {}.", n * 7), 0.7))
        .collect();
    home.add(&rows).await;
    home.night(at(0, 3)).await;
    let going: Vec<_> = rows[..6].iter().map(|row| (row.id.clone(), row.text.clone())).collect();
    home.store().await.delete(&going).await.unwrap();
    assert!(home.try_night(FULL, Reasoner::Extractive, at(1, 3)).await.is_err());
    assert_eq!(tombstones(&home).all().count(), 0);
    let meant = Options { accept_vanished: true, ..FULL };
    home.try_night(meant, Reasoner::Extractive, at(2, 3)).await.unwrap();
    let kept = tombstones(&home);
    assert_eq!(kept.all().count(), 6);
    assert!(kept.all().all(|tombstone| tombstone.vector.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_the_gateway_captures_again_is_told_and_stays() {
    let (home, row) = allergic().await;
    gateway_deletes(&home, &row.id).await;
    home.night(at(1, 3)).await;
    home.add(&[memory("captured", PEANUTS, 0.7)]).await;
    let report = home.night(at(2, 3)).await;
    let told = |warning: &String| warning.contains("forgotten on purpose") && warning.contains("captured");
    assert!(report.warnings.iter().any(told), "{:?}", report.warnings);
    assert_eq!(home.texts().await, [PEANUTS]);
    let report = home.night(at(3, 3)).await;
    assert!(!report.warnings.iter().any(told), "once is enough: {:?}", report.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_memory_waits_in_the_archive_and_restore_lifts_its_tombstone() {
    let (home, row) = allergic().await;
    let touched = forget(&home, &row.id, Manner::Archive, at(1, 10)).await;
    assert_eq!(touched.live, std::slice::from_ref(&row.id));
    let archived = home.store().await.archived_all("main").await.unwrap();
    assert_eq!((archived.len(), archived[0].reason), (1, Departure::Forgotten));
    say(&home, 0, &format!("By the way. {PEANUTS}"));
    home.episode("2025-12-20.md", &session("2025-12-20".parse().unwrap(), &[("user", PEANUTS)]));
    home.night(at(1, 20)).await;
    assert!(!home.texts().await.iter().any(|text| text.contains("2025-12-20")), "{:?}", home.texts().await);
    let again = forget(&home, &row.id, Manner::Archive, at(1, 21)).await;
    assert_eq!((again.live.len(), again.kept_in_archive), (0, vec![row.id.clone()]));
    restore(&home.config, &row.id, day(2)).await.unwrap();
    assert!(tombstones(&home).get(&row.id).is_none());
    assert!(home.live().await.iter().any(|(text, _)| *text == row.text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_memory_that_the_user_says_again_comes_back_as_it_was() {
    let (home, row) = allergic().await;
    forget(&home, &row.id, Manner::Archive, at(1, 10)).await;
    say(&home, 2, PEANUTS);
    let report = home.night(at(2, 20)).await;
    assert!(report.strengthened.iter().any(|again| again.revived), "{report:?}");
    let rows = home.store().await.rows("main").await.unwrap().memories;
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [row.id.as_str()]);
    assert_eq!(tombstones(&home).all().count(), 0);
    assert!(home.archived().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faded_memory_that_is_forgotten_is_not_revived_by_old_words() {
    for forgotten in [false, true] {
        let (home, row) = allergic().await;
        let store = home.store().await;
        let leaving = Leaving {
            id: row.id.clone(),
            text: row.text.clone(),
            reason: Departure::Faded,
            successor: None,
            run: "long-ago".into(),
            at: 0,
        };
        store.archive(&[leaving]).await.unwrap();
        store.delete(&[(row.id.clone(), row.text.clone())]).await.unwrap();
        if forgotten {
            let touched = forget(&home, &row.id, Manner::Archive, at(2, 10)).await;
            assert_eq!(touched.kept_in_archive, std::slice::from_ref(&row.id));
        }
        say(&home, 1, PEANUTS);
        home.night(at(2, 20)).await;
        assert_eq!(home.texts().await.is_empty(), forgotten);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_older_than_the_forgetting_does_not_bring_it_back() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    say(&home, 0, PEANUTS);
    let run = home.try_night(DRY, Reasoner::Extractive, at(0, 20)).await.unwrap().run;
    let text = home.plan(&run).inserts[0].memory.text.clone();
    home.add(&[memory("captured", &text, 0.7)]).await;
    forget(&home, "captured", Manner::Archive, at(0, 21)).await;
    let report = home.apply(&run, at(0, 22)).await.unwrap();
    assert!(home.texts().await.is_empty());
    assert!(report.warnings.iter().any(|w| w.contains("forgotten on purpose")), "{:?}", report.warnings);
    assert_eq!(report.fates.get(&Fate::HeldBack), Some(&1), "its chunk is looked at again");
    let report = home.night(at(1, 3)).await;
    assert_eq!(report.fates.get(&Fate::Excluded), Some(&1), "{:?}", report.fates);
    assert!(home.texts().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_brings_rows_back_respects_every_tombstone() {
    for (purpose, comes) in
        [(Purpose::Night, true), (Purpose::Rollback { of: RunId::parse("r").unwrap() }, false)]
    {
        let (home, row) = allergic().await;
        say(&home, 1, "I play the cello on Mondays in the attic.");
        let run = home.try_night(DRY, Reasoner::Extractive, at(1, 20)).await.unwrap().run;
        let mut plan = home.plan(&run);
        let cello = plan.inserts[0].memory.clone();
        home.add(&[memory("captured", &cello.text, 0.7)]).await;
        // Before the plan was made: a night has asked about it.
        forget(&home, "captured", Manner::Archive, at(1, 10)).await;
        plan.purpose = purpose;
        apply(&plan, &home.store().await, &home.config).await.unwrap();
        let ids: Vec<String> =
            home.store().await.rows("main").await.unwrap().memories.into_iter().map(|row| row.id).collect();
        assert_eq!(ids.contains(&cello.id), comes, "{ids:?}");
        assert!(ids.contains(&row.id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_does_not_bring_back_what_another_tombstone_forbids() {
    let (home, row) = allergic().await;
    let twin = memory("twin", &row.text, 0.7);
    home.add(std::slice::from_ref(&twin)).await;
    let store = home.store().await;
    let leaving = Leaving {
        id: "twin".into(),
        text: twin.text.clone(),
        reason: Departure::Faded,
        successor: None,
        run: "long-ago".into(),
        at: 0,
    };
    store.archive(&[leaving]).await.unwrap();
    store.delete(&[("twin".into(), twin.text.clone())]).await.unwrap();
    gateway_deletes(&home, &row.id).await;
    home.night(at(1, 3)).await;
    let refused = restore(&home.config, "twin", day(1)).await.unwrap_err();
    assert!(matches!(refused, Error::Restore(_)) && refused.to_string().contains(&row.id), "{refused}");
    assert_eq!(refused.exit_code(), 1);
    assert!(home.texts().await.is_empty() && home.archived().await == ["twin"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_row_alone_is_something_that_happened() {
    let (home, row) = allergic().await;
    gateway_deletes(&home, &row.id).await;
    let report = home.night(at(1, 3)).await;
    assert_eq!(report.status, Status::Done);
    assert_eq!(home.night(at(2, 3)).await.status, Status::NothingNew, "and only once");
}
