//! Replies that cannot be read: one poison chunk or pair holds nothing else back, is tried again, and after three nights a
//! person is asked.

use dreamer::queues::decisions::Answer;
use dreamer::queues::retry::RetryQueue;
use dreamer::queues::review::{self, Say};
use dreamer::state::journal::Fate;

use super::models::{Script, blind, models, prompts, reasoner, scripted};
use super::{AGENT, FULL, Night};

const FACTS: [(&str, &str); 6] = [
    ("Lisbon", "I moved to Lisbon in March."),
    ("Biscuit", "My dog is called Biscuit."),
    ("violin", "I play the violin every evening."),
    ("peanuts", "I am allergic to peanuts."),
    ("Carol", "My sister Carol works at a hospital."),
    ("bicycle", "I repaired the old bicycle alone."),
];

fn remembering(mut script: Script) -> Script {
    for (words, said) in FACTS {
        script = script.remember(
            words,
            &said.replace("My ", "The user's ").replace("I am", "The user is").replace("I ", "The user "),
        );
    }
    script
}

/// A session each: neighbours in one would carry the poison along as context.
fn tell_facts(night: &Night) {
    for (words, said) in FACTS {
        night.session_of(AGENT, "2026-03-09", words, &[("user", said)]);
    }
}

async fn with_facts() -> Night {
    let night = Night::new().await;
    tell_facts(&night);
    night
}

