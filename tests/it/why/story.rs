//! The story of a memory.

use std::collections::BTreeSet;

use dreamer::memory::{Category, Trace};
use dreamer::state::audit::Kind;
use dreamer::why::{Kept, Part, Place, Standing, WordedBy, why};

use super::{ALLERGIC, CATS, CATS_ID, HERON_ID, LAMP_1, LAMP_2, MERGED, SHOTS, STANDUP, TWICE, life};
use crate::home::{Home, at, day, memory};

#[tokio::test(flavor = "multi_thread")]
async fn every_id_there_ever_was_has_a_story() {
    let life = life().await;
    let ids = life.ids();
    assert!(ids.len() >= 10, "{ids:?}");
    for id in &ids {
        let told = life.why(id).await;
        assert_eq!((&told.id, told.text.is_some()), (id, true), "{told:?}");
        assert!(!told.history.is_empty(), "{told:?}");
        let last = &life.nights.last().unwrap().after;
        let standing = match () {
            () if last.rows.contains_key(id) => Standing::Live,
            () if last.archived.contains_key(id) => Standing::Archived,
            () => Standing::Gone,
        };
        assert_eq!(told.standing, standing, "{told:?}");
        // The beginning is enough.
        let begin = &id[..13];
        if ids.iter().filter(|other| other.starts_with(begin)).count() == 1 {
            assert_eq!(life.why(begin).await, told);
        }
    }
    for unknown in ["ffffffff-ffff", "", "c0ffee00-0000-4000-8000-000000000001x"] {
        let told = why(&life.home.config, unknown, day(5)).await.unwrap_err();
        assert!(told.to_string().contains("no memory"), "{told}");
    }
    let told = why(&life.home.config, "1a30000", day(5)).await.unwrap_err().to_string();
    assert!(told.contains("2 memories") && told.contains(LAMP_1), "{told}");
}

