//! The files that the gateway's session-memory hook writes: their header and the two grammars of their messages.
//! Each message comes out with its speaker, its time and its bare words; cutting them is `nrem::chunk`'s work.
//!
//! Facts, read in the source of openclaw 2026.9.6 (`hooks/bundled/session-memory`) and in real files:
//! - `# Session: DATE TIME ZONE` (ZONE is the user's IANA zone, `UTC` by default), then a list of Session Key,
//!   Session ID and Source (or Reason, for an automatic reset); `## Conversation Summary`; then one line a message, at
//!   most the last 15 by default. A transcript that cannot be read leaves `> Transcript content was unavailable: "…"`.
//! - Since 2026.8 a line is `role: "JSON string"`; before, `role: ` and the raw text, in as many lines as it had.
//! - The hook drops commands, NO_REPLY, and messages of other sessions; tool results never appear.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use regex::Regex;

use crate::episode::{Message, Reading, Speaker};
use crate::openclaw::envelope::{self, Opened, Sender};
use crate::openclaw::{noise, stamp};

/// A session file, read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Session {
    /// The time of its header.
    pub at: Option<DateTime<Utc>>,
    /// Its session key.
    pub key: Option<String>,
    /// Its messages in order.
    pub messages: Vec<Message>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// A message as it stands in the file.
struct Written {
    role: Option<Role>,
    text: String,
    lines: (usize, usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// Reads a session file; none if the text is something else.
pub(crate) fn read(text: &str, reading: &Reading) -> Option<Session> {
    static TITLE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^# Session: (\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}(?::\d{2})?)(?: (\S.*?))?\s*$")
    });
    static FIELD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^- \*\*([A-Za-z ]+)\*\*: ?(.*?)\s*$"));
    let lines: Vec<&str> = text.split('\n').collect();
    let first = lines.iter().position(|line| !line.trim().is_empty())?;
    let title = TITLE.captures(lines[first])?;
    let mut next = first + 1;
    let (mut key, mut fields) = (None, 0);
    while let Some(line) = lines.get(next) {
        if let Some(field) = FIELD.captures(line) {
            fields += usize::from(matches!(&field[1], "Session Key" | "Session ID"));
            if &field[1] == "Session Key" {
                key = Some(field[2].to_owned()).filter(|key| !key.is_empty());
            }
        } else if !line.trim().is_empty() {
            break;
        }
        next += 1;
    }
    if fields == 0 {
        return None;
    }
    let (at, warnings) =
        time_of(&title[1], &title[2], title.get(3).map_or("", |zone| zone.as_str()), reading);
    let messages = clean(written(&lines, next), key.as_deref(), reading);
    Some(Session { at, key, messages, warnings })
}

/// The agent in `agent:<id>:…`.
pub(crate) fn agent_of(key: &str) -> Option<&str> {
    let (agent, _) = key.strip_prefix("agent:")?.split_once(':')?;
    (!agent.is_empty()).then_some(agent)
}

fn time_of(date: &str, time: &str, zone: &str, reading: &Reading) -> (Option<DateTime<Utc>>, Vec<String>) {
    match stamp::read(date, time, zone, reading.timezone) {
        None => (
            None,
            vec![format!("the session header's time `{date} {time}` does not exist; the file's date counts")],
        ),
        Some(stamp::Stamp { at, unknown_zone: None }) => (Some(at), Vec::new()),
        Some(stamp::Stamp { at, unknown_zone: Some(zone) }) => {
            let warning =
                format!("the session header's zone `{zone}` is unknown; {} was taken", reading.timezone);
            (Some(at), vec![warning])
        }
    }
}

