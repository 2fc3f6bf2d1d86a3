//! `dreamer memories list` and `show`: looking into the memories, live and archived.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use chrono::{DateTime, NaiveDate, Utc};
use dreamer::config::Config;
use dreamer::language::counted;
use dreamer::memory::{Archived, Memory, RawMemory, Similarity, Trace};
use dreamer::state::recalls::RecallBook;
use dreamer::store::{Store, StoreError};
use dreamer::why::raw_of;
use serde_json::{Map, Value, json};

use crate::args::Look;
use crate::failure::{Failure, print};
use crate::output;
use crate::search::search;

/// Recalls that are shown one by one.
const RECALLS_SHOWN: usize = 10;

/// What people are told about how much a memory matters.
pub(crate) fn tier(importance: f64) -> &'static str {
    match importance {
        i if i >= 0.8 => "core",
        i if i >= 0.4 => "active",
        _ => "fading",
    }
}

/// Lists, shows or searches.
pub(crate) async fn look(config: &Config, look: &Look) -> Result<u8, Failure> {
    let store = Store::open(&config.lancedb_uri).await?;
    match look {
        Look::List { archived: false, json: false } => list(config, &store).await,
        Look::List { archived: false, json: true } => {
            let memories = by_importance(store.rows(&config.agent).await?.memories);
            let mut rows = rows_by_id(&store, None).await?;
            let traces = store.traces().await?.traces;
            let pinned = |id: &String| traces.get(id).is_some_and(|trace| trace.pinned);
            let rows = memories.iter().filter_map(|memory| {
                let mut row = with_tier(rows.remove(&memory.id)?, memory);
                row["pinned"] = json!(pinned(&memory.id));
                Some(row)
            });
            print_lines(rows)
        }
        Look::List { archived: true, json } => list_archived(config, &store, *json).await,
        Look::Show { id, detail, json } => show(config, &store, id, *detail, *json).await,
        Look::Search { text, limit, json } => search(config, &store, text, *limit, *json).await,
    }
}

async fn list(config: &Config, store: &Store) -> Result<u8, Failure> {
    let rows = store.rows(&config.agent).await?;
    for (count, what) in
        [(rows.ownerless, "no agent (agentId is empty)"), (rows.unreadable, "no id or no text")]
    {
        if count > 0 {
            tracing::warn!("{} with {what}: not shown", counted(count, "row"));
        }
    }
    let memories = by_importance(rows.memories);
    let dates = Dates::read(config, store).await?;
    let standing: Vec<String> = memories.iter().map(|memory| dates.standing(memory)).collect();
    let rows = memories.iter().zip(&standing).map(|(memory, standing)| (memory, standing.as_str())).collect();
    print(&listing(rows, &dates, &[]))?;
    Ok(0)
}

async fn list_archived(config: &Config, store: &Store, json: bool) -> Result<u8, Failure> {
    let mut archived = store.archived_all(&config.agent).await?;
    archived.sort_by(|a, b| b.archived_at.cmp(&a.archived_at).then_with(|| a.memory.id.cmp(&b.memory.id)));
    if json {
        return print_lines(archived.iter().map(archived_json));
    }
    let dates = Dates::read(config, store).await?;
    let rows = archived.iter().map(|a| (&a.memory, a.reason.as_str())).collect();
    print(&listing(rows, &dates, &[]))?;
    Ok(0)
}

fn by_importance(mut memories: Vec<Memory>) -> Vec<Memory> {
    memories.sort_by(|a, b| {
        b.importance
            .total_cmp(&a.importance)
            .then(b.created_at.cmp(&a.created_at))
            .then_with(|| a.id.cmp(&b.id))
    });
    memories
}

/// When memories were said, as far as it is known, else when they were written.
pub(crate) struct Dates<'a> {
    config: &'a Config,
    traces: HashMap<String, Trace>,
    recalls: RecallBook,
}

