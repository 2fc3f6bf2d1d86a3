//! Episodes of transcripts: what was said in one conversation on one day. They are read, never moved, never written to.
//! Their names cannot be those of files in the episodes folder, which end in `.md`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::{DateTime, NaiveDate, Utc};
use regex::Regex;
use sha2::{Digest, Sha256};

use super::line::{Answer, Event, Line, Said};
use super::{Standing, Transcript, plain, tree};
use crate::episode::{Content, Episode, Message, Reading, Speaker};
use crate::openclaw::session::{self, Told};

/// The day in the name of a transcript's episode; none for any other name.
pub(crate) fn date_in(name: &str) -> Option<NaiveDate> {
    parts_of(name).map(|(date, _)| date)
}

/// The session in the name of a transcript's episode, as [`plain`] writes it.
pub(crate) fn session_in(name: &str) -> Option<&str> {
    parts_of(name).map(|(_, session)| session)
}

fn parts_of(name: &str) -> Option<(NaiveDate, &str)> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(\d{4}-\d{2}-\d{2})-transcript-([A-Za-z0-9_-]+)(?:\.\d+)?\.(?:jsonl|sqlite)$")
            .expect("the pattern is fixed")
    });
    let found = NAME.captures(name)?;
    let date = NaiveDate::parse_from_str(&found[1], "%Y-%m-%d").ok()?;
    Some((date, found.get(2)?.as_str()))
}

/// One conversation of a session: what was said between two resets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conversation {
    /// What was said, in order.
    pub messages: Vec<Message>,
    /// What a memory tool had given the agent, before each message.
    pub given: Vec<Vec<String>>,
    /// When it ended, as far as known; else when the last thing was said.
    pub ended: Option<DateTime<Utc>>,
}

/// The conversations on a session's current branch; none where nobody took part.
pub(crate) fn conversations(transcript: &Transcript, reading: &Reading) -> Vec<Conversation> {
    if transcript.standing != Standing::Conversation {
        return Vec::new();
    }
    let lines: Vec<&Line> =
        tree::current(&transcript.lines).into_iter().map(|place| &transcript.lines[place]).collect();
    let mut conversations = Vec::new();
    let parts: Vec<&[&Line]> = lines.split(|line| line.event == Event::Reset).collect();
    let resets: Vec<Option<DateTime<Utc>>> =
        lines.iter().filter(|line| line.event == Event::Reset).map(|line| line.at).collect();
    for (place, part) in parts.iter().enumerate() {
        let last = place + 1 == parts.len();
        let ended = if last { transcript.ended } else { resets[place] };
        let ended = ended.or_else(|| part.iter().rev().find_map(|line| line.at));
        let (messages, given) = messages(part, transcript.key.as_deref(), reading);
        conversations.push(Conversation { messages, given, ended });
    }
    conversations
}