/// Splits the lines below the header into messages, and into notes for what is no message.
///
/// A file is read raw if its first role line is. In a raw file a person's own line beginning `assistant: ` cannot be told
/// from the next message (nor one inside a code block); only recalled blocks, which the gateway wrote, are opaque.
/// A JSON line is closed: its content is never read as role lines, and lines after it are somebody's notes.
fn written(lines: &[&str], start: usize) -> Vec<Written> {
    let json_file = lines[start..]
        .iter()
        .find_map(|line| role_line(line))
        .is_some_and(|(_, rest)| quoted(rest).is_some());
    let recall_ends = ends_of_recalls(lines);
    let mut messages: Vec<Written> = Vec::new();
    let mut open = false;
    let mut summary_seen = false;
    let mut next = start;
    while next < lines.len() {
        let line = lines[next];
        let number = next + 1;
        // The block may begin on the role line itself, so its end is looked up for every line.
        let end = recall_ends.get(next).copied().flatten().filter(|_| !json_file).unwrap_or(next);
        let block = lines[next..=end].join("\n");
        if let Some((role, rest)) = role_line(line) {
            let json = quoted(rest);
            open = json.is_none() || !json_file;
            let text = json.unwrap_or_else(|| block[line.len() - rest.len()..].to_owned());
            messages.push(Written { role: Some(role), text, lines: (number, end + 1) });
        } else if line.trim() == "## Conversation Summary" && !summary_seen && messages.is_empty() {
            summary_seen = true;
        } else if open || messages.last().is_some_and(|last| last.role.is_none()) {
            continue_last(&mut messages, &block, end + 1);
        } else if !line.trim().is_empty() {
            messages.push(Written { role: None, text: block, lines: (number, end + 1) });
        }
        next = end + 1;
    }
    for message in &mut messages {
        message.text.truncate(message.text.trim_end().len());
    }
    messages
}

fn continue_last(messages: &mut [Written], block: &str, number: usize) {
    let Some(last) = messages.last_mut() else { return };
    last.text.push('\n');
    last.text.push_str(block);
    if !block.trim().is_empty() {
        last.lines.1 = number;
    }
}

fn role_line(line: &str) -> Option<(Role, &str)> {
    let (role, rest) = line.split_once(':')?;
    let role = match role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return None,
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| (role, rest.trim_start_matches(' ')))
}

/// The content of a JSON string; none if the text is anything else.
fn quoted(text: &str) -> Option<String> {
    let text = text.trim();
    if !(text.len() >= 2 && text.starts_with('"') && text.ends_with('"')) {
        return None;
    }
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&without_lone_surrogates(text))).ok()
}

/// JavaScript writes half of a pair (text cut in the middle of an emoji) as `\ud83d`; JSON for others has no such thing.
fn without_lone_surrogates(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        mended.push_str(&text[at..at + found]);
        at += found;
        let (taken, piece) = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, &text[at..at + 12]),
            (Some(0xD800..=0xDFFF), _) => (6, "\\ufffd"),
            _ => {
                let escaped = text[at + 1..].chars().next().map_or(0, char::len_utf8);
                (1 + escaped, &text[at..at + 1 + escaped])
            }
        };
        mended.push_str(piece);
        at += taken;
    }
    mended.push_str(&text[at..]);
    mended
}

/// For each line that opens a recalled block, the line that closes it; none where another block opens first.
fn ends_of_recalls(lines: &[&str]) -> Vec<Option<usize>> {
    let mut ends = vec![None; lines.len()];
    let mut close = None;
    for (number, line) in lines.iter().enumerate().rev() {
        if line.contains("</relevant-memories>") {
            close = Some(number);
        }
        if line.contains("<relevant-memories>") {
            ends[number] = close.take();
        }
    }
    ends
}

/// Takes messages out of their envelopes, names who said them, and marks those that nobody said.
fn clean(written: Vec<Written>, key: Option<&str>, reading: &Reading) -> Vec<Message> {
    let chat = Chat::of(key);
    // The words of an agent that was asked by a machine answer nobody, until a person writes.
    let mut unattended = false;
    let mut messages = Vec::with_capacity(written.len());
    for message in written {
        let message = match message.role {
            Some(Role::User) => {
                let message = prompt(&message, chat, reading);
                unattended = message.noise.is_some_and(noise::is_unattended);
                message
            }
            Some(Role::Assistant) => reply(&message, unattended),
            None => note(message),
        };
        messages.push(message);
    }
    messages
}

/// What a session key tells of the chat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chat {
    Direct,
    Group,
    Unattended,
}

