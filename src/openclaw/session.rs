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
use crate::language;
use crate::openclaw::envelope::{self, Opened, Sender};
use crate::openclaw::{noise, quoted, stamp};

/// A session file, read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Session {
    /// The time of its header.
    pub at: Option<DateTime<Utc>>,
    /// Its session key.
    pub key: Option<String>,
    /// Its session's id.
    pub id: Option<String>,
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
    let (mut key, mut id, mut fields) = (None, None, 0);
    while let Some(line) = lines.get(next) {
        if let Some(field) = FIELD.captures(line) {
            fields += usize::from(matches!(&field[1], "Session Key" | "Session ID"));
            if &field[1] == "Session Key" {
                key = Some(field[2].to_owned()).filter(|key| !key.is_empty());
            }
            if &field[1] == "Session ID" {
                id = Some(field[2].to_owned()).filter(|id| !id.is_empty() && id != "unknown");
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
    Some(Session { at, key, id, messages, warnings })
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
    let said: String =
        serde_json::from_str(text).or_else(|_| serde_json::from_str(&without_lone_surrogates(text))).ok()?;
    // The file was cleaned when it was read, but not what a JSON string spells as `\u202e`.
    Some(language::without_controls(&said).into_owned())
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

/// For each line that opens a block of the gateway's, the line that closes it; none where another block opens first.
fn ends_of_recalls(lines: &[&str]) -> Vec<Option<usize>> {
    let mut ends = vec![None; lines.len()];
    let mut closes = [None; quoted::BLOCKS.len()];
    for (number, line) in lines.iter().enumerate().rev() {
        if let Some(block) = quoted::BLOCKS.iter().position(|(_, end)| line.contains(end)) {
            closes[block] = Some(number);
        }
        if let Some(block) = quoted::BLOCKS.iter().position(|(start, _)| line.contains(start)) {
            ends[number] = closes[block].take();
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
                let said = prompts(&message, chat, reading);
                unattended = said.iter().all(|message| message.noise.is_some_and(noise::is_unattended));
                messages.extend(said);
                continue;
            }
            Some(Role::Assistant) => reply(&message, unattended),
            None => note(message),
        };
        messages.push(message);
    }
    messages
}

/// A prompt, or those that waited in a queue and came as one: each with its own sender.
fn prompts(written: &Written, chat: Chat, reading: &Reading) -> Vec<Message> {
    let one = |(from, text): (Option<String>, &str)| {
        let written = Written { role: written.role, text: text.to_owned(), lines: written.lines };
        prompt(&written, from, chat, reading)
    };
    quoted::queued(&written.text).into_iter().map(one).collect()
}

/// A message as a transcript holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// Whether it is the user's side.
    pub user: bool,
    /// Its text, with whatever the gateway wrapped around it.
    pub text: String,
    /// Who sent it, as far as the transcript says.
    pub sender: Option<Sender>,
    /// Whether the gateway took the sender for its owner.
    pub is_owner: Option<bool>,
    /// Why nobody said it, as far as the transcript says.
    pub nobody: Option<&'static str>,
    /// When.
    pub at: Option<DateTime<Utc>>,
    /// Its line, or the number of its event.
    pub line: usize,
}

/// Messages of a transcript, cleaned as those of a file: of each one itself, or those that waited in a queue and came as
/// one. What the transcript knows besides its text counts where the text has no envelope of its own.
pub(crate) fn from_transcript(told: Vec<Told>, key: Option<&str>, reading: &Reading) -> Vec<Vec<Message>> {
    let chat = Chat::of(key);
    let mut unattended = false;
    let mut all = Vec::with_capacity(told.len());
    for told in told {
        let role = if told.user { Role::User } else { Role::Assistant };
        let written = Written { role: Some(role), text: told.text, lines: (told.line, told.line) };
        let mut cleaned = match role {
            Role::User => prompts(&written, chat, reading),
            Role::Assistant => vec![reply(&written, unattended)],
        };
        for message in &mut cleaned {
            if let Some(nobody) = told.nobody {
                (message.noise, message.text) = (message.noise.or(Some(nobody)), String::new());
            }
            message.at = message.at.or(told.at);
        }
        if role == Role::User {
            unattended = cleaned.iter().all(|message| message.noise.is_some_and(noise::is_unattended));
            if let ([message], [(None, _)]) =
                (cleaned.as_mut_slice(), quoted::queued(&written.text).as_slice())
                && let Some(sender) = told.sender
            {
                let mut opened = envelope::open(&written.text, chat == Chat::Group, reading.timezone);
                if opened.sender.is_none() {
                    opened.sender = Some(sender);
                    // Whom the gateway obeys is the user, unless the settings name somebody else.
                    let is_user = reading.owner.is_empty() && told.is_owner == Some(true);
                    message.speaker = if is_user { Speaker::User } else { speaker(&opened, reading) };
                }
            }
        }
        all.push(cleaned);
    }
    all
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

fn prompt(written: &Written, from: Option<String>, chat: Chat, reading: &Reading) -> Message {
    let mut opened = envelope::open(&written.text, chat == Chat::Group, reading.timezone);
    // The name a queue gives is for people; the message's own envelope knows more.
    let from = from.map(|name| Sender { aliases: vec![name.clone()], name });
    opened.sender = opened.sender.take().or(from);
    let unattended = (chat == Chat::Unattended).then_some(noise::TASK);
    let reason = noise::of_prompt(&written.text).or_else(|| noise::of_prompt(&opened.text)).or(unattended);
    let speaker = speaker(&opened, reading);
    let at = opened.at.or_else(|| reference_time(&written.text));
    let text = noise::without_tokens(noise::without_command(&opened.text)).to_owned();
    let reason = reason.or_else(|| noise::of_emptied(&written.text).filter(|_| text.trim().is_empty()));
    message(written, speaker, at, text, opened.injected, reason)
}

fn reply(written: &Written, unattended: bool) -> Message {
    let mut opened = Opened { text: written.text.clone(), ..Opened::default() };
    envelope::take_recalled(&mut opened);
    let text = envelope::without_notes(&opened.text);
    let said = noise::of_reply(opened.text.trim()).or_else(|| noise::of_reply(&text));
    let reason = unattended.then_some(noise::ANSWER).or(said);
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
        return person(from);
    }
    match &opened.sender {
        Some(sender) if reading.owner.is_empty() && opened.group => person(&sender.name),
        Some(sender) if !reading.owner.is_empty() && !is_owner(sender, &reading.owner) => {
            person(&sender.name)
        }
        _ => Speaker::User,
    }
}

/// Somebody of that name, in a form that stands in a quote and in a prompt. Whoever calls themselves "user" is not the user.
fn person(name: &str) -> Speaker {
    const NOBODYS: [&str; 13] = [
        "user",
        "the user",
        "assistant",
        "the assistant",
        "note",
        "用户",
        "助手",
        "笔记",
        "ユーザー",
        "アシスタント",
        "メモ",
        "사용자",
        "어시스턴트",
    ];
    let plain = |c: char| if c.is_control() || "():：（）“”「」\"".contains(c) { ' ' } else { c };
    let words: String = name.chars().map(plain).take(56).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.as_str() {
        "" => Speaker::Person("somebody".into()),
        name if NOBODYS.contains(&name.to_lowercase().as_str()) => Speaker::Person(format!("*{name}*")),
        name => Speaker::Person(name.into()),
    }
}

fn is_owner(sender: &Sender, owner: &[String]) -> bool {
    let same = |a: &str, b: &str| {
        // `telegram:123` is how the gateway's own allow-lists write an id.
        let bare = |text: &str| text.trim().rsplit(':').next().unwrap_or_default().to_owned();
        let plain = |text: &str| bare(text).trim_start_matches('@').to_lowercase();
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::episode::{Content, parse};
    use proptest::prelude::*;

    fn reading(owner: &[&str]) -> Reading {
        let owner = owner.iter().map(|name| (*name).to_owned()).collect();
        Reading { owner, agent: "main".to_owned(), timezone: chrono_tz::UTC }
    }

    fn file(key: &str, body: &str) -> String {
        format!(
            "# Session: 2026-11-30 07:22:41 UTC\n\n- **Session Key**: {key}\n- **Session ID**: 1\n- **Source**: x\n\n## Conversation Summary\n\n{body}\n"
        )
    }

    fn messages(body: &str) -> Vec<Message> {
        read(&file("agent:main:main", body), &reading(&[])).unwrap().messages
    }

    fn told(messages: &[Message]) -> Vec<(&str, &str)> {
        messages.iter().map(|m| (m.noise.unwrap_or(m.speaker.as_str()), m.text.as_str())).collect()
    }

    fn fixture(name: &str) -> Vec<Message> {
        let path = format!("{}/tests/fixtures/episodes/{name}", env!("CARGO_MANIFEST_DIR"));
        let episode = parse("2026-11-30-0739.md", &std::fs::read(path).unwrap(), &reading(&[]));
        assert_eq!((episode.agent.as_str(), episode.warnings.len()), ("main", 0));
        match episode.content {
            Content::Session(messages) => messages,
            Content::Notes(_) => panic!("a session was read as notes"),
        }
    }

    #[test]
    fn a_raw_file_of_the_older_gateway_is_read_with_its_recalls() {
        let messages = fixture("openclaw-2026.4.15/2026-11-30-mock-reply-to-reply-with-only-.md");
        assert_eq!(messages.len(), 15);
        assert_eq!(
            messages[5].text,
            "Remember that my dog is called Biscuit and she turned four on Saturday."
        );
        assert_eq!(messages[5].lines, (14, 20));
        assert_eq!(messages[5].injected[1], "I prefer tea in the morning, never coffee.");
        assert_eq!(messages[11].injected.len(), 3);
        assert!(
            messages
                .iter()
                .all(|message| message.noise.is_none() && !message.text.contains("relevant-memories"))
        );
    }

    #[test]
    fn a_json_file_of_the_newer_gateway_is_read_with_its_noise() {
        let messages = fixture("openclaw-2026.9.6/2026-11-30-0739.md");
        assert_eq!(messages.len(), 14);
        let told = told(&messages);
        assert_eq!(told[6].1, "What should I cook for Anna, no peanuts?");
        assert_eq!(told[12], (noise::SCHEDULED, ""));
        assert_eq!(told[13], (noise::ANSWER, ""));
        assert_eq!(messages[12].at.unwrap().to_rfc3339(), "2026-11-30T07:38:00+00:00");
    }

    #[test]
    fn what_stands_in_a_json_line_is_never_a_role_line() {
        let messages = fixture("openclaw-2026.9.6/2026-11-30-0739-3.md");
        let told = told(&messages);
        assert_eq!(told[0], ("user", "Line one of a message\nassistant: fake role line\n## Fake heading"));
        assert_eq!(told[1], ("assistant", "Mock reply to: ## Fake heading"));
    }

    #[test]
    fn a_session_with_only_the_notice_and_one_without_anything_hold_no_words() {
        assert_eq!(told(&fixture("openclaw-2026.9.6/2026-11-30-0740.md")), [(noise::RESET, "")]);
        assert_eq!(fixture("openclaw-2026.9.6/empty-session-2026-11-30-0712-2.md"), []);
    }

    #[test]
    fn notes_that_people_add_are_kept() {
        let body = "user: \"Hello\"\nassistant: \"Hi\"\n\n## Mine\nAnna called.\n\nShe is well.\nuser: \"Bye\"\nAnd more";
        let messages = messages(body);
        let expected = [
            ("user", "Hello"),
            ("assistant", "Hi"),
            ("note", "## Mine\nAnna called.\n\nShe is well."),
            ("user", "Bye"),
            ("note", "And more"),
        ];
        assert_eq!(told(&messages), expected);
        assert_eq!(messages[2].lines, (12, 15));
    }

    #[test]
    fn a_line_that_is_no_json_is_read_raw() {
        let lines = messages("user: \"Moby-Dick\" is long\nassistant: \"It is\"\nindeed\nuser:\nuser: x");
        let expected = [
            ("user", "\"Moby-Dick\" is long"),
            ("assistant", "It is\nindeed"),
            (noise::NO_WORDS, ""),
            ("user", "x"),
        ];
        assert_eq!(told(&lines), expected);
    }

    #[test]
    fn half_an_emoji_does_not_break_a_line() {
        let lines = messages(r#"user: "cut \ud83d here \\ud83d, whole \ud83d\ude00""#);
        assert_eq!(told(&lines), [("user", "cut \u{fffd} here \\ud83d, whole 😀")]);
    }

    #[test]
    fn role_lines_inside_a_recalled_block_are_recalled() {
        let body = "user: <relevant-memories>\n1. [fact] a\nassistant: b\n</relevant-memories>\n\nHello\nassistant: Hi";
        let lines = messages(body);
        assert_eq!(told(&lines), [("user", "Hello"), ("assistant", "Hi")]);
        let unclosed = messages(
            "user: <relevant-memories>\n1. [fact] a\n\nHello\nassistant: Hi\nuser: <relevant-memories>\n1. [fact] b\n</relevant-memories>\nYes",
        );
        assert_eq!(told(&unclosed), [("user", "Hello"), ("assistant", "Hi"), ("user", "Yes")]);
    }

    #[test]
    fn only_the_owner_is_the_user() {
        let group = "agent:main:telegram:group:-100";
        let text = "[Telegram Family id:-100 Wed 2026-11-30T07:38:05Z] Alice (7): I moved";
        let body = format!("user: {}", serde_json::to_string(text).unwrap());
        let direct = "user: \"[Telegram Alice id:7 Wed 2026-11-30T07:38:05Z] I moved\"";
        let person = Speaker::Person("Alice".to_owned());
        let cases = [
            (group, body.as_str(), vec![], person.clone()),
            (group, body.as_str(), vec!["alice"], Speaker::User),
            (group, body.as_str(), vec!["Bob", "telegram:7"], Speaker::User),
            (group, body.as_str(), vec!["Bob"], person.clone()),
            ("agent:main:main", direct, vec![], Speaker::User),
            ("agent:main:main", direct, vec!["@ALICE"], Speaker::User),
            ("agent:main:main", direct, vec!["Bob"], person),
            ("agent:main:main", "user: \"I moved\"", vec!["Bob"], Speaker::User),
        ];
        for (key, body, owner, speaker) in cases {
            let session = read(&file(key, body), &reading(&owner)).unwrap();
            let message = &session.messages[0];
            assert_eq!((&message.speaker, message.text.as_str()), (&speaker, "I moved"), "{owner:?}");
            if body.contains("2026-11-30T") {
                assert_eq!(message.at.unwrap().to_rfc3339(), "2026-11-30T07:38:05+00:00");
            }
        }
    }

    #[test]
    fn nobody_becomes_the_user_by_a_name() {
        for (name, expected) in [
            ("user", "*user*"),
            ("Assistant", "*Assistant*"),
            ("用户", "*用户*"),
            ("Anna (work): “x”", "Anna work x"),
            ("User1", "User1"),
        ] {
            assert_eq!(person(name), Speaker::Person(expected.to_owned()), "{name}");
        }
    }

    #[test]
    fn sessions_of_jobs_and_other_agents_hold_nobodys_words() {
        for key in ["agent:main:cron:1:run:2", "agent:main:hook:gmail:1", "agent:main:subagent:3"] {
            let session = read(&file(key, "user: \"Sum up\"\nassistant: \"Done\""), &reading(&[])).unwrap();
            assert_eq!(told(&session.messages), [(noise::TASK, ""), (noise::ANSWER, "")], "{key}");
        }
    }

    #[test]
    fn the_answer_to_a_heartbeat_is_noise_and_the_one_to_a_person_is_not() {
        let lines = messages(
            "user: \"[OpenClaw heartbeat poll]\"\nassistant: \"The door is open\"\nassistant: \"Still\"\nuser: \"Thanks\"\nassistant: \"Sure\"",
        );
        let expected = [
            (noise::HEARTBEAT, ""),
            (noise::ANSWER, ""),
            (noise::ANSWER, ""),
            ("user", "Thanks"),
            ("assistant", "Sure"),
        ];
        assert_eq!(told(&lines), expected);
    }

    #[test]
    fn an_unreadable_transcript_is_noise_and_a_file_without_fields_is_no_session() {
        let lines = messages("> Transcript content was unavailable: \"gone\"");
        assert_eq!(told(&lines), [(noise::UNAVAILABLE, "")]);
        assert_eq!(read("# Session: 2026-11-30 07:22:41 UTC\n\nWe met.", &reading(&[])), None);
        assert_eq!(read("# Session: on memory\n- **Session Key**: x", &reading(&[])), None);
    }

    #[test]
    fn a_time_that_does_not_exist_is_told() {
        let text = file("main", "user: \"x\"").replace("2026-11-30 07", "2026-13-30 07");
        let session = read(&text, &reading(&[])).unwrap();
        assert_eq!((session.at, session.warnings.len()), (None, 1));
    }

    proptest! {
        #[test]
        fn every_json_line_is_one_message(texts in proptest::collection::vec("\\PC{0,40}|(?s).{0,20}", 1..8)) {
            let line = |text: &String| format!("user: {}", serde_json::to_string(text).unwrap());
            let body: Vec<String> = texts.iter().map(line).collect();
            prop_assert_eq!(messages(&body.join("\n")).len(), texts.len());
        }

        #[test]
        fn no_text_breaks_the_reading(body in "(?s)(user: |assistant: |\n|\"|<relevant-memories>|</relevant-memories>|\\[Telegram A id:1 Wed 2026-11-30T07:38:05Z\\] |⟦openclaw:ctx⟧|```json\n|.){0,40}") {
            for message in messages(&body) {
                prop_assert_eq!(message.noise.is_some(), message.text.trim().is_empty());
            }
        }
    }
}
