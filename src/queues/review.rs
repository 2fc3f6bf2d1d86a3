//! The review queue: what only a person can tell. Items are found by a night, at most three of them a night become
//! questions (the weightiest first; the others stay in the queue and compete again), and a question nobody answers runs
//! out: what it is about stays as it is. Answers are recorded here and carried out by the next run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Days, NaiveDate, Utc};

use super::decisions::{Answer, Decision, Decisions, State, answers_to};
use super::{Queues, read_lines};
use crate::config::Config;
use crate::dream::Night;
use crate::error::Error;
use crate::memory::text_digest;
use crate::plan::{DreamPlan, ReviewItem};
use crate::remembered::Remembered;
use crate::state::journal::{ChunkRecord, Fate, Journal, JudgedPair};
use crate::state::lock::Lock;
use crate::state::{StateError, append_lines};

use super::retry::About;

/// New questions a night.
pub const A_NIGHT: usize = 3;
/// Days after which a question runs out.
pub const DAYS: u64 = 14;

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// No item has such an id.
    #[error(
        "find the review item {id}: no open one has an id that begins so; `dreamer review list` lists them"
    )]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// More than one item has such an id.
    #[error("find the review item {id}: {count} have ids that begin so; give more of it")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
    /// The item cannot be given that answer.
    #[error("approve {id} as {answer}: {why}; it can be answered {allowed}")]
    NoSuchAnswer {
        /// The item.
        id: String,
        /// What was wanted.
        answer: &'static str,
        /// Why not.
        why: &'static str,
        /// What can be.
        allowed: String,
    },
}

/// Reads the items; of several lines about one the last counts.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn read(queues_dir: &Path) -> Result<BTreeMap<String, ReviewItem>, StateError> {
    let lines: Vec<ReviewItem> = read_lines(&path(queues_dir))?;
    Ok(lines.into_iter().map(|item| (item.id.clone(), item)).collect())
}

/// Appends items that are not yet the last word about themselves.
///
/// # Errors
/// When the file cannot be written.
pub fn append(queues_dir: &Path, items: &[ReviewItem]) -> Result<(), StateError> {
    if items.is_empty() {
        return Ok(());
    }
    let known = read(queues_dir)?;
    let line = |item: &ReviewItem| serde_json::to_string(item).expect("an item is plain data");
    let lines: Vec<String> =
        items.iter().filter(|item| known.get(&item.id) != Some(item)).map(line).collect();
    append_lines(&path(queues_dir), &lines)
}

fn path(queues_dir: &Path) -> PathBuf {
    queues_dir.join("review.jsonl")
}

/// The day on which an item that was asked runs out; none for one that still competes.
pub fn expires(item: &ReviewItem) -> Option<NaiveDate> {
    // Older versions asked at once and noted only the run, whose id begins with its date.
    let old =
        || NaiveDate::parse_from_str(item.run.get(..8)?, "%Y%m%d").ok()?.checked_add_days(Days::new(DAYS));
    match item.since {
        Some(_) => item.expires,
        None => item.expires.or_else(old),
    }
}

/// Whether a person was asked.
pub fn is_asked(item: &ReviewItem) -> bool {
    item.since.is_none() || item.asked_at.is_some()
}

/// Splits what the night found and what still competes into tonight's questions and the rest, the weightiest first, then
/// the one that is longer in the queue.
fn rank(mut candidates: Vec<ReviewItem>) -> (Vec<ReviewItem>, Vec<ReviewItem>) {
    candidates.sort_by(|a, b| {
        b.weight.total_cmp(&a.weight).then_with(|| a.since.cmp(&b.since)).then_with(|| a.id.cmp(&b.id))
    });
    let rest = candidates.split_off(A_NIGHT.min(candidates.len()));
    (candidates, rest)
}

