//! Pins: a pinned memory neither fades nor merges, whoever else says the same.
#![allow(clippy::unwrap_used)]

use dreamer::memory::{Reconciled, Trace};
use dreamer::pin::{Pin, pin};
use dreamer::rem::unreconciled;
use dreamer::state::lock::Lock;
use serde_json::Value;

use crate::forget::told;
use crate::home::{Home, at, memory};

const LAMP: &str = "The user bought a brass lamp.";

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_memory_does_not_fade_until_it_is_unpinned() {
    let home = Home::new(&[]).await;
    let row = |id: &str, text: &str| memory(id, text, 0.1575);
    home.add(&[
        row("heron", "The user once saw a heron by the pond."),
        row("stork", "Storks nest on Anna's roof."),
    ])
    .await;
    home.night(at(0, 20)).await;
    for expected in [false, true] {
        let pinned = pin(&home.config, "HERON", Pin::Set, at(0, 21)).await.unwrap();
        assert_eq!((pinned.memory.id.as_str(), pinned.was_so), ("heron", expected));
    }
    home.hello(1);
    home.hello(2);
    home.night(at(2, 20)).await;
    assert_eq!(home.archived().await, ["stork"]);
    let list = told(&home, &["memories", "list"], 0).0;
    assert!(list.contains("fading, pinned"), "{list}");
    let json: Value = serde_json::from_str(&told(&home, &["memories", "list", "--json"], 0).0).unwrap();
    assert_eq!((&json["id"], &json["pinned"]), (&"heron".into(), &true.into()));
    for expected in [false, true] {
        assert_eq!(pin(&home.config, "heron", Pin::Clear, at(2, 21)).await.unwrap().was_so, expected);
    }
    home.hello(3);
    home.night(at(3, 20)).await;
    let mut archived = home.archived().await;
    if !archived.contains(&"heron".to_owned()) {
        // The loss budget of a month may hold it until the next one.
        assert_eq!(home.texts().await.len(), 1);
        home.hello(40);
        home.night(at(40, 20)).await;
        archived = home.archived().await;
    }
    assert_eq!(archived, ["heron", "stork"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_memory_and_its_duplicate_both_stay_and_it_is_told_once() {
    for (pinned, left) in
        [(vec![], 1), (vec!["lamp-1"], 2), (vec!["lamp-2"], 2), (vec!["lamp-1", "lamp-2"], 2)]
    {
        let home = Home::new(&[("DREAMER_FADE", "off")]).await;
        home.add(&[memory("lamp-1", LAMP, 0.7), memory("lamp-2", LAMP, 0.5)]).await;
        for id in &pinned {
            pin(&home.config, id, Pin::Set, at(0, 1)).await.unwrap();
        }
        let report = home.night(at(0, 3)).await;
        assert_eq!(home.texts().await.len(), left, "{pinned:?}");
        assert_eq!(report.kept.len(), usize::from(left == 2), "{pinned:?}: {:?}", report.kept);
        assert_eq!(report.rem.vetoed, usize::from(left == 2));
        let report = home.night(at(1, 3)).await;
        assert_eq!((home.texts().await.len(), report.kept.len()), (left, 0), "{pinned:?}: judged once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_outlives_an_edit_of_the_gateway() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    home.add(&[memory("lamp-1", LAMP, 0.7), memory("lamp-2", "The user sold a copper kettle.", 0.5)]).await;
    pin(&home.config, "lamp-2", Pin::Set, at(0, 1)).await.unwrap();
    home.night(at(0, 3)).await;
    let table = home.gateway().await;
    table.update().only_if("id = 'lamp-2'").column("text", format!("'{LAMP}'")).execute().await.unwrap();
    home.night(at(1, 3)).await;
    assert_eq!(home.texts().await.len(), 2, "the edited row is a duplicate now, and pinned still");
    assert!(home.trace("lamp-2").await.pinned);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_trace_gets_one_and_is_still_compared() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    home.add(&[memory("exam", "The exam is on 2026-05-04.", 0.7)]).await;
    pin(&home.config, "exam", Pin::Set, at(0, 1)).await.unwrap();
    let trace: Trace = home.trace("exam").await;
    assert!(trace.pinned && trace.reconciled == Reconciled::Waiting);
    assert_eq!(trace.about, Some("2026-05-04".parse().unwrap()));
    home.night(at(0, 3)).await;
    let trace = home.trace("exam").await;
    assert!(trace.pinned && trace.reconciled == Reconciled::Done);
    let known = dreamer::remembered::Remembered {
        rows: Default::default(),
        traces: [("exam".to_owned(), trace)].into(),
        archived: Default::default(),
        timezone: chrono_tz::UTC,
    };
    assert!(unreconciled(&known).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_not_one_live_memory_is_an_error_that_says_what_to_do() {
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    home.add(&[memory("lamp-1", LAMP, 0.7), memory("lamp-2", "The user sold a copper kettle.", 0.5)]).await;
    for (id, part) in [("nothing", "memories list"), ("lamp", "2 memories"), ("", "memories list")] {
        for command in ["pin", "unpin"] {
            let (out, err) = told(&home, &[command, id], 1);
            assert!(out.is_empty() && err.contains(part), "{command} {id}: {err}");
        }
    }
    let (ids, manner) = (["lamp-2".to_owned()], dreamer::forget::Manner::Archive);
    dreamer::forget::forget(&home.config, &ids, &manner, at(0, 1)).await.unwrap();
    assert!(told(&home, &["pin", "lamp-2"], 1).1.contains("dreamer restore lamp-2"));
    assert!(told(&home, &["pin", "lamp"], 0).0.contains("neither fades nor merges"));
    assert!(told(&home, &["unpin", "lamp-1"], 0).0.contains("may fade"));
    let _lock = Lock::take(&home.config.state_dir()).unwrap();
    assert_eq!(pin(&home.config, "lamp-1", Pin::Set, at(0, 1)).await.unwrap_err().exit_code(), 75);
}