/// The messages of a conversation, out of their envelopes, and before each what a memory tool had given the agent.
fn messages(lines: &[&Line], key: Option<&str>, reading: &Reading) -> (Vec<Message>, Vec<Vec<String>>) {
    let (mut told, mut given): (Vec<Told>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    let mut recalled: Vec<String> = Vec::new();
    for line in lines {
        match &line.event {
            Event::Answered(Answer::Recalled(memories)) => {
                recalled
                    .extend(memories.iter().map(|(_, text)| text.clone()).filter(|text| !text.is_empty()));
            }
            Event::Said(said) if !is_copy(said, told.last()) => {
                let Said { user, text, sender, is_owner, nobody, .. } = said.clone();
                told.push(Told { user, text, sender, is_owner, nobody, at: line.at, line: line.number });
                given.push(std::mem::take(&mut recalled));
            }
            _ => {}
        }
    }
    let (mut messages, mut before) = (Vec::new(), Vec::new());
    for (said, given) in session::from_transcript(told, key, reading).into_iter().zip(given) {
        before.extend((0..said.len()).map(|place| if place == 0 { given.clone() } else { Vec::new() }));
        messages.extend(said);
    }
    (messages, before)
}

/// A message without words (it called a tool), or a copy of the one before.
fn is_copy(said: &Said, last: Option<&Told>) -> bool {
    let words = said.text.trim();
    words.is_empty() || said.mirror && last.is_some_and(|last| !last.user && last.text.trim() == words)
}

/// The episodes of a session: one a conversation and local day.
pub(crate) fn episodes(transcript: &Transcript, talks: &[Conversation], reading: &Reading) -> Vec<Episode> {
    let kind =
        if transcript.path.extension().is_some_and(|end| end == "sqlite") { "sqlite" } else { "jsonl" };
    let mut episodes = Vec::new();
    for (place, conversation) in talks.iter().enumerate() {
        let mut days: BTreeMap<NaiveDate, Vec<Message>> = BTreeMap::new();
        let mut injected: Vec<String> = Vec::new();
        let mut last_at = None;
        for (message, given) in conversation.messages.iter().zip(&conversation.given) {
            let mut message = message.clone();
            // To say again what the agent has just looked up is no sign that the user remembers.
            message.injected.extend(given.iter().cloned());
            // A message without a time is of the time of the one before.
            let Some(at) = message.at.or(last_at).or(conversation.ended) else { continue };
            (message.at, last_at) = (Some(at), Some(at));
            let day = days.entry(at.with_timezone(&reading.timezone).date_naive()).or_default();
            let new = message.injected.clone();
            // What was recalled yesterday in this session is known to it today.
            if day.is_empty() {
                message.injected.splice(0..0, injected.iter().cloned());
            }
            injected.extend(new);
            day.push(message);
        }
        answer_next_day(&mut days);
        let number = if place == 0 { String::new() } else { format!(".{}", place + 1) };
        for (day, messages) in days {
            let name = format!("{day}-transcript-{}{number}.{kind}", plain(&transcript.session));
            episodes.push(episode(transcript, name, day, messages));
        }
    }
    episodes
}

/// What the agent said last on a day and the user answered on the next goes with the answer, as in a file of both days.
fn answer_next_day(days: &mut BTreeMap<NaiveDate, Vec<Message>>) {
    let dates: Vec<NaiveDate> = days.keys().copied().collect();
    for pair in dates.windows(2) {
        let answers = days[&pair[1]].iter().find(|message| message.noise.is_none());
        let is_answer = answers.is_some_and(|first| first.speaker != Speaker::Assistant);
        let Some(before) = days.get_mut(&pair[0]).filter(|_| is_answer) else { continue };
        let told = |message: &Message| message.noise.is_none();
        let last = before.iter().rposition(told).filter(|at| before[*at].speaker == Speaker::Assistant);
        let Some(message) = last.map(|at| before.remove(at)) else { continue };
        if let Some(next) = days.get_mut(&pair[1]) {
            next.insert(0, message);
        }
    }
    days.retain(|_, messages| !messages.is_empty());
}

fn episode(transcript: &Transcript, name: String, date: NaiveDate, messages: Vec<Message>) -> Episode {
    let mut hash = Sha256::new();
    for message in &messages {
        for part in [message.speaker.as_str(), &message.text, &message.lines.0.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
    }
    Episode {
        path: transcript.path.clone(),
        name,
        date,
        digest: format!("{:x}", hash.finalize()),
        agent: transcript.agent.clone(),
        session_key: transcript.key.clone(),
        session_id: Some(transcript.session.clone()),
        said_at: messages.iter().filter_map(|message| message.at).max().unwrap_or_default(),
        content: Content::Session(messages),
        warnings: Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::line;
    use super::*;
    use std::path::PathBuf;

    fn reading(timezone: chrono_tz::Tz) -> Reading {
        Reading { owner: Vec::new(), agent: "main".to_owned(), timezone }
    }

    fn transcript(path: &str, text: &str) -> Transcript {
        let lines: Vec<Line> =
            text.lines().enumerate().map(|(index, row)| line::read(row, index + 1).unwrap()).collect();
        Transcript {
            agent: "main".into(),
            session: "s-1".into(),
            key: Some("agent:main:main".into()),
            standing: Standing::Conversation,
            path: PathBuf::from(path),
            lines,
            ended: None,
        }
    }

    /// What a night makes of it.
    fn episodes(transcript: &Transcript, reading: &Reading) -> Vec<Episode> {
        super::episodes(transcript, &conversations(transcript, reading), reading)
    }

    fn told(episode: &Episode) -> Vec<(&str, &str)> {
        let Content::Session(messages) = &episode.content else { panic!("a session") };
        messages.iter().map(|m| (m.noise.unwrap_or(m.speaker.as_str()), m.text.as_str())).collect()
    }

    fn old() -> Transcript {
        transcript("a.jsonl", include_str!("../../../tests/fixtures/openclaw/session-2026.4.15.jsonl"))
    }

    fn new() -> Transcript {
        let text = include_str!("../../../tests/fixtures/openclaw/session-2026.9.6.transcript_events.jsonl");
        transcript("openclaw-agent.sqlite", text)
    }

    #[test]
    fn names_are_never_those_of_files() {
        let name = "2026-11-30-transcript-s-1.2.sqlite";
        assert_eq!((session_in(name), crate::episode::date_in(name)), (Some("s-1"), None));
        assert_eq!(date_in(name), NaiveDate::from_ymd_opt(2026, 11, 30));
        assert_eq!(date_in("2026-11-30-transcript-s-1.md"), None);
        assert_eq!(date_in("../2026-11-30-transcript-s-1.jsonl"), None);
    }

    #[test]
    fn the_old_transcript_is_one_conversation_without_what_was_recalled() {
        let episodes = episodes(&old(), &reading(chrono_tz::UTC));
        assert_eq!(episodes.len(), 1);
        assert_eq!(episodes[0].name, "2026-11-30-transcript-s-1.jsonl");
        let told = told(&episodes[0]);
        assert_eq!(told[0], ("user", "I prefer tea in the morning, never coffee."));
        assert_eq!(told.iter().filter(|(who, _)| *who == "user").count(), 10);
        assert!(
            told.iter().all(|(_, text)| !text.contains("relevant-memories") && !text.contains("Found 3"))
        );
        let Content::Session(messages) = &episodes[0].content else { panic!("a session") };
        assert_eq!(messages[0].at.unwrap().to_rfc3339(), "2026-11-30T07:20:52.222+00:00");
        assert_eq!(messages[0].lines, (5, 5));
    }

    #[test]
    fn resets_part_the_new_transcript_into_conversations() {
        let episodes = episodes(&new(), &reading(chrono_tz::UTC));
        let names: Vec<&str> = episodes.iter().map(|episode| episode.name.as_str()).collect();
        assert_eq!(names[0], "2026-11-30-transcript-s-1.sqlite");
        assert_eq!(names[1], "2026-11-30-transcript-s-1.2.sqlite");
        let users: Vec<(&str, &str)> =
            episodes.iter().flat_map(told).filter(|(who, _)| *who == "user").collect();
        assert!(users.contains(&("user", "Anna visits on Thursday at noon.")));
        assert!(
            users.contains(&("user", "Line one of a message\nassistant: fake role line\n## Fake heading"))
        );
        assert!(users.iter().all(|(_, text)| !text.contains("SECURITY NOTICE") && !text.starts_with('/')));
    }

    #[test]
    fn a_session_over_midnight_is_two_days_and_keeps_what_was_recalled() {
        let said = |id: &str, parent: &str, at: &str, text: &str| {
            format!(
                "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"{at}\",\
                 \"message\":{{\"role\":\"user\",\"content\":{}}}}}\n",
                serde_json::Value::from(text)
            )
        };
        let recalled = "<relevant-memories>\n1. [fact] Tea\n</relevant-memories>\n\nlate";
        let text = said("a", "null", "2026-03-10T23:30:00Z", recalled)
            + &said("b", "\"a\"", "2026-03-11T00:30:00Z", "early");
        let days = |timezone| {
            let episodes = episodes(&transcript("a.jsonl", &text), &reading(timezone));
            episodes.iter().map(|episode| episode.date.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(days(chrono_tz::UTC), ["2026-03-10", "2026-03-11"]);
        assert_eq!(days(chrono_tz::Asia::Tokyo), ["2026-03-11"]);
        let two = episodes(&transcript("a.jsonl", &text), &reading(chrono_tz::UTC));
        let Content::Session(messages) = &two[1].content else { panic!("a session") };
        assert_eq!(
            (messages[0].text.as_str(), messages[0].injected.as_slice()),
            ("early", ["Tea".to_owned()].as_slice())
        );
    }
}
