//! How long the days in an agent's conversations are, to tell what the hook's limit would drop: only messages are counted.
//! What was said is for others to read; what cannot be read counts for nothing.
//!
//! Facts, measured with openclaw 2026.9.6: a session keeps its id through `/new`, a `reset` event parts its conversations, and
//! the hook writes the one that ends.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::transcript;

/// The day with the most messages in one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongDay {
    /// Messages of user and assistant that hold text.
    pub messages: u64,
    /// The day, in UTC.
    pub date: String,
}

/// The longest day of an agent's conversations below the gateway's state folder; none where no transcript is there.
pub fn longest_day(state_dir: &Path, agent: &str) -> Option<LongDay> {
    let mut days: HashMap<(String, u64, String), u64> = HashMap::new();
    let mut conversations: HashMap<String, u64> = HashMap::new();
    for (session, event) in transcript::raw(state_dir, agent) {
        let Ok(event) = serde_json::from_str::<Value>(&event) else { continue };
        let conversation = conversations.entry(session.clone()).or_default();
        if event.get("type").is_some_and(|kind| kind == "reset") {
            *conversation += 1;
        } else if let Some(date) = date_of_message(&event) {
            *days.entry((session, *conversation, date)).or_default() += 1;
        }
    }
    let longest = days.into_iter().max_by(|a, b| (a.1, &a.0.2).cmp(&(b.1, &b.0.2)))?;
    Some(LongDay { messages: longest.1, date: longest.0.2 })
}

/// The day of an event that is a message of user or assistant with text in it.
fn date_of_message(event: &Value) -> Option<String> {
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
    use rusqlite::Connection;

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

    #[test]
    fn a_reset_parts_the_conversations_of_one_session() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = dir.path().join("agents/main/sessions");
        std::fs::create_dir_all(&sessions).unwrap();
        let reset = r#"{"type":"reset","timestamp":"2026-11-30T08:00:00.000Z","reason":"new"}"#;
        let said = || message("user", r#""hello""#, 30);
        let lines = [said(), said(), reset.to_owned(), said(), said(), said(), reset.to_owned(), said()];
        std::fs::write(sessions.join("a.jsonl"), lines.join("\n")).unwrap();
        assert_eq!(longest_day(dir.path(), "main"), Some(LongDay { messages: 3, date: "2026-11-30".into() }));

        let agent = dir.path().join("agents/work/agent");
        std::fs::create_dir_all(&agent).unwrap();
        let database = Connection::open(agent.join("openclaw-agent.sqlite")).unwrap();
        database
            .execute_batch("CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER)")
            .unwrap();
        for (seq, event) in lines.iter().enumerate() {
            // In one millisecond, as a reset and its notice are.
            database
                .execute("INSERT INTO transcript_events VALUES ('s', ?1, ?2, 7)", (seq as i64, event))
                .unwrap();
        }
        drop(database);
        assert_eq!(longest_day(dir.path(), "work").map(|day| day.messages), Some(3));
    }
}
