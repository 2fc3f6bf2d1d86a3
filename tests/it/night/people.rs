//! Who said what: the assistant's words stay the assistant's, the user corrects it, two people stay two, what a gateway
//! puts around words is nobody's, and what it captures again does not overrule what is known by now.

use std::path::Path;

use dreamer::memory::Departure;
use dreamer::report::DreamReport;
use serde_json::Value;

use super::models::{Script, extractive, prompts, scripted};
use super::{AGENT, Night};

fn speakers(report: &DreamReport) -> Vec<String> {
    report.created.iter().flat_map(|new| new.memory.sources.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_assistant_recommends_is_remembered_as_said_by_the_assistant() {
    let book = "I recommend “The Little Prince” to you.";
    let talk =
        [("user", "What could I read to my daughter?"), ("assistant", book), ("user", "Thanks, I will see.")];
    let night = Night::new().await;
    night.session("2026-03-10", &talk);
    let model = Script::new()
        .remember("I will see", "The user's favourite book is “The Little Prince”.")
        .mend("I will see", "The assistant recommended “The Little Prince” to the user.")
        .model();
    night.dream(&scripted(&model)).await;
    assert_eq!(night.texts().await, ["The assistant recommended “The Little Prince” to the user."]);
    assert_eq!(prompts(&model, "memories").len(), 2, "the first draft was refused");

    // A model that insists is left out: not even its source's words are the user's.
    let night = Night::new().await;
    night.session("2026-03-10", &talk);
    let wrong = "The user's favourite book is “The Little Prince”.";
    let model = Script::new().remember("I will see", wrong).mend("I will see", wrong).model();
    night.dream(&scripted(&model)).await;
    assert!(night.texts().await.iter().all(|text| !text.contains("Prince")), "{:?}", night.texts().await);

    let night = Night::new().await;
    night.session("2026-03-10", &talk);
    night.dream(&extractive()).await;
    let texts = night.texts().await;
    assert!(
        texts.iter().all(|text| !text.contains("Prince") || text.starts_with("Assistant (2026-03-10)")),
        "{texts:?}"
    );
}

const WRONG: &str = "The user's dentist appointment is on Wednesday.";
const RIGHT: &str = "The user's dentist appointment is on Thursday.";

fn corrected(night: &Night) {
    let said = [
        ("user", "When do I see the dentist?"),
        ("assistant", "Your dentist appointment is on Wednesday."),
        ("user", "No, it is on Thursday."),
    ];
    night.session("2026-03-10", &said);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_corrects_the_assistant() {
    let night = Night::new().await;
    corrected(&night);
    let model = Script::new().remember("No, it is on", WRONG).mend("No, it is on", RIGHT).model();
    night.dream(&scripted(&model)).await;
    assert_eq!(night.texts().await, [RIGHT]);

    // The gateway had captured what the assistant said: the correction takes its place.
    let mut night = Night::new().await;
    night.known("The dentist appointment of the user is on Wednesday.", "2026-03-09").await;
    corrected(&night);
    let now = "The user's dentist appointment is on Thursday, no longer on Wednesday.";
    let model = Script::new()
        .remember("No, it is on", RIGHT)
        .judge(
            "Thursday",
            "Wednesday",
            "state_change",
            ("The user's dentist appointment", "The dentist appointment of the user"),
            now,
        )
        .model();
    night.dream(&scripted(&model)).await;
    assert!(night.texts().await.iter().any(|text| text.contains("Thursday")), "{:?}", night.texts().await);
    assert!(!night.texts().await.contains(&WRONG.to_owned()));

    let night = Night::new().await;
    corrected(&night);
    night.dream(&extractive()).await;
    assert!(night.texts().await.iter().all(|text| !text.contains("Wednesday")), "{:?}", night.texts().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_assistant_says_later_changes_nothing_that_the_user_said() {
    let mut night = Night::new().await;
    let known = night.known(RIGHT, "2026-03-09").await;
    let said = "Your dentist appointment moved to Wednesday.";
    night.session(
        "2026-03-10",
        &[("user", "What is on this week?"), ("assistant", said), ("user", "Hm, let me look.")],
    );
    let draft = "The assistant said that the dentist appointment of the user moved to Wednesday.";
    let merged = "The user's dentist appointment is on Wednesday; it used to be on Thursday.";
    let model = Script::new()
        .remember("let me look", draft)
        .judge(
            "moved",
            "Thursday",
            "state_change",
            ("the dentist appointment of the user", "The user's dentist appointment"),
            merged,
        )
        .model();
    let report = night.dream(&scripted(&model)).await;
    let rows = night.memories().await;
    assert!(rows.iter().any(|row| row.id == known && row.text == RIGHT), "{report:?}");
    assert!(rows.iter().all(|row| row.text != merged), "{report:?}");
}

/// A session of a group, as a current gateway writes it: each message with its sender.
fn group(night: &Night, day: &str, slug: &str, said: &[(&str, &str)]) {
    let mut text = format!(
        "# Session: {day} 12:00:00 UTC\n\n- **Session Key**: agent:{AGENT}:telegram:group:-100\n- **Session ID**: s\n\
         - **Source**: x\n\n## Conversation Summary\n\n"
    );
    for (sender, words) in said {
        let message = format!(
            "Conversation info: ⟦openclaw:ctx⟧\n```json\n{{\"sender\": {{\"id\": \"id-{sender}\", \"name\": \"{sender}\"}}, \
             \"is_group_chat\": true}}\n```\n\n{words}"
        );
        text.push_str(&format!("user: {}\nassistant: \"Noted.\"\n", Value::from(message)));
    }
    night.file(&format!("{day}-{slug}.md"), &text);
}

const BIRTHDAY: &str = "My birthday is in May, by the way.";

#[tokio::test(flavor = "multi_thread")]
async fn two_people_with_the_same_words_stay_two() {
    let mut night = Night::new().await;
    group(&night, "2026-03-10", "a", &[("Anna", BIRTHDAY), ("Ben", BIRTHDAY)]);
    let report = night.dream(&extractive()).await;
    let quote = |who: &str, day: &str| format!("{who} ({day}): “{BIRTHDAY}”");
    assert_eq!(night.texts().await, [quote("Anna", "2026-03-10"), quote("Ben", "2026-03-10")], "{report:?}");
    let told = speakers(&report);
    assert!(
        told.iter().any(|s| s.ends_with("(Anna)")) && told.iter().any(|s| s.ends_with("(Ben)")),
        "{told:?}"
    );

    // Said again by one of them: hers is known, his is untouched; and neither is ever the other's, nor the user's.
    group(&night, "2026-03-11", "b", &[("Anna", BIRTHDAY)]);
    night.session("2026-03-11", &[("user", BIRTHDAY)]);
    let report = night.next().dream(&extractive()).await;
    let expected = [quote("Anna", "2026-03-10"), quote("Ben", "2026-03-10"), quote("User", "2026-03-11")];
    assert_eq!(night.texts().await, expected, "{report:?}");
    assert_eq!(report.strengthened.len(), 1);
    assert!(report.strengthened[0].memory.text.starts_with("Anna"), "{report:?}");
    for _ in 0..2 {
        night.next().dream(&extractive()).await;
        assert_eq!(night.texts().await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_may_not_make_one_person_of_two() {
    let mut night = Night::new().await;
    group(&night, "2026-03-10", "a", &[("Anna", BIRTHDAY), ("Ben", "My birthday is in June, by the way.")]);
    let model = || {
        Script::new()
            .remember("in May", "The user's birthday is in May.")
            .mend("in May", "Anna's birthday is in May.")
            .remember("in June", "The birthday is in June.")
            .mend("in June", "Ben's birthday is in June.")
            .judge(
                "birthday",
                "birthday",
                "state_change",
                ("birthday", "birthday"),
                "Ben's birthday is in June, it used to be in May.",
            )
            .model()
    };
    night.dream(&scripted(&model())).await;
    assert_eq!(night.texts().await, ["Anna's birthday is in May.", "Ben's birthday is in June."]);
    night.next().dream(&scripted(&model())).await;
    assert_eq!(night.texts().await, ["Anna's birthday is in May.", "Ben's birthday is in June."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_the_user_in_a_group_too() {
    let night = Night::new().await.set("DREAMER_OWNER", "id-Anna");
    group(
        &night,
        "2026-03-10",
        "a",
        &[("Anna", BIRTHDAY), ("Ben", BIRTHDAY), ("user", "I keep three goats in the garden.")],
    );
    let report = night.dream(&extractive()).await;
    let texts = night.texts().await;
    let starts: Vec<&str> = texts.iter().map(|text| text.split(" (").next().unwrap()).collect();
    assert_eq!(starts, ["*user*", "Ben", "User"], "{report:?}");
}

fn copy_fixture(night: &Night, from: &str, to: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/episodes").join(from);
    std::fs::copy(path, night.home().join("episodes").join(to)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_with_nothing_but_a_header_yields_nothing_and_is_archived() {
    let night = Night::new().await.at("2026-12-03T03:00:00Z");
    copy_fixture(&night, "openclaw-2026.9.6/empty-session-2026-11-30-0712-2.md", "2026-11-30-0712-2.md");
    copy_fixture(&night, "openclaw-2026.9.6/2026-11-30-0740.md", "2026-11-30-0740.md");
    let report = night.dream(&extractive()).await;
    assert!(report.created.is_empty() && night.memories().await.is_empty(), "{report:?}");
    assert!(night.files("episodes").is_empty());
    let archived: Vec<String> = night.files("episodes/archive").into_iter().collect();
    assert_eq!(archived, ["2026-11-30-0712-2.md", "2026-11-30-0740.md"]);
}

/// What stands between the recalled blocks' tags in a file, a line each.
fn recalled(text: &str) -> Vec<String> {
    let blocks = text
        .split("<relevant-memories>")
        .skip(1)
        .filter_map(|rest| rest.split("</relevant-memories>").next());
    let lines = blocks.flat_map(|block| block.lines().filter_map(|line| line.split_once("] ")));
    lines.map(|(_, said)| said.trim().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_memory_comes_from_a_recalled_block_of_a_real_episode() {
    let name = "2026-11-30-mock-reply-to-reply-with-only-.md";
    let night = Night::new().await.at("2026-12-03T03:00:00Z");
    copy_fixture(&night, &format!("openclaw-2026.4.15/{name}"), name);
    let text = std::fs::read_to_string(night.home().join("episodes").join(name)).unwrap();
    let recalled = recalled(&text);
    assert!(recalled.len() > 3);
    // What of it was also said in the open, outside every block.
    let mut open = text.clone();
    while let (Some(start), Some(end)) = (open.find("<relevant-memories>"), open.find("</relevant-memories>"))
    {
        open.replace_range(start..end + "</relevant-memories>".len(), "");
    }
    let report = night.dream(&extractive()).await;
    for raw in night.store().await.raw_all().await.unwrap() {
        assert!(
            !raw.text.contains("relevant-memories") && !raw.text.contains("Treat every memory"),
            "{}",
            raw.text
        );
    }
    for memory in night.memories().await {
        for line in recalled.iter().filter(|line| !open.contains(line.as_str())) {
            assert!(!memory.text.contains(line.as_str()), "{} is from a recalled block", memory.text);
        }
    }
    assert_eq!(report.chunks, night.final_fates().len());
    assert_eq!(night.files("episodes/archive").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_real_episode_is_read_without_a_memory_that_nobody_said() {
    let night = Night::new().await.at("2026-12-03T03:00:00Z");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/episodes/openclaw-2026.9.6");
    for entry in folder.read_dir().unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        copy_fixture(&night, &format!("openclaw-2026.9.6/{name}"), name.trim_start_matches("empty-session-"));
    }
    night.dream(&extractive()).await;
    for memory in night.memories().await {
        for noise in [
            "SECURITY NOTICE",
            "EXTERNAL_UNTRUSTED",
            "[cron:",
            "HEARTBEAT",
            "Mock reply",
            "New session started",
        ] {
            assert!(!memory.text.contains(noise), "{}", memory.text);
        }
        let trace = night.trace(&memory.id).await;
        assert!(trace.sources.iter().all(|source| source.speaker != "assistant"), "{}", memory.text);
    }
    assert!(night.files("episodes").is_empty());
}

const CATS: &str = "I like cats very much.";
const MERGED: &str = "The user used to like cats very much and is allergic to cats since 2026-03-10.";

fn model() -> std::sync::Arc<dreamer::providers::replay::Replay> {
    Script::new()
        .remember("allergic", "The user is allergic to cats now.")
        .remember("very much again", "The user likes cats very much again.")
        .judge("allergic to cats now", "like cats", "state_change", ("The user", "I"), MERGED)
        .judge(
            "I like cats",
            "allergic",
            "state_change",
            ("I", "The user"),
            "The user likes cats very much; the user was allergic to cats on 2026-03-10.",
        )
        .model()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_fact_that_a_restart_captures_again_does_not_overrule_its_successor() {
    let mut night = Night::new().await;
    night.known(CATS, "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    night.dream(&scripted(&model())).await;
    assert_eq!(night.texts().await, [MERGED]);
    let successor = night.memories().await[0].id.clone();

    // A restart: the same words as a new row of today, night after night.
    for n in 0..2 {
        let day = night.next().now.date_naive().to_string();
        let again = night.known(CATS, &day).await;
        let report = night.dream(&scripted(&model())).await;
        assert_eq!(night.texts().await, [MERGED], "night {n}: {report:?}");
        assert_eq!(night.memories().await[0].id, successor);
        assert!(report.joined.iter().any(|joined| joined.recaptured), "{report:?}");
        let gone = night.archive().await.into_iter().find(|gone| gone.memory.id == again).unwrap();
        assert_eq!(gone.successor.as_deref(), Some(successor.as_str()));
        assert_ne!(gone.reason, Departure::Faded);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_had_to_wait_is_no_newer_for_it() {
    let mut night = Night::new().await;
    night.known(CATS, "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    night.dream(&scripted(&model())).await;
    let day = night.next().now.date_naive().to_string();
    night.known(CATS, &day).await;
    let nrem_only = dreamer::dream::Options { mode: dreamer::dream::Mode::NremOnly, ..super::FULL };
    night.dream_as(nrem_only, &scripted(&model())).await;
    assert_eq!(night.memories().await.len(), 2, "NREM alone compares nothing");
    night.next().dream(&scripted(&model())).await;
    assert_eq!(night.texts().await, [MERGED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_says_anew_is_no_old_fact() {
    let mut night = Night::new().await;
    night.known(CATS, "2026-01-05").await;
    night.session("2026-03-10", &[("user", "Bad news: I am allergic to cats now.")]);
    night.dream(&scripted(&model())).await;
    // The user says it once more, and the gateway captures it.
    let day = night.next().now.date_naive().to_string();
    let again = night.known(CATS, &day).await;
    night.session(&day, &[("user", CATS)]);
    let report = night.next().dream(&scripted(&model())).await;
    assert!(report.joined.iter().all(|joined| !joined.recaptured), "{report:?}");
    let texts = night.texts().await;
    assert!(
        texts.iter().any(|text| text.starts_with("The user likes cats") || text == CATS),
        "{again}: {texts:?}"
    );
}
