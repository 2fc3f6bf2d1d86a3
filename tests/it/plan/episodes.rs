//! Done episodes move, once nobody needs them where they are; what was learned is not learned again.

use std::path::{Path, PathBuf};

use crate::home::{DRY, Home, at, day, session};
use dreamer::providers::Reasoner;

const CLARA: (&str, &str) = ("user", "My sister Clara studies marine biology in Lisbon.");
const OTTO: (&str, &str) = ("user", "My brother Otto repairs church organs in Dresden.");

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|path| path.is_file())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn name(n: u64) -> String {
    format!("{}.md", day(n))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_with_other_content_gets_a_suffix() {
    let home = Home::new(&[]).await;
    for message in [CLARA, OTTO, ("user", "My cousin Ines keeps bees near Porto.")] {
        home.episode(&name(1), &session(day(1), &[message]));
        home.night(at(1, 20)).await;
    }
    let archive = home.config.archive_dir();
    assert_eq!(names(&archive), ["2026-01-02.2.md", "2026-01-02.3.md", "2026-01-02.md"]);
    let read = |name: &str| std::fs::read_to_string(archive.join(name)).unwrap();
    assert!(read("2026-01-02.md").contains("Clara") && read("2026-01-02.2.md").contains("Otto"));
    // The same file again is the same file.
    home.episode(&name(1), &session(day(1), &[OTTO]));
    home.night(at(1, 21)).await;
    assert_eq!((names(&archive).len(), names(&home.config.episodes_dir).len()), (3, 0));
    assert_eq!(home.texts().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changed_during_the_night_stays_and_yields_what_is_new() {
    let home = Home::new(&[]).await;
    home.episode(&name(1), &session(day(1), &[CLARA]));
    let run = home.try_night(DRY, Reasoner::Extractive, at(1, 20)).await.unwrap().run;
    home.episode(&name(1), &session(day(1), &[CLARA, OTTO]));
    let report = home.apply(&run, at(1, 20)).await.unwrap();
    assert!(
        report.warnings.iter().any(|w| w.contains(&name(1)) && w.contains("it stays")),
        "{:?}",
        report.warnings
    );
    assert!(report.archived_episodes.is_empty());
    assert_eq!(names(&home.config.episodes_dir), [name(1)]);
    assert_eq!(home.night(at(1, 21)).await.chunks, 1);
    assert_eq!((home.texts().await.len(), names(&home.config.archive_dir())), (2, vec![name(1)]));
}

/// A home whose episodes lie in a folder of the gateway's.
async fn with_a_gateway() -> (Home, PathBuf) {
    let mut home = Home::new(&[]).await;
    let notes = home.outside("notes");
    std::fs::create_dir_all(&notes).unwrap();
    home.set(&[("DREAMER_EPISODES_DIR", notes.to_str().unwrap())]);
    (home, notes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_keeps_the_notes_of_the_last_two_days() {
    let (home, notes) = with_a_gateway().await;
    for (n, message) in [(1, CLARA), (2, OTTO), (3, ("user", "My cousin Ines keeps bees near Porto."))] {
        home.episode(&name(n), &session(day(n), &[message]));
    }
    let first = home.night(at(3, 20)).await;
    assert_eq!((first.chunks, &first.archived_episodes[..]), (3, &[name(1)][..]));
    assert_eq!(names(&notes), [name(2), name(3)]);
    assert_eq!(names(&home.config.archive_dir()), [name(1)]);
    for (n, left) in [(3, 2), (4, 1), (5, 0)] {
        let night = home.night(at(n, 23)).await;
        assert_eq!((night.chunks, names(&notes).len()), (0, left), "day {n}");
    }
    assert_eq!(home.texts().await.len(), 3);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_gateways_folder_is_the_gateways_folder() {
    let home = Home::new(&[]).await;
    let notes = home.outside("notes");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::remove_dir(&home.config.episodes_dir).unwrap();
    std::os::unix::fs::symlink(&notes, &home.config.episodes_dir).unwrap();
    home.episode(&name(1), &session(day(1), &[CLARA]));
    home.night(at(2, 3)).await;
    assert_eq!((home.texts().await.len(), names(&notes)), (1, vec![name(1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_came_back_grew_or_was_renamed_yields_only_what_is_new() {
    let (home, notes) = with_a_gateway().await;
    let text = session(day(1), &[CLARA]);
    home.episode(&name(1), &text);
    assert_eq!(home.night(at(3, 3)).await.chunks, 1);
    assert!(names(&notes).is_empty());

    home.episode(&name(1), &text);
    assert_eq!(home.night(at(3, 4)).await.chunks, 0);
    home.episode("2026-01-02-clara.md", &text);
    assert_eq!(home.night(at(3, 5)).await.chunks, 0);
    home.episode("2026-01-02-clara.md", &session(day(1), &[CLARA, OTTO]));
    assert_eq!(home.night(at(3, 6)).await.chunks, 1);
    let live = home.texts().await;
    assert!(live.len() == 2 && live.iter().any(|text| text.contains("Otto")), "{live:?}");
    assert!(names(&notes).is_empty());
}
