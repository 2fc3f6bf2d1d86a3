//! The summary object of `--json`, and the story of a verbose run in counts.

use serde_json::{Map, Value, json};

use super::{DreamReport, Status};
use crate::language::counted;
use crate::state::journal::Fate;

/// The one object that `--json` prints.
pub fn summary(report: &DreamReport) -> Value {
    let fate = |fate: Fate| report.fates.get(&fate).copied().unwrap_or(0);
    let fates: Map<String, Value> =
        Fate::ALL.iter().map(|f| (f.as_str().to_owned(), json!(fate(*f)))).collect();
    json!({
        "run_id": report.run,
        "status": report.status.as_str(),
        "nrem": {
            "episodes": report.episodes.len(),
            "chunks": report.chunks,
            "clusters": report.clusters,
            "created": report.created.len(),
            "reinforced": report.strengthened.len(),
            "fates": fates,
        },
        "rem": report.rem,
        "forgotten": report.forgotten,
        "dream_log": report.dream_log,
        "model_calls": report.cost.calls,
        "tokens": { "input": report.cost.input_tokens, "output": report.cost.output_tokens },
        "elapsed_ms": report.elapsed_ms,
    })
}

/// The story of the night, a line a stage.
pub fn story(report: &DreamReport) -> Vec<String> {
    let fate = |fate: Fate| report.fates.get(&fate).copied().unwrap_or(0);
    let (rem, waiting) = (&report.rem, &report.waiting);
    let mut lines = vec![
        format!(
            "episodes   {} with {} ({} held back before)",
            report.episodes.len(),
            counted(report.chunks, "chunk"),
            report.held_back_before
        ),
        format!("clusters   {}", report.clusters),
        format!(
            "NREM       {} created, {} reinforced, {} noise, {} raw only, {} held back, {} passed over",
            report.created.len(),
            report.strengthened.len(),
            fate(Fate::Noise),
            fate(Fate::RawOnly),
            fate(Fate::HeldBack),
            fate(Fate::PassedOver)
        ),
        format!(
            "REM        {}, {}: {} merged, {} consolidated, {}, {} kept both ({} vetoed)",
            counted(rem.candidates, "candidate"),
            counted(rem.conflicts, "conflict"),
            rem.merged,
            rem.consolidated,
            counted(rem.reinforced, "duplicate"),
            rem.kept_both,
            rem.vetoed
        ),
        format!(
            "fading     {} recalled, {} decayed, {} faded, {} wait",
            rem.recalled, rem.decayed, rem.faded, waiting.fading
        ),
        format!(
            "models     {} and {}: {}, {} in, {} out",
            report.cost.embedding,
            report.cost.language,
            counted(report.cost.calls as usize, "request"),
            counted(report.cost.input_tokens as usize, "token"),
            report.cost.output_tokens
        ),
        format!("memories   {} → {}", report.live.0, report.live.1),
    ];
    if waiting.rows > 0 {
        lines.push(format!("waiting    {} to be compared on later nights", counted(waiting.rows, "memory")));
    }
    if waiting.conflicts > 0 {
        let waiting = counted(waiting.conflicts, "memory");
        lines.push(format!(
            "waiting    {waiting} with pairs still to be judged, not yet counted as conflicts"
        ));
    }
    if let Some(why) = report.failure.as_ref().or(report.limit.as_ref()) {
        lines.push(format!("held back  {why}"));
    }
    match (&report.dream_log, report.status) {
        (Some(path), _) => lines.push(format!("dream log  {path}")),
        (None, Status::DryRun) => {
            lines.push(format!("dry run    nothing is changed; `dreamer apply {}` does it", report.run))
        }
        (None, _) => {}
    }
    lines
}
