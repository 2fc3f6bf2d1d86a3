//! Lines and marks that the gateway puts among the words of a message: media, delivery hints, events, directives, quoted
//! replies, outside content, orders to tools, what was written to memory files, and dream logs. Strips them, and nothing
//! else.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What each of the patterns of [`NOTES`] holds one of: most messages have none and are left alone.
const SIGNS: [&str; 27] = [
    "openclaw:",
    "<<<",
    "SECURITY NOTICE",
    "[Replying",
    "[[",
    "[media",
    "[Image",
    "[audio ",
    "[Voice note",
    "[User sent",
    "[Sticker",
    "[Attachment",
    "MEDIA:",
    "<media",
    "message_id",
    "message id: ",
    "Reference UTC",
    "System",
    "Delivery: ",
    "Active goal: ",
    "To send an image back",
    "Note: The previous agent run",
    "OpenClaw runtime context",
    "*** Begin Patch",
    "# Dream log",
    "_call",
    "<",
];

static NOTES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?s)<!--\s*openclaw:dreaming:[a-z0-9-]+:start\s*-->.*?<!--\s*openclaw:dreaming:[a-z0-9-]+:end\s*-->",
        r"(?s)<!--\s*openclaw:dreaming:.*?-->",
        r"(?s)<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|\z)",
        concat!(
            r"(?s)OpenClaw runtime context \(internal\):\nThis context is runtime-generated, not user-authored\.[^\n]*\n",
            r"(?:.*?\n\nAction:\n.*?(?:\n\n|\z)|.*?(?:\n\n\n|\z))",
        ),
        concat!(
            r"(?s)<<<EXTERNAL_UNTRUSTED_CONTENT[^>\n]*>>>.*?",
            r"(?:<<<END_EXTERNAL_UNTRUSTED_CONTENT[^>\n]*>>>|\z)",
        ),
        r"SECURITY NOTICE: The following content is from an EXTERNAL[^\n]*(?:\n[ \t]*- [^\n]*)*",
        concat!(
            r#"(?m)^Current message:\n\[Replying to: (?:"(?:[^"\\\n]|\\.)*"|[^\n]*)\](?:\n#\S+: ?)?|"#,
            r"(?s)\[Replying to [^\]\n]*\].*?\[/Replying\]",
        ),
        r"(?s)\[\[tts:text\]\].*?\[\[/tts:text\]\]",
        r"\[\[\s*(?:reply_to_current|reply_to:[^\]\n]*|audio_as_voice|/?tts(?::[^\]\n]*)?)\s*\]\]",
        concat!(
            r"\[media attached(?: \d+/\d+)?: [^\]\n]*\]|\[media (?:unavailable: [^\]\n]*|omitted)\]|",
            r"\[media reference removed - already processed by model\]|\[media_(?:ref|path):[^\]\n]*\]|",
            r"\[Image(?:: (?:source|original)[^\]\n]*| omitted: [^\]\n]*| attachment| converted from [^\]\n]*|",
            r" content omitted [^\]\n]*)\]|\[audio [a-z0-9.+/-]+\]|\[Voice note could not be [^\]\n]*\]|",
            r"\[Attachment(?: type not allowed[^\]\n]*| could not be read|: [^\]\n]*)\](?: \(download failed\))?|",
            r"\[User sent media without caption\]",
        ),
        r"(?m)^\[Sticker(?: [^\]\n]*)?\].*$",
        r"(?m)[ \t]*\[(?:[a-z]+ )?message(?:_id:| id:) ?[^\]\n]*\][ \t]*$",
        concat!(
            r"(?m)^[ \t]*(?:MEDIA:[ \t]*\S.*|<media:[a-z]+>.*|",
            r"To send an image back, prefer the message tool.*|",
            r"Delivery: (?:to send a message, use the `message` tool|Final assistant text is not auto|No visible reply is del).*|",
            r"Active goal: .* — advance; keep active.*|",
            r"Note: The previous agent run was (?:aborted by the user\. Resume carefully|interrupted\. Review the transcript).*|",
            r"Current time: .*\(.*\)[ \t]*\nReference UTC: .*)$",
        ),
        // An event of several lines has the mark before each of them, and the time before the first.
        r"(?m)^[ \t]*System(?: \(untrusted\))?: \[[^\]\n]+\].*(?:\n[ \t]*System(?: \(untrusted\))?: .*)*$",
        // Orders to tools that a model wrote as text; newer hooks leave them out, older ones do not.
        r"(?is)<(?:\|DSML\||｜DSML｜)?(?:tool_calls?|function_calls?|tool_use_error)\b[^>]*>.*?(?:</(?:\|DSML\||｜DSML｜)?(?:tool_calls?|function_calls?|tool_use_error)>|\z)",
        r"(?is)<system\b[^>]*>.*?</system>|<assistant\b[^>]*>.*?</assistant>|<user\b[^>]*>.*?</user>",
        r"(?is)<think>.*?</think>|<thinking>.*?</thinking>|<thought>.*?</thought>",
        // What was written to a memory file is no news, and a dream log least of all.
        r"(?ms)^\*\*\* Begin Patch\s*$.*?(?:^\*\*\* End Patch[ \t]*$|\z)",
        r"(?ms)^# Dream log \d{4}-\d{2}-\d{2} \d{2}:\d{2}\s*$.*\z",
    ]
    .into_iter()
    .map(pattern)
    .collect()
});

/// Strips the notes that stand inside a message.
pub(crate) fn without_notes(text: &str) -> String {
    let mut text = without_diffs(text.trim()).into_owned();
    if SIGNS.iter().any(|sign| text.contains(sign)) {
        for note in NOTES.iter() {
            if let Cow::Owned(without) = note.replace_all(&text, "") {
                text = without;
            }
        }
    }
    text.trim().to_owned()
}

/// Strips what shows a change of a memory file; other diffs are what people talk about.
fn without_diffs(text: &str) -> Cow<'_, str> {
    static FENCED: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?ms)^```(?:diff|patch)[^\n]*\n(?P<inside>.*?)^```[ \t]*$"));
    static OF_MEMORY: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?m)^(?:\+\+\+|---|diff --git|Index:|\*\*\*) .*(?:\bMEMORY\.md|\bmemory/)")
    });
    static BARE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?m)^(?:diff --git .*\n(?:index .*\n)?)?--- \S*(?:MEMORY\.md|memory/\S*).*\n",
            r"\+\+\+ .*(?:\n(?:@@|[ +\\-]).*)*$",
        ))
    });
    if !text.contains("MEMORY.md") && !text.contains("memory/") {
        return Cow::Borrowed(text);
    }
    let fenced = FENCED.replace_all(text, |found: &Captures<'_>| {
        if OF_MEMORY.is_match(&found["inside"]) { String::new() } else { found[0].to_owned() }
    });
    Cow::Owned(BARE.replace_all(&fenced, "").into_owned())
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}