/// Completes a night's plan: asks at most three questions, and ends those that ran out or whose memories changed.
/// `known` is what was remembered when the night began, rows that orders took out of it included.
pub fn place(
    plan: &mut DreamPlan,
    night: &Night<'_>,
    queues: &Queues,
    known: &Remembered,
    journal: &Journal,
) {
    let ordered: HashSet<&String> = queues.orders.iter().map(|order| &order.key).collect();
    let open: Vec<&ReviewItem> = queues.open().filter(|item| !ordered.contains(&item.id)).collect();
    let mut ended = BTreeSet::new();
    for item in &open {
        if !still_holds(item, known) {
            end(plan, night, item, State::Moot, journal);
            ended.insert(item.id.clone());
        } else if expires(item).is_some_and(|day| day <= night.today) {
            end(plan, night, item, State::Expired, journal);
            ended.insert(item.id.clone());
        }
    }
    let waiting = open.iter().filter(|item| !is_asked(item) && !ended.contains(&item.id));
    let candidates = waiting.map(|item| (*item).clone()).chain(std::mem::take(&mut plan.review)).collect();
    let (asked, rest) = rank(candidates);
    let expires = night.today.checked_add_days(Days::new(DAYS));
    let asked: Vec<ReviewItem> =
        asked.into_iter().map(|item| ReviewItem { asked_at: Some(night.now), expires, ..item }).collect();
    plan.report.questions =
        asked.iter().map(|item| format!("{} — {}", item.texts.join(" / "), item.reason)).collect();
    let earlier = open.iter().filter(|item| is_asked(item) && !ended.contains(&item.id)).count();
    plan.report.questions_open = earlier + rest.len();
    plan.report.asked.clone_from(&asked);
    // The rest is written anew only where it is new: what competes already stands in the file.
    plan.review = asked;
    plan.review.extend(rest.into_iter().filter(|item| !queues.items.contains_key(&item.id)));
}

/// Whether the memories in question are still there and still say what was judged.
fn still_holds(item: &ReviewItem, known: &Remembered) -> bool {
    let holds = |(place, id): (usize, &String)| {
        let Some(row) = known.rows.get(id) else { return false };
        match item.digests.get(place) {
            Some(digest) => *digest == text_digest(&row.text),
            None => item.texts.get(place).is_none_or(|text| *text == row.text),
        }
    };
    item.memories.iter().enumerate().all(holds)
}

fn end(plan: &mut DreamPlan, night: &Night<'_>, item: &ReviewItem, state: State, journal: &Journal) {
    let words = short(&item.texts.join(" / "));
    let answer = *answers_to(item).last().expect("every item can be rejected");
    let kept = if answer == Answer::RawOnly { "kept as raw text" } else { "both are kept" };
    plan.report.carried_out.push(match state {
        State::Moot => {
            format!("a question is void, because a memory it was about changed or is gone: {words}")
        }
        _ => format!("a question ran out after {DAYS} days without an answer, {kept}: {words}"),
    });
    plan.decided.push(Decision {
        id: item.id.clone(),
        answer,
        state,
        by: "expiry".into(),
        at: night.now,
        run: Some(night.run.as_str().to_owned()),
    });
    settle_as(plan, item, answer, night, journal);
}

/// The entries of a plan that keep what is in question as it is: its chunks raw, its pair both.
pub(super) fn settle_as(
    plan: &mut DreamPlan,
    item: &ReviewItem,
    answer: Answer,
    night: &Night<'_>,
    journal: &Journal,
) {
    if answer == Answer::RawOnly {
        record(plan, item, Fate::RawOnly, night, journal);
    }
    if let Some(pair) = pair_of(item) {
        if let Some(retry) = &mut plan.retry {
            retry.settle(&BTreeSet::from([About::from(pair.clone())]));
        }
        plan.judged.push(pair);
    }
}

/// The fate of the chunks an item rests on, unless something else became of one meanwhile.
pub(super) fn record(
    plan: &mut DreamPlan,
    item: &ReviewItem,
    fate: Fate,
    night: &Night<'_>,
    journal: &Journal,
) {
    let pending = |chunk: &str| journal.get(chunk).is_some_and(|record| record.fate == Fate::PendingReview);
    for source in item.sources.iter().filter(|source| pending(&source.chunk)) {
        plan.journal.push(ChunkRecord {
            digest: source.chunk.clone(),
            fate,
            nights: 0,
            episode: source.episode.clone(),
            run: night.run.as_str().to_owned(),
        });
    }
}

/// The pair of memories in question.
pub(super) fn pair_of(item: &ReviewItem) -> Option<JudgedPair> {
    let digests: Vec<String> = match item.digests.is_empty() {
        true => item.texts.iter().map(|text| text_digest(text)).collect(),
        false => item.digests.clone(),
    };
    match (item.memories.len(), digests.as_slice()) {
        (2, [one, other]) => Some(JudgedPair::of(one, other)),
        _ => None,
    }
}

