//! The dream log: what the operator reads at breakfast. Markdown, most important first, every number adds up.

use std::fmt::Write;

use chrono::{DateTime, TimeZone};

use super::confirm::to_confirm;
use super::{Created, DreamReport, Faded, Group, Joined, Kept, Shown, Status, Strengthened};
use crate::language::counted;
use crate::state::journal::Fate;

// Writing to a String cannot fail; the macro keeps that in one place.
macro_rules! line {
    ($log:expr, $($arg:tt)*) => { writeln!($log, $($arg)*).expect("a string takes every line") };
}

pub(super) use line;

/// Renders the log. `started` is the start in the operator's time zone.
pub fn dream_log<Tz: TimeZone>(report: &DreamReport, started: &DateTime<Tz>) -> String
where
    Tz::Offset: std::fmt::Display,
{
    let mut log = format!("# Dream log {}\n\n", started.format("%Y-%m-%d %H:%M"));
    if let Some(undone) = &report.undone {
        super::undone::log(&mut log, undone, report, &started.format("%Y-%m-%d %H:%M:%S %Z").to_string());
        return log;
    }
    if to_confirm(&mut log, report) {
        line!(log, "## The night\n");
    }
    opening(&mut log, report);
    super::agents::agents(&mut log, report);
    carried_out(&mut log, report);
    let several = report.agents.len() > 1;
    created(&mut log, &report.created, several);
    strengthened(&mut log, &report.strengthened, several);
    joined(&mut log, &report.joined);
    kept(&mut log, &report.kept);
    faded(&mut log, report);
    left_over(&mut log, report);
    fates(&mut log, report);
    notes(&mut log, report);
    cost(&mut log, report, started);
    log
}

fn opening(log: &mut String, report: &DreamReport) {
    let words = match report.status {
        Status::Failed => "**Something failed; what was settled is saved, the rest waits.**",
        Status::NothingNew => "A quiet night: there was nothing new, and nothing changed.",
        Status::DryRun => "A dry run: this is what the night would do. Nothing is changed.",
        Status::Done | Status::NotDue => "The night is done.",
    };
    line!(log, "{words}");
    for why in report.failure.iter().chain(&report.limit) {
        line!(log, "\n> {}", one_line(why));
    }
    let (before, after) = report.live;
    let change = i64::try_from(after).unwrap_or(0) - i64::try_from(before).unwrap_or(0);
    line!(log, "\n| | |\n|---|---|");
    line!(log, "| memories | {before} → {after} ({change:+}) |");
    line!(
        log,
        "| read | {} of {} |",
        counted(report.chunks, "chunk"),
        counted(report.episodes.len(), "episode")
    );
    let rem = &report.rem;
    let rows = [
        ("new", report.created.len(), String::new()),
        ("said again", report.strengthened.len(), String::new()),
        ("merged with their history", rem.merged, String::new()),
        ("consolidated", rem.consolidated, String::new()),
        ("duplicates settled", rem.reinforced, String::new()),
        ("pairs kept, both", rem.kept_both, format!(", {} of them by veto", rem.vetoed)),
        ("recalled", rem.recalled, String::new()),
        ("decayed", rem.decayed, String::new()),
        ("faded", rem.faded, String::new()),
        ("forgotten on purpose", report.forgotten.vanished, ": gone from the table".to_owned()),
        ("forgotten on purpose", report.forgotten.told, ": by memory_forget, and still there".to_owned()),
        ("not learned again", report.forgotten.skipped, ": forgotten on purpose".to_owned()),
        ("questions to you", report.questions.len(), String::new()),
    ];
    for (what, count, more) in rows.iter().filter(|(_, count, _)| *count > 0) {
        line!(log, "| {what} | {count}{more} |");
    }
    if report.cost.language == crate::providers::extractive::NAME {
        line!(
            log,
            "\nNo language model was used: memories are sentences of the episodes, chosen by rules (extractive)."
        );
    }
}

fn carried_out(log: &mut String, report: &DreamReport) {
    if report.carried_out.is_empty() {
        return;
    }
    line!(log, "\n## What you decided\n");
    for told in &report.carried_out {
        line!(log, "- {}", one_line(told));
    }
}

fn created(log: &mut String, created: &[Created], several: bool) {
    if created.is_empty() {
        return;
    }
    line!(log, "\n## New\n");
    for new in created {
        let memory = &new.memory;
        line!(log, "- {}", one_line(&memory.text));
        let worded =
            if new.worded_by == "verbatim" { ", verbatim: the model's wording failed the check" } else { "" };
        line!(
            log,
            "  <br>`{}`{} {} · importance {:.2}{worded} · from {}",
            short(memory),
            of_agent(memory, several),
            memory.category,
            memory.importance,
            sources(&memory.sources)
        );
    }
}

