//! One event of a transcript: a message with what it says and calls, a tool's result, a reset, a change of branch. Reads
//! only what a night needs; pictures, thinking and all other tools' results are left out.
//!
//! Facts, read in the source of openclaw 2026.9.6 and 2026.4.15 and in real transcripts of both:
//! - A line of a session's JSONL, or a row of `transcript_events`, is `{type, id, parentId, timestamp, …}`; the first one
//!   is `{type: "session", id, version}`.
//! - `message.content` is a string or a list of blocks (`text`, `thinking`, `toolCall`); `message.timestamp` is in
//!   milliseconds. A user's message may have `provenance.kind` (`inter_session`, `internal_system`: nobody said it) and
//!   `__openclaw` with `senderIsOwner`, `senderId`, `senderName`, `senderUsername`.
//! - `provider: "openclaw"` is the gateway's own voice: `gateway-injected` is a notice, `delivery-mirror` a copy of what
//!   was delivered.
//! - `memory_recall` answers `details.memories[].id`, `memory_forget` `details.action: "deleted"` and `details.id`; a call
//!   that failed has `isError`, `details.status: "error"` or `details.error`.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::language;
use crate::openclaw::envelope::Sender;
use crate::openclaw::noise;

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Line in the file, or `seq` of the row, counted from 1.
    pub number: usize,
    /// Its id in the tree.
    pub id: Option<String>,
    /// What it follows; none if it does not say, `Some(None)` for a root.
    pub parent: Option<Option<String>>,
    /// Beside the branch, whatever it follows.
    pub side: bool,
    /// When.
    pub at: Option<DateTime<Utc>>,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// The session's first line, with its id.
    Header(String),
    /// Somebody wrote.
    Said(Said),
    /// A memory tool answered.
    Answered(Answer),
    /// `/new`, `/reset` or a reset by the clock: another conversation begins.
    Reset,
    /// Another branch is the current one: it ends at that event.
    Leaf(Option<String>),
    /// An event of the tree that says nothing.
    Other,
    /// Nothing of the tree.
    Stray,
}

/// A message of the user's side or the assistant's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Said {
    /// Whether it is the user's side.
    pub user: bool,
    /// Its text blocks.
    pub text: String,
    /// Who sent it, as far as the gateway noted.
    pub sender: Option<Sender>,
    /// Whether the gateway took the sender for its owner.
    pub is_owner: Option<bool>,
    /// Why nobody said it.
    pub nobody: Option<&'static str>,
    /// A copy of what was delivered to a channel.
    pub mirror: bool,
}

/// What a memory tool answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// `memory_recall` found these: id and text; older gateways may tell the text alone.
    Recalled(Vec<(Option<String>, String)>),
    /// `memory_forget` deleted this one. The call's id tells it from others.
    Forgot { call: String, id: String, text: Option<String> },
    /// `memory_store` made this row.
    Stored(String),
    /// Anything else: nothing found, a question back, a failure.
    Nothing,
}

/// Reads one event; none if it is no JSON object.
pub(crate) fn read(json: &str, number: usize) -> Option<Line> {
    let value: Value = serde_json::from_str(json).ok()?;
    let fields = value.as_object()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("type").unwrap_or_default();
    let id = text("id").filter(|id| !id.trim().is_empty());
    let parent = match fields.get("parentId") {
        Some(Value::Null) => Some(None),
        Some(Value::String(parent)) if !parent.trim().is_empty() => Some(Some(parent.clone())),
        _ => None,
    };
    let message = &value["message"];
    let event = match kind.as_str() {
        "session" => Event::Header(id.clone().unwrap_or_default()),
        "message" => of_message(message),
        "reset" => Event::Reset,
        "leaf" => Event::Leaf(text("targetId")),
        "model_change"
        | "thinking_level_change"
        | "compaction"
        | "branch_summary"
        | "custom"
        | "custom_message"
        | "label"
        | "session_info" => Event::Other,
        _ => Event::Stray,
    };
    let at = time(&message["timestamp"]).or_else(|| time(&value["timestamp"]));
    Some(Line { number, id, parent, side: value["appendMode"] == "side", at, event })
}

fn time(value: &Value) -> Option<DateTime<Utc>> {
    match value {
        Value::Number(number) => DateTime::from_timestamp_millis(number.as_f64()? as i64),
        Value::String(text) => DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc()),
        _ => None,
    }
}

fn of_message(message: &Value) -> Event {
    match message["role"].as_str() {
        Some("user") => Event::Said(Said {
            user: true,
            text: text_of(&message["content"]),
            sender: sender_of(&message["__openclaw"]),
            is_owner: message["__openclaw"]["senderIsOwner"].as_bool(),
            nobody: nobody(message),
            mirror: false,
        }),
        Some("assistant") => {
            let own_voice = message["provider"] == "openclaw";
            let notice = own_voice && message["model"] == "gateway-injected";
            Event::Said(Said {
                text: text_of(&message["content"]),
                nobody: notice.then_some(noise::COMMAND),
                mirror: own_voice && message["model"] == "delivery-mirror"
                    || message["openclawDeliveryMirror"].is_object(),
                ..Said::default()
            })
        }
        Some("toolResult") => answer(message).map_or(Event::Other, Event::Answered),
        _ => Event::Other,
    }
}

