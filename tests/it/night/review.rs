//! Questions to a person: asked three a night, answered by command, carried out by the next run, and running out.

use std::process::{Command, Output};

use dreamer::dream::Options;
use dreamer::memory::Departure;
use dreamer::plan::apply::{Step, apply, apply_until};
use dreamer::plan::{DreamPlan, Run, RunId};
use dreamer::queues::decisions::{Answer, Decisions};
use dreamer::queues::review::{self, Say};
use dreamer::state::journal::Fate;
use serde_json::{Value, json};

use super::models::{Script, prompts, scripted};
use super::{FULL, Night};

const OLD: &str = "The user likes cats.";
const NEW: &str = "The user is allergic to cats now.";
const MERGED: &str = "The user used to like cats and is allergic to cats since 2026-03-10.";

fn unsure(text: &str) -> Script {
    Script::new().remember("allergic", NEW).judge(
        "allergic",
        "likes cats",
        "pending_review",
        ("The user", "The user"),
        text,
    )
}

/// A home in which somebody was asked how the cats and the allergy relate.
async fn asked(proposal: &str) -> (Night, String) {
    let mut night = Night::new().await.set("CONTRADICTION_SIMILARITY", "0.2");
    night.known(OLD, "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    let report = night.dream(&scripted(&unsure(proposal).model())).await;
    assert_eq!((report.questions.len(), report.rem.pending_review), (1, 1), "{report:?}");
    assert_eq!(night.texts().await, [NEW, OLD], "both are kept meanwhile");
    let id = report.asked[0].id.clone();
    night.next();
    (night, id)
}

fn decide(night: &Night, id: &str, say: Say) {
    review::decide(&night.config(), id, say, night.now).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_merge_is_done_by_the_next_run_and_only_once() {
    let (mut night, id) = asked(MERGED).await;
    decide(&night, &id, Say::Approve(None));
    assert_eq!(night.texts().await, [NEW, OLD], "the command itself changes no memory");
    let model = unsure(MERGED).model();
    let report = night.dream(&scripted(&model)).await;
    assert_eq!(night.texts().await, [MERGED]);
    assert_eq!((report.rem.merged, report.live), (1, (2, 1)), "{report:?}");
    assert_eq!(prompts(&model, "verdicts").len(), 0);
    let archive = night.archive().await;
    let merged = night.memories().await.remove(0);
    assert_eq!(archive.len(), 2);
    assert!(
        archive.iter().all(|a| a.successor.as_ref() == Some(&merged.id) && a.reason == Departure::Superseded)
    );
    let trace = night.trace(&merged.id).await;
    assert_eq!(trace.merged_from.len(), 2);
    assert!(!trace.sources.is_empty());
    let plan = Run::of(&night.config().runs_dir(), RunId::parse(&report.run).unwrap());
    assert!(plan.folder.join("before").exists(), "it can be undone like everything else");
    for _ in 0..2 {
        let report = night.next().dream(&scripted(&unsure(MERGED).model())).await;
        assert!(report.carried_out.is_empty(), "{:?}", report.carried_out);
    }
    assert_eq!(night.texts().await, [MERGED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_to_a_conflict_are_merge_duplicate_and_keep() {
    let (night, id) = asked("").await;
    let config = night.config();
    for (say, allowed) in [
        (Say::Approve(None), false),
        (Say::Approve(Some(Answer::Merge)), false),
        (Say::Approve(Some(Answer::Store)), false),
    ] {
        let told = review::decide(&config, &id, say, night.now);
        assert_eq!(told.is_ok(), allowed);
        let error = told.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("duplicate or keep"), "{error}");
    }
    decide(&night, &id, Say::Approve(Some(Answer::Duplicate)));
    night.dream(&scripted(&unsure("").model())).await;
    assert_eq!(night.texts().await, [OLD], "the more important one stays");
    assert_eq!(night.archive().await[0].reason, Departure::Duplicate);

    let (mut night, id) = asked(MERGED).await;
    decide(&night, &id, Say::Approve(None));
    decide(&night, &id, Say::Reject);
    night.dream(&scripted(&unsure(MERGED).model())).await;
    let model = unsure(MERGED).model();
    night.next().dream(&scripted(&model)).await;
    assert_eq!(
        (night.texts().await, prompts(&model, "verdicts").len()),
        (vec![NEW.to_owned(), OLD.to_owned()], 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_word_overrules_the_veto_and_show_says_what_it_was() {
    let lossy = "The user and cats.";
    let mut night = Night::new().await.set("CONTRADICTION_SIMILARITY", "0.2");
    night.known("The user has 3 cats.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    let script = || {
        Script::new().remember("allergic", NEW).judge(
            "allergic",
            "3 cats",
            "pending_review",
            ("The user", "The user"),
            lossy,
        )
    };
    night.dream(&scripted(&script().model())).await;
    let item = review::read(&night.config().queues_dir()).unwrap().into_values().next().unwrap();
    assert!(item.veto.as_ref().is_some_and(|veto| veto.contains('3')), "{item:?}");
    let shown = dreamer(&night, &["review", "show", &item.id[..8]]);
    assert!(
        text(&shown.stdout).contains("veto") && text(&shown.stdout).contains(lossy),
        "{}",
        text(&shown.stdout)
    );
    decide(&night, &item.id, Say::Approve(None));
    night.next().dream(&scripted(&script().model())).await;
    assert_eq!(night.texts().await, [lossy]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_memory_changed_is_void() {
    let (mut night, id) = asked(MERGED).await;
    decide(&night, &id, Say::Approve(None));
    let row = night.memories().await.into_iter().find(|row| row.text == OLD).unwrap();
    let store = night.store().await;
    store.delete(&[(row.id, row.text)]).await.unwrap();
    night.known("The user likes cats and dogs.", "2026-03-10").await;
    let report = night.dream(&scripted(&Script::new().model())).await;
    assert!(report.carried_out.iter().any(|told| told.starts_with("not done")), "{:?}", report.carried_out);
    assert_eq!(night.texts().await.len(), 2);
    assert!(Decisions::read(&night.config().queues_dir()).unwrap().is_closed(&id));
}

/// Chunks about which the distiller wants a person to decide.
const DRAFTS: [(&str, &str, f64); 5] = [
    ("violin", "I play the violin.", 0.2),
    ("Lisbon", "I moved to Lisbon.", 0.9),
    ("Biscuit", "My dog is called Biscuit.", 0.8),
    ("peanuts", "I am allergic to peanuts.", 0.95),
    ("bicycle", "I repaired the bicycle.", 0.3),
];

fn asking() -> Script {
    DRAFTS.iter().fold(Script::new(), |script, (words, said, importance)| {
        let text =
            said.replace("My ", "The user's ").replace("I am", "The user is").replace("I ", "The user ");
        script.remember_as(
            words,
            json!({ "text": text, "decision": "pending_review", "importance": importance }),
        )
    })
}

async fn with_drafts() -> Night {
    let night = Night::new().await;
    let messages: Vec<(&str, &str)> = DRAFTS.iter().map(|(_, said, _)| ("user", *said)).collect();
    night.session("2026-03-10", &messages);
    night
}

#[tokio::test(flavor = "multi_thread")]
async fn three_questions_a_night_are_asked_and_the_others_compete_again() {
    let mut night = with_drafts().await;
    let first = night.dream(&scripted(&asking().model())).await;
    assert_eq!((first.asked.len(), first.questions_open), (3, 2));
    assert_eq!(first.fates.get(&Fate::PendingReview), Some(&5));
    let order: Vec<f64> = first.asked.iter().map(|item| item.draft.as_ref().unwrap().importance).collect();
    assert_eq!(order, [0.95, 0.9, 0.8]);
    let model = asking().model();
    let second = night.next().dream(&scripted(&model)).await;
    assert_eq!((second.asked.len(), second.questions_open), (2, 3));
    assert!(model.prompts().is_empty(), "nothing is paid twice");
    let third = night.next().dream(&scripted(&asking().model())).await;
    assert_eq!((third.asked.len(), third.questions_open), (0, 5));

    // Two answers, and the others run out: each on its day, and that is told.
    decide(&night, &first.asked[0].id, Say::Approve(None));
    decide(&night, &first.asked[1].id, Say::Reject);
    let report = night.next().dream(&scripted(&asking().model())).await;
    assert_eq!(report.carried_out.len(), 2, "{:?}", report.carried_out);
    assert_eq!(night.texts().await, ["The user is allergic to peanuts."]);
    let memory = night.memories().await.remove(0);
    let trace = night.trace(&memory.id).await;
    assert_eq!((memory.importance, trace.sources.len()), (0.95, 1));
    let mut ended = vec![];
    for _ in 0..14 {
        let report = night.next().dream(&scripted(&asking().model())).await;
        ended
            .extend(report.carried_out.iter().map(|told| (night.now.date_naive().to_string(), told.clone())));
    }
    let days: Vec<&str> = ended.iter().map(|(day, _)| day.as_str()).collect();
    assert_eq!(days, ["2026-03-25", "2026-03-26", "2026-03-26"], "{ended:?}");
    assert!(ended.iter().all(|(_, told)| told.contains("14 days") && told.contains("raw text")), "{ended:?}");
    let last: std::collections::BTreeMap<String, Fate> =
        night.journal().into_iter().map(|record| (record.digest, record.fate)).collect();
    assert_eq!(last.values().filter(|fate| **fate == Fate::RawOnly).count(), 4, "{last:?}");
    assert_eq!(last.values().filter(|fate| **fate == Fate::Stored).count(), 1, "{last:?}");
    assert_eq!(night.store().await.raw_all().await.unwrap().len(), 5, "the raw text is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_draft_that_is_known_by_then_is_not_stored_twice() {
    let mut night = with_drafts().await;
    let report = night.dream(&scripted(&asking().model())).await;
    let known = night.known("The user is allergic to peanuts.", "2026-03-11").await;
    decide(&night, &report.asked[0].id, Say::Approve(None));
    night.next().dream(&scripted(&asking().model())).await;
    assert_eq!(night.texts().await, ["The user is allergic to peanuts."]);
    assert_eq!(night.trace(&known).await.sources.len(), 1, "it takes the words over as its source");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_that_is_killed_anywhere_carries_out_what_was_decided_once() {
    let dry = Options { dry_run: true, ..FULL };
    let mut clean: Option<(Vec<String>, usize, usize)> = None;
    for last in Step::ALL.into_iter().rev() {
        let (night, id) = asked(MERGED).await;
        decide(&night, &id, Say::Approve(None));
        let run = night.dream_as(dry, &scripted(&unsure(MERGED).model())).await.run;
        let config = night.config();
        let plan: DreamPlan = Run::of(&config.runs_dir(), RunId::parse(&run).unwrap()).read_plan().unwrap();
        let store = night.store().await;
        apply_until(&plan, &store, &config, last).await.unwrap();
        apply(&plan, &store, &config).await.unwrap();
        apply(&plan, &store, &config).await.unwrap();
        let lines = std::fs::read_to_string(config.queues_dir().join("decisions.jsonl")).unwrap();
        let end = (night.texts().await, night.archive().await.len(), lines.lines().count());
        assert_eq!(clean.get_or_insert_with(|| end.clone()), &end, "{last:?}");
        assert_eq!(end, (vec![MERGED.to_owned()], 2, 2));
    }
}

fn dreamer(night: &Night, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dreamer"))
        .env_clear()
        .env("HOME", night.dir.path())
        .env("DREAMER_HOME", night.home())
        .envs(night.settings.iter())
        .current_dir(night.dir.path())
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_lists_shows_and_answers() {
    let mut night = with_drafts().await;
    night.dream(&scripted(&asking().model())).await;
    let listed = dreamer(&night, &["review", "list", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    let items: Vec<Value> =
        text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(items.len(), 5);
    assert_eq!(items.iter().filter(|item| item["asked"] == true).count(), 3);
    assert_eq!(items[0]["answers"], json!(["store", "raw_only"]));
    let id = items[0]["id"].as_str().unwrap();
    assert!(text(&dreamer(&night, &["review", "list"]).stdout).contains("peanuts"));
    let shown = text(&dreamer(&night, &["review", "show", &id[..8]]).stdout);
    assert!(
        shown.contains("2026-03-10-1200.md:") && shown.contains("approve") && shown.contains("reject"),
        "{shown}"
    );
    for (args, code, told) in [
        (vec!["review", "approve", "ffffffff-0000"], 1, "no open one"),
        (vec!["review", "show", ""], 1, "no open one"),
        (vec!["review", "approve", id, "--as", "merge"], 2, "store or raw_only"),
        (vec!["review", "approve", id, "--as", "burn"], 2, "the answers are"),
    ] {
        let refused = dreamer(&night, &args);
        assert_eq!(refused.status.code(), Some(code), "{args:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(told), "{args:?}: {}", text(&refused.stderr));
    }
    let approved = dreamer(&night, &["review", "approve", &id[..8]]);
    assert!(text(&approved.stdout).contains("the next run carries it out"), "{}", text(&approved.stderr));
    assert!(text(&dreamer(&night, &["review", "list"]).stdout).contains("decided: store"));
    assert!(night.texts().await.is_empty());
    night.next().dream(&scripted(&asking().model())).await;
    assert_eq!(night.texts().await, ["The user is allergic to peanuts."]);
    let gone = dreamer(&night, &["review", "show", id]);
    assert_eq!(gone.status.code(), Some(1), "what is carried out is no question any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_waits_while_a_night_runs() {
    let (night, id) = asked(MERGED).await;
    let _lock = dreamer::state::lock::Lock::take(&night.config().state_dir()).unwrap();
    let refused = review::decide(&night.config(), &id, Say::Reject, night.now).unwrap_err();
    assert_eq!(refused.exit_code(), 75);
}