impl<'a> Dates<'a> {
    pub(crate) async fn read(config: &'a Config, store: &Store) -> Result<Self, Failure> {
        let traces = store.traces().await?;
        if !traces.unreadable.is_empty() {
            tracing::warn!("{} cannot be read", counted(traces.unreadable.len(), "trace"));
        }
        let recalls = RecallBook::read(&config.state_dir())?;
        Ok(Self { config, traces: traces.traces, recalls })
    }

    /// How a live memory stands: its tier, and whether it is pinned.
    fn standing(&self, memory: &Memory) -> String {
        let is_pinned = self.traces.get(&memory.id).is_some_and(|trace| trace.pinned);
        let pinned = if is_pinned { ", pinned" } else { "" };
        format!("{}{pinned}", tier(memory.importance))
    }

    fn of(&self, memory: &Memory) -> String {
        let said_at = self.traces.get(&memory.id).and_then(|trace| trace.said_at);
        said_at
            .map_or_else(|| self.day(memory.created_at), |at| self.local(at).format("%Y-%m-%d").to_string())
    }

    fn day(&self, millis: i64) -> String {
        DateTime::from_timestamp_millis(millis)
            .map_or_else(|| "-".to_string(), |at| self.local(at).format("%Y-%m-%d").to_string())
    }

    fn local(&self, at: DateTime<Utc>) -> DateTime<chrono_tz::Tz> {
        at.with_timezone(&self.config.timezone)
    }
}

/// Memories as a table for people, each with a word for its standing; `similar` stands first where it is given.
pub(crate) fn listing(rows: Vec<(&Memory, &str)>, dates: &Dates<'_>, similar: &[Similarity]) -> String {
    if rows.is_empty() {
        return "no memories\n".to_string();
    }
    let has_agents =
        rows.iter().map(|(memory, _)| &memory.partition.agent).collect::<BTreeSet<_>>().len() > 1;
    let cells = rows.iter().enumerate().map(|(index, (memory, standing))| {
        let mut cells: Vec<String> = similar.get(index).map(Similarity::to_string).into_iter().collect();
        cells.extend([
            short_id(&memory.id).to_string(),
            (*standing).to_string(),
            format!("{:.2}", memory.importance),
            memory.category.as_str().to_string(),
            dates.of(memory),
        ]);
        if has_agents {
            cells.push(output::shorten(&memory.partition.agent, 16));
        }
        (cells, memory)
    });
    let columns = output::columns();
    let rows: Vec<Vec<String>> = cells
        .map(|(mut cells, memory)| {
            let used: usize = cells.iter().map(|cell| output::width(cell) + 2).sum();
            cells.push(output::shorten(&memory.text, columns.saturating_sub(used).max(30)));
            cells
        })
        .collect();
    output::table(&rows)
}

/// The first eight characters of an id: enough for people, and `show` and `restore` take it.
pub(crate) fn short_id(id: &str) -> &str {
    id.char_indices().nth(8).map_or(id, |(end, _)| &id[..end])
}

pub(crate) async fn rows_by_id(
    store: &Store,
    ids: Option<&[String]>,
) -> Result<HashMap<String, Map<String, Value>>, StoreError> {
    let rows = store.row_json(ids, false).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.get("id")?.as_str()?.to_string(), row))).collect())
}

pub(crate) fn with_tier(mut row: Map<String, Value>, memory: &Memory) -> Value {
    row.insert("tier".into(), json!(tier(memory.importance)));
    Value::Object(row)
}

fn archived_json(archived: &Archived) -> Value {
    let memory = &archived.memory;
    json!({
        "id": memory.id, "text": memory.text, "importance": memory.importance, "category": memory.category,
        "createdAt": memory.created_at, "agentId": memory.partition.agent, "scope": memory.partition.scope,
        "tier": "archived", "reason": archived.reason, "successor": archived.successor, "run": archived.run,
        "archivedAt": archived.archived_at,
    })
}

pub(crate) fn print_lines(rows: impl Iterator<Item = Value>) -> Result<u8, Failure> {
    print(&rows.fold(String::new(), |mut lines, row| {
        let _ = writeln!(lines, "{row}");
        lines
    }))?;
    Ok(0)
}

