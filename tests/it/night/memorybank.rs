//! Nights over the eight users of MemoryBank (MIT, see the licence beside the files), one home each, until nothing is
//! held back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dreamer::nrem::quote::Quote;
use dreamer::state::journal::Fate;
use serde_json::Value;

use super::models::extractive;
use super::{Night, check_log};

const MOST: usize = 12;

pub(super) fn users() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memorybank");
    let entries = folder.read_dir().unwrap().flatten().filter(|entry| entry.path().is_dir());
    let mut users: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    users.sort();
    assert_eq!(users.len(), 8);
    users
}

/// A home with a user's episodes, in the month after they were said. Returns their names.
pub(super) async fn home_of(user: &str) -> (Night, BTreeSet<String>) {
    let night = Night::new().await.at("2023-06-01T03:00:00Z");
    let from: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memorybank").join(user);
    for entry in from.read_dir().unwrap().flatten() {
        std::fs::copy(entry.path(), night.home().join("episodes").join(entry.file_name())).unwrap();
    }
    let names = night.files("episodes");
    assert_eq!(names.len(), 10);
    (night, names)
}

/// Every episode is archived as it was, every chunk has one fate, and the chunks of all nights are those of the files.
pub(super) fn check_end(night: &Night, names: &BTreeSet<String>, user: &str) {
    assert_eq!(night.files("episodes"), BTreeSet::new(), "{user}");
    assert_eq!(&night.files("episodes/archive"), names, "{user}");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memorybank").join(user);
    for name in names {
        let (was, is) =
            (std::fs::read(from.join(name)), std::fs::read(night.home().join("episodes/archive").join(name)));
        assert_eq!(was.unwrap(), is.unwrap(), "{user} {name}");
    }
    let fates = night.final_fates();
    // Every line a user wrote is in a chunk of its own, or in none only if it repeats.
    let said: usize = names
        .iter()
        .map(|name| std::fs::read_to_string(from.join(name)).unwrap().matches("\nuser: ").count())
        .sum();
    assert!(fates.len() >= said, "{user}: {} chunks for {said} messages", fates.len());
}

/// A memory that rules chose holds the very words of the line it names, of the speaker and the day it names.
fn check_quote(user: &str, text: &str, sources: &[String]) {
    let quote = Quote::read(text).unwrap_or_else(|| panic!("{user}: no quote: {text}"));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memorybank").join(user);
    // As the log names it: `2023-04-27-2130.md:9 (user)`.
    let stands = |source: &String| {
        let (episode, place) = source.split_once(':').unwrap();
        let (number, by) = place.trim_end_matches(')').split_once(" (").unwrap();
        let number: usize = number.split('-').next().unwrap().parse().unwrap();
        let file = std::fs::read_to_string(from.join(episode)).unwrap();
        let (speaker, said) = file.lines().nth(number - 1).unwrap().split_once(": ").unwrap();
        assert_eq!(speaker, by, "{user}: {text}");
        let said = plain(said);
        speaker == quote.speaker.as_str()
            && episode.starts_with(&quote.said_on.to_string())
            && quote.words.split('…').map(plain).all(|part| said.contains(&part))
    };
    assert!(sources.iter().any(stands), "{user}: {text} does not stand in {sources:?}");
}

/// Letters and digits alone: quotation marks are escaped in the files, and a quote starts with a capital.
fn plain(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect()
}

async fn nights_of(user: &str) {
    let (mut night, names) = home_of(user).await;
    let reports = night.dream_all(extractive, MOST).await;
    for report in &reports {
        assert!(report.created.len() <= night.config().max_new_memories, "{user}");
        for new in &report.created {
            check_quote(user, &new.memory.text, &new.memory.sources);
        }
    }
    assert!(reports.len() > 1, "{user}: ten days are more than one night's seven");
    check_end(&night, &names, user);
    let created: usize = reports.iter().map(|report| report.created.len()).sum();
    assert!(created >= 14, "{user}: {created} memories");
    assert!(night.texts().await.len() <= created, "{user}");

    let (before, version) = (night.digests(), night.store().await.version().await.unwrap());
    let quiet = night.dream(&extractive()).await;
    assert_eq!(night.store().await.version().await.unwrap(), version, "{user}");
    assert_eq!(night.digests(), before, "{user}: a night without material changed something");
    assert_eq!(quiet.status.as_str(), "nothing_new", "{user}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_english_users_end_with_every_chunk_settled() {
    for user in users().iter().filter(|user| user.starts_with("en")) {
        nights_of(user).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chinese_users_end_with_every_chunk_settled() {
    for user in users().iter().filter(|user| user.starts_with("zh")) {
        nights_of(user).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_itself_tells_the_same_in_log_and_json() {
    let (night, names) = home_of("zh-02").await;
    let settings = [
        ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
        ("DREAMER_BUILTIN_MODEL", "lexical"),
        ("DREAMER_LLM_PROVIDER", "extractive"),
        ("DREAMER_TIMEZONE", "UTC"),
    ];
    let dream = || -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_dreamer"))
            .env_clear()
            .env("HOME", night.dir.path())
            .env("DREAMER_HOME", night.home())
            .envs(settings)
            .current_dir(night.dir.path())
            .arg("--json")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut chunks = 0;
    for _ in 0..MOST {
        let told = dream();
        let fates = &told["nrem"]["fates"];
        let sum: u64 = fates.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(told["nrem"]["chunks"], sum);
        assert!(told["nrem"]["created"].as_u64().unwrap() <= 20);
        check_log(&std::fs::read_to_string(told["dream_log"].as_str().unwrap()).unwrap(), &told);
        chunks += sum - fates[Fate::HeldBack.as_str()].as_u64().unwrap();
        if night.files("episodes").is_empty() {
            break;
        }
    }
    check_end(&night, &names, "zh-02");
    assert_eq!(chunks, night.final_fates().len() as u64);
    let before = night.digests();
    assert_eq!(dream()["status"], "nothing_new");
    assert_eq!(night.digests(), before);
}