/// Why nobody said a message of the user's side.
fn nobody(message: &Value) -> Option<&'static str> {
    match message["provenance"]["kind"].as_str() {
        Some("inter_session") => Some(noise::TASK),
        Some("internal_system") => Some(noise::SYSTEM_EVENT),
        _ if message["__openclaw"]["contextFreeCommand"] == true => Some(noise::COMMAND),
        _ => None,
    }
}

fn sender_of(noted: &Value) -> Option<Sender> {
    let named = |name: &str| match &noted[name] {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let aliases = ["senderName", "senderUsername", "senderId", "senderE164"].map(named);
    let aliases: Vec<String> = aliases.into_iter().filter(|alias| !alias.is_empty()).collect();
    Some(Sender { name: aliases.first()?.clone(), aliases })
}

/// The text blocks of a content, one below the other, without characters that hide orders from people.
fn text_of(content: &Value) -> String {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| {
                (block["type"] == "text").then(|| block["text"].as_str().map(str::to_owned)).flatten()
            };
            blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    };
    let text = text.replace("\r\n", "\n").replace(['\r', '\0'], "\n");
    language::without_controls(&text).into_owned()
}

/// What a memory tool's result says; none for other tools.
fn answer(message: &Value) -> Option<Answer> {
    let details = &message["details"];
    let failed = message["isError"] == true || details["status"] == "error" || !details["error"].is_null();
    let text = text_of(&message["content"]);
    // A failure of older gateways is told in the text alone.
    let failed = failed
        || serde_json::from_str::<Value>(&text)
            .is_ok_and(|told| told["status"] == "error" || !told["error"].is_null());
    let tool = message["toolName"].as_str()?;
    let answer = match tool {
        "memory_recall" | "memory_forget" | "memory_store" if failed => Answer::Nothing,
        "memory_recall" => Answer::Recalled(recalled(details, &text)),
        "memory_forget" => forgot(message, &text),
        "memory_store" if details["action"] == "created" => {
            details["id"].as_str().map_or(Answer::Nothing, |id| Answer::Stored(id.to_owned()))
        }
        "memory_store" => Answer::Nothing,
        _ => return None,
    };
    Some(answer)
}

fn recalled(details: &Value, text: &str) -> Vec<(Option<String>, String)> {
    let Some(memories) = details["memories"].as_array() else { return recalled_in(text) };
    let memory = |memory: &Value| {
        let id = memory["id"].as_str().map(str::to_owned);
        let text = memory["text"].as_str().unwrap_or_default().to_owned();
        (id.is_some() || !text.is_empty()).then_some((id, text))
    };
    memories.iter().filter_map(memory).collect()
}

/// A result without details: `1. [fact] text (58%)` a memory.
fn recalled_in(text: &str) -> Vec<(Option<String>, String)> {
    if !text.starts_with("Found ") {
        return Vec::new();
    }
    let memory = |line: &str| {
        let (number, rest) = line.split_once(". [")?;
        number.parse::<usize>().ok()?;
        let (_, told) = rest.split_once("] ")?;
        let told =
            told.rsplit_once(" (").filter(|(_, score)| score.ends_with("%)")).map_or(told, |(told, _)| told);
        Some((None, told.to_owned()))
    };
    text.lines().filter_map(memory).collect()
}

