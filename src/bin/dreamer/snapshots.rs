//! `dreamer snapshots`: which runs there are, and what one changed, as a diff people can read.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use dreamer::config::Config;
use dreamer::undo::snapshots::{self, Change, Diff, Line, Snapshot};
use serde_json::json;

use crate::args::Snapshots;
use crate::failure::{Failure, print};
use crate::output;

/// Lists or shows.
pub(crate) fn look(config: &Config, look: &Snapshots) -> Result<u8, Failure> {
    let text = match look {
        Snapshots::List { json: false } => list(config, &snapshots::list(config)?),
        Snapshots::List { json: true } => {
            snapshots::list(config)?.iter().map(|one| format!("{}\n", json!(one))).collect()
        }
        Snapshots::Show { run, json: false } => diff(config, &snapshots::show(config, run)?),
        Snapshots::Show { run, json: true } => format!("{}\n", json!(snapshots::show(config, run)?)),
    };
    print(&text).map(|()| 0)
}

fn list(config: &Config, all: &[Snapshot]) -> String {
    if all.is_empty() {
        return "no runs\n".to_owned();
    }
    let cells = all.iter().map(|one| {
        vec![
            one.run.to_string(),
            minute(config, one.at),
            what(one),
            counts(one),
            size(one.bytes),
            standing(config, one),
        ]
    });
    output::table(&cells.collect::<Vec<_>>())
}

fn what(one: &Snapshot) -> String {
    one.of.as_ref().map_or_else(|| one.what.to_owned(), |of| format!("{} of {of}", one.what))
}

fn standing(config: &Config, one: &Snapshot) -> String {
    match (&one.undone_by, one.kept_until) {
        (Some(by), _) => format!("taken back by {by}"),
        (None, _) if !one.written => format!("{}: nothing of it is written", one.phase),
        (None, Some(until)) => format!("can be taken back until {}", day(config, until)),
        (None, None) => "cannot be taken back any more".to_owned(),
    }
}

fn way_back(config: &Config, one: &Snapshot) -> String {
    match (&one.undone_by, one.kept_until) {
        (Some(by), _) => format!("taken back; dreamer rollback {by} puts it in force again"),
        (None, Some(until)) if one.written => {
            format!("the way back, until {}: dreamer rollback {}", day(config, until), one.run)
        }
        (None, _) => standing(config, one),
    }
}

fn counts(one: &Snapshot) -> String {
    one.counts.map_or_else(
        || "no plan".to_owned(),
        |counts| format!("+{} -{} ~{}", counts.came, counts.went, counts.importance),
    )
}

#[allow(clippy::cast_precision_loss)]
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}

fn minute(config: &Config, at: DateTime<Utc>) -> String {
    at.with_timezone(&config.timezone).format("%Y-%m-%d %H:%M").to_string()
}

fn day(config: &Config, at: DateTime<Utc>) -> String {
    at.with_timezone(&config.timezone).format("%Y-%m-%d").to_string()
}

fn diff(config: &Config, diff: &Diff) -> String {
    let one = &diff.snapshot;
    let mut text = format!("{}  {}  {}, {}\n", one.run, minute(config, one.at), what(one), one.phase);
    for change in &diff.changes {
        text += &told(change);
    }
    if !diff.importance.is_empty() {
        text += "\nimportance\n";
    }
    for row in &diff.importance {
        let said = output::shorten(&row.text, wide());
        let _ = writeln!(text, "~ {:.8}  {:.2} → {:.2}  {said}", row.id, row.from, row.to);
    }
    let _ = writeln!(text, "\n{}, {} traces", counts(one), diff.traces);
    let _ = writeln!(text, "{}", way_back(config, one));
    text
}

fn told(change: &Change) -> String {
    let kind = change.kind.replace('_', " ");
    let reason = output::shorten(&change.reason, wide());
    let mut text = if reason.is_empty() { format!("\n{kind}\n") } else { format!("\n{kind}: {reason}\n") };
    let mut line = |sign: char, row: &Line| {
        let importance = row.importance.map(|value| format!("  ({value:.2})")).unwrap_or_default();
        let _ = writeln!(text, "{sign} {:.8}  {}{importance}", row.id, output::shorten(&row.text, wide()));
    };
    change.went.iter().for_each(|row| line('-', row));
    change.came.iter().for_each(|row| line('+', row));
    change.stays.iter().for_each(|row| line('=', row));
    text
}

fn wide() -> usize {
    output::columns().saturating_sub(24).max(30)
}
