//! What left can come back: a faded memory that is said again returns under its own id; one that was superseded goes
//! to REM against its successor.

use dreamer::memory::{Departure, Reconciled};
use dreamer::state::journal::Fate;
use dreamer::store::Leaving;
use serde_json::json;

use super::Night;
use super::models::{Script, extractive, prompts, scripted};

const TEA: &str = "The user drinks green tea every morning.";

/// A memory that left for the archive before tonight.
async fn gone(night: &mut Night, text: &str, reason: Departure, successor: Option<String>) -> String {
    let id = night.known(text, "2026-01-05").await;
    night.dream(&extractive()).await;
    night.next();
    let store = night.store().await;
    let leaving = Leaving {
        id: id.clone(),
        text: text.into(),
        reason,
        successor,
        run: "20260201-030000-000001".into(),
        at: 1_769_914_800_000,
    };
    assert_eq!(store.archive(&[leaving]).await.unwrap().written.len(), 1);
    assert_eq!(store.delete(&[(id.clone(), text.into())]).await.unwrap().written.len(), 1);
    // As if it had been merged, and not judged apart.
    let _ = std::fs::remove_file(night.home().join("state/judged.jsonl"));
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faded_memory_that_is_said_again_comes_back_with_the_higher_importance() {
    for (importance, expected) in [(0.9, 0.9), (0.2, 0.7)] {
        let mut night = Night::new().await;
        let id = gone(&mut night, TEA, Departure::Faded, None).await;
        let vector =
            night.store().await.archived_vectors(std::slice::from_ref(&id)).await.unwrap()[&id].clone();
        assert!(night.texts().await.is_empty());
        night.session("2026-03-11", &[("user", "I drink green tea every morning again.")]);
        let draft = json!({ "text": TEA, "importance": importance });
        let model = Script::new().remember_as("green tea", draft).model();
        let report = night.dream(&scripted(&model)).await;
        let rows = night.memories().await;
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].id.as_str(), rows[0].text.as_str()), (id.as_str(), TEA));
        assert!((rows[0].importance - expected).abs() < 1e-9, "{} for {importance}", rows[0].importance);
        assert_eq!(rows[0].created_at, 1_767_614_400_000, "it is the same row");
        assert!(night.archive().await.is_empty());
        assert_eq!(night.store().await.vectors(std::slice::from_ref(&id)).await.unwrap()[&id], vector);
        assert_eq!((report.created.len(), report.strengthened.len()), (0, 1));
        assert!(report.strengthened[0].revived);
        assert_eq!(report.live, (0, 1));
        assert_eq!(night.final_fates().into_values().collect::<Vec<_>>(), [Fate::Reinforced]);
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        assert!(log.contains("came back from the archive"), "{log}");
        let trace = night.trace(&id).await;
        assert_eq!((trace.clock.to_string().as_str(), trace.sources.len()), ("2026-03-12", 1));

        // The next night compares it with what came meanwhile, then it is quiet.
        assert_eq!(trace.reconciled, Reconciled::Waiting);
        night.next().dream(&extractive()).await;
        assert_eq!(night.trace(&id).await.reconciled, Reconciled::Done);
        let before = night.digests();
        night.next().dream(&extractive()).await;
        assert_eq!(night.digests(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_memory_said_again_is_judged_against_its_successor() {
    // Far from each other in words: only the archive knows that they belong together.
    let successor =
        "Mornings begin with espresso from the machine since 2026-02-01, before with leaves in hot water.";
    let mut night = Night::new().await;
    let live = night.known(successor, "2026-02-01").await;
    let old = gone(&mut night, TEA, Departure::Superseded, Some(live.clone())).await;
    night.session("2026-03-11", &[("user", "I drink green tea every morning again.")]);
    let model = Script::new().remember("green tea", TEA).model();
    let report = night.dream(&scripted(&model)).await;
    let asked = prompts(&model, "verdicts");
    assert_eq!((asked.len(), report.rem.candidates), (1, 1));
    assert!(asked[0].contains(successor) && asked[0].contains(TEA), "{}", asked[0]);
    assert_eq!(report.strengthened.len(), 0);
    assert_eq!(night.texts().await, [successor, TEA]);
    assert!(night.archive().await.iter().any(|a| a.memory.id == old), "the old one stays in the archive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_the_gateway_captured_again_goes_the_way_of_the_old_one() {
    let mut night = Night::new().await;
    let successor = "The user drinks black tea since 2026-02-01, before that green tea every morning.";
    let live = night.known(successor, "2026-02-01").await;
    gone(&mut night, TEA, Departure::Superseded, Some(live.clone())).await;
    let again = night.known(TEA, "2026-03-11").await;
    let model = Script::new().model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.reinforced, model.prompts().len()), (1, 0));
    assert_eq!(night.texts().await, [successor]);
    let left = night.archive().await.into_iter().find(|a| a.memory.id == again).unwrap();
    assert_eq!((left.reason, left.successor), (Departure::Duplicate, Some(live)));
}
