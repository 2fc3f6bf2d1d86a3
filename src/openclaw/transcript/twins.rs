//! Twins: the same message in the hook's file and in the transcript of its session. The file's twin takes over time, speaker
//! and words of the transcript's, so that both are one chunk with one digest, and one fate, whichever is read first and on
//! whichever night. Pure.
//!
//! The file holds the last messages before a reset, under the time of the reset; the transcript all of them, each at its
//! own. Where a message was learned from the one while the other could not be read, the journal knows under which day.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Utc};
use chrono_tz::Tz;

use super::episodes::session_in;
use super::plain;
use crate::episode::{Content, Episode, Message, Speaker, from_local, last_second};
use crate::nrem::chunk::digest_of_message;
use crate::state::journal::{ChunkRecord, Journal};

/// A file's time may be a little earlier than that of the last message.
const SLACK: TimeDelta = TimeDelta::minutes(2);
/// Days before a file's own on which its messages may have been said.
const SESSION_DAYS: u64 = 31;
/// A shorter text is no beginning of another one, it is another one.
const SHORTEST_BEGINNING: usize = 12;

/// A message of a transcript, and its words as they are compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    message: Message,
    words: String,
}

/// What was said in sessions, by session id, in order.
pub(crate) type Spoken = HashMap<String, Vec<Heard>>;

/// What the transcripts' episodes hold of the sessions that files are of.
pub(crate) fn spoken(episodes: &[Episode], files: &[Episode]) -> Spoken {
    let wanted: HashSet<&String> = files.iter().filter_map(|file| file.session_id.as_ref()).collect();
    let mut spoken = Spoken::new();
    for episode in episodes {
        let Some(id) = episode.session_id.as_ref().filter(|id| wanted.contains(id)) else { continue };
        if let Content::Session(messages) = &episode.content {
            spoken.entry(id.clone()).or_default().extend(messages.iter().map(heard));
        }
    }
    for said in spoken.values_mut() {
        said.sort_by_key(|heard| (heard.message.at, heard.message.lines));
    }
    spoken
}

fn heard(message: &Message) -> Heard {
    Heard { message: message.clone(), words: words(&message.text) }
}

/// For each message of a hook's file its twin in the transcript, if it has one. Both are gone through from the end: the
/// file holds the last messages, and what was said twice pairs with the latest that is left.
pub(crate) fn twins<'a>(file: &Episode, spoken: &'a Spoken, timezone: Tz) -> Vec<Option<&'a Message>> {
    let Content::Session(messages) = &file.content else { return Vec::new() };
    let mut twins = vec![None; messages.len()];
    let Some(said) = file.session_id.as_ref().and_then(|id| spoken.get(id)) else { return twins };
    let until = written_by(file, timezone);
    let first = until - TimeDelta::days(SESSION_DAYS as i64);
    let start = said.partition_point(|heard| heard.message.at.is_none_or(|at| at < first));
    let mut end = said.partition_point(|heard| heard.message.at.is_none_or(|at| at <= until)).max(start);
    for (place, message) in messages.iter().enumerate().rev() {
        if message.noise.is_some() || message.speaker == Speaker::Note {
            continue;
        }
        let own = words(&message.text);
        if let Some(found) = said[start..end].iter().rposition(|heard| are_twins(message, &own, heard)) {
            end = start + found;
            twins[place] = Some(&said[end].message);
        }
    }
    twins
}

/// When the file was written at the latest. Its said-at is the end of the day before for a reset at night.
fn written_by(file: &Episode, timezone: Tz) -> DateTime<Utc> {
    let day = file.said_at.with_timezone(&timezone).date_naive();
    let night =
        if file.said_at == last_second(day, timezone) { TimeDelta::hours(5) } else { TimeDelta::zero() };
    file.said_at + night + SLACK
}

fn are_twins(file: &Message, own: &str, heard: &Heard) -> bool {
    let side = |message: &Message| message.speaker == Speaker::Assistant;
    if heard.message.noise.is_some() || side(file) != side(&heard.message) {
        return false;
    }
    own == heard.words || own.len() >= SHORTEST_BEGINNING && heard.words.starts_with(own)
}