fn queue(night: &Night) -> RetryQueue {
    RetryQueue::read(&night.config().queues_dir()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_poison_chunk_is_bisected_out_and_after_three_nights_a_person_is_asked() {
    let mut night = with_facts().await;
    for tried in 1..=3 {
        let model = remembering(Script::new()).poison("violin").model();
        let report = night.dream(&scripted(&model)).await;
        if tried == 1 {
            assert_eq!(report.created.len(), 5, "{:?}", report.groups);
            // One call for all six, then halves: at most two a step.
            let calls = prompts(&model, "memories").len();
            assert!((2..=7).contains(&calls), "{calls}");
        } else {
            assert_eq!(report.chunks, 1, "only the poison chunk is left");
        }
        let waits = if tried < 3 { Fate::HeldBack } else { Fate::PendingReview };
        assert_eq!(report.fates.get(&waits), Some(&1), "night {tried}: {:?}", report.fates);
        let log = std::fs::read_to_string(report.dream_log.as_ref().unwrap()).unwrap();
        if tried < 3 {
            assert_eq!(queue(&night).entries()[0].nights, tried);
            assert!(log.contains(&format!("{tried} of 3 nights")), "{log}");
        } else {
            assert!(queue(&night).entries().is_empty());
            assert!(log.contains("## To confirm") && log.contains(":again -->"), "{log}");
        }
        night.next();
    }
    assert_eq!(night.files("episodes/archive").len(), 6, "a question does not keep the episode");

    // The person says: try again, and the model has got better.
    let item = review::read(&night.config().queues_dir()).unwrap().into_values().next().unwrap();
    review::decide(&night.config(), &item.id[..6], Say::Approve(None), night.now).unwrap();
    let report = night.dream(&scripted(&remembering(Script::new()).model())).await;
    assert_eq!((report.chunks, report.created.len()), (1, 1), "{report:?}");
    assert!(night.texts().await.iter().any(|text| text.contains("violin")));
    assert_eq!(night.files("episodes/archive").len(), 6, "the archived episode stays where it is");
    let report = night.next().dream(&scripted(&remembering(Script::new()).model())).await;
    assert_eq!((report.status.as_str(), report.chunks), ("nothing_new", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_is_tried_anew_and_fails_again_is_not_forgotten() {
    let mut night = with_facts().await;
    let poisoned = || remembering(Script::new()).poison("violin").model();
    for _ in 0..3 {
        night.dream(&scripted(&poisoned())).await;
        night.next();
    }
    let item = review::read(&night.config().queues_dir()).unwrap().into_values().next().unwrap();
    review::decide(&night.config(), &item.id, Say::Approve(Some(Answer::Again)), night.now).unwrap();
    let first = night.dream(&scripted(&poisoned())).await;
    assert_eq!(first.fates.get(&Fate::HeldBack), Some(&1), "{:?}", first.fates);
    assert_eq!(queue(&night).entries()[0].nights, 1, "it begins anew");
    // The next night finds it in the archive, too.
    let report = night.next().dream(&scripted(&remembering(Script::new()).model())).await;
    assert_eq!(report.created.len(), 1, "{report:?}");
    assert!(queue(&night).entries().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_several_chunks_is_cut_apart_and_makes_no_more_memories_than_whole() {
    let mut night = Night::new().await.set("MAX_NEW_MEMORIES", "2");
    std::fs::remove_dir_all(night.home().join("lancedb")).unwrap();
    night = night.scripted_embedder(8);
    dreamer::store::Store::create(&night.config().lancedb_uri, 8).await.unwrap();
    tell_facts(&night);
    let model = remembering(Script::new()).poison("violin").model();
    // Everything means the same to this embedder: one cluster.
    let report = night.dream(&models(blind(8), reasoner(&model))).await;
    assert_eq!(report.clusters, 1);
    assert!(!report.created.is_empty() && report.created.len() <= 2, "{:?}", report.created);
    assert!(!report.created.iter().any(|new| new.memory.text.contains("violin")));
    assert_eq!(queue(&night).entries().len(), 1);
    assert_eq!(queue(&night).entries()[0].nights, 1);
    let calls = prompts(&model, "memories").len();
    assert!(calls <= 1 + 6, "{calls}");
}

const OLD: &str = "The user likes cats very much.";
const OTHER: &str = "The user likes cats and lizards.";
const NEW: &str = "The user is allergic to cats now.";
const MERGED: &str = "The user used to like cats very much and is allergic to cats since 2026-03-09.";

/// A night in which the new memory has two candidates, about one of which no reply can be read.
async fn with_a_poison_pair() -> Night {
    let mut night = Night::new().await.set("CONTRADICTION_SIMILARITY", "0.2");
    night.known(OLD, "2026-01-05").await;
    night.known(OTHER, "2026-01-06").await;
    // Both are seen, and judged to be strangers, before the new one comes.
    night.dream(&scripted(&Script::new().model())).await;
    night.session("2026-03-09", &[("user", "Bad news: I am allergic to cats now.")]);
    night.next();
    night
}

fn judge() -> Script {
    Script::new().remember("allergic", NEW).judge(
        "allergic",
        "very much",
        "state_change",
        ("The user", "The user"),
        MERGED,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_pair_is_tried_on_three_nights_and_then_left_to_a_person() {
    let mut night = with_a_poison_pair().await;
    for tried in 1..=3 {
        let model = judge().poison("very much").model();
        let report = night.dream(&scripted(&model)).await;
        let asked = prompts(&model, "verdicts");
        if tried == 1 {
            // The neighbourhood of two, then each alone.
            assert_eq!(asked.len(), 3, "{asked:?}");
            assert_eq!(report.rem.kept_both, 1, "the other one is judged the same night");
        } else {
            assert_eq!(asked.len(), 1, "{asked:?}");
        }
        let entry = queue(&night).entries()[0].clone();
        assert_eq!((entry.nights, entry.item.is_some()), (tried, tried == 3));
        assert_eq!(report.questions.len(), usize::from(tried == 3));
        night.next();
    }
    // Nobody else is asked meanwhile.
    for _ in 0..2 {
        let model = judge().poison("very much").model();
        night.dream(&scripted(&model)).await;
        assert_eq!(prompts(&model, "verdicts").len(), 0);
        night.next();
    }
    let item = review::read(&night.config().queues_dir()).unwrap().into_values().next().unwrap();
    assert_eq!((item.kind.as_str(), item.memories.len()), ("unreadable", 2));
    review::decide(&night.config(), &item.id, Say::Approve(None), night.now).unwrap();
    let report = night.dream(&scripted(&judge().model())).await;
    assert_eq!(report.rem.merged, 1, "{report:?}");
    assert!(night.texts().await.contains(&MERGED.to_owned()));
    assert!(queue(&night).entries().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_a_person_rejects_is_kept_and_never_asked_about_again() {
    let mut night = with_a_poison_pair().await;
    for _ in 0..3 {
        night.dream(&scripted(&judge().poison("very much").model())).await;
        night.next();
    }
    let item = review::read(&night.config().queues_dir()).unwrap().into_values().next().unwrap();
    review::decide(&night.config(), &item.id, Say::Reject, night.now).unwrap();
    let report = night.dream(&scripted(&judge().model())).await;
    assert_eq!((report.rem.merged, report.rem.candidates), (0, 0), "{report:?}");
    assert!(report.carried_out.iter().any(|told| told.contains("both stay")), "{:?}", report.carried_out);
    assert!(queue(&night).entries().is_empty());
    let model = judge().model();
    night.next().dream_as(FULL, &scripted(&model)).await;
    assert_eq!(prompts(&model, "verdicts").len(), 0);
    assert_eq!(night.texts().await.len(), 3);
}
