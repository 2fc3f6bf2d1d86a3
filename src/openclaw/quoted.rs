//! What the gateway quotes beside a person's words in one message: the notes of earlier days, the history of a group or a
//! thread, messages that waited in a queue, what somebody else wrote, and what a machine heard or saw in a recording or a
//! picture. Gives back the person's own words; single lines and markers are `notes`'s work.
//!
//! Facts, read in the source of openclaw 2026.9.6 and 2026.4.15 (`startup-context`, `reply/history`, `reply/queue/drain`,
//! `media-understanding/format`, `get-reply-run`): each constant below is one of its strings.

use std::sync::LazyLock;

use regex::Regex;

/// Opens the notes of the last days that the gateway loads into a new session: our own episodes, among others.
const STARTUP: &str = "[Startup context loaded by runtime]";
/// Closes one of these notes.
const END_OF_NOTES: &str = "END_QUOTED_NOTES";
/// Says that there would have been more of them.
const MORE_NOTES: &str = "...[additional startup memory truncated]...";

/// What opens the words of others, and the line that ends them.
const HISTORIES: [(&str, &str); 4] = [
    ("[Chat messages since your last reply - for context]", "[Current message - respond to this]"),
    ("[Recent chat messages - for context]", "[Current message - respond to this]"),
    ("[Thread conversation - ", "[Current message]"),
    ("[Thread history]", "[/Thread history]"),
];

/// What opens the beginning of a thread before a message.
const THREADS: [&str; 2] = ["[Thread starter - for context]", "[Thread history - for context]"];

/// Messages that were written while the agent worked come as one.
const QUEUES: [&str; 2] =
    ["[Queued messages while agent was busy]", "[Queued announce messages while agent was busy]"];

/// The pairs of lines between which nothing is anybody's message, however it looks: for readers of raw files.
pub(crate) const BLOCKS: [(&str, &str); 5] = [
    ("<relevant-memories>", "</relevant-memories>"),
    ("<active_memory_plugin>", "</active_memory_plugin>"),
    ("BEGIN_QUOTED_NOTES", END_OF_NOTES),
    ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ("<<<EXTERNAL_UNTRUSTED_CONTENT", "<<<END_EXTERNAL_UNTRUSTED_CONTENT"),
];

/// The messages of a queue, each with the name the queue gives its sender; the text itself where it is none.
pub(crate) fn queued(text: &str) -> Vec<(Option<String>, &str)> {
    static ITEM: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?m)^---\nQueued #\d+(?: \(from (?P<from>[^)\n]{1,120})\))?\n"));
    let is_queue = QUEUES.iter().any(|title| text.trim_start().starts_with(title));
    let items: Vec<_> = if is_queue { ITEM.captures_iter(text).collect() } else { vec![] };
    if items.is_empty() {
        return vec![(None, text)];
    }
    let start =
        |index: usize| items.get(index).and_then(|item| item.get(0)).map_or(text.len(), |m| m.start());
    let queued = items.iter().enumerate().map(|(index, item)| {
        let from = item.name("from").map(|from| from.as_str().trim().to_owned());
        (from, text[start(index) + item[0].len()..start(index + 1)].trim())
    });
    queued.collect()
}

/// The text without the notes of earlier days and without what others wrote before the message.
pub(crate) fn without_history(text: &str) -> String {
    let mut text = without_startup(text);
    for (opening, closing) in HISTORIES {
        // The last closing line counts: what others wrote may hold one.
        let Some(start) = line_with(&text, opening) else { continue };
        let Some(end) = last_line(&text[start..], closing) else { continue };
        let after = text[start + end..].trim_start_matches('\n').to_owned();
        text.truncate(start);
        text.push_str(&after);
    }
    without_thread(text)
}

fn without_startup(text: &str) -> String {
    let Some(start) = line_with(text, STARTUP) else { return text.to_owned() };
    let rest = &text[start..];
    let end = last_line(rest, MORE_NOTES).or_else(|| last_line(rest, END_OF_NOTES));
    // Without any notes it is the header's own paragraph.
    let end = end.or_else(|| rest.find("\n\n")).unwrap_or(rest.len());
    format!("{}{}", &text[..start], rest[end..].trim_start())
}