/// Words without what hook and cleaning may have changed: white space and marks.
fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Gives the messages of hook's files what their twins know.
pub(crate) fn align(files: &mut [Episode], spoken: &Spoken, journal: &Journal, timezone: Tz) {
    for file in files {
        let twins: Vec<Option<Message>> =
            twins(file, spoken, timezone).into_iter().map(Option::<&Message>::cloned).collect();
        let learned = |message: &Message| learned_from_transcript(file, message, journal, timezone);
        let mut changed = Vec::new();
        if let Content::Session(messages) = &file.content {
            for (message, twin) in messages.iter().zip(twins.into_iter().chain(std::iter::repeat(None))) {
                let mut message = message.clone();
                if let Some(twin) = twin {
                    (message.at, message.speaker, message.text) = (twin.at, twin.speaker, twin.text);
                } else if let Some(day) = learned(&message) {
                    message.at = Some(noon(day, timezone));
                }
                changed.push(message);
            }
            file.content = Content::Session(changed);
        }
    }
}

/// Tells messages of hook's files what their twins say was recalled before them: to say that again is no sign that the user
/// remembers.
pub(crate) fn lend_recalls(files: &mut [Episode], spoken: &Spoken, timezone: Tz) {
    for file in files {
        let recalled: Vec<Vec<String>> = twins(file, spoken, timezone)
            .into_iter()
            .map(|twin| twin.map(|twin| twin.injected.clone()).unwrap_or_default())
            .collect();
        let Content::Session(messages) = &mut file.content else { continue };
        for (message, recalled) in messages.iter_mut().zip(recalled) {
            for text in recalled {
                if !message.injected.contains(&text) {
                    message.injected.push(text);
                }
            }
        }
    }
}

/// The day under which the transcript of this very session taught what a file says, if the journal knows one.
fn learned_from_transcript(
    file: &Episode,
    message: &Message,
    journal: &Journal,
    timezone: Tz,
) -> Option<NaiveDate> {
    let session = plain(file.session_id.as_deref()?);
    let last = message.at.unwrap_or(file.said_at).with_timezone(&timezone).date_naive();
    let of_session = |record: &ChunkRecord| session_in(&record.episode) == Some(session.as_str());
    let days = (0..=SESSION_DAYS).filter_map(|back| last.checked_sub_days(Days::new(back)));
    on_day(&file.agent, message, journal, days, of_session)
}

/// Moves messages of transcripts that a hook's file taught, before they could be read here, to the day under which that
/// file is in the journal. `files` are those that are still read.
pub(crate) fn recognise(
    episodes: &mut [Episode],
    files: &[Episode],
    ends: &HashMap<String, Vec<DateTime<Utc>>>,
    journal: &Journal,
    timezone: Tz,
) {
    let mut days: HashMap<&str, Vec<NaiveDate>> = HashMap::new();
    for (session, ends) in ends {
        // A reset at night is told as the day before.
        let told = |at: &DateTime<Utc>| {
            [*at, *at - TimeDelta::hours(5)].map(|at| at.with_timezone(&timezone).date_naive())
        };
        days.entry(session).or_default().extend(ends.iter().flat_map(told));
    }
    for file in files {
        if let Some(session) = &file.session_id {
            days.entry(session).or_default().push(file.said_at.with_timezone(&timezone).date_naive());
        }
    }
    let of_file = |record: &ChunkRecord| crate::episode::date_in(&record.episode).is_some();
    for episode in episodes {
        let Some(days) = episode.session_id.as_deref().and_then(|session| days.get(session)) else {
            continue;
        };
        let (agent, date) = (episode.agent.clone(), episode.date);
        let Content::Session(messages) = &mut episode.content else { continue };
        for message in messages {
            if on_day(&agent, message, journal, [date], |_| true).is_some() {
                continue;
            }
            let later = days.iter().copied().filter(|day| *day > date);
            if let Some(day) = on_day(&agent, message, journal, later, of_file) {
                message.at = Some(noon(day, timezone));
            }
        }
    }
}