impl Chat {
    fn of(key: Option<&str>) -> Self {
        let parts: Vec<&str> = key.unwrap_or_default().split(':').skip(2).collect();
        match parts.first() {
            Some(&"cron" | &"hook" | &"subagent" | &"acp") => Self::Unattended,
            _ if parts.iter().any(|part| matches!(*part, "group" | "channel" | "room")) => Self::Group,
            _ => Self::Direct,
        }
    }
}

fn prompt(written: &Written, chat: Chat, reading: &Reading) -> Message {
    let opened = envelope::open(&written.text, chat == Chat::Group, reading.timezone);
    let unattended = (chat == Chat::Unattended).then_some(noise::TASK);
    let reason = noise::of_prompt(&written.text).or_else(|| noise::of_prompt(&opened.text)).or(unattended);
    let speaker = speaker(&opened, reading);
    let at = opened.at.or_else(|| reference_time(&written.text));
    let text = noise::without_tokens(noise::without_command(&opened.text)).to_owned();
    message(written, speaker, at, text, opened.injected, reason)
}

fn reply(written: &Written, unattended: bool) -> Message {
    let mut opened = Opened { text: written.text.clone(), ..Opened::default() };
    envelope::take_recalled(&mut opened);
    let text = envelope::without_notes(&opened.text);
    let reason = unattended.then_some(noise::ANSWER).or_else(|| noise::of_reply(&text));
    let text = noise::without_tokens(&text).to_owned();
    // An echo of recalled text is no recall: `injected` stays empty.
    message(written, Speaker::Assistant, None, text, Vec::new(), reason)
}

/// Hand-written lines around the messages; kept line by line, so that `nrem::chunk` can tell where each stands.
fn note(written: Written) -> Message {
    let unavailable = written.text.starts_with("> Transcript content was unavailable:");
    let reason = (unavailable && !written.text.contains('\n')).then_some(noise::UNAVAILABLE);
    let text = written.text.clone();
    message(&written, Speaker::Note, None, text, Vec::new(), reason)
}

fn message(
    written: &Written,
    speaker: Speaker,
    at: Option<DateTime<Utc>>,
    text: String,
    injected: Vec<String>,
    reason: Option<&'static str>,
) -> Message {
    let reason = reason.or_else(|| text.trim().is_empty().then_some(noise::NO_WORDS));
    let text = if reason.is_some() { String::new() } else { text };
    Message { speaker, at, text, noise: reason, injected, lines: written.lines }
}

/// Only the owner is "the user".
fn speaker(opened: &Opened, reading: &Reading) -> Speaker {
    if let Some(from) = opened.forwarded_from.as_ref().filter(|from| !from.is_empty()) {
        return Speaker::Person(from.clone());
    }
    match &opened.sender {
        Some(sender) if reading.owner.is_empty() && opened.group => Speaker::Person(sender.name.clone()),
        Some(sender) if !reading.owner.is_empty() && !is_owner(sender, &reading.owner) => {
            Speaker::Person(sender.name.clone())
        }
        _ => Speaker::User,
    }
}

fn is_owner(sender: &Sender, owner: &[String]) -> bool {
    let same = |a: &str, b: &str| {
        let plain = |text: &str| text.trim().trim_start_matches('@').to_lowercase();
        let number = |text: &str| -> String {
            let is_number = text.chars().all(|c| c.is_ascii_digit() || " +-().".contains(c));
            if is_number { text.chars().filter(char::is_ascii_digit).collect() } else { String::new() }
        };
        plain(a) == plain(b) || !number(a).is_empty() && number(a) == number(b)
    };
    owner.iter().any(|known| sender.aliases.iter().any(|alias| same(known, alias)))
}

/// Jobs end with `Reference UTC: 2026-11-30 07:38 UTC`.
fn reference_time(text: &str) -> Option<DateTime<Utc>> {
    static REFERENCE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?m)^Reference UTC: (\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}) UTC"));
    if !text.contains("Reference UTC: ") {
        return None;
    }
    let found = REFERENCE.captures(text)?;
    stamp::read(&found[1], &found[2], "UTC", chrono_tz::UTC).map(|stamp| stamp.at)
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}
