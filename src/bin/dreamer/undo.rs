//! `dreamer rollback`, `unmerge` and `redream`: shows what will be taken back, asks, and says what was done.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::time::Instant;

use chrono::Utc;
use dreamer::config::Config;
use dreamer::plan::RunId;
use dreamer::report::{DreamReport, Row, Undone};
use dreamer::undo::redream::{self, TakenUp};
use dreamer::undo::{self, Planned, unmerge};
use serde_json::{Value, json};

use crate::args::Rollback;
use crate::failure::{Failure, print};
use crate::output;

/// Exit code where somebody must agree and nobody can be asked.
const USAGE: u8 = 2;

/// Takes back a run and all later ones.
pub(crate) async fn rollback(config: &Config, asked: &Rollback) -> Result<u8, Failure> {
    let planned = undo::preview(config, &asked.run, Utc::now()).await?;
    if asked.dry_run {
        return show(&planned, asked.json).map(|()| 0);
    }
    // One object is all that `--json` prints.
    if !(asked.yes && asked.json) {
        show(&planned, asked.json)?;
    }
    if !asked.yes
        && let Some(code) = refused("take this back?")
    {
        return Ok(code);
    }
    let shown: Vec<RunId> = planned.iter().map(|run| run.of.clone()).collect();
    let reports = undo::rollback(config, &asked.run, Some(&shown), Utc::now(), Instant::now()).await?;
    let text = if asked.json {
        let runs: Vec<Value> =
            planned.iter().zip(&reports).map(|(run, report)| done(&run.of, report)).collect();
        format!("{}\n", json!({ "status": "done", "runs": runs }))
    } else {
        reports.iter().map(told).collect()
    };
    print(&text)?;
    Ok(0)
}

/// Brings the originals of a merge back.
pub(crate) async fn unmerge(config: &Config, id: &str) -> Result<u8, Failure> {
    let report = unmerge::unmerge(config, id, Utc::now(), Instant::now()).await?;
    let mut text = report.undone.as_ref().map(diff).unwrap_or_default();
    text += &told(&report);
    print(&text).map(|()| 0)
}

/// Takes an episode up again.
pub(crate) async fn redream(config: &Config, file: &str) -> Result<u8, Failure> {
    let taken = redream::redream(config, file).await?;
    let mut text = place(&taken);
    let TakenUp { chunks, settled, passed_over, .. } = taken;
    let _ = writeln!(
        text,
        "the next night distils its {chunks} chunks anew; {settled} of them were settled, {passed_over} passed over"
    );
    print(&text).map(|()| 0)
}

/// Where an episode is read tonight: a file in its folder, or one of many in the gateway's database.
fn place(taken: &TakenUp) -> String {
    let TakenUp { name, path, came_back, .. } = taken;
    let is_file = path.file_name().is_some_and(|file| file == name.as_str());
    let place = path.parent().filter(|_| is_file).unwrap_or(path);
    format!("{name} {} {}\n", if *came_back { "came back to" } else { "is in" }, place.display())
}

/// Asks the person at the terminal. The exit code where nobody agreed, which is said; none where somebody did.
pub(crate) fn refused(question: &str) -> Option<u8> {
    let (why, code) = match agrees(question) {
        Some(true) => return None,
        Some(false) => ("nothing was changed", 1),
        None => ("nothing was changed: this is no terminal to ask on; `--yes` agrees beforehand", USAGE),
    };
    output::complain(why);
    Some(code)
}

/// What the person at the terminal says; none if there is none.
fn agrees(question: &str) -> Option<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return None;
    }
    // Nothing can be asked on a stderr that does not take it: then nobody agrees.
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).ok()?;
    Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn show(planned: &[Planned], json: bool) -> Result<(), Failure> {
    if json {
        let runs: Vec<Value> =
            planned.iter().map(|run| json!({ "of": run.of, "undone": run.undone })).collect();
        return print(&format!("{}\n", json!({ "status": "shown", "runs": runs })));
    }
    let mut text = String::new();
    if planned.len() > 1 {
        let _ = writeln!(text, "{} runs are taken back, the newest first\n", planned.len());
    }
    for run in planned {
        let at = run.finished_at.map(|at| at.format(", finished %Y-%m-%d %H:%M UTC").to_string());
        let _ = writeln!(text, "{}{}", run.undone.what, at.unwrap_or_default());
        text += &diff(&run.undone);
        text.push('\n');
    }
    print(&text)
}

/// What is taken back, a line a row: `+` comes back, `-` goes, `=` stays as it is.
fn diff(undone: &Undone) -> String {
    let wide = output::columns().saturating_sub(14).max(30);
    let mut text = String::new();
    let mut line = |sign: &str, Row { id, text: said }: &Row, more: &str| {
        let _ = writeln!(text, "  {sign} {:.8}  {}{more}", id, output::shorten(said, wide));
    };
    undone.back.iter().for_each(|row| line("+", row, ""));
    undone.gone.iter().for_each(|row| line("-", row, ""));
    for row in &undone.importance {
        let change = format!("  importance {:.2} → {:.2}", row.from, row.to);
        line("~", &Row { id: row.id.clone(), text: row.text.clone() }, &change);
    }
    for row in &undone.left {
        let why = format!("\n               {}", row.why);
        line("=", &Row { id: row.id.clone(), text: row.text.clone() }, &why);
    }
    let _ = writeln!(text, "  {}", counts(undone));
    for note in &undone.notes {
        let _ = writeln!(text, "  {note}");
    }
    text
}

fn counts(undone: &Undone) -> String {
    format!(
        "{} come back, {} go, {} get the importance they had, {} stay as they are, {} pairs are kept apart from now on",
        undone.back.len(),
        undone.gone.len(),
        undone.importance.len(),
        undone.left.len(),
        undone.kept_apart
    )
}

fn told(report: &DreamReport) -> String {
    let undone = report.undone.clone().unwrap_or_default();
    let mut text = format!("{}: {}\n", undone.what, counts(&undone));
    for warning in &report.warnings {
        let _ = writeln!(text, "  {warning}");
    }
    let log = report.dream_log.as_deref().unwrap_or("no dream log");
    let _ = writeln!(text, "  {log}; the way back: dreamer rollback {}", report.run);
    text
}

fn done(of: &RunId, report: &DreamReport) -> Value {
    json!({
        "run": report.run,
        "of": of,
        "status": report.status.as_str(),
        "undone": report.undone,
        "warnings": report.warnings,
        "memories": { "before": report.live.0, "after": report.live.1 },
        "dream_log": report.dream_log,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_of_a_transcript_is_named_as_it_was_asked_for() {
        let taken = |name: &str, path: &str, came_back| TakenUp {
            name: name.into(),
            path: path.into(),
            came_back,
            chunks: 1,
            settled: 0,
            passed_over: 0,
        };
        let name = "2026-11-30-transcript-a0f5.2.sqlite";
        let database = "/state/agents/main/agent/openclaw-agent.sqlite";
        assert_eq!(place(&taken(name, database, false)), format!("{name} is in {database}\n"));
        let file = taken("2026-11-30.md", "/ws/memory/2026-11-30.md", true);
        assert_eq!(place(&file), "2026-11-30.md came back to /ws/memory\n");
    }
}