fn forgot(message: &Value, text: &str) -> Answer {
    let details = &message["details"];
    let told = text.strip_prefix("Memory ").and_then(|rest| rest.strip_suffix(" forgotten."));
    let id = match details["action"].as_str() {
        Some("deleted") => details["id"].as_str(),
        Some(_) => None,
        None => told,
    };
    let Some(id) = id else { return Answer::Nothing };
    let quoted = text.strip_prefix("Forgotten: \"").and_then(|rest| rest.strip_suffix('"'));
    let call = message["toolCallId"].as_str().unwrap_or_default().to_owned();
    Answer::Forgot { call, id: id.to_owned(), text: quoted.map(str::to_owned) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn lines(fixture: &str) -> Vec<Line> {
        fixture.lines().enumerate().map(|(index, line)| read(line, index + 1).unwrap()).collect()
    }

    fn answers(lines: &[Line]) -> Vec<(usize, Answer)> {
        let answer = |line: &Line| match &line.event {
            Event::Answered(answer) => Some((line.number, answer.clone())),
            _ => None,
        };
        lines.iter().filter_map(answer).collect()
    }

    #[test]
    fn the_real_transcripts_recall_three_memories_a_success_and_none_a_failure() {
        let old = lines(include_str!("../../../tests/fixtures/openclaw/session-2026.4.15.jsonl"));
        let told = answers(&old);
        assert_eq!(told.len(), 4, "two stores, two recalls");
        assert_eq!((&told[0].1, &told[1].1), (&Answer::Nothing, &Answer::Nothing), "both failed");
        assert_eq!(told[2].1, Answer::Stored("82f69923-1a4f-41bf-8ece-0612c1c5b110".into()));
        let Answer::Recalled(memories) = &told[3].1 else { panic!("a recall") };
        let ids: Vec<&str> = memories.iter().filter_map(|(id, _)| id.as_deref()).collect();
        assert_eq!(
            ids,
            [
                "82f69923-1a4f-41bf-8ece-0612c1c5b110",
                "f82f7b1e-2681-4660-af1f-e593e2585b5f",
                "6781e9b3-dc26-4bba-8f28-d2fbfa5165b0"
            ]
        );
        let new =
            lines(include_str!("../../../tests/fixtures/openclaw/session-2026.9.6.transcript_events.jsonl"));
        let recalls: Vec<usize> = answers(&new)
            .iter()
            .filter_map(|(_, answer)| match answer {
                Answer::Recalled(memories) => Some(memories.len()),
                _ => None,
            })
            .collect();
        assert_eq!(recalls, [3]);
        assert_eq!(new.iter().filter(|line| line.event == Event::Reset).count(), 5);
    }

    #[test]
    fn only_a_call_that_deleted_forgets() {
        let result = |details: &str, text: &str, error: bool| {
            format!(
                "{{\"type\":\"message\",\"id\":\"1\",\"parentId\":null,\"message\":{{\"role\":\"toolResult\",\
                 \"toolCallId\":\"c\",\"toolName\":\"memory_forget\",\"isError\":{error},\
                 \"content\":[{{\"type\":\"text\",\"text\":{}}}],\"details\":{details}}}}}",
                Value::from(text)
            )
        };
        let told = |details: &str, text: &str, error: bool| match read(&result(details, text, error), 1)
            .unwrap()
            .event
        {
            Event::Answered(Answer::Forgot { id, text, .. }) => Some((id, text)),
            _ => None,
        };
        let deleted = "{\"action\":\"deleted\",\"id\":\"a\"}";
        assert_eq!(told(deleted, "Memory a forgotten.", false), Some(("a".into(), None)));
        assert_eq!(told(deleted, "Forgotten: \"tea\"", false), Some(("a".into(), Some("tea".into()))));
        assert_eq!(told("null", "Memory a forgotten.", false), Some(("a".into(), None)), "without details");
        for (details, text, error) in [
            (deleted, "Memory a forgotten.", true),
            ("{\"action\":\"candidates\",\"candidates\":[{\"id\":\"a\"}]}", "Found 2 candidates.", false),
            ("{\"found\":0}", "No matching memories found.", false),
            ("{\"error\":\"missing_param\"}", "Provide query or memoryId.", false),
            ("{\"status\":\"error\",\"error\":\"busy\"}", "{\"status\":\"error\"}", false),
        ] {
            assert_eq!(told(details, text, error), None, "{details}");
        }
    }

    #[test]
    fn a_recall_without_details_tells_its_texts() {
        let text = "Found 2 memories:\n\n1. [fact] Anna (my sister) is 30 (58%)\n2. [entity] Tea (33%)";
        let texts: Vec<String> = recalled_in(text).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["Anna (my sister) is 30", "Tea"]);
        assert!(recalled_in("No relevant memories found.").is_empty());
    }

    #[test]
    fn what_nobody_said_is_marked() {
        let event = |extra: &str| {
            let json =
                format!("{{\"type\":\"message\",\"id\":\"1\",\"parentId\":null,\"message\":{{{extra}}}}}");
            match read(&json, 1).unwrap().event {
                Event::Said(said) => said,
                other => panic!("{other:?}"),
            }
        };
        let of = |kind: &str| {
            event(&format!("\"role\":\"user\",\"content\":\"x\",\"provenance\":{{\"kind\":\"{kind}\"}}"))
                .nobody
        };
        assert_eq!((of("inter_session"), of("external_user")), (Some(noise::TASK), None));
        let notice = event(
            "\"role\":\"assistant\",\"provider\":\"openclaw\",\"model\":\"gateway-injected\",\"content\":\"x\"",
        );
        assert!(notice.nobody.is_some());
        let said = event(
            "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"b\"}],\"__openclaw\":{\"senderName\":\"Bob\",\"senderId\":7,\"senderIsOwner\":false}",
        );
        assert_eq!((said.text.as_str(), said.is_owner), ("a\n\nb", Some(false)));
        assert_eq!(said.sender.unwrap().aliases, ["Bob", "7"]);
    }

    #[test]
    fn what_is_no_object_is_no_event() {
        assert_eq!(read("{\"type\":\"message\",", 1), None);
        assert_eq!(read("[]", 1), None);
    }
}
