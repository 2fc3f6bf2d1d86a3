//! What an undo takes back, as a value, and its dream log.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::DreamReport;
use super::log::one_line;

/// A row that comes back or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// A row whose importance becomes again what it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// The row.
    pub id: String,
    /// Its text.
    pub text: String,
    /// What it is.
    pub from: f64,
    /// What it was and will be.
    pub to: f64,
}

/// A row that stays as it is, because somebody else was there since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Why.
    pub why: String,
}

/// What an undo takes back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Undone {
    /// What it is, as a sentence without a full stop.
    pub what: String,
    /// Rows that come back.
    pub back: Vec<Row>,
    /// Rows that go.
    pub gone: Vec<Row>,
    /// Rows whose importance becomes again what it was.
    pub importance: Vec<Importance>,
    /// Rows that are left as they are.
    pub left: Vec<LeftAlone>,
    /// Traces that become again what they were.
    pub traces: usize,
    /// Traces that are left as they are.
    pub traces_left: usize,
    /// Pairs that later nights keep apart.
    pub kept_apart: usize,
    /// What one should know besides.
    pub notes: Vec<String>,
}

// Writing to a String cannot fail; the macro keeps that in one place.
macro_rules! line {
    ($log:expr, $($arg:tt)*) => { writeln!($log, $($arg)*).expect("a string takes every line") };
}

/// The log of an undo, below its title.
pub(super) fn log(log: &mut String, undone: &Undone, report: &DreamReport, started: &str) {
    line!(log, "**{}.**\n", one_line(&undone.what));
    let (before, after) = report.live;
    line!(log, "| | |\n|---|---|\n| memories | {before} → {after} |");
    for (what, count) in [
        ("came back", undone.back.len()),
        ("went", undone.gone.len()),
        ("importance as before", undone.importance.len()),
        ("left as they are", undone.left.len()),
        ("pairs kept apart from now on", undone.kept_apart),
    ] {
        if count > 0 {
            line!(log, "| {what} | {count} |");
        }
    }
    rows(log, "Came back", &undone.back);
    rows(log, "Went to the archive", &undone.gone);
    if !undone.importance.is_empty() {
        line!(log, "\n## Importance as before\n");
    }
    for row in &undone.importance {
        line!(log, "- {} ({:.2} → {:.2}, `{}`)", one_line(&row.text), row.from, row.to, row.id);
    }
    if !undone.left.is_empty() {
        line!(log, "\n## Left as they are\n");
    }
    for row in &undone.left {
        line!(log, "- {} (`{}`): {}", one_line(&row.text), row.id, one_line(&row.why));
    }
    if !undone.notes.is_empty() || !report.warnings.is_empty() {
        line!(log, "\n## Notes\n");
    }
    for note in undone.notes.iter().chain(&report.warnings) {
        line!(log, "- {}", one_line(note));
    }
    line!(log, "\n---\n\nRun `{}` · {} · {started}", report.run, report.mode);
    line!(log, "\nThe way back: `dreamer rollback {}`", report.run);
}

fn rows(log: &mut String, title: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    line!(log, "\n## {title}\n");
    for row in rows {
        line!(log, "- {} (`{}`)", one_line(&row.text), row.id);
    }
}