fn places(parts: &[Part]) -> Vec<Place> {
    parts.iter().flat_map(|part| part.sources.iter().cloned().chain(places(&part.parts))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn file_and_lines_are_those_where_it_was_said() {
    let life = life().await;
    let mut count = 0;
    for id in life.ids() {
        let told = life.why(&id).await;
        for place in told.sources.iter().cloned().chain(places(&told.parts)) {
            assert_eq!(place.kept, Kept::Episode, "{place:?}");
            let file = std::fs::read_to_string(place.file.as_ref().unwrap()).unwrap();
            assert!(place.file.unwrap().ends_with(&place.episode));
            let (first, last) = place.lines;
            assert_eq!(first, last, "a message is one line");
            let line = file.lines().nth(first - 1).unwrap();
            let (speaker, said) = line.split_once(": ").unwrap();
            let said: String = serde_json::from_str(said).unwrap();
            assert_eq!((Some(speaker), Some(&said)), (place.speaker.as_deref(), place.excerpt.as_ref()));
            let name = place.said_at.unwrap().format("%Y-%m-%d.md").to_string();
            assert_eq!(name, place.episode);
            count += 1;
        }
    }
    assert!(count > 10, "only {count} places");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_of_a_merge_names_everything_that_went_into_it() {
    let life = life().await;
    let told = life.why(&life.id_of(TWICE).await).await;
    assert_eq!((told.standing, told.wording.by), (Standing::Live, WordedBy::Merge));
    assert_eq!(told.wording.model.as_deref(), Some("replay"));
    assert_eq!(told.wording.reason.as_deref(), Some("it says what became of it"));
    assert_eq!(told.wording.prompt.as_ref().map(String::len), Some(64));
    let direct: Vec<_> = told.parts.iter().map(|part| (part.text.as_deref(), part.how.as_str())).collect();
    assert_eq!(direct, [(Some(MERGED), "consolidated"), (Some(SHOTS), "consolidated")]);
    let before: Vec<_> =
        told.parts[0].parts.iter().map(|part| (part.text.as_deref(), part.how.as_str())).collect();
    assert_eq!(before, [(Some(CATS), "merged"), (Some(ALLERGIC), "merged")]);
    assert_eq!(told.parts[0].parts[1].sources[0].episode, "2026-01-03.md");
    assert_eq!(told.parts[0].parts[1].said_on, Some(day(2)));
    assert!(told.parts.iter().all(|part| part.standing == Standing::Archived));
    let episodes: Vec<&str> = told.sources.iter().map(|place| place.episode.as_str()).collect();
    assert_eq!(episodes, ["2026-01-03.md", "2026-01-04.md"]);
    let ways: Vec<&str> = told.ways_back.iter().map(|way| way.command.as_str()).collect();
    assert_eq!(
        ways,
        [format!("dreamer unmerge {}", told.id), format!("dreamer rollback {}", life.nights[2].report.run)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_merged_leads_to_the_memory_that_lives() {
    let life = life().await;
    let (once, twice) = (life.id_of(MERGED).await, life.id_of(TWICE).await);
    let told = life.why(CATS_ID).await;
    assert_eq!((told.standing, told.wording.by), (Standing::Archived, WordedBy::Gateway));
    let carriers: Vec<_> = told.carriers.iter().map(|c| (c.id.as_str(), c.standing)).collect();
    assert_eq!(carriers, [(once.as_str(), Standing::Archived), (twice.as_str(), Standing::Live)]);
    let left = told.left.unwrap();
    assert_eq!((left.reason.as_str(), left.run.as_ref()), ("superseded", Some(&life.nights[1].report.run)));
    assert_eq!((left.relation.as_deref(), left.judge.as_deref()), (Some("state_change"), Some("replay")));
    assert_eq!(left.judged.as_deref(), Some("it says what became of it"));
    assert!(left.similarity.is_some_and(|similarity| similarity > 0.0));
    assert_eq!(told.ways_back[0].command, format!("dreamer restore {CATS_ID}"));
    assert_eq!(told.ways_back[1].command, format!("dreamer unmerge {twice}"));
    let copy = std::fs::read_to_string(told.copy.unwrap()).unwrap();
    assert!(copy.contains(CATS));

    let duplicate = life.why(LAMP_2).await;
    assert_eq!(duplicate.left.as_ref().map(|left| left.reason.as_str()), Some("duplicate"));
    assert_eq!(duplicate.left.unwrap().judge.as_deref(), Some("rules"));
    assert_eq!(duplicate.carriers[0].id, LAMP_1);
    let kept = life.why(LAMP_1).await;
    assert_eq!(
        kept.parts.iter().map(|part| (part.id.as_str(), part.how.as_str())).collect::<Vec<_>>(),
        [(LAMP_2, "duplicate")]
    );
    assert_eq!(kept.recalled, [day(4)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_worded_it_is_told() {
    let life = life().await;
    let standup = life.why(&life.id_of(STANDUP).await).await;
    assert_eq!((standup.wording.by, standup.said_on.as_slice()), (WordedBy::Model, &[day(0), day(4)][..]));
    assert_eq!(standup.wording.run.as_ref(), Some(&life.nights[0].report.run));
    let episodes: Vec<&str> = standup.sources.iter().map(|place| place.episode.as_str()).collect();
    assert_eq!(episodes, ["2026-01-01.md", "2026-01-05.md"]);
    let kinds: Vec<&Kind> = standup.history.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds, [&Kind::Created, &Kind::Reinforced]);

    let quote = life.nights[0].report.created.iter().find(|c| c.worded_by == "verbatim").unwrap();
    let locker = life.why(&quote.memory.id).await;
    assert_eq!((locker.wording.by, locker.wording.model.as_deref()), (WordedBy::Verbatim, Some("replay")));
    assert!(locker.text.unwrap().contains("My locker has the number 4711"));

    let draft = life.why(&life.id_of(ALLERGIC).await).await;
    assert_eq!((draft.wording.by, draft.standing), (WordedBy::Model, Standing::Archived));

    let heron = life.why(HERON_ID).await;
    assert_eq!((heron.standing, heron.left), (Standing::Live, None));
    let kinds: Vec<&Kind> = heron.history.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds, [&Kind::FirstSeen, &Kind::Faded, &Kind::Revived]);
    assert!((heron.history[1].importance.unwrap() - 0.1575 * 0.95_f64.powi(2)).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excerpt_is_the_file_s_if_it_still_says_so_else_the_raw_chunk_s_else_none() {
    let life = life().await;
    let id = life.id_of(STANDUP).await;
    let first = || async { life.why(&id).await.sources.into_iter().next().unwrap() };
    let place = first().await;
    let (file, whole) = (place.file.clone().unwrap(), place.excerpt.clone().unwrap());
    assert!(file.starts_with(life.home.config.archive_dir()), "{file:?}");
    // More lines above it: other lines, the same chunk.
    let text = std::fs::read_to_string(&file).unwrap();
    let grown = text.replace("user: \"Our team", "user: \"Hello there.\"\nuser: \"Our team");
    assert_ne!(grown, text);
    std::fs::write(&file, &grown).unwrap();
    let moved = first().await;
    assert_eq!(
        (moved.kept, moved.lines.0, moved.excerpt.as_ref()),
        (Kept::Episode, place.lines.0 + 1, Some(&whole))
    );
    // Back in the folder under its name, and another day's file in the archive: the folder's counts.
    let home = &life.home;
    home.episode("2026-01-01.md", &text);
    assert_eq!(first().await.file, Some(home.config.episodes_dir.join("2026-01-01.md")));
    std::fs::remove_file(home.config.episodes_dir.join("2026-01-01.md")).unwrap();
    // Under a number, because the name was taken.
    std::fs::write(home.config.archive_dir().join("2026-01-01.2.md"), &text).unwrap();
    std::fs::write(&file, text.replace("9:00", "8:00")).unwrap();
    assert_eq!(first().await.file, Some(home.config.archive_dir().join("2026-01-01.2.md")));
    std::fs::remove_file(home.config.archive_dir().join("2026-01-01.2.md")).unwrap();
    // Changed words are not what the memory rests on.
    let raw = first().await;
    assert_eq!((raw.kept, raw.file, raw.excerpt, raw.lines), (Kept::Raw, None, Some(whole), place.lines));
    std::fs::remove_dir_all(std::path::Path::new(&home.config.lancedb_uri).join("raw_memories.lance"))
        .unwrap();
    let lost = first().await;
    assert_eq!((lost.kept, lost.excerpt, lost.lines), (Kept::Nowhere, None, place.lines));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_deleted_is_told_from_what_is_left_of_it() {
    let life = life().await;
    let (standup, gateway) = (life.id_of(STANDUP).await, life.home.gateway().await);
    gateway.delete(&format!("id = '{standup}'")).await.unwrap();
    let told = life.why(&standup).await;
    assert_eq!((told.standing, told.text.as_ref()), (Standing::Gone, None));
    assert_eq!(told.left.unwrap().reason, "vanished");
    assert_eq!((told.sources.len(), told.wording.by), (2, WordedBy::Model));
    // Without its trace the audit still knows where it came from.
    life.home.store().await.remove_traces(std::slice::from_ref(&standup)).await.unwrap();
    std::fs::remove_dir_all(std::path::Path::new(&life.home.config.lancedb_uri).join("raw_memories.lance"))
        .unwrap();
    let told = life.why(&standup).await;
    let places: BTreeSet<_> =
        told.sources.iter().map(|place| (place.episode.as_str(), place.lines.0)).collect();
    assert_eq!(places, BTreeSet::from([("2026-01-01.md", 9), ("2026-01-05.md", 9)]));
    // It had faded once and come back before it was deleted: that it faded is not why it is gone.
    gateway.delete(&format!("id = '{HERON_ID}'")).await.unwrap();
    assert_eq!(life.why(HERON_ID).await.left.unwrap().reason, "vanished");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_day_it_fades_at_the_earliest_is_the_day_it_fades() {
    for (importance, about) in [(0.2, None), (0.31, None), (0.2, Some("2026-01-20"))] {
        let home = Home::new(&[]).await;
        let text = match about {
            Some(date) => format!("The user flies to Oslo on {date}."),
            None => "The user owned a red bicycle.".to_owned(),
        };
        let mut row = memory("row", &text, importance);
        row.category = Category::Fact;
        home.add(&[row]).await;
        home.night(at(0, 20)).await;
        let first = why(&home.config, "row", day(0)).await.unwrap().outlook.unwrap();
        let mut days = 0;
        while home.archived().await.is_empty() {
            days += 1;
            assert!(days < 40, "it never fades");
            let told = why(&home.config, "row", day(days - 1)).await.unwrap().outlook.unwrap();
            assert_eq!(told.earliest, first.earliest, "on day {days}");
            home.hello(days);
            home.night(at(days, 20)).await;
        }
        assert_eq!(first.earliest, Some(day(days)), "importance {importance}, about {about:?}");
    }
    let home = Home::new(&[("DREAMER_FADE", "off")]).await;
    home.add(&[memory("row", "The user owned a red bicycle.", 0.2)]).await;
    home.night(at(0, 20)).await;
    let told = why(&home.config, "row", day(0)).await.unwrap().outlook.unwrap();
    assert_eq!((told.earliest, told.stays.is_some()), (None, true));
    let home = Home::new(&[]).await;
    home.add(&[memory("row", "The user owned a red bicycle.", 0.2)]).await;
    home.night(at(0, 20)).await;
    let pinned = Trace { pinned: true, ..home.trace("row").await };
    home.store().await.put_traces(&[pinned]).await.unwrap();
    let told = why(&home.config, "row", day(0)).await.unwrap();
    assert!(told.pinned && told.outlook.unwrap().earliest.is_none());
}