/// A memory that is live or in the archive.
enum Found {
    Live(Memory),
    Archived(Archived),
}

impl Found {
    fn memory(&self) -> &Memory {
        match self {
            Self::Live(memory) => memory,
            Self::Archived(archived) => &archived.memory,
        }
    }
}

/// The one memory whose id is `id` or begins so. One that is live counts before its copy in the archive.
async fn find(config: &Config, store: &Store, id: &str) -> Result<Found, Failure> {
    let wanted = id.trim().to_ascii_lowercase();
    let live = store.rows(&config.agent).await?.memories;
    let live_ids: BTreeSet<String> = live.iter().map(|memory| memory.id.clone()).collect();
    let archived = store.archived_all(&config.agent).await?;
    let all: Vec<Found> = live
        .into_iter()
        .map(Found::Live)
        .chain(archived.into_iter().filter(|a| !live_ids.contains(&a.memory.id)).map(Found::Archived))
        .filter(|found| !wanted.is_empty() && found.memory().id.to_ascii_lowercase().starts_with(&wanted))
        .collect();
    let exact = all.iter().position(|found| found.memory().id.eq_ignore_ascii_case(&wanted));
    let count = all.len();
    match (exact, count) {
        (Some(index), _) => Ok(all.into_iter().nth(index)),
        (None, 0 | 1) => Ok(all.into_iter().next()),
        _ => Err(Failure::Memory(format!(
            "{count} memories have ids that begin with {wanted}; give more of it"
        ))),
    }?
    .ok_or_else(|| {
        Failure::Memory(format!("no memory, live or archived, has an id that begins with {wanted:?}"))
    })
}

async fn show(config: &Config, store: &Store, id: &str, detail: bool, json: bool) -> Result<u8, Failure> {
    let found = find(config, store, id).await?;
    let dates = Dates::read(config, store).await?;
    let trace = dates.traces.get(&found.memory().id);
    let raw = match detail {
        true => Some(raw_of(store, &found.memory().id, trace).await?),
        false => None,
    };
    if json {
        let mut row = match &found {
            Found::Live(memory) => {
                let mut rows = rows_by_id(store, Some(std::slice::from_ref(&memory.id))).await?;
                with_tier(rows.remove(&memory.id).unwrap_or_default(), memory)
            }
            Found::Archived(archived) => archived_json(archived),
        };
        row["trace"] = json!(trace);
        row["recalls"] = recalls_of(trace, &found.memory().id, &dates)
            .into_iter()
            .map(|(day, way, place)| json!({"day": day, "way": way, "place": place}))
            .collect();
        if let Some(raw) = &raw {
            row["raw"] = raw.iter().map(raw_json).collect();
        }
        return print_lines(std::iter::once(row));
    }
    let mut text = portrait(&found, trace, &dates);
    if let Some(raw) = &raw {
        text.push_str(&chunks(raw, &dates));
    }
    print(&text)?;
    Ok(0)
}

/// All that is known of a memory, for people.
fn portrait(found: &Found, trace: Option<&Trace>, dates: &Dates<'_>) -> String {
    let memory = found.memory();
    let mut rows: Vec<(&str, String)> = vec![("id", memory.id.clone())];
    match found {
        Found::Live(memory) => rows.push(("tier", tier(memory.importance).to_string())),
        Found::Archived(archived) => {
            let on = dates.day(archived.archived_at);
            rows.push((
                "tier",
                format!("archived ({} on {on}, run {})", archived.reason.as_str(), archived.run),
            ));
            rows.extend(archived.successor.iter().map(|id| ("successor", id.clone())));
            rows.push(("way back", format!("dreamer restore {}", memory.id)));
        }
    }
    let base =
        trace.map(|trace| format!(" (base {:.2} since {})", trace.base, trace.clock)).unwrap_or_default();
    rows.push(("importance", format!("{:.2}{base}", memory.importance)));
    rows.push(("category", memory.category.as_str().to_string()));
    rows.push(("agent", memory.partition.agent.clone()));
    rows.extend(memory.partition.scope.iter().map(|scope| ("scope", scope.clone())));
    rows.push(("created", dates.day(memory.created_at)));
    if let Some(trace) = trace {
        rows.extend(known_of(trace, dates));
    }
    let mut text = rows.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<12}{}", printable(value));
        text
    });
    let _ = writeln!(text, "\n{}", printable(&memory.text));
    text
}

