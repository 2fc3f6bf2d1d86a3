//! The limits of a night, and nights of half the line: what waits is named, taken up later, and never lost.

use std::time::Instant;

use dreamer::dream::{Mode, Options, apply};
use dreamer::report::Status;
use dreamer::state::journal::Fate;

use super::models::{Script, extractive, prompts, scripted};
use super::{FULL, Night};

/// Statements about different things.
const CLAIMS: [&str; 5] = [
    "I decided to sell the old piano to Bernhard.",
    "My sister Carla moved to Lisbon.",
    "We prefer oak for the kitchen floor.",
    "The dentist wants to see me about my wisdom tooth.",
    "Our neighbours keep bees behind the garage.",
];

async fn with_claims() -> Night {
    let night = Night::new().await.set("MAX_NEW_MEMORIES", "1");
    night.session("2026-03-10", &CLAIMS.map(|claim| ("user", claim)));
    night
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_no_room_for_competes_on_three_nights_and_is_then_passed_over() {
    let mut night = with_claims().await;
    let mut fates = vec![];
    for _ in 0..3 {
        let report = night.dream(&extractive()).await;
        assert_eq!(report.created.len(), 1);
        fates.push(report.fates.clone());
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        assert!(
            log.contains("MAX_NEW_MEMORIES was reached") || log.contains("lost the ranking on three nights"),
            "{log}"
        );
        night.next();
    }
    let count = |night: usize, fate: Fate| fates[night].get(&fate).copied().unwrap_or(0);
    assert_eq!([count(0, Fate::Stored), count(0, Fate::HeldBack), count(0, Fate::PassedOver)], [1, 4, 0]);
    assert_eq!([count(1, Fate::Stored), count(1, Fate::HeldBack), count(1, Fate::PassedOver)], [1, 3, 0]);
    assert_eq!([count(2, Fate::Stored), count(2, Fate::HeldBack), count(2, Fate::PassedOver)], [1, 0, 2]);
    assert_eq!(night.final_fates().len(), 5);
    assert_eq!(night.memories().await.len(), 3);
    assert_eq!(night.store().await.raw_all().await.unwrap().len(), 5, "passed over is kept raw");
    assert_eq!(night.files("episodes/archive").len(), 1);
    let before = night.digests();
    assert_eq!(night.dream(&extractive()).await.status, Status::NothingNew);
    assert_eq!(night.digests(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_makes_no_more_memories_than_there_is_room_for() {
    for room in 1..=4 {
        let night = with_claims().await.set("MAX_NEW_MEMORIES", &room.to_string());
        let script = Script::new()
            .remember("piano", "The user decided to sell the old piano to Bernhard.")
            .remember("piano", "The user's old piano is sold.")
            .remember("piano", "The piano is old.")
            .remember("Carla", "The user's sister Carla moved to Lisbon.")
            .remember("oak", "The user prefers oak for the kitchen floor.")
            .remember("dentist", "The dentist wants to see the user about a wisdom tooth.")
            .remember("bees", "The user's neighbours keep bees behind the garage.");
        let report = night.dream(&scripted(&script.model())).await;
        assert!(report.created.len() <= room, "{} of {room}", report.created.len());
        assert!(!report.created.is_empty());
        let kept = night.memories().await.len();
        assert_eq!(kept, report.created.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_days_come_first_and_the_others_wait() {
    let mut night = Night::new().await.set("MAX_EPISODES_PER_RUN", "2");
    for (day, claim) in
        ["2026-03-06", "2026-03-07", "2026-03-08", "2026-03-09", "2026-03-10"].iter().zip(CLAIMS)
    {
        night.session(day, &[("user", claim)]);
    }
    let report = night.dream(&extractive()).await;
    assert_eq!(report.episodes, ["2026-03-06-1200.md", "2026-03-07-1200.md"]);
    assert_eq!(report.waiting.days, 3);
    let reports = night.next().dream_all(extractive, 4).await;
    assert_eq!(reports.len(), 2);
    assert_eq!(night.final_fates().len(), 5);
    assert_eq!(night.memories().await.len(), 5);
}

const NREM_ONLY: Options = Options { mode: Mode::NremOnly, ..FULL };
const REM_ONLY: Options = Options { mode: Mode::RemOnly, ..FULL };
const MERGED: &str = "The user used to like cats and is allergic to cats since 2026-03-10.";

fn script() -> Script {
    Script::new()
        .remember("allergic", "The user is allergic to cats now.")
        .remember("piano", "The user decided to sell the old piano to Bernhard.")
        .judge("allergic", "likes cats", "state_change", ("The user", "The user"), MERGED)
}

#[tokio::test(flavor = "multi_thread")]
async fn nrem_alone_holds_conflicts_back_for_the_next_full_night() {
    let mut night = Night::new().await;
    night.known("The user likes cats.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", CLAIMS[0]), ("user", "Bad news: I am allergic to cats now.")]);
    for _ in 0..4 {
        let model = script().model();
        let report = night.dream_as(NREM_ONLY, &scripted(&model)).await;
        assert!(prompts(&model, "verdicts").is_empty());
        assert_eq!(report.fates[&Fate::HeldBack], 1, "waiting is not competing: {:?}", report.fates);
        assert_eq!((report.rem.merged, report.rem.faded), (0, 0));
        let log = std::fs::read_to_string(report.dream_log.unwrap()).unwrap();
        assert!(log.contains("NREM only") && log.contains("the next full night decides"), "{log}");
        night.next();
    }
    let piano = "The user decided to sell the old piano to Bernhard.";
    assert_eq!(night.texts().await, [piano, "The user likes cats."]);
    assert_eq!(night.files("episodes").len(), 1, "the episode waits with its chunk");

    let report = night.dream(&scripted(&script().model())).await;
    assert_eq!((report.held_back_before, report.rem.merged), (1, 1));
    assert_eq!(night.texts().await, [piano, MERGED]);
    assert_eq!(night.final_fates().len(), 2);
    assert_eq!(night.files("episodes").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rem_alone_reads_no_episode() {
    let mut night = Night::new().await;
    night.known("The user likes cats.", "2026-01-05").await;
    night.known("The user is allergic to cats now.", "2026-03-10").await;
    night.session("2026-03-10", &[("user", CLAIMS[0])]);
    let model = script().model();
    let report = night.dream_as(REM_ONLY, &scripted(&model)).await;
    assert!(prompts(&model, "memories").is_empty());
    assert_eq!((report.chunks, report.episodes.len(), report.rem.merged), (0, 0, 1));
    assert_eq!(night.texts().await, [MERGED]);
    assert!(night.journal().is_empty());
    assert_eq!(night.files("episodes").len(), 1);
    let report = night.next().dream(&scripted(&script().model())).await;
    assert_eq!((report.chunks, report.created.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_and_apply_does_exactly_what_it_said() {
    let mut night = Night::new().await;
    night.known("The user likes cats.", "2026-01-05").await;
    night.session("2026-03-10", &[("user", CLAIMS[0]), ("user", "Bad news: I am allergic to cats now.")]);
    let before = night.digests();
    let model = script().model();
    let planned = night.dream_as(Options { dry_run: true, ..FULL }, &scripted(&model)).await;
    assert_eq!(planned.status, Status::DryRun);
    assert_eq!(night.digests(), before, "a dry run changed something besides runs/");
    assert!(night.files("dream-log").is_empty());
    let calls = model.prompts().len();
    let config = night.config();
    let done = apply(&config, &planned.run, night.now, Instant::now()).await.unwrap();
    assert_eq!(model.prompts().len(), calls, "nothing is paid twice");
    assert_eq!((done.status, &done.joined, &done.created), (Status::Done, &planned.joined, &planned.created));
    assert_eq!(night.texts().await, [planned.created[0].memory.text.as_str(), MERGED]);
    night.check_sums(&done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grew_yields_only_its_new_chunks() {
    let mut night = Night::new().await;
    night.session("2026-03-10", &[("user", CLAIMS[0])]);
    night.dream(&extractive()).await;
    assert_eq!(night.files("episodes/archive").len(), 1);
    night.session("2026-03-10", &[("user", CLAIMS[0]), ("user", CLAIMS[1])]);
    let report = night.next().dream(&extractive()).await;
    assert_eq!((report.chunks, report.created.len()), (1, 1));
    assert_eq!(night.memories().await.len(), 2);
    assert_eq!(night.files("episodes/archive").len(), 2, "same name and other content gets a suffix");
    assert_eq!(night.final_fates().len(), 2);
}