/// Words for a line of the log.
pub(super) fn short(text: &str) -> String {
    const FEW: usize = 160;
    match text.char_indices().nth(FEW) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The one item, decided or not but not closed, whose id is `id` or begins so.
///
/// # Errors
/// [`ReviewError`] when there is none, or more than one.
pub fn find<'a>(queues: &'a Queues, id: &str) -> Result<&'a ReviewItem, ReviewError> {
    let id = id.trim().to_ascii_lowercase();
    let is_live = |item: &&ReviewItem| !queues.decisions.is_closed(&item.id);
    let begins = |item: &&ReviewItem| !id.is_empty() && item.id.starts_with(&id);
    let found: Vec<&ReviewItem> = queues.items.values().filter(is_live).filter(begins).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(ReviewError::Unknown { id }),
        several => Err(ReviewError::Ambiguous { id, count: several.len() }),
    }
}

/// What a person says about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Yes; as what, if it is not the first of its answers.
    Approve(Option<Answer>),
    /// No.
    Reject,
}

/// Records what a person says; the next run carries it out. Takes the run lock: a night that is about to end the item
/// must not cross it.
///
/// # Errors
/// When there is no such item, it has no such answer, another run holds the lock, or the file cannot be written.
pub fn decide(
    config: &Config,
    id: &str,
    say: Say,
    now: DateTime<Utc>,
) -> Result<(ReviewItem, Answer), Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let queues = Queues::read(config, now.with_timezone(&config.timezone).date_naive())?;
    let item = find(&queues, id)?.clone();
    let allowed = answers_to(&item);
    let answer = match say {
        Say::Approve(Some(answer)) => answer,
        // Without a text the judge proposed there is no merge to say yes to: which of the others, the person must say.
        Say::Approve(None) if item.kind == "conflict" && item.proposal.is_empty() => Answer::Merge,
        Say::Approve(None) => allowed[0],
        Say::Reject => *allowed.last().expect("every item can be rejected"),
    };
    if !allowed.contains(&answer) {
        let why = match answer {
            Answer::Merge if item.kind == "conflict" => "the judge proposed no text",
            _ => "that is no answer to this question",
        };
        let allowed: Vec<&str> = allowed.into_iter().map(Answer::as_str).collect();
        let (id, answer, allowed) = (item.id, answer.as_str(), allowed.join(" or "));
        return Err(ReviewError::NoSuchAnswer { id, answer, why, allowed }.into());
    }
    let (id, by) = (item.id.clone(), "command".to_owned());
    let decision = Decision { id, answer, state: State::Decided, by, at: now, run: None };
    Decisions::append(&config.queues_dir(), &[decision])?;
    Ok((item, answer))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn item(id: &str, weight: f64, since: &str) -> ReviewItem {
        let since = Some(since.parse().unwrap());
        ReviewItem { id: id.into(), kind: "draft".into(), weight, since, ..ReviewItem::default() }
    }

    #[test]
    fn three_a_night_are_asked_the_weightiest_first_then_the_longest_waiting() {
        let candidates = vec![
            item("a", 1.0, "2026-03-11T03:00:00Z"),
            item("b", 2.0, "2026-03-11T03:00:00Z"),
            item("c", 1.0, "2026-03-10T03:00:00Z"),
            item("d", 1.0, "2026-03-11T03:00:00Z"),
        ];
        let (asked, rest) = rank(candidates);
        let ids = |items: &[ReviewItem]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
        assert_eq!(
            (ids(&asked), ids(&rest)),
            (vec!["b".into(), "c".into(), "a".into()], vec!["d".to_string()])
        );
    }

    #[test]
    fn lines_of_older_versions_are_read_and_run_out() {
        let dir = tempfile::tempdir().unwrap();
        let old = r#"{"id":"a","kind":"conflict","agent":"main","texts":["x","y"],"memories":["1","2"],"reason":"r","run":"20260301-030000-00000a"}"#;
        std::fs::write(dir.path().join("review.jsonl"), format!("{old}\n")).unwrap();
        let items = read(dir.path()).unwrap();
        assert!(is_asked(&items["a"]));
        assert_eq!(expires(&items["a"]), Some("2026-03-15".parse().unwrap()));
        assert_eq!(answers_to(&items["a"]), [Answer::Duplicate, Answer::Keep]);
    }

    #[test]
    fn the_last_line_about_an_item_counts_and_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let first = item("a", 1.0, "2026-03-11T03:00:00Z");
        let asked = ReviewItem { asked_at: first.since, ..first.clone() };
        for items in [&first, &asked, &asked] {
            append(dir.path(), std::slice::from_ref(items)).unwrap();
        }
        assert_eq!(read(dir.path()).unwrap()["a"], asked);
        assert_eq!(std::fs::read_to_string(dir.path().join("review.jsonl")).unwrap().lines().count(), 2);
    }
}