/// The first of some days under which the journal has a message, from an episode that fits.
fn on_day(
    agent: &str,
    message: &Message,
    journal: &Journal,
    days: impl IntoIterator<Item = NaiveDate>,
    fits: impl Fn(&ChunkRecord) -> bool,
) -> Option<NaiveDate> {
    if message.noise.is_some() || message.text.trim().is_empty() || message.speaker == Speaker::Note {
        return None;
    }
    days.into_iter().find(|day| {
        journal.get(&digest_of_message(agent, *day, &message.speaker, &message.text)).is_some_and(&fits)
    })
}

fn noon(day: NaiveDate, timezone: Tz) -> DateTime<Utc> {
    from_local(day.and_time(NaiveTime::from_hms_opt(12, 0, 0).unwrap_or_default()), timezone)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::episode::{Reading, parse};

    fn said(speaker: Speaker, at: &str, text: &str) -> Message {
        let (noise, injected, lines) = (None, Vec::new(), (1, 1));
        Message { speaker, at: Some(at.parse().unwrap()), text: text.into(), noise, injected, lines }
    }

    fn file(messages: &[(&str, &str)]) -> Episode {
        let line = |(role, text): &(&str, &str)| format!("{role}: {}\n", serde_json::Value::from(*text));
        let text = format!(
            "# Session: 2026-03-11 04:00:00 UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: s-1\n\n{}",
            messages.iter().map(line).collect::<String>()
        );
        let reading = Reading { owner: vec![], agent: "main".into(), timezone: chrono_tz::UTC };
        parse("2026-03-11-0400.md", text.as_bytes(), &reading)
    }

    fn session() -> Spoken {
        let messages = [
            said(Speaker::User, "2026-03-09T10:00:00Z", "Yes please."),
            said(Speaker::Assistant, "2026-03-09T10:00:05Z", "Done.\n\nAnything else that I can do for you?"),
            said(Speaker::User, "2026-03-10T10:00:00Z", "Yes please."),
            said(Speaker::User, "2026-03-12T10:00:00Z", "Yes please."),
        ];
        HashMap::from([("s-1".to_owned(), messages.iter().map(heard).collect())])
    }

    #[test]
    fn what_was_said_twice_pairs_with_the_latest_before_the_file() {
        let file = file(&[("user", "yes, please"), ("user", "Never said.")]);
        let days: Vec<Option<String>> = twins(&file, &session(), chrono_tz::UTC)
            .into_iter()
            .map(|twin| twin.and_then(|twin| twin.at).map(|at| at.date_naive().to_string()))
            .collect();
        assert_eq!(days, [Some("2026-03-10".to_owned()), None]);
    }

    #[test]
    fn a_twin_takes_over_time_and_whole_words() {
        let mut files = [file(&[
            ("user", "Yes please."),
            ("assistant", "Done.\n\nAnything else"),
            ("user", "Yes please."),
        ])];
        align(&mut files, &session(), &Journal::default(), chrono_tz::UTC);
        let Content::Session(messages) = &files[0].content else { panic!("a session") };
        let dates: Vec<String> = messages.iter().map(|m| m.at.unwrap().date_naive().to_string()).collect();
        assert_eq!(dates, ["2026-03-09", "2026-03-09", "2026-03-10"]);
        assert_eq!(messages[1].text, "Done.\n\nAnything else that I can do for you?");
    }

    #[test]
    fn another_session_or_side_has_no_twins() {
        let mut other = file(&[("user", "Yes please.")]);
        other.session_id = Some("s-2".into());
        assert_eq!(twins(&other, &session(), chrono_tz::UTC), [None::<&Message>]);
        let echoed = file(&[("assistant", "Yes please.")]);
        assert_eq!(twins(&echoed, &session(), chrono_tz::UTC), [None]);
    }
}
