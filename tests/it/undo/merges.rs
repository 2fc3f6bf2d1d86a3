//! What somebody took apart stays apart, and whoever was there since keeps what they wrote.

use dreamer::memory::{Memory, Reconciled, Trace};
use dreamer::plan::Phase;
use dreamer::providers::Reasoner;
use dreamer::undo::unmerge::unmerge;

use super::*;
use crate::home::{DRY, copy, eventful, memory};

/// The one live row whose text holds these words.
async fn row_with(home: &Home, words: &str) -> Memory {
    let rows = home.store().await.rows("main").await.unwrap().memories;
    let mut found: Vec<Memory> = rows.into_iter().filter(|row| row.text.contains(words)).collect();
    assert_eq!(found.len(), 1, "{words}: {found:#?}");
    found.remove(0)
}

async fn merge(home: &Home) -> Memory {
    row_with(home, "10:00").await
}

/// The next night joins nothing.
async fn joins_nothing(home: &Home, n: u64) {
    home.hello(n);
    let report = home.night(at(n, 20)).await;
    assert!(report.joined.is_empty(), "{:#?}", report.joined);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_changed_since_is_left_and_listed() {
    let home = eventful(&[]).await;
    let before = rows(&home).await;
    let original = row_with(&home, "9:00").await.id;
    let run = home.night(at(2, 20)).await.run;
    let merge = merge(&home).await;
    let clara = row_with(&home, "Clara").await;
    let gateway = home.gateway().await;
    gateway_sets(
        &home,
        &format!("id = '{}'", merge.id),
        "text",
        "'The standup is at noon, it was at 10:00.'",
    )
    .await;
    gateway_sets(&home, "id = 'violin'", "importance", "0.93").await;
    gateway.delete(&format!("id = '{}' or id = 'lamp-1'", clara.id)).await.unwrap();
    home.add(&[memory("added", "The user adopted a greyhound.", 0.7)]).await;
    let since = rows(&home).await;

    let report = rollback(&home, &run, at(2, 21)).await.remove(0);
    let left: BTreeMap<&str, &str> =
        undone(&report).left.iter().map(|left| (left.id.as_str(), left.why.as_str())).collect();
    assert!(left[merge.id.as_str()].contains("edited since and stays"), "{left:?}");
    assert!(left["violin"].contains("another importance"), "{left:?}");
    assert!(left[clara.id.as_str()].contains("deleted or forgotten"), "{left:?}");
    let log = std::fs::read_to_string(report.dream_log.as_ref().unwrap()).unwrap();
    assert!(log.contains("## Left as they are") && log.contains("another importance"), "{log}");
    assert!(log.contains(&format!("dreamer rollback {}", report.run)), "{log}");

    let now = rows(&home).await;
    // Edited, changed, added: as the gateway left them. Deleted: gone. All others as before the night.
    for id in [merge.id.as_str(), "violin", "added"] {
        assert_eq!(now[id], since[id], "{id}");
    }
    assert!(!now.contains_key(&clara.id) && !now.contains_key("lamp-1"));
    for (id, row) in before.iter().filter(|(id, _)| !["violin", "lamp-1"].contains(&id.as_str())) {
        assert_eq!(now.get(id), Some(row), "{id}");
    }
    assert_eq!(now.len(), before.len() - 1 + 2);
    joins_nothing(&home, 3).await;

    // Put in force again, the edited row is not written over, nor does the deleted one come back.
    let last = rows(&home).await;
    rollback(&home, &report.run, at(3, 21)).await;
    let now = rows(&home).await;
    assert_eq!(now[&merge.id]["text"], last[&merge.id]["text"]);
    assert!(!now.contains_key(&clara.id) && now.contains_key("added"));
    for (id, what) in [("lamp-2", "its twin was deleted"), (original.as_str(), "its successor was edited")] {
        assert!(now.contains_key(id), "{id} stays: {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_the_night_brought_stays_where_the_gateway_gave_it_another_importance_since() {
    let home = eventful(&[]).await;
    let run = home.night(at(2, 20)).await.run;
    let plan = home.plan(&run);
    let brought: Vec<&str> = plan.inserts.iter().map(|row| row.memory.id.as_str()).collect();
    let (weighed, others) = brought.split_first().unwrap();
    assert!(!others.is_empty());
    gateway_sets(&home, &format!("id = '{weighed}'"), "importance", "0.911").await;
    let since = rows(&home).await;

    let report = rollback(&home, &run, at(2, 21)).await.remove(0);
    let left = undone(&report).left.iter().find(|left| left.id == *weighed).unwrap();
    assert!(left.why.contains("another importance"), "{left:?}");
    let now = rows(&home).await;
    assert_eq!(now[*weighed], since[*weighed]);
    assert!(others.iter().all(|id| !now.contains_key(*id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_captured_again_that_was_taken_back_stays() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let old = home.store().await.archived_all("main").await.unwrap();
    let old = old.into_iter().find(|copy| copy.memory.text.contains("9:00")).unwrap();
    home.add(&[Memory { id: "again".into(), ..old.memory }]).await;
    home.hello(3);
    let report = home.night(at(3, 20)).await;
    assert!(home.plan(&report.run).leaving.iter().any(|leaving| leaving.id == "again"));
    rollback(&home, &report.run, at(3, 21)).await;
    joins_nothing(&home, 4).await;
    assert!(rows(&home).await.contains_key("again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_is_taken_apart_alone_and_put_together_again() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let merge = merge(&home).await;
    let originals = home.trace(&merge.id).await.merged_from;
    assert_eq!(originals.len(), 2);
    let before = rows(&home).await;
    let archive = table(&home, "memories_archive").await;

    let report = unmerge(&home.config, &merge.id[..8], at(2, 21), Instant::now()).await.unwrap();
    let now = rows(&home).await;
    assert!(!now.contains_key(&merge.id) && originals.iter().all(|id| now.contains_key(id)));
    assert_eq!((undone(&report).back.len(), undone(&report).gone.len()), (2, 1));
    for (id, row) in before.iter().filter(|(id, _)| **id != merge.id) {
        assert_eq!(now.get(id), Some(row), "{id}");
    }
    let copies = home.store().await.archived_all("main").await.unwrap();
    let copy = copies.iter().find(|copy| copy.memory.id == merge.id).unwrap();
    assert_eq!((copy.reason, copy.successor.as_ref()), (Departure::Undone, None));
    joins_nothing(&home, 3).await;
    let kept = rows(&home).await;
    assert!(originals.iter().all(|id| kept.contains_key(id)));

    let nights = rollback(&home, &report.run, at(3, 21)).await;
    assert_eq!(nights.len(), 2, "the night since, then the unmerge");
    assert_same(&rows(&home).await, &before, "put together again");
    assert_same(&table(&home, "memories_archive").await, &archive, "the archive");
    // And apart once more, from the archive this time.
    home.gateway().await.delete(&format!("id = '{}'", merge.id)).await.unwrap();
    let refused = unmerge(&home.config, &merge.id, at(3, 22), Instant::now()).await.unwrap_err().to_string();
    assert!(refused.contains("no memory, live or archived"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_merge_or_has_lost_its_originals_is_refused_and_nothing_changes() {
    let home = eventful(&[]).await;
    home.night(at(2, 20)).await;
    let merge = merge(&home).await;
    let refused = async |id: &str| {
        let error = unmerge(&home.config, id, at(2, 21), Instant::now()).await.unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error}");
        error.to_string()
    };
    let originals = home.trace(&merge.id).await.merged_from;
    let before = rows(&home).await;
    assert!(refused("violin").await.contains("no merge"));
    assert!(refused("").await.contains("no memory"));
    assert!(refused("lamp-1").await.contains("no merge"));
    assert!(refused("lamp").await.contains("2 memories"), "one is live, its twin in the archive");
    gateway_sets(&home, &format!("id = '{}'", merge.id), "category", "'decision'").await;
    let copies = home.store().await;
    copies.unarchive(&originals[..1]).await.unwrap();
    let told = refused(&merge.id).await;
    assert!(told.contains(&originals[0]) && told.contains("not in the archive"), "{told}");
    gateway_sets(&home, &format!("id = '{}'", merge.id), "text", "'Otherwise.'").await;
    assert!(refused(&merge.id).await.contains("edited"));
    assert_eq!(rows(&home).await.len(), before.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_set_since_survives_and_other_changes_of_a_trace_are_told() {
    let home = eventful(&[]).await;
    let run = home.night(at(2, 20)).await.run;
    let old = home.trace("violin").await;
    let pinned = Trace { pinned: true, run: "pin".into(), ..old };
    let waiting =
        Trace { reconciled: Reconciled::Waiting, run: "somebody".into(), ..home.trace("lamp-1").await };
    home.store().await.put_traces(&[pinned, waiting.clone()]).await.unwrap();
    let report = rollback(&home, &run, at(2, 21)).await.remove(0);
    let violin = home.trace("violin").await;
    assert!(violin.pinned && violin.written == 0.8, "{violin:?}");
    assert_eq!(home.trace("lamp-1").await, waiting);
    assert_eq!(undone(&report).traces_left, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_back_says_why() {
    let home = eventful(&[]).await;
    let preview = home.try_night(DRY, Reasoner::Extractive, at(2, 19)).await.unwrap().run;
    let first = home.night(at(2, 20)).await.run;
    home.hello(3);
    let second = home.night(at(3, 20)).await.run;
    let before = rows(&home).await;
    assert!(refused(&home, &preview, at(3, 21)).await.contains("previewed"));
    assert!(refused(&home, "../x", at(3, 21)).await.contains("no name of a run"));
    let shown = [run_id(&first)];
    let error =
        undo::rollback(&home.config, &first, Some(&shown), at(3, 21), Instant::now()).await.unwrap_err();
    assert!(error.to_string().contains("since it was shown"), "{error}");

    let folder = home.run(&first).folder.join("before");
    std::fs::rename(&folder, home.outside("pruned")).unwrap();
    let told = refused(&home, &first, at(3, 21)).await;
    assert!(told.contains("pruned") && told.contains(folder.to_str().unwrap()), "{told}");
    assert_same(&rows(&home).await, &before, "nothing is taken back if not all of it can be");
    std::fs::rename(home.outside("pruned"), &folder).unwrap();

    let back = rollback(&home, &second, at(3, 21)).await.remove(0).run;
    let told = refused(&home, &second, at(3, 22)).await;
    assert!(told.contains("already") && told.contains(&back), "{told}");
    assert_eq!(home.run(&back).phase().unwrap(), Phase::Finished);
    // An undo is no night: the night that is due tonight is due still.
    let last = dreamer::plan::run::last_finished(&home.config.runs_dir()).unwrap();
    assert_eq!(last, Some(at(3, 20)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_restored_since_is_there_once() {
    let home = eventful(&[]).await;
    let run = home.night(at(2, 20)).await.run;
    dreamer::restore::restore(&home.config, "heron", day(2)).await.unwrap();
    let restored = rows(&home).await["heron"].clone();
    let report = rollback(&home, &run, at(2, 21)).await.remove(0);
    assert!(undone(&report).back.iter().all(|row| row.id != "heron"), "{report:#?}");
    assert_eq!(rows(&home).await["heron"], restored);
    assert!(!home.archived().await.contains(&"heron".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_the_program_before_is_taken_back_too() {
    let home = Home::new(&[]).await;
    std::fs::remove_dir_all(&home.config.lancedb_uri).unwrap();
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plan-1");
    copy(&fixture, &home.config.home);
    let after = rows(&home).await;
    let plan = home.plan("20261130-172255-ed507a");
    assert_eq!((plan.format, plan.importance[0].from), (1, 0.65));
    let now = "2026-11-30T18:00:00Z".parse().unwrap();
    let report = rollback(&home, plan.run.as_str(), now).await.remove(0);
    assert!(undone(&report).left.is_empty() && undone(&report).traces_left == 0, "{report:#?}");
    let texts = home.texts().await;
    assert!(texts.len() == 2 && texts.iter().any(|text| text.contains("9:00")), "{texts:?}");
    let clara = row_with(&home, "Clara").await;
    assert_eq!((clara.importance, home.trace(&clara.id).await.base), (0.65, 0.65));
    rollback(&home, &report.run, now).await;
    assert_same(&rows(&home).await, &after, "in force again");
}
