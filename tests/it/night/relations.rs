//! How a new claim relates to a known one, and what a night makes of it.

use dreamer::memory::{Category, Departure, Reconciled, Trace};
use dreamer::state::journal::Fate;

use super::models::{Script, blind, by_topic, embed, extractive, models, prompts, reasoner, scripted};
use super::{AGENT, Night};

const CATS: &str = "The user likes cats.";
const ALLERGIC: &str = "The user is allergic to cats now.";
const CATS_MERGED: &str = "The user used to like cats and is allergic to cats since 2026-03-10.";

fn cats() -> Script {
    Script::new().remember("allergic", ALLERGIC).judge(
        "allergic",
        "likes cats",
        "state_change",
        ("The user", "The user"),
        CATS_MERGED,
    )
}

/// "The user likes cats" is known and today's episode says what became of it.
async fn night_of_the_cats(traced: bool) -> (Night, String) {
    let mut night = Night::new().await;
    let old = night.known(CATS, "2026-01-05").await;
    if traced {
        let quiet = night.dream(&extractive()).await;
        assert_eq!((quiet.chunks, quiet.first_seen), (0, 1));
        assert_eq!(night.trace(&old).await.reconciled, Reconciled::Done);
        night.next();
    }
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    (night, old)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_changed_becomes_one_memory_with_its_dated_past() {
    for traced in [false, true] {
        let (night, old) = night_of_the_cats(traced).await;
        let vector =
            night.store().await.vectors(std::slice::from_ref(&old)).await.unwrap().remove(&old).unwrap();
        let model = cats().model();
        let report = night.dream(&scripted(&model)).await;
        assert_eq!((report.rem.merged, report.rem.conflicts, report.live), (1, 1, (1, 1)), "traced {traced}");
        let memories = night.memories().await;
        assert_eq!(memories.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), [CATS_MERGED]);
        assert!((memories[0].importance - 0.7).abs() < 1e-9, "the maximum of its sources");

        let archive = night.archive().await;
        let left = archive.iter().find(|archived| archived.memory.id == old).unwrap();
        assert_eq!(left.memory.text, CATS);
        assert_eq!(left.reason, Departure::Superseded);
        assert_eq!(left.successor.as_deref(), Some(memories[0].id.as_str()));
        assert_eq!(left.run, report.run);
        let kept = night
            .store()
            .await
            .archived_vectors(std::slice::from_ref(&old))
            .await
            .unwrap()
            .remove(&old)
            .unwrap();
        assert_eq!(kept, vector);
        // The draft is kept as an original too: it never was a row.
        assert!(archive.iter().any(|a| a.memory.text == ALLERGIC && a.successor == left.successor));
        assert_eq!(archive.len(), 2);

        assert_eq!(night.final_fates().into_values().collect::<Vec<_>>(), [Fate::Merged]);
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        for part in [CATS_MERGED, CATS, "state_change", "scripted", &format!("dreamer restore {old}")] {
            assert!(log.contains(part), "{part} is missing in\n{log}");
        }
        let said = &prompts(&model, "verdicts")[0];
        assert!(said.contains(r#""said":"2026-01-05""#) && said.contains(r#""said":"2026-03-10""#), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_aspects_become_one_fuller_memory_and_strangers_stay_apart() {
    let mut night = Night::new().await;
    night.known("用户住在北京。", "2026-01-05").await;
    night.known("用户养了一只猫。", "2026-01-05").await;
    night.session("2026-03-10", &[("user", "我在中关村工作，通勤很久。")]);
    let night = night.set("CONTRADICTION_SIMILARITY", "0.05");
    let merged = "用户住在北京，在中关村工作。";
    let model = Script::new()
        .remember("中关村", "用户在中关村工作。")
        .judge("中关村", "北京", "different_aspects", ("用户", "用户"), merged)
        .model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.consolidated, report.rem.merged), (1, 0));
    assert_eq!(night.texts().await, ["用户住在北京，在中关村工作。", "用户养了一只猫。"]);
    let left: Vec<_> = night.archive().await.into_iter().map(|a| (a.memory.text, a.reason)).collect();
    assert_eq!(
        left,
        [
            ("用户住在北京。".to_owned(), Departure::Superseded),
            ("用户在中关村工作。".to_owned(), Departure::Superseded)
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unrelated_memories_both_stay_and_are_not_asked_about_again() {
    let mut night = Night::new().await;
    night.known("The user likes jazz concerts.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", "I like jazz dance shoes a lot.")]);
    let script = || Script::new().remember("dance", "The user likes jazz dance shoes.").model();
    let model = script();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.candidates, report.rem.kept_both, report.rem.conflicts), (1, 1, 0));
    assert_eq!(night.texts().await, ["The user likes jazz concerts.", "The user likes jazz dance shoes."]);
    assert!(night.archive().await.is_empty());

    let again = script();
    night.next();
    let report = night.dream(&scripted(&again)).await;
    assert_eq!((report.rem.candidates, again.prompts().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_again_reinforces_once_a_day() {
    let mut night = Night::new().await;
    let tea = "The user drinks green tea every morning.";
    let id = night.known(tea, "2026-01-05").await;
    let script = || scripted(&Script::new().remember("green tea", tea).model());
    night.session("2026-03-10", &[("user", "As ever I drink green tea every morning.")]);
    let report = night.dream(&script()).await;
    assert_eq!((report.created.len(), report.strengthened.len()), (0, 1));
    let once = 0.7 + 0.1 * 0.3;
    assert!((night.memories().await[0].importance - once).abs() < 1e-9, "{:?}", night.memories().await);

    // The same day once more, in another session: another chunk, no second step.
    night.session_of(
        AGENT,
        "2026-03-10",
        "1800",
        &[("user", "Green tea, you know I drink green tea daily.")],
    );
    night.next();
    let report = night.dream(&script()).await;
    assert_eq!(report.strengthened.len(), 1);
    assert!((night.memories().await[0].importance - once).abs() < 1e-9, "{:?}", night.memories().await);
    assert_eq!(night.trace(&id).await.sources.len(), 2);
    assert_eq!(night.final_fates().into_values().collect::<Vec<_>>(), [Fate::Reinforced; 2]);

    // Another day counts.
    night.session("2026-03-11", &[("user", "I did drink my green tea this morning.")]);
    night.next();
    night.dream(&script()).await;
    assert!((night.memories().await[0].importance - (once + 0.1 * (1.0 - once))).abs() < 1e-9);
    assert_eq!(night.texts().await, [tea]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_standup_is_never_skipped_whatever_the_embedder() {
    let moved = "Standup moved to 10:00 on 2026-03-10.";
    for embedder in ["lexical", "blind"] {
        for judged in [false, true] {
            let mut night = Night::without_table();
            if embedder == "blind" {
                night = night.scripted_embedder(64);
            }
            let dim = night.config().dimension().unwrap();
            dreamer::store::Store::create(&night.config().lancedb_uri, dim).await.unwrap();
            let open = || if embedder == "blind" { blind(64) } else { super::models::lexical() };
            let vector = embed(open().as_ref(), "Standup is at 9:00.").await;
            night.insert(AGENT, "Standup is at 9:00.", "2026-01-05", vector).await;
            night.session("2026-03-10", &[("user", "Please note, standup moved to 10:00.")]);
            let mut script = Script::new().remember("standup", moved);
            if judged {
                // A judge that calls everything the same.
                script = script.judge("10:00", "9:00", "duplicate", ("Standup", "Standup"), "");
            }
            let model = script.model();
            let report = night.dream(&models(open(), reasoner(&model))).await;
            assert_eq!(report.strengthened.len(), 0, "{embedder} {judged}");
            assert_eq!(report.created.len(), 1, "{embedder} {judged}");
            assert_eq!(night.texts().await, ["Standup is at 9:00.", moved], "{embedder} {judged}");
            assert_eq!(report.rem.candidates, 1, "{embedder} {judged}: REM looked at the pair");
            assert_eq!(report.rem.vetoed, usize::from(judged), "{embedder}");
        }
        // And without a model: the episode's own words.
        let mut night = Night::new().await;
        night.known("Standup is at 9:00.", "2026-01-05").await;
        night.session("2026-03-10", &[("user", "Standup moved to 10:00.")]);
        night.dream(&extractive()).await;
        let all = night.texts().await.join("\n");
        assert!(all.contains("10:00") && all.contains("9:00"), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_of_a_merge_is_written_from_the_originals() {
    let (mut night, old) = night_of_the_cats(false).await;
    night.dream(&scripted(&cats().model())).await;
    let first = night.memories().await.remove(0);
    let originals = night.trace(&first.id).await.merged_from;
    assert_eq!(originals.len(), 2);
    assert_eq!(originals[0], old, "oldest first");

    let shots = "The user gets shots against the allergy to cats since 2026-03-11.";
    let second = "The user used to like cats, is allergic to cats since 2026-03-10 and gets shots against it since 2026-03-11.";
    night.session("2026-03-11", &[("user", "I get shots against my allergy to cats from now on.")]);
    night.next();
    let model = Script::new()
        .remember("shots", shots)
        .judge("shots", "used to like", "different_aspects", ("The user", "The user"), second)
        .model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!(report.rem.consolidated, 1, "{:?}", report.kept);
    let asked = &prompts(&model, "verdicts")[0];
    let existing = asked.split_once("Existing memories").unwrap().1;
    assert!(existing.contains(r#""originals":["#), "{asked}");
    for text in [CATS, ALLERGIC] {
        assert!(existing.contains(text), "{text} is missing in {asked}");
    }

    let memory = night.memories().await.remove(0);
    assert_eq!(memory.text, second);
    let trace = night.trace(&memory.id).await;
    assert_eq!(trace.merged_from.len(), 3);
    assert_eq!(trace.merged_from[..2], originals[..]);
    assert!(!trace.merged_from.contains(&first.id), "a merge is no original");
    let archive = night.archive().await;
    let left = archive.iter().find(|a| a.memory.id == first.id).unwrap();
    assert_eq!((left.reason, left.successor.as_ref()), (Departure::Superseded, Some(&memory.id)));
    for id in &trace.merged_from {
        assert!(archive.iter().any(|a| a.memory.id == *id), "every original is in the archive");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_new_drafts_of_one_night_can_conflict_with_each_other() {
    let night = Night::new().await;
    night.session("2026-03-09", &[("user", "You know that I like cats.")]);
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    let night = night.set("CLUSTER_SIMILARITY", "0.95");
    let model = cats().remember("I like cats", CATS).model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.merged, report.created.len(), report.live), (1, 0, (0, 1)), "{:?}", report.kept);
    assert_eq!(night.texts().await, [CATS_MERGED]);
    let archive = night.archive().await;
    assert_eq!(archive.len(), 2);
    assert!(archive.iter().all(|a| a.reason == Departure::Superseded));
    assert_eq!(night.final_fates().into_values().collect::<Vec<_>>(), [Fate::Merged; 2]);
    let sources = night.trace(&night.memories().await[0].id).await.sources;
    assert_eq!(sources.len(), 2, "both chunks are its sources");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_in_two_conflicts_takes_part_in_one_and_the_other_waits() {
    let mut night = Night::new().await;
    night.known(CATS, "2026-01-05").await;
    night.known("The user feeds cats at the harbour.", "2026-02-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    let user = ("The user", "The user");
    let harbour = "The user used to feed cats at the harbour and is allergic to cats since 2026-03-10.";
    let both = "The user used to like cats and feed them at the harbour, allergic to cats since 2026-03-10.";
    let script = || {
        let script = cats().judge("allergic to cats now", "feeds", "state_change", user, harbour);
        // On the second night the merged memory meets the one that waited.
        let script = script.judge("since 2026-03-10", "The user", "state_change", user, both);
        script.judge("The user", "since 2026-03-10", "state_change", user, both)
    };
    let model = script().model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.merged, report.live), (1, (2, 2)), "{report:#?}");
    assert!(report.waiting.conflicts > 0, "the other pair waits");
    let texts = night.texts().await;
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().any(|text| text.contains("since 2026-03-10")), "{texts:?}");

    // The next night takes the open pair up, and after it nothing is open.
    let mut nights = 0;
    while night.next().dream(&scripted(&script().model())).await.waiting.conflicts > 0 {
        nights += 1;
        assert!(nights < 4, "the conflict never ends");
    }
    let texts = night.texts().await;
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(texts[0], both);
    let left: Vec<String> = night.archive().await.into_iter().map(|a| a.memory.text).collect();
    assert!(
        left.iter().any(|text| text == CATS) && left.iter().any(|text| text.contains("feeds")),
        "{left:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_duplicate_among_the_rows_leaves_without_a_model() {
    let mut night = Night::new().await;
    let kept = night.known("The user drinks green tea every morning.", "2026-01-05").await;
    let dropped = night.known("The user drinks green tea every morning.", "2026-01-09").await;
    let model = Script::new().model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!((report.rem.reinforced, report.settled_by_rules, model.prompts().len()), (1, 1, 0));
    let rows = night.memories().await;
    assert_eq!(rows.len(), 1);
    let left = night.archive().await.remove(0);
    assert_eq!((left.reason, left.successor.as_ref()), (Departure::Duplicate, Some(&rows[0].id)));
    assert_eq!([&rows[0].id, &left.memory.id].iter().filter(|id| [&kept, &dropped].contains(id)).count(), 2);
}

/// What `extractive` makes of the same cases: it never guesses a relation; both stay.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_only_a_sure_change_is_merged() {
    for (known, said, merged) in [
        (CATS, "I am allergic to cats now.", false),
        ("用户住在北京。", "我在中关村工作，通勤很久。", false),
        ("The user likes jazz concerts.", "I like jazz dance shoes a lot.", false),
        ("Standup is at 9:00.", "Standup moved to 10:00.", true),
    ] {
        let mut night = Night::new().await;
        night.known(known, "2026-01-05").await;
        night.session("2026-03-10", &[("user", said)]);
        let report = night.dream(&extractive()).await;
        let texts = night.texts().await;
        assert_eq!(report.rem.merged, usize::from(merged), "{texts:?}");
        assert_eq!(texts.len(), if merged { 1 } else { 2 }, "{texts:?}");
        let all = texts.join("\n");
        assert!(all.contains(known.trim_end_matches('.')), "{all}");
        assert!(all.contains("2026-03-10"), "{all}");
    }
}

/// The trace of a merge takes over what its sources had.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_takes_over_category_stability_and_days() {
    let (night, old) = night_of_the_cats(true).await;
    let before = night.trace(&old).await;
    let recalled = ["2026-02-01".parse().unwrap()].into();
    let trace = Trace { stability: 2.5, recalled, ..before };
    night.store().await.put_traces(&[trace]).await.unwrap();
    night.dream(&scripted(&cats().model())).await;
    let memory = night.memories().await.remove(0);
    let trace = night.trace(&memory.id).await;
    assert_eq!(memory.category, Category::Fact);
    assert_eq!((trace.stability, trace.recalled.len()), (2.5, 1));
    assert_eq!(trace.said_at.unwrap().date_naive().to_string(), "2026-03-10");
    assert_eq!(trace.sources.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_marked_merge_is_judged_against_its_nearest_below_the_threshold() {
    let marked = serde_json::json!({ "text": ALLERGIC, "decision": "merge" });
    for decision in ["keep", "merge"] {
        let mut night =
            Night::new().await.set("CONTRADICTION_SIMILARITY", "0.98").set("DEDUP_SIMILARITY", "0.99");
        night.known(CATS, "2026-01-05").await;
        night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
        let mut draft = marked.clone();
        draft["decision"] = decision.into();
        let model = Script::new()
            .remember_as("allergic", draft)
            .judge("allergic", "likes cats", "state_change", ("The user", "The user"), CATS_MERGED)
            .model();
        let report = night.dream(&scripted(&model)).await;
        let judged = usize::from(decision == "merge");
        assert_eq!((report.rem.candidates, report.rem.merged), (judged, judged), "{decision}");
    }
}

/// The cosines of the topic embedder are what the other tests take them for.
#[tokio::test]
async fn the_topic_embedder_keeps_one_topic_together() {
    let embedder = by_topic(&["cat", "tea"]);
    let [one, other, tea] = [CATS, ALLERGIC, "Some tea, please."];
    let vectors = [
        embed(embedder.as_ref(), one).await,
        embed(embedder.as_ref(), other).await,
        embed(embedder.as_ref(), tea).await,
    ];
    let cosine = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f32>();
    assert!((0.75..0.98).contains(&cosine(0, 1)), "{}", cosine(0, 1));
    assert!(cosine(0, 2) < 0.5 && (cosine(0, 0) - 1.0).abs() < 1e-4);
}