/// What a thread began with stands before the message, up to the blocks that tell of the message, else up to a blank line.
fn without_thread(text: String) -> String {
    static CONTEXT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?m)^(?:Conversation info|Sender)(?: \(untrusted metadata\))?:(?: ⟦openclaw:ctx⟧)?$")
    });
    let Some(rest) = THREADS.iter().find_map(|opening| text.trim_start().strip_prefix(opening)) else {
        return text;
    };
    let context = CONTEXT.find(rest).map(|found| found.start());
    context.or_else(|| rest.find("\n\n")).map_or_else(String::new, |end| rest[end..].trim_start().to_owned())
}

/// Takes the mark of a forwarded message from the beginning: whose words it holds. What somebody forwards below words of
/// their own is left out.
pub(crate) fn take_forwarded(text: &mut String) -> Option<String> {
    static MARK: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?m)^\[Forwarded (?:from (?P<from>[^\]\n]+?)(?: at [^\]\n]+)?|message(?: from (?P<by>[^\]\n]+))?)\]",
            r"(?:[ \t]*\n|[ \t]+|\z)",
        ))
    });
    let found = MARK.captures(text)?;
    let whole = found.get(0)?;
    if whole.start() > 0 {
        text.truncate(whole.start());
        text.truncate(text.trim_end().len());
        return None;
    }
    let from =
        found.name("from").or_else(|| found.name("by")).map_or("somebody", |from| from.as_str().trim());
    let from = from.to_owned();
    text.drain(..whole.end());
    Some(from)
}

/// Unwraps what a machine heard and saw: spoken words are the person's, a description of a picture or a film is nobody's.
pub(crate) fn without_descriptions(text: &str) -> String {
    static TRANSCRIPT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"\[Audio transcript \(machine-generated, untrusted\)\]: (?P<said>"(?:[^"\\]|\\.)*")"#)
    });
    static SECTION: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?m)^\[(?P<kind>Audio|Image|Video)(?: \d+/\d+)?\]\n(?:(?P<text>User text):\n|(?:Transcript|Description):\n)",
        )
    });
    static LABEL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^(?:Transcript|Description):\n"));
    let said = |found: &regex::Captures<'_>| serde_json::from_str(&found["said"]).unwrap_or_default();
    let text = match text.contains("[Audio transcript") {
        true => {
            TRANSCRIPT.replace_all(text, |found: &regex::Captures<'_>| -> String { said(found) }).into_owned()
        }
        false => text.to_owned(),
    };
    let sections: Vec<_> = SECTION.captures_iter(&text).collect();
    let start = |index: usize| sections.get(index).and_then(|s| s.get(0)).map_or(text.len(), |s| s.start());
    if sections.is_empty() {
        return text;
    }
    let before = text[..start(0)].trim();
    let mut kept = vec![before.strip_prefix("User text:\n").unwrap_or(before)];
    for (index, section) in sections.iter().enumerate() {
        let mut body = &text[start(index) + section[0].len()..start(index + 1)];
        if section.name("text").is_some() {
            let label = LABEL.find(body).map_or(body.len()..body.len(), |label| label.range());
            kept.push(body[..label.start].trim());
            body = &body[label.end..];
        }
        if &section["kind"] == "Audio" {
            kept.push(body.trim());
        }
    }
    kept.retain(|part| !part.is_empty());
    kept.join("\n\n")
}

/// Where a line begins that begins with these words.
fn line_with(text: &str, words: &str) -> Option<usize> {
    let starts = |at: &usize| *at == 0 || text[..*at].ends_with('\n');
    text.match_indices(words).map(|(at, _)| at).find(starts)
}

/// The end of the last line that is just that.
fn last_line(text: &str, line: &str) -> Option<usize> {
    let whole = |at: &usize| {
        let after = &text[*at + line.len()..];
        (*at == 0 || text[..*at].ends_with('\n')) && (after.is_empty() || after.starts_with(['\n', '\r']))
    };
    text.rmatch_indices(line).map(|(at, _)| at).find(whole).map(|at| at + line.len())
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}