fn strengthened(log: &mut String, strengthened: &[Strengthened], several: bool) {
    if strengthened.is_empty() {
        return;
    }
    line!(log, "\n## Said again\n");
    for again in strengthened {
        let back = if again.revived { " **came back from the archive**" } else { "" };
        line!(log, "- {}{back}", one_line(&again.memory.text));
        line!(
            log,
            "  <br>`{}`{} by “{}” · similarity {:.2} · from {}",
            short(&again.memory),
            of_agent(&again.memory, several),
            one_line(&again.said),
            again.similarity,
            sources(&again.sources)
        );
    }
}

/// Whose memory it is, where the home has several agents.
fn of_agent(memory: &Shown, several: bool) -> String {
    if several { format!(" of {},", one_line(&memory.agent)) } else { String::new() }
}

fn joined(log: &mut String, joined: &[Joined]) {
    let (duplicates, merges): (Vec<&Joined>, Vec<&Joined>) =
        joined.iter().partition(|j| j.relation == "duplicate");
    if !merges.is_empty() {
        line!(log, "\n## Merged and consolidated\n");
    }
    for join in merges {
        for after in &join.after {
            line!(log, "- **{}**", one_line(&after.text));
            line!(
                log,
                "  <br>`{}` {} · similarity {:.2} · {}",
                short(after),
                join.relation,
                join.similarity,
                one_line(&join.reason)
            );
        }
        for before in &join.before {
            let from = if before.sources.is_empty() {
                String::new()
            } else {
                format!(" · from {}", sources(&before.sources))
            };
            line!(
                log,
                "  - before: {} (`{}`, {}{from})",
                one_line(&before.text),
                short(before),
                before.said_on
            );
        }
        let ids = join.before.iter().map(|before| format!("`dreamer restore {}`", before.id));
        line!(log, "  - the way back: {}", ids.collect::<Vec<_>>().join(", "));
    }
    if duplicates.is_empty() {
        return;
    }
    line!(log, "\n## Duplicates\n");
    for join in duplicates {
        let (before, after) = (join.before.first(), join.after.first());
        let text = |shown: Option<&Shown>| shown.map(|s| one_line(&s.text)).unwrap_or_default();
        line!(log, "- {} (stays)", text(after));
        line!(
            log,
            "  - left: {} · similarity {:.2} · {}",
            text(before),
            join.similarity,
            one_line(&join.reason)
        );
        line!(
            log,
            "  - the way back: `dreamer restore {}`",
            before.map(|b| b.id.as_str()).unwrap_or_default()
        );
    }
}

fn kept(log: &mut String, kept: &[Kept]) {
    if kept.is_empty() {
        return;
    }
    line!(log, "\n## Kept both, against the judge\n");
    for pair in kept {
        line!(log, "- {} / {}", one_line(&pair.new), one_line(&pair.old));
        line!(
            log,
            "  - similarity {:.2} · {} · **{}**",
            pair.similarity,
            one_line(&pair.reason),
            one_line(pair.veto.as_deref().unwrap_or(""))
        );
    }
}

fn faded(log: &mut String, report: &DreamReport) {
    if report.faded.is_empty() && report.waiting.fading == 0 {
        return;
    }
    line!(log, "\n## Faded\n");
    for Faded { memory, importance } in &report.faded {
        line!(log, "- {} (importance {importance:.2})", one_line(&memory.text));
        line!(log, "  - the way back: `dreamer restore {}`", memory.id);
    }
    if report.waiting.fading > 0 {
        line!(
            log,
            "\n{} more below the threshold: waiting, since the loss budget of tonight or of the last 30 days is used up.",
            report.waiting.fading
        );
    }
}

fn left_over(log: &mut String, report: &DreamReport) {
    let waiting = &report.waiting;
    let groups = report
        .groups
        .iter()
        .filter(|g| matches!(g.fate, Fate::HeldBack | Fate::PassedOver | Fate::PendingReview));
    let groups: Vec<_> = groups.collect();
    let later = waiting.rows + waiting.merging + waiting.days + waiting.unreadable + waiting.conflicts;
    if groups.is_empty() && later == 0 && report.retrying.is_empty() {
        return;
    }
    line!(log, "\n## Waiting\n");
    for group in groups {
        let what = match group.fate {
            Fate::HeldBack => "held back until the next night",
            Fate::PassedOver => "passed over, kept as raw text",
            _ => "a person is asked",
        };
        line!(log, "- {} {what}: {}", counted(group.count, "chunk"), one_line(&group.why));
        line!(log, "  <br>{}", places(group));
    }
    for (count, noun, what) in [
        (waiting.days, "day", "of episodes: waiting, since MAX_EPISODES_PER_RUN is reached"),
        (waiting.rows, "memory", "seen for the first time or changed: compared on later nights"),
        (
            waiting.conflicts,
            "memory",
            "with pairs still to be judged, so not yet counted as conflicts: on a later night",
        ),
        (
            waiting.unreadable,
            "reply",
            "of the judge could not be read: both memories are kept, the pair stays open",
        ),
        (waiting.merging, "memory", "could not leave by merging: the loss budget of the night is used up"),
    ] {
        if count > 0 {
            line!(log, "- {} {what}", counted(count, noun));
        }
    }
    if !report.retrying.is_empty() {
        line!(log, "\nIn the retry queue, because a model's reply could not be read:\n");
        report.retrying.iter().for_each(|entry| line!(log, "- {}", one_line(entry)));
    }
}

