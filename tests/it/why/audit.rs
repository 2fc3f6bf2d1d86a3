//! The audit: one event a change, no words of anybody, and nothing twice.

use std::collections::BTreeSet;

use dreamer::memory::text_digest;
use dreamer::plan::Phase;
use dreamer::plan::apply::{Step, apply_until};
use dreamer::plan::events::events;
use dreamer::providers::Reasoner;
use dreamer::report::Status;
use dreamer::state::audit::{Audit, Event, Kind, input_digest};

use super::{CATS_ID, Dreamt, HERON_ID, LAMP_1, LAMP_2, Life, life};
use crate::home::{DRY, Home, at, copy, eventful};

fn of(home: &Home, run: &str) -> Vec<Event> {
    Audit::read(&home.config.home).unwrap().into_iter().filter(|event| event.run == run).collect()
}

fn count(events: &[Event], fits: impl Fn(&&Event) -> bool) -> usize {
    events.iter().filter(fits).count()
}

/// What the tables before and after a night say, against what the audit says of that night.
fn check(night: &Dreamt, events: &[Event]) {
    let (before, after) = (&night.before, &night.after);
    let after_names = |event: &&Event, id: &str| event.after.iter().any(|subject| subject.id == id);
    let before_names = |event: &&Event, id: &str| event.before.iter().any(|subject| subject.id == id);
    let came = [Kind::Created, Kind::Merged, Kind::Consolidated, Kind::Revived];
    for id in after.rows.keys().filter(|id| !before.rows.contains_key(*id)) {
        let found = count(events, |event| came.contains(&event.kind) && after_names(event, id));
        assert_eq!(found, 1, "{id} came: {events:#?}");
    }
    for id in before.rows.keys().filter(|id| !after.rows.contains_key(*id)) {
        assert_eq!(count(events, |event| before_names(event, id)), 1, "{id} left: {events:#?}");
    }
    let mut drafts = 0;
    for id in after
        .archived
        .keys()
        .filter(|id| !before.rows.contains_key(*id) && !before.archived.contains_key(*id))
    {
        assert_eq!(count(events, |event| event.kind == Kind::Drafted && after_names(event, id)), 1, "{id}");
        assert_eq!(count(events, |event| before_names(event, id)), 1, "{id}");
        drafts += 1;
    }
    assert_eq!(count(events, |event| event.kind == Kind::Drafted), drafts);
    let importance = |state: &super::Snapshot, id: &String| state.rows[id]["importance"].as_f64().unwrap();
    let both: Vec<&String> = before.rows.keys().filter(|id| after.rows.contains_key(*id)).collect();
    let down = both.iter().filter(|id| importance(after, id) < importance(before, id)).count();
    let counted: Vec<Option<usize>> =
        events.iter().filter(|event| event.kind == Kind::Decayed).map(|event| event.count).collect();
    assert_eq!(counted, if down > 0 { vec![Some(down)] } else { vec![] });
    for id in both.iter().filter(|id| importance(after, id) > importance(before, id)) {
        let rose = [Kind::Reinforced, Kind::Recalled, Kind::Duplicate];
        let found = count(events, |event| rose.contains(&event.kind) && after_names(event, id));
        assert_eq!(found, 1, "{id} rose: {events:#?}");
    }
    // Nothing is told that did not happen.
    let moves = events.iter().filter(|event| came.contains(&event.kind) || event.kind == Kind::Faded);
    for event in moves {
        assert!(
            event.after.iter().all(|s| after.rows.contains_key(&s.id) && !before.rows.contains_key(&s.id))
        );
        assert!(event.before.iter().all(|s| after.archived.contains_key(&s.id)));
    }
    for subject in events.iter().flat_map(|event| event.before.iter().chain(&event.after)) {
        let row = after.rows.get(&subject.id).and_then(|row| row["text"].as_str());
        let text = row.unwrap_or_else(|| &after.archived[&subject.id].memory.text);
        assert_eq!(subject.digest, text_digest(text));
    }
    let run: Vec<&Event> = events.iter().filter(|event| event.kind == Kind::Run).collect();
    assert_eq!((run.len(), events.last().unwrap()), (1, run[0]), "the run comes last");
    let totals = run[0].totals.as_ref().unwrap();
    assert_eq!(totals.fates.values().sum::<usize>(), night.report.chunks);
    let chunks = night.plan.journal.iter().map(|record| record.digest.clone());
    let rows = before.rows.values().map(|row| text_digest(row["text"].as_str().unwrap()));
    assert_eq!(totals.input, input_digest(chunks, rows));
    assert_eq!((totals.language.as_str(), totals.embedding.as_str()), ("replay", "lexical"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_night_has_exactly_one_event() {
    let life = life().await;
    for night in &life.nights {
        check(night, &of(&life.home, &night.report.run));
    }
    let all = Audit::read(&life.home.config.home).unwrap();
    assert_eq!(count(&all, |event| event.kind == Kind::Run), life.nights.len());
    let outputs: BTreeSet<&str> =
        all.iter().filter_map(|event| event.totals.as_ref()).map(|totals| totals.output.as_str()).collect();
    assert_eq!(outputs.len(), life.nights.len(), "nights that wrote different things have different digests");
    let of_kind = |kind: Kind| all.iter().find(|event| event.kind == kind).unwrap();
    let merged = of_kind(Kind::Merged);
    assert_eq!((merged.relation.as_deref(), merged.model.as_deref()), (Some("state_change"), Some("replay")));
    assert_eq!(merged.before[0].id, CATS_ID);
    assert_eq!(merged.sources, ["2026-01-03.md:9"]);
    let settled = of_kind(Kind::Duplicate);
    assert_eq!((settled.before[0].id.as_str(), settled.after[0].id.as_str()), (LAMP_2, LAMP_1));
    assert_eq!((settled.model.as_deref(), settled.prompt.as_ref()), (Some("rules"), None));
    assert_eq!(of_kind(Kind::Faded).before[0].id, HERON_ID);
    assert_eq!(of_kind(Kind::Recalled).after[0].id, LAMP_1);
    let seen = of_kind(Kind::FirstSeen);
    assert_eq!((seen.count, seen.after.len()), (Some(4), 4));
    // The question a draft answers is another one than the question that merged it.
    assert!(of_kind(Kind::Drafted).prompt.is_some() && of_kind(Kind::Drafted).prompt != merged.prompt);
}

/// Words of a text, five at a time.
fn shingles(text: &str) -> BTreeSet<String> {
    let words = words(text);
    words.windows(5).map(|five| five.join(" ")).collect()
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect()
}

async fn every_text(life: &Life) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    for night in &life.nights {
        for state in [&night.before, &night.after] {
            texts.extend(state.rows.values().map(|row| row["text"].as_str().unwrap().to_owned()));
            texts.extend(state.archived.values().map(|a| a.memory.text.clone()));
        }
    }
    let raw = life.home.store().await.raw_all().await.unwrap();
    texts.extend(raw.into_iter().map(|raw| raw.text));
    for entry in walkdir::WalkDir::new(life.home.config.home.join("episodes")) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            texts.extend(
                text.lines().filter_map(|line| serde_json::from_str::<String>(line.split_once(": ")?.1).ok()),
            );
        }
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_holds_no_words_of_a_memory_or_a_chunk() {
    let life = life().await;
    let audit = std::fs::read_to_string(Audit::path(&life.home.config.home)).unwrap();
    let (bare, texts) = (words(&audit).join(" "), every_text(&life).await);
    let all: BTreeSet<String> = texts.iter().flat_map(|text| shingles(text)).collect();
    assert!(texts.len() > 12 && all.len() > 50, "{} texts, {} shingles", texts.len(), all.len());
    for text in texts.iter().filter(|text| words(text).len() > 1) {
        assert!(!audit.contains(text.as_str()), "{text}");
    }
    for five in &all {
        assert!(!bare.contains(five.as_str()), "{five}");
    }
    // The search would find what is there.
    let log = std::fs::read_to_string(life.nights[0].report.dream_log.as_ref().unwrap()).unwrap();
    assert!(all.iter().any(|five| words(&log).join(" ").contains(five.as_str())));
    assert!(!audit.contains("it says what became of it"), "nor the judge's words, which may quote them");
}

fn go_back(home: &Home) {
    std::fs::remove_dir_all(&home.config.home).unwrap();
    copy(&home.outside("saved"), &home.config.home);
}

fn read(home: &Home) -> (Vec<Event>, Vec<u8>) {
    let run = home.config.memory_archive_dir();
    let mut files: Vec<_> = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let bytes = files.into_iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    (Audit::read(&home.config.home).unwrap(), bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_killed_anywhere_has_the_events_and_copies_of_a_clean_one() {
    let home = eventful(&[]).await;
    let run = home.try_night(DRY, Reasoner::Extractive, at(2, 20)).await.unwrap().run;
    copy(&home.config.home, &home.outside("saved"));
    home.apply(&run, at(2, 20)).await.unwrap();
    let clean = read(&home);
    assert!(of(&home, &run).len() > 6 && clean.1.len() > 500, "{clean:?}");
    let check = |when: &str| {
        let (events, copies) = read(&home);
        let events: Vec<Event> = events.into_iter().filter(|event| event.run == run).collect();
        let expected: Vec<&Event> = clean.0.iter().filter(|event| event.run == run).collect();
        assert_eq!(events.iter().collect::<Vec<_>>(), expected, "{when}");
        assert_eq!(String::from_utf8(copies), String::from_utf8(clean.1.clone()), "{when}");
    };
    for step in Step::ALL {
        go_back(&home);
        home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
        apply_until(&home.plan(&run), &home.store().await, &home.config, step).await.unwrap();
        home.night(at(2, 22)).await;
        check(&format!("killed after {step:?}"));
    }
    // Killed between the audit and the end of the run, with a line that was half written.
    for torn in [0, 40] {
        go_back(&home);
        home.run(&run).enter(Phase::Applying, at(2, 20)).unwrap();
        let mut plan = home.plan(&run);
        plan.report.status = Status::Done;
        let applied = apply_until(&plan, &home.store().await, &home.config, Step::Move).await.unwrap();
        Audit::append(&home.config.home, &events(&plan, &applied)).unwrap();
        let path = Audit::path(&home.config.home);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - torn]).unwrap();
        home.night(at(2, 22)).await;
        check(&format!("{torn} bytes torn off"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_night_has_one_event() {
    let life = life().await;
    let report = life.home.night(at(4, 21)).await;
    let events = of(&life.home, &report.run);
    assert_eq!(events.iter().map(|event| &event.kind).collect::<Vec<_>>(), [&Kind::Run]);
    assert_eq!(events[0].totals.as_ref().unwrap().outcome, "nothing_new");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_cannot_be_written_costs_no_memory() {
    let home = eventful(&[]).await;
    let run = home.try_night(DRY, Reasoner::Extractive, at(2, 20)).await.unwrap().run;
    let path = Audit::path(&home.config.home);
    std::fs::rename(&path, home.outside("aside")).unwrap();
    std::fs::create_dir(&path).unwrap();
    let told = home.apply(&run, at(2, 20)).await.unwrap().failure.unwrap();
    assert!(told.contains("audit.jsonl"), "{told}");
    assert!(!Audit::read(&home.run(&run).folder).unwrap().is_empty(), "its events lie beside the plan");
    let texts = home.texts().await;
    assert!(texts.iter().any(|text| text.contains("Clara")), "{texts:?}");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(home.outside("aside"), &path).unwrap();
    home.night(at(2, 22)).await;
    assert_eq!(home.texts().await, texts);
}
