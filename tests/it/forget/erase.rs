//! `--erase`: every byte under the home and in the database is searched for the words afterwards.

use chrono::TimeDelta;
use dreamer::forget::{Manner, Named, Place, find};
use dreamer::memory::{Category, Departure};
use dreamer::plan::ReviewItem;
use dreamer::providers::Reasoner;
use dreamer::state::lock::Lock;
use dreamer::store::{Leaving, Touched, read_before};
use serde_json::Value;

use super::{PEANUTS, allergic, forget, gateway_deletes, holding, say, tombstones};
use crate::home::{DRY, Home, at, day, digests, memory, session};

const ZOE: &str = "The user's cousin \"Zoë\" keeps bees in Köln.";
/// Nobody listens there: the port of a listener that was closed.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn erase_now() -> Manner {
    Manner::Erase { now: Some(nobody()), episodes: false }
}

fn as_json(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// Puts a text into every place that may hold one.
fn scatter(home: &Home, id: &str, text: &str, run: &str) {
    let config = &home.config;
    let write = |path: std::path::PathBuf, text: String| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let json = Value::from(text);
    write(
        config.memory_archive_dir().join(format!("{run}.json")),
        format!("[{{\"id\":\"{id}\",\"text\":{json}}},{{\"id\":\"other\",\"text\":\"stays\"}}]"),
    );
    let item = ReviewItem {
        id: "question".into(),
        kind: "conflict".into(),
        agent: "main".into(),
        texts: vec![text.into(), "Tea?".into()],
        memories: vec![id.into()],
        reason: "which?".into(),
        run: run.into(),
        ..ReviewItem::default()
    };
    let other = ReviewItem { texts: vec!["Tea?".into()], memories: vec![], ..item.clone() };
    let lines = [item, other].map(|item| serde_json::to_string(&item).unwrap() + "\n").concat();
    write(config.queues_dir().join("review.jsonl"), lines);
    write(
        config.recalls_dir().join("agent.jsonl"),
        format!(
            "{{\"text\":{json},\"at\":\"2026-01-01T10:00:00Z\"}}\n{{\"id\":\"other\",\"at\":\"2026-01-01T10:00:00Z\"}}\n"
        ),
    );
    let replies = config.runs_dir().join(run).join("replies");
    write(replies.join("1.json"), format!("{{\"reply\":{}}}", Value::from(format!("{{\"text\":{json}}}"))));
    write(
        config.dream_log_dir().join("2025-12-31_0300.md"),
        format!("# Dream log\n\n## New\n\n- {text}\n  <br>`{}` fact\n- Tea\n", &id[..8.min(id.len())]),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_of_an_erased_memory_is_left() {
    let (home, row) = allergic().await;
    // More nights, so that plans, before-images, logs and old versions hold it: it is superseded and comes back.
    say(&home, 1, "Good evening, I watched a film about penguins in Antarctica.");
    home.night(at(1, 20)).await;
    say(&home, 2, PEANUTS);
    home.night(at(2, 20)).await;
    home.try_night(DRY, Reasoner::Extractive, at(2, 21)).await.unwrap();
    let store = home.store().await;
    let ids = [row.id.clone()];
    let touched = Touched { memories: &ids, archived: &[], traces: &ids };
    store.before_images(touched, &home.config.runs_dir().join("20260102-000000-000001")).await.unwrap();
    let run = home.trace(&row.id).await.run;
    scatter(&home, &row.id, &row.text, &run);
    let places = ["runs", "dream-log", "episodes", "lancedb", "memory-archive", "queues", "recalls"];
    for place in places {
        assert!(!holding(&home.config.home.join(place), "allergic to peanuts").is_empty(), "{place}");
    }
    let episodes = digests(&home.config.home.join("episodes"));
    let touched = forget(&home, &row.id, erase_now(), at(3, 10)).await;

    for text in [row.text.as_str(), PEANUTS, "allergic to peanuts", as_json(&row.text).as_str()] {
        let left = holding(&home.config.home, text);
        assert!(left.is_empty(), "{text}: {left:?}");
    }
    assert!(touched.still_in.is_empty() && touched.edited.is_empty(), "{touched:?}");
    for place in [
        "memories",
        "traces",
        "raw memories",
        "before-images",
        "plans",
        "recorded replies",
        "memory-archive",
        "queues",
        "noted recalls",
        "dream logs",
    ] {
        assert!(touched.places.get(place).is_some_and(|count| *count > 0), "{place}: {:?}", touched.places);
    }
    assert_eq!(touched.episodes.iter().map(|(_, lines)| lines).sum::<usize>(), 2, "{:?}", touched.episodes);
    assert_eq!(tombstones(&home).all().count(), 1, "it is not learned again");
    // What is not about it is left.
    let queue = std::fs::read_to_string(home.config.queues_dir().join("review.jsonl")).unwrap();
    assert_eq!(queue.lines().count(), 1);
    let log = std::fs::read_to_string(home.config.dream_log_dir().join("2025-12-31_0300.md")).unwrap();
    assert_eq!(log, "# Dream log\n\n## New\n\n- (erased)\n- Tea\n");
    assert!(home.texts().await.iter().any(|text| text.contains("penguins")));
    let after = digests(&home.config.home.join("episodes"));
    let changed = after.iter().filter(|(path, digest)| episodes.get(*path) != Some(digest)).count();
    assert_eq!(changed, 2, "the file about penguins is untouched");
    for run in std::fs::read_dir(home.config.runs_dir()).unwrap() {
        read_before(&run.unwrap().path()).unwrap();
    }
    // The table works as before, and the next night learns nothing from what was blanked.
    let report = home.night(at(3, 20)).await;
    assert!(report.created.is_empty(), "{report:?}");
    let again = forget(&home, &row.id, erase_now(), at(4, 10)).await;
    assert!(again.places.is_empty() && again.episodes.is_empty(), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_deleted_keeps_its_words_in_no_paper_of_ours() {
    let (home, row) = allergic().await;
    let run = home.trace(&row.id).await.run;
    scatter(&home, &row.id, &row.text, &run);
    home.try_night(DRY, Reasoner::Extractive, at(0, 21)).await.unwrap();
    let papers = ["runs", "dream-log", "memory-archive", "queues", "recalls"];
    for place in papers {
        assert!(!holding(&home.config.home.join(place), "allergic to peanuts").is_empty(), "{place}");
    }
    gateway_deletes(&home, &row.id).await;
    // It still stands in tonight's episode, and no plan of tonight says it either.
    say(&home, 1, PEANUTS);
    home.night(at(1, 20)).await;
    for place in papers {
        let left = holding(&home.config.home.join(place), "allergic to peanuts");
        assert!(left.is_empty(), "{left:?}");
    }
    let log = std::fs::read_to_string(home.config.dream_log_dir().join("2025-12-31_0300.md")).unwrap();
    assert_eq!(log, "# Dream log\n\n## New\n\n- (erased)\n- Tea\n", "what is not about it is left");
    let queue = std::fs::read_to_string(home.config.queues_dir().join("review.jsonl")).unwrap();
    assert_eq!(queue.lines().count(), 1);
    let episodes = holding(&home.config.home.join("episodes"), "allergic to peanuts");
    assert_eq!(episodes.len(), 2, "what was said is no copy of the row: {episodes:?}");
    // Every run can still be read.
    for run in std::fs::read_dir(home.config.runs_dir()).unwrap() {
        read_before(&run.unwrap().path()).unwrap();
    }
    home.night(at(2, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_was_cleaned_up_leaves_the_words_of_the_one_that_stays() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    let text = "The user bought a brass lamp in Antwerp.";
    home.add(&[memory("lamp-0001", text, 0.7), memory("lamp-0002", text, 0.5)]).await;
    for id in ["lamp-0001", "lamp-0002"] {
        dreamer::pin::pin(&home.config, id, dreamer::pin::Pin::Set, at(0, 1)).await.unwrap();
    }
    let run = home.night(at(0, 3)).await.run;
    let export = home.config.memory_archive_dir().join(format!("{run}.json"));
    std::fs::create_dir_all(home.config.memory_archive_dir()).unwrap();
    let item = |id: &str| serde_json::json!({"id": id, "text": text});
    std::fs::write(&export, serde_json::json!([item("lamp-0001"), item("lamp-0002")]).to_string()).unwrap();
    gateway_deletes(&home, "lamp-0002").await;
    home.night(at(1, 3)).await;
    let left: Value = serde_json::from_slice(&std::fs::read(&export).unwrap()).unwrap();
    assert_eq!(left, serde_json::json!([item("lamp-0001")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_and_accents_are_found_as_json_writes_them_too() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    home.add(&[memory("zoe-0001", ZOE, 0.7), memory("tea-0001", "The user drinks tea.", 0.7)]).await;
    home.night(at(0, 3)).await;
    scatter(&home, "zoe-0001", ZOE, "20260101-010000-000001");
    let meant = find(&home.config, Named::Text("cousin \"zoë\"  KEEPS"), None).await.unwrap();
    assert_eq!(meant.iter().map(|meant| meant.id.as_str()).collect::<Vec<_>>(), ["zoe-0001"]);
    forget(&home, "zoe-0001", erase_now(), at(0, 10)).await;
    for text in [ZOE, as_json(ZOE).as_str(), "Zoë", "Zo\\u00eb", "bees"] {
        assert!(
            holding(&home.config.home, text).is_empty(),
            "{text}: {:?}",
            holding(&home.config.home, text)
        );
    }
    assert_eq!(home.texts().await, ["The user drinks tea."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_now_old_versions_hold_it_for_eight_days_and_nothing_else_does() {
    let (home, row) = allergic().await;
    let manner = Manner::Erase { now: None, episodes: false };
    let touched = forget(&home, &row.id, manner, at(1, 10)).await;
    assert_eq!(touched.old_versions_until, Some(at(1, 10) + TimeDelta::days(8)));
    let left = holding(&home.config.home, "allergic to peanuts");
    assert!(
        !left.is_empty() && left.iter().all(|path| path.starts_with(&home.config.lancedb_uri)),
        "{left:?}"
    );
    let store = home.store().await;
    assert!(store.raw_all().await.unwrap().is_empty() && store.traces().await.unwrap().traces.is_empty());
    assert!(home.texts().await.is_empty() && home.archived().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erase_that_was_killed_is_run_again_to_the_end() {
    let (home, row) = allergic().await;
    // Killed after its last step but one: the row is gone, its trace and everything found by id is not.
    let copy_of = |bytes: &str| holding(&home.config.home, bytes);
    let tombstones_only = forget(&home, &row.id, Manner::Archive, at(1, 9)).await;
    assert_eq!(tombstones_only.live, std::slice::from_ref(&row.id));
    home.store().await.unarchive(std::slice::from_ref(&row.id)).await.unwrap();
    let meant = find(&home.config, Named::Id(&row.id[..8]), None).await.unwrap();
    assert_eq!((meant[0].place.clone(), meant[0].text.clone()), (Place::Erased, None));
    forget(&home, &meant[0].id, erase_now(), at(1, 10)).await;
    assert!(copy_of("allergic to peanuts").is_empty(), "{:?}", copy_of("allergic to peanuts"));
    assert!(home.store().await.traces().await.unwrap().traces.is_empty());
    assert_eq!(home.night(at(1, 20)).await.forgotten.vanished, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn originals_and_duplicates_go_with_it_and_what_carries_it_on_is_listed() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    let rows = [
        memory("merge", "The user moved from Oslo to Bergen in 2024.", 0.7),
        memory("original", "The user lives in Oslo with a parrot.", 0.7),
    ];
    home.add(&rows).await;
    home.night(at(0, 3)).await;
    let store = home.store().await;
    let leaving = Leaving {
        id: "original".into(),
        text: rows[1].text.clone(),
        reason: Departure::Superseded,
        successor: Some("merge".into()),
        run: "long-ago".into(),
        at: 0,
    };
    store.archive(&[leaving]).await.unwrap();
    store.delete(&[("original".into(), rows[1].text.clone())]).await.unwrap();
    let mut trace = home.trace("merge").await;
    trace.merged_from = vec!["original".into()];
    store.put_traces(&[trace]).await.unwrap();
    let touched = forget(&home, "original", Manner::Archive, at(1, 3)).await;
    assert_eq!(touched.successors.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["merge"]);
    let touched = forget(&home, "merge", Manner::Erase { now: None, episodes: false }, at(1, 4)).await;
    assert!(touched.successors.is_empty());
    assert!(home.archived().await.is_empty() && home.texts().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_answers_keeps_its_old_versions_and_nothing_is_changed() {
    let (home, row) = allergic().await;
    let gateway = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let before = digests(&home.config.home);
    let manner = Manner::Erase { now: Some(gateway.local_addr().unwrap().to_string()), episodes: false };
    let refused = dreamer::forget::forget(&home.config, std::slice::from_ref(&row.id), &manner, at(1, 3))
        .await
        .unwrap_err();
    assert_eq!(refused.exit_code(), 75);
    assert!(refused.to_string().contains("stop it"), "{refused}");
    assert_eq!(digests(&home.config.home), before);
    let _lock = Lock::take(&home.config.state_dir()).unwrap();
    let busy =
        dreamer::forget::forget(&home.config, &[row.id], &Manner::Archive, at(1, 3)).await.unwrap_err();
    assert_eq!(busy.exit_code(), 75);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_own_episodes_change_only_when_so_asked() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("memory");
    std::fs::create_dir_all(&notes).unwrap();
    let home = Home::new(&[("DREAMER_FADE", "off"), ("DREAMER_EPISODES_DIR", notes.to_str().unwrap())]).await;
    let text =
        session(day(0), &[("user", PEANUTS), ("assistant", "Noted."), ("user", "Penguins swim very far.")]);
    let path = home.episode(&format!("{}.md", day(0)), &text);
    home.night(at(0, 20)).await;
    let rows = home.store().await.rows("main").await.unwrap().memories;
    let row = rows.iter().find(|row| row.text.contains(PEANUTS)).unwrap();
    let manner = |episodes| Manner::Erase { now: None, episodes };
    let touched = forget(&home, &row.id, manner(false), at(0, 21)).await;
    assert_eq!(touched.outside, [(path.clone(), 1)]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    // Its sources are known no more, but its words can be given; here the memory is captured again.
    home.add(&[memory("captured", PEANUTS, 0.7)]).await;
    let touched = forget(&home, "captured", manner(true), at(0, 22)).await;
    assert_eq!(touched.outside, [(path.clone(), 1)]);
    let blanked = std::fs::read_to_string(&path).unwrap();
    assert_eq!(blanked, text.replace(PEANUTS, "[erased]"));
    let report = home.night(at(1, 3)).await;
    assert!(report.created.is_empty(), "{report:?}");
    assert_eq!(report.fates.keys().map(|fate| fate.as_str()).collect::<Vec<_>>(), ["noise"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_agent_has_is_not_meant() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    let mut other = memory("work-1", ZOE, 0.7);
    (other.partition.agent, other.category) = ("work".into(), Category::Entity);
    home.add(&[memory("main-1", ZOE, 0.7), other]).await;
    let found = find(&home.config, Named::Text("bees"), Some("work")).await.unwrap();
    assert_eq!(found.iter().map(|meant| meant.id.as_str()).collect::<Vec<_>>(), ["work-1"]);
    assert!(find(&home.config, Named::Id("main-1"), Some("work")).await.is_err());
    gateway_deletes(&home, "main-1").await;
    assert_eq!(find(&home.config, Named::Text("bees"), None).await.unwrap().len(), 1);
}