fn fates(log: &mut String, report: &DreamReport) {
    if report.chunks == 0 {
        return;
    }
    line!(log, "\n## What became of the {}\n", counted(report.chunks, "chunk"));
    line!(log, "| fate | chunks |\n|---|---|");
    for (fate, count) in &report.fates {
        line!(log, "| {} | {count} |", fate.as_str().replace('_', " "));
    }
    line!(log, "| **all** | **{}** |", report.fates.values().sum::<usize>());
    let quiet =
        report.groups.iter().filter(|g| matches!(g.fate, Fate::Noise | Fate::RawOnly | Fate::Excluded));
    for group in quiet {
        let fate = group.fate.as_str().replace('_', " ");
        line!(log, "\n{} {fate}: {}", group.count, one_line(&group.why));
        // Not of noise: most of a day is, and nobody looks for it.
        if group.fate != Fate::Noise {
            line!(log, "<br>{}", places(group));
        }
    }
    if !report.archived_episodes.is_empty() {
        line!(
            log,
            "\n{} moved to the archive: {}",
            counted(report.archived_episodes.len(), "episode"),
            report.archived_episodes.join(", ")
        );
    }
}

fn notes(log: &mut String, report: &DreamReport) {
    if report.first_seen == 0
        && report.settled_by_rules == 0
        && report.warnings.is_empty()
        && report.fading.is_empty()
    {
        return;
    }
    line!(log, "\n## Notes\n");
    if report.first_seen > 0 {
        line!(
            log,
            "- {} seen for the first time: the clock of forgetting starts tonight",
            counted(report.first_seen, "memory")
        );
    }
    if report.settled_by_rules > 0 {
        line!(
            log,
            "- {} of memories settled by rules, without a model",
            counted(report.settled_by_rules, "pair")
        );
    }
    for (agent, why) in &report.fading {
        line!(log, "- memories of `{agent}` do not fade: {why}");
    }
    for warning in &report.warnings {
        line!(log, "- {}", one_line(warning));
    }
}

fn cost<Tz: TimeZone>(log: &mut String, report: &DreamReport, started: &DateTime<Tz>)
where
    Tz::Offset: std::fmt::Display,
{
    let cost = &report.cost;
    line!(log, "\n---\n");
    line!(
        log,
        "Run `{}` · {} · {} · embeddings: {} · language: {} · {}, {} in, {} out · {:.1} s",
        report.run,
        report.mode,
        started.format("%Y-%m-%d %H:%M:%S %Z"),
        cost.embedding,
        cost.language,
        counted(cost.calls as usize, "model request"),
        counted(cost.input_tokens as usize, "token"),
        cost.output_tokens,
        report.elapsed_ms as f64 / 1000.0
    );
}

/// Where the chunks of a group are, at most a few of them.
fn places(group: &Group) -> String {
    let more = if group.count > group.places.len() { ", …" } else { "" };
    format!("{}{more}", group.places.join(", "))
}

pub(super) fn short(memory: &Shown) -> &str {
    memory.id.get(..8).unwrap_or(&memory.id)
}

fn sources(sources: &[String]) -> String {
    const FEW: usize = 4;
    let more = if sources.len() > FEW { format!(" and {} more", sources.len() - FEW) } else { String::new() };
    format!("{}{more}", sources.iter().take(FEW).cloned().collect::<Vec<_>>().join(", "))
}

/// Text of a memory or an episode in a list item: on one line, and without anything that would load a page, start
/// code, open HTML or look like a box to tick or its marker. Other markup stays, since people also read the log as plain
/// text.
pub(super) fn one_line(text: &str) -> String {
    // Some control characters end a line for an editor, and are no white space for us.
    let visible = text.replace(|c: char| c.is_control(), " ");
    let joined = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let escaped = joined.replace('\\', "\\\\").replace('<', "\\<").replace('`', "\\`").replace("](", "]\\(");
    match escaped.as_bytes() {
        [b'[' | b'-' | b'*' | b'+', ..] => format!("\\{escaped}"),
        _ => escaped,
    }
}
