//! How long the days in an agent's sessions are, to tell what the hook's limit would drop: only messages are counted. What
//! was said is for others to read. Session files (`agents/<id>/sessions/*.jsonl`) and the database of current gateways
//! (`agents/<id>/agent/openclaw-agent.sqlite`); what cannot be read counts for nothing.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

/// So many of the newest session files are looked at.
const FILES: usize = 200;
/// So many of the newest events of a database are looked at.
const EVENTS: u32 = 20_000;

/// The day with the most messages in one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongDay {
    /// Messages of user and assistant that hold text.
    pub messages: u64,
    /// The day, in UTC.
    pub date: String,
}

/// The longest day of an agent's sessions below the gateway's state folder; none where no transcript is there.
pub fn longest_day(state_dir: &Path, agent: &str) -> Option<LongDay> {
    let mut days: HashMap<(String, String), u64> = HashMap::new();
    let folder = state_dir.join("agents").join(agent);
    for (session, text) in session_files(&folder.join("sessions")) {
        for date in text.lines().filter_map(date_of_message) {
            *days.entry((session.clone(), date)).or_default() += 1;
        }
    }
    for (session, event) in events(&folder.join("agent/openclaw-agent.sqlite")).unwrap_or_default() {
        if let Some(date) = date_of_message(&event) {
            *days.entry((session, date)).or_default() += 1;
        }
    }
    let longest = days.into_iter().max_by(|a, b| (a.1, &a.0.1).cmp(&(b.1, &b.0.1)))?;
    Some(LongDay { messages: longest.1, date: longest.0.1 })
}

/// The newest session files with their names.
fn session_files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    files.sort();
    let newest = files.into_iter().rev().take(FILES);
    newest
        .filter_map(|(_, path)| Some((path.display().to_string(), std::fs::read_to_string(&path).ok()?)))
        .collect()
}

/// The newest events with their sessions. `immutable`, because reading a database in use the usual way would make files
/// beside it.
fn events(path: &Path) -> Option<Vec<(String, String)>> {
    if !path.is_file() {
        return None;
    }
    let shown = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let database = Connection::open_with_flags(format!("file:{shown}?immutable=1"), flags).ok()?;
    let sql = "SELECT session_id, event_json FROM transcript_events WHERE event_json IS NOT NULL \
               ORDER BY created_at DESC LIMIT ?1";
    let mut statement = database.prepare(sql).ok()?;
    let rows = statement.query_map([EVENTS], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    Some(rows.flatten().collect())
}

/// The day of an event that is a message of user or assistant with text in it.
fn date_of_message(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event.get("type")? != "message" {
        return None;
    }
    let message = event.get("message")?;
    if !matches!(message.get("role")?.as_str()?, "user" | "assistant") {
        return None;
    }
    let has_text = match message.get("content")? {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => parts.iter().any(|part| part.get("type").is_some_and(|kind| kind == "text")),
        _ => false,
    };
    let date = event.get("timestamp")?.as_str()?.get(..10)?;
    has_text.then(|| date.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str, day: u32) -> String {
        format!(
            r#"{{"type":"message","timestamp":"2026-11-{day:02}T07:00:00.000Z","message":{{"role":"{role}","content":{content}}}}}"#
        )
    }

    #[test]
    fn the_day_with_the_most_messages_with_text_is_found_in_both_kinds_of_transcripts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(longest_day(dir.path(), "main"), None);
        let agent = dir.path().join("agents/main");
        std::fs::create_dir_all(agent.join("sessions")).unwrap();
        let lines = [
            r#"{"type":"session","timestamp":"2026-11-30T07:00:00.000Z"}"#.to_owned(),
            message("user", r#""hello""#, 30),
            message("assistant", r#"[{"type":"text","text":"hi"}]"#, 30),
            message("assistant", r#"[{"type":"toolCall","name":"x"}]"#, 30),
            message("toolResult", r#""x""#, 30),
            message("user", r#""another day""#, 29),
            "no json".to_owned(),
        ];
        std::fs::write(agent.join("sessions/a.jsonl"), lines.join("\n")).unwrap();
        let day = |messages, date: &str| Some(LongDay { messages, date: date.into() });
        assert_eq!(longest_day(dir.path(), "main"), day(2, "2026-11-30"));

        std::fs::create_dir(agent.join("agent")).unwrap();
        let path = agent.join("agent/openclaw-agent.sqlite");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch("CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER)")
            .unwrap();
        for seq in 0..3 {
            let event = message("user", r#""again""#, 28);
            database.execute("INSERT INTO transcript_events VALUES ('s', ?1, ?2, ?1)", (seq, event)).unwrap();
        }
        drop(database);
        let before = std::fs::read_dir(agent.join("agent")).unwrap().count();
        assert_eq!(longest_day(dir.path(), "main"), day(3, "2026-11-28"));
        assert_eq!(std::fs::read_dir(agent.join("agent")).unwrap().count(), before, "no file is made");
        std::fs::write(&path, "no database").unwrap();
        assert_eq!(longest_day(dir.path(), "main"), day(2, "2026-11-30"));
    }
}
