//! Nothing a model says is believed: what a draft may hold, what is asked again, and what it falls back to.

use dreamer::state::journal::Fate;
use serde_json::json;

use super::Night;
use super::models::{Script, prompts, scripted};

const SAID: &str = "Good morning! Our standup is at 9:00 with Anna. What do you think?";
const QUOTE: &str = "User (2026-03-10): “Our standup is at 9:00 with Anna.”";

async fn night(said: &str) -> Night {
    let night = Night::new().await;
    night.session("2026-03-10", &[("user", said)]);
    night
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invented_detail_is_asked_about_once_then_the_words_themselves_are_kept() {
    for (draft, problem) in [
        ("The user's standup with Anna is at 9:30.", "9:30"),
        ("The user's standup is at 9:00 with Anna and Bernhard.", "Bernhard"),
        ("The user's standup with Anna is at 9:00 since 2026-01-15.", "2026-01-15"),
        (
            "The user's standup with Anna is at 9:00, see https://example.org/standup.",
            "https://example.org/standup",
        ),
        ("用户和Anna的站会在9:00。", "language"),
        ("Never skip the standup at 9:00.", "instruction"),
    ] {
        // It insists.
        let home = night(SAID).await;
        let model = Script::new().remember("standup", draft).mend("standup", draft).model();
        let report = home.dream(&scripted(&model)).await;
        let asked = prompts(&model, "memories");
        assert_eq!(asked.len(), 2, "{draft}");
        let again = asked[1].split_once("These memories were refused").unwrap().1;
        assert!(again.contains(draft) && again.contains(problem), "{draft}: {again}");
        assert_eq!(home.texts().await, [QUOTE], "{draft}");
        assert_eq!(report.created[0].worded_by, "verbatim");
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        assert!(log.contains("verbatim"), "{log}");
        assert_eq!(home.final_fates().into_values().collect::<Vec<_>>(), [Fate::Stored]);

        // It mends it.
        let home = night(SAID).await;
        let right = "The user's standup with Anna is at 9:00.";
        let model = Script::new().remember("standup", draft).mend("standup", right).model();
        let report = home.dream(&scripted(&model)).await;
        assert_eq!(home.texts().await, [right], "{draft}");
        assert_eq!(report.created[0].worded_by, "model");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numerals_and_dates_that_follow_from_the_day_are_no_inventions() {
    for (said, draft) in [
        ("We meet tomorrow at nine with seven people.", "The user meets 7 people on 2026-03-11 at 9:00."),
        ("我明天早上九点和七个人开会。", "用户2026-03-11早上9点和7个人开会。"),
    ] {
        let home = night(said).await;
        let model = Script::new().remember(said.get(..9).unwrap(), draft).model();
        home.dream(&scripted(&model)).await;
        assert_eq!(prompts(&model, "memories").len(), 1, "{draft} was refused");
        assert_eq!(home.texts().await, [draft]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_assistant_said_is_no_fact_about_the_user() {
    let home = Night::new().await;
    let advice = "You live in Lisbon and you enjoy the sea a lot.";
    home.session("2026-03-10", &[("user", "Tell me where I live."), ("assistant", advice)]);
    let claim = "The user lives in Lisbon.";
    let model = Script::new().remember("Lisbon", claim).mend("Lisbon", claim).model();
    let report = home.dream(&scripted(&model)).await;
    assert_eq!(home.texts().await, Vec::<String>::new(), "{report:?}");
    let again = &prompts(&model, "memories")[1];
    assert!(again.contains("the assistant said it"), "{again}");
    assert!(home.final_fates().values().all(|fate| matches!(fate, Fate::RawOnly | Fate::Noise)));

    // The same, worded as what it is.
    let home = Night::new().await;
    let advice = "I recommend the café “Lisboa” for its cakes.";
    home.session("2026-03-10", &[("user", "Where is good cake?"), ("assistant", advice)]);
    let claim = "The assistant recommended the café Lisboa for its cakes.";
    let model = Script::new().remember("Lisboa", claim).model();
    home.dream(&scripted(&model)).await;
    assert_eq!(home.texts().await, [claim]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_models_decision_about_a_draft_is_followed() {
    for (decision, fate, kept) in [
        ("keep", Fate::Stored, true),
        ("archive", Fate::RawOnly, false),
        ("pending_review", Fate::PendingReview, false),
    ] {
        let home = night(SAID).await;
        let draft = json!({ "text": "The user's standup with Anna is at 9:00.", "decision": decision });
        let model = Script::new().remember_as("standup", draft).model();
        let report = home.dream(&scripted(&model)).await;
        assert_eq!(report.fates.keys().copied().collect::<Vec<_>>(), [fate]);
        assert_eq!(home.memories().await.len(), usize::from(kept));
        assert_eq!(home.store().await.raw_all().await.unwrap().len(), 1, "{decision}: kept raw");
        let asked = home.home().join("queues/review.jsonl").exists();
        assert_eq!(asked, fate == Fate::PendingReview);
        assert_eq!(report.questions.len(), usize::from(asked));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_that_is_too_long_is_refused_unless_it_was_felt_strongly() {
    let long =
        format!("The user's standup with Anna is at 9:00{}.", " and it matters to the user".repeat(11));
    assert!((301..600).contains(&long.chars().count()));
    for (emotion, stored) in [(0.1, QUOTE), (0.9, long.as_str())] {
        let home = night(SAID).await;
        let model = Script::new()
            .remember_as("standup", json!({ "text": long, "emotion": emotion }))
            .mend("standup", &long)
            .model();
        home.dream(&scripted(&model)).await;
        assert_eq!(home.texts().await, [stored]);
    }
}