fn raw_json(raw: &RawMemory) -> Value {
    let source = &raw.source;
    json!({
        "episode": source.episode, "lines": source.lines, "speaker": source.speaker, "said_at": source.said_at,
        "text": raw.text,
    })
}

/// The raw chunks, in full, each under the place where it was said.
fn chunks(raw: &[RawMemory], dates: &Dates<'_>) -> String {
    if raw.is_empty() {
        return "\nno raw chunk of it is kept\n".to_string();
    }
    raw.iter().fold(String::new(), |mut text, raw| {
        let source = &raw.source;
        let said_at = dates.local(source.said_at).format("%Y-%m-%d %H:%M");
        let _ = writeln!(
            text,
            "\n{} ({}, {said_at})",
            output::place(&source.episode, source.lines),
            source.speaker
        );
        for line in raw.text.lines() {
            let _ = writeln!(text, "  {}", printable(line));
        }
        text
    })
}

/// The recalls that count: day, how, and where that was read. Of days before the book was kept only the day is known.
fn recalls_of(
    trace: Option<&Trace>,
    id: &str,
    dates: &Dates<'_>,
) -> Vec<(NaiveDate, &'static str, Option<String>)> {
    let Some(trace) = trace else { return vec![] };
    let of_day = |day: &NaiveDate| {
        let known: Vec<_> = dates.recalls.of(id).filter(|(on, ..)| on == day).collect();
        match known.is_empty() {
            true => vec![(*day, "recalled", None)],
            false => known
                .into_iter()
                .map(|(day, way, place)| (day, way.as_str(), Some(place.to_owned())))
                .collect(),
        }
    };
    trace.recalled.iter().flat_map(of_day).collect()
}

fn known_of(trace: &Trace, dates: &Dates<'_>) -> Vec<(&'static str, String)> {
    let days = |days: &BTreeSet<NaiveDate>| {
        let last = days.last().map(|day| format!(", last on {day}")).unwrap_or_default();
        format!("on {} {}{last}", days.len(), if days.len() == 1 { "day" } else { "days" })
    };
    let mut rows = Vec::new();
    if let Some(at) = trace.said_at {
        rows.push(("said at", dates.local(at).format("%Y-%m-%d %H:%M").to_string()));
    }
    rows.extend(trace.about.map(|day| ("about", day.to_string())));
    for source in &trace.sources {
        let place = output::place(&source.episode, source.lines);
        rows.push(("source", format!("{place} ({})", source.speaker)));
    }
    rows.extend(trace.merged_from.iter().map(|id| ("merged from", id.clone())));
    if !trace.recalled.is_empty() {
        rows.push(("recalled", days(&trace.recalled)));
        let recalls = recalls_of(Some(trace), &trace.id, dates);
        let earlier = recalls.len().saturating_sub(RECALLS_SHOWN);
        for (day, way, place) in recalls.into_iter().skip(earlier) {
            let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
            rows.push(("", format!("{day} {way}{place}")));
        }
        if earlier > 0 {
            rows.push(("", format!("and {}", counted(earlier, "earlier recall"))));
        }
    }
    if !trace.reinforced.is_empty() {
        rows.push(("said again", days(&trace.reinforced)));
    }
    for (name, words) in [("entities", &trace.entities), ("tags", &trace.tags)] {
        if !words.is_empty() {
            rows.push((name, words.join(", ")));
        }
    }
    if trace.pinned {
        rows.push(("pinned", "yes".to_string()));
    }
    rows
}

/// Without control characters, which a terminal would obey; line breaks stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}
