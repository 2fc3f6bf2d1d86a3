//! Putting the story of a memory together from what is known. Decides what counts where two sources tell of the same:
//! the tables first, then the readable copies, then the audit.

use std::collections::BTreeSet;

use chrono::{DateTime, Days, NaiveDate};
use uuid::Uuid;

use super::excerpt::from_audit;
use super::known::Known;
use super::{Carrier, Left, Outlook, Part, Place, Standing, WayBack, Why, WordedBy, Wording};
use crate::memory::{Archived, Source, Trace};
use crate::rem::fading;
use crate::state::audit::{Event, Kind};

/// Tells the story of the memory of that id.
pub(super) fn tell(known: &Known<'_>, id: &str) -> Why {
    let memory = known.memory(id);
    let trace = known.traces.get(id);
    let history: Vec<Event> = known.history(id).into_iter().cloned().collect();
    let standing = standing(known, id);
    let left = if standing == Standing::Live { None } else { Some(left(known, id)) };
    let carriers = if standing == Standing::Live { Vec::new() } else { carriers(known, id) };
    let mut seen = BTreeSet::from([id.to_owned()]);
    let parts = parts(known, id, &mut seen);
    let wording = wording(known, id);
    let agents = history.iter().map(|event| event.agent.clone()).find(|agent| !agent.is_empty());
    Why {
        id: id.to_owned(),
        text: known.text(id),
        standing,
        agent: memory
            .map(|memory| memory.partition.agent.clone())
            .or_else(|| trace.map(|trace| trace.agent.clone()))
            .or(agents),
        category: memory.map(|memory| memory.category.as_str().to_owned()),
        importance: memory.map(|memory| memory.importance),
        written_at: memory
            .and_then(|memory| DateTime::from_timestamp_millis(memory.created_at))
            .map(|at| known.local(at)),
        said_at: trace.and_then(|trace| trace.said_at).map(|at| known.local(at)),
        about: trace.and_then(|trace| trace.about),
        pinned: trace.is_some_and(|trace| trace.pinned),
        ways_back: ways_back(known, id, left.as_ref(), &carriers, &parts, &wording),
        wording,
        sources: sources(known, id),
        parts,
        recalled: trace.map(|trace| trace.recalled.iter().copied().collect()).unwrap_or_default(),
        said_on: trace.map(|trace| trace.reinforced.iter().copied().collect()).unwrap_or_default(),
        outlook: trace.filter(|_| standing == Standing::Live).map(|trace| outlook(known, trace)),
        left,
        carriers,
        history,
        copy: known.copy_file(id),
    }
}

fn standing(known: &Known<'_>, id: &str) -> Standing {
    match () {
        () if known.rows.contains_key(id) => Standing::Live,
        () if known.archived.contains_key(id) => Standing::Archived,
        () => Standing::Gone,
    }
}

/// Where a memory was said: what its trace has, else its copy, else the raw memories, else the audit.
fn sources(known: &Known<'_>, id: &str) -> Vec<Place> {
    let of_trace = known.traces.get(id).map(|trace| trace.sources.clone()).unwrap_or_default();
    let of_copy = || known.copies.get(id).map(|copy| copy.sources.clone()).unwrap_or_default();
    let found: Vec<Source> = [of_trace, of_copy(), known.excerpts.raw_sources(id)]
        .into_iter()
        .find(|sources| !sources.is_empty())
        .unwrap_or_default();
    if found.is_empty() {
        // The places of an event are those of what is there since; only of what left for good they are its own.
        let own = |event: &&Event| event.after.is_empty() || event.after.iter().any(|s| s.id == id);
        let events = known.history(id).into_iter().filter(own);
        let places: BTreeSet<&String> = events.flat_map(|event| &event.sources).collect();
        return places.into_iter().filter_map(|place| from_audit(place)).collect();
    }
    let mut places: Vec<Place> = Vec::new();
    for source in &found {
        let place = known.excerpts.place(source);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_by(|a, b| (a.said_at, &a.episode, a.lines).cmp(&(b.said_at, &b.episode, b.lines)));
    places
}

/// How a memory came to its words: the last event that gave it some.
fn wording(known: &Known<'_>, id: &str) -> Wording {
    let gave_words = |event: &&&Event| {
        let kinds = [Kind::Created, Kind::Drafted, Kind::Merged, Kind::Consolidated];
        kinds.contains(&event.kind) && event.after.iter().any(|subject| subject.id == id)
    };
    let history = known.history(id);
    let Some(event) = history.iter().rfind(gave_words) else {
        // Ids of Dreamer's rows are made from their content (version 5), those of a gateway by chance.
        let ours = Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 5);
        let first = history.iter().find(|event| event.kind == Kind::FirstSeen);
        return Wording {
            by: if ours { WordedBy::Unknown } else { WordedBy::Gateway },
            run: first.map(|event| event.run.clone()),
            at: first.map(|event| known.local(event.at)),
            model: None,
            prompt: None,
            relation: None,
            similarity: None,
            reason: None,
        };
    };
    let merged = matches!(event.kind, Kind::Merged | Kind::Consolidated);
    let reason = || known.reason(&event.run, |joined| joined.after.iter().any(|shown| shown.id == id));
    Wording {
        by: match event.worded_by.as_deref() {
            _ if merged => WordedBy::Merge,
            Some("model") => WordedBy::Model,
            Some("verbatim") => WordedBy::Verbatim,
            Some("extractive") => WordedBy::Extractive,
            _ => WordedBy::Unknown,
        },
        run: Some(event.run.clone()),
        at: Some(known.local(event.at)),
        model: event.model.clone(),
        prompt: event.prompt.clone(),
        relation: event.relation.clone(),
        similarity: event.similarity,
        reason: if merged { reason() } else { None },
    }
}

