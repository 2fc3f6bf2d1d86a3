//! The preview as text for people: what comes in, what it costs, how the table is, what waits.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Preview;
use crate::config::Config;
use crate::language::counted;

// Writing to a String cannot fail; the macro keeps that in one place.
macro_rules! line {
    ($text:expr, $name:expr, $($arg:tt)*) => {{
        let told = format!($($arg)*);
        writeln!($text, "{:<11}{told}", $name).expect("a string takes every line");
    }};
}

/// Renders a preview, a line a thing.
pub fn show(preview: &Preview, config: &Config) -> String {
    let mut text = String::new();
    if let Some(agent) = &preview.agent {
        line!(text, "agent", "{} alone", plain(agent));
    }
    taken_in(&mut text, preview);
    cost(&mut text, preview, config);
    table(&mut text, preview);
    waiting(&mut text, preview, config);
    for warning in &preview.warnings {
        line!(text, "note", "{}", plain(warning));
    }
    text
}

fn taken_in(text: &mut String, preview: &Preview) {
    let material = &preview.material;
    let later = match material.days_waiting {
        0 => String::new(),
        days => format!("; {days} more days wait for later nights"),
    };
    line!(text, "episodes", "{} of {}{later}", material.episodes, counted(material.days, "day"));
    line!(
        text,
        "chunks",
        "{} new, {} held back before; {} of them say something",
        material.chunks_new,
        material.chunks_held_back,
        material.chunks_evidence
    );
    let later = match material.rows_waiting {
        0 => String::new(),
        rows => format!(", {rows} on later nights"),
    };
    line!(text, "compared", "{} memories not yet reconciled{later}", material.rows_tonight);
}

fn cost(text: &mut String, preview: &Preview, config: &Config) {
    let cost = &preview.cost;
    line!(
        text,
        "embedding",
        "at most {} requests, {} tokens ({})",
        cost.embedding_calls,
        cost.embedding_tokens,
        config.embedding_model()
    );
    line!(
        text,
        "language",
        "{} requests if every reply can be used, at most {} and {} tokens, replies included",
        cost.chat_calls_usual,
        cost.chat_calls,
        cost.chat_tokens
    );
    let tokens = config.max_tokens.map_or("no limit".to_owned(), |most| most.to_string());
    line!(
        text,
        "in all",
        "at most {} requests (DREAMER_MAX_CALLS {}) and {} tokens (DREAMER_MAX_TOKENS {tokens})",
        cost.calls,
        config.max_calls,
        cost.tokens
    );
    if !cost.limits.is_empty() {
        line!(text, "", "{} may hold something back for the night after", cost.limits.join(" and "));
    }
}

fn table(text: &mut String, preview: &Preview) {
    let table = &preview.table;
    line!(text, "memories", "{}", counts(table.rows, &table.agents));
    line!(text, "categories", "{}", listed(&table.categories));
    line!(text, "tiers", "{}", listed(&table.tiers));
    if let Some(ages) = table.ages {
        line!(text, "written", "{} to {}, half of them before {}", ages.oldest, ages.newest, ages.median);
    }
    let vectors = table.vectors;
    let other = match vectors.model_length {
        Some(length) if length != vectors.length => {
            format!("; the configured model's have {length}: a night will stop")
        }
        _ => String::new(),
    };
    line!(text, "vectors", "{} numbers{other}", vectors.length);
    let seen = table.rows - table.never_traced;
    line!(text, "seen", "{seen} of {} by an earlier night", table.rows);
    for (count, what) in [
        (table.duplicates, "memories say exactly what another one says"),
        (table.without_agent, "rows have no agentId: the gateway never recalls them"),
        (table.unreadable, "rows have no id or no text"),
        (vectors.missing, "memories have no vector: the gateway cannot find them"),
        (vectors.not_unit, "vectors are not of length 1: the gateway scores them wrongly"),
        (vectors.unusable, "of these point nowhere"),
    ] {
        if count > 0 {
            line!(text, "attention", "{count} {what}");
        }
    }
    line!(text, "archive", "{}", counts(table.archive.rows, &table.archive.reasons));
    let fading = &table.fading;
    line!(
        text,
        "fading",
        "{} now, {} after 7 more active days, {} after 30, if nothing recalls them (the loss budget comes on top)",
        fading.now,
        fading.in_7_days,
        fading.in_30_days
    );
    if !fading.not_in_force.is_empty() {
        line!(text, "", "memories of {} do not fade yet", plain(&fading.not_in_force.join(", ")));
    }
}

fn waiting(text: &mut String, preview: &Preview, config: &Config) {
    let waiting = &preview.waiting;
    line!(
        text,
        "questions",
        "{} open, {} to come, {} decided and carried out by the next run",
        waiting.questions,
        waiting.questions_to_come,
        waiting.decisions
    );
    line!(text, "retry", "{} chunks and pairs whose reply could not be read", waiting.retry);
    match &preview.last_run {
        None => line!(text, "last run", "none has finished yet"),
        Some(last) => {
            let at = last.finished_at.with_timezone(&config.timezone);
            let status = last.status.as_deref().unwrap_or("finished");
            let why = last.held_back.as_ref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
            line!(text, "last run", "{} {}, {status}{why}", last.run, at.format("%Y-%m-%d %H:%M"));
        }
    }
    for run in &preview.unfinished {
        line!(text, "unfinished", "{run} was interrupted; the next run goes on with it first");
    }
    line!(text, "next", "{}", preview.next_window);
}

fn counts<K: AsRef<str>>(all: usize, parts: &BTreeMap<K, usize>) -> String {
    match parts.len() {
        0 => all.to_string(),
        _ => format!("{all}: {}", listed(parts)),
    }
}

fn listed<K: AsRef<str>>(parts: &BTreeMap<K, usize>) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(name, count)| format!("{} {count}", plain(name.as_ref()))).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// Somebody's names and texts on a terminal: without control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