/// What went into a memory: what the archive says it succeeds, what the audit says, and the originals its trace names.
/// No memory appears twice.
fn parts(known: &Known<'_>, id: &str, seen: &mut BTreeSet<String>) -> Vec<Part> {
    let joins = [Kind::Merged, Kind::Consolidated, Kind::Duplicate, Kind::Recaptured];
    let into_it = |event: &&Event| joins.contains(&event.kind) && event.after.iter().any(|s| s.id == id);
    let mut found: Vec<(String, String, Option<String>)> = Vec::new();
    for event in known.events.iter().filter(into_it) {
        let run = Some(event.run.clone());
        found.extend(event.before.iter().map(|s| (s.id.clone(), event.kind.word(), run.clone())));
    }
    let succeeded = |archived: &&Archived| archived.successor.as_deref() == Some(id);
    let mut archived: Vec<&Archived> = known.archived.values().filter(succeeded).collect();
    archived.sort_by(|a, b| (a.archived_at, &a.memory.id).cmp(&(b.archived_at, &b.memory.id)));
    for a in archived {
        let how = if a.reason.as_str() == "superseded" { "merged" } else { a.reason.as_str() };
        found.push((a.memory.id.clone(), how.to_owned(), Some(a.run.clone())));
    }
    let mut direct: Vec<(String, String, Option<String>)> = Vec::new();
    for part in found {
        if seen.insert(part.0.clone()) {
            direct.push(part);
        }
    }
    let mut parts: Vec<Part> =
        direct.into_iter().map(|(id, how, run)| part(known, id, how, run, seen)).collect();
    let originals = known.traces.get(id).map(|trace| trace.merged_from.clone()).unwrap_or_default();
    for original in originals {
        if seen.insert(original.clone()) {
            parts.push(part(known, original, "original".to_owned(), None, seen));
        }
    }
    parts.sort_by(|a, b| (a.said_on, &a.id).cmp(&(b.said_on, &b.id)));
    parts
}

fn part(
    known: &Known<'_>,
    id: String,
    how: String,
    run: Option<String>,
    seen: &mut BTreeSet<String>,
) -> Part {
    Part {
        text: known.text(&id),
        standing: standing(known, &id),
        said_on: known.said_on(&id),
        how,
        run,
        sources: sources(known, &id),
        parts: parts(known, &id, seen),
        id,
    }
}

/// What carries the content of a memory that left: its successor, that one's, and so on.
fn carriers(known: &Known<'_>, id: &str) -> Vec<Carrier> {
    let mut carriers: Vec<Carrier> = Vec::new();
    let mut next = successor(known, id);
    while let Some((id, run)) = next {
        if carriers.iter().any(|carrier| carrier.id == id) {
            break;
        }
        let standing = standing(known, &id);
        next = if standing == Standing::Live { None } else { successor(known, &id) };
        carriers.push(Carrier { text: known.text(&id), standing, run, id });
    }
    carriers
}

fn successor(known: &Known<'_>, id: &str) -> Option<(String, Option<String>)> {
    if let Some(archived) = known.archived.get(id) {
        return Some((archived.successor.clone()?, Some(archived.run.clone())));
    }
    let event = leaving_event(known, id, None)?;
    Some((event.after.first()?.id.clone(), Some(event.run.clone())))
}

/// The event with which a memory left: that of the run the archive names, else the last one, unless it came back after
/// it.
fn leaving_event<'k>(known: &'k Known<'_>, id: &str, run: Option<&str>) -> Option<&'k Event> {
    let came = [
        Kind::Created,
        Kind::Drafted,
        Kind::Revived,
        Kind::Restored,
        Kind::Undone,
        Kind::Unmerged,
        Kind::RolledBack,
    ];
    let is_before = |event: &Event| event.before.iter().any(|subject| subject.id == id);
    let last = known.history(id).into_iter().rev().find(|event| match run {
        Some(run) => event.run == run && is_before(event),
        None => is_before(event) || came.contains(&event.kind),
    });
    last.filter(|event| is_before(event))
}

fn left(known: &Known<'_>, id: &str) -> Left {
    let archived = known.archived.get(id);
    let event = leaving_event(known, id, archived.map(|archived| archived.run.as_str()));
    let run = archived.map(|a| a.run.clone()).or_else(|| event.map(|event| event.run.clone()));
    let judged = run
        .as_deref()
        .and_then(|run| known.reason(run, |joined| joined.before.iter().any(|shown| shown.id == id)));
    let at = archived.and_then(|a| DateTime::from_timestamp_millis(a.archived_at));
    Left {
        reason: archived
            .map(|archived| archived.reason.as_str().to_owned())
            .or_else(|| event.map(|event| event.kind.word()))
            .unwrap_or_else(|| "vanished".to_owned()),
        at: at.or_else(|| event.map(|event| event.at)).map(|at| known.local(at)),
        importance: event.and_then(|event| event.importance),
        relation: event.and_then(|event| event.relation.clone()),
        similarity: event.and_then(|event| event.similarity),
        judge: event.and_then(|event| event.model.clone()),
        judged,
        run,
    }
}

/// How a live memory fares. The numbers are those of the next night, if nothing happens until then.
fn outlook(known: &Known<'_>, trace: &Trace) -> Outlook {
    let config = known.config;
    let days = known.ledger.of(&trace.agent);
    let row = known.rows.get(&trace.id).map_or(trace.written, |row| row.importance);
    let in_force = days.fading_since.is_some();
    let rate = if in_force { config.decay_rate } else { 0.0 };
    // Somebody gave the row another importance: that is its base from the next night on.
    let (base, clock) = match fading::is_foreign(trace, row) {
        true => (row, known.today),
        false => (trace.base, trace.clock),
    };
    let active_days = days.active_between(clock, known.today);
    let falls = fading::days_until_below(base, rate, trace.stability, config.fade_threshold);
    let days_left = falls.map(|falls| falls.saturating_sub(active_days)).filter(|_| !trace.pinned);
    let stays = if trace.pinned {
        Some("it is pinned".to_owned())
    } else if !in_force {
        Some(format!("memories of `{}` do not fade yet, or DREAMER_FADE is off", trace.agent))
    } else {
        None
    };
    Outlook {
        importance: fading::decayed(base, rate, active_days, trace.stability),
        base,
        clock,
        stability: trace.stability,
        active_days,
        earliest: days_left.and_then(|left| earliest(known.today, left, trace.about)),
        days_left,
        stays,
    }
}

/// The day after so many more days, and after the latest date the memory is about.
fn earliest(today: NaiveDate, left: usize, about: Option<NaiveDate>) -> Option<NaiveDate> {
    let falls = today.checked_add_days(Days::new(left as u64))?;
    let after = about.and_then(|about| about.succ_opt());
    Some(after.map_or(falls, |after| after.max(falls)))
}

fn ways_back(
    known: &Known<'_>,
    id: &str,
    left: Option<&Left>,
    carriers: &[Carrier],
    parts: &[Part],
    wording: &Wording,
) -> Vec<WayBack> {
    let mut ways = Vec::new();
    let mut way = |command: String, does: &str| ways.push(WayBack { command, does: does.to_owned() });
    if known.archived.contains_key(id) {
        let beside = carriers.iter().any(|carrier| carrier.standing == Standing::Live);
        let does =
            if beside { "brings it back, beside what carries its content now" } else { "brings it back" };
        way(format!("dreamer restore {id}"), does);
    }
    let superseded = left.is_some_and(|left| left.reason == "superseded");
    if let Some(living) = carriers.last().filter(|last| superseded && last.standing == Standing::Live) {
        let does = "brings the originals of that merge back in its place";
        way(format!("dreamer unmerge {}", living.id), does);
    }
    let merged = wording.by == WordedBy::Merge || parts.iter().any(|part| part.how == "original");
    if known.rows.contains_key(id) && merged {
        way(format!("dreamer unmerge {id}"), "brings its originals back in its place");
    }
    let run = left.map_or(wording.run.as_ref(), |left| left.run.as_ref());
    if let Some(run) = run.filter(|run| known.can_be_rolled_back(run)) {
        way(format!("dreamer rollback {run}"), "takes back everything that run changed");
    }
    ways
}
