//! Messages that nobody said: heartbeats, scheduled runs, webhooks, notices of the gateway, our own dream logs.
//! Only tells them; stripping what surrounds real words is `envelope`'s work.
//!
//! The openings are those of openclaw 2026.9.6 (`auto-reply/heartbeat`, `cron/isolated-agent`, `external-content`,
//! `commands.runtime`), and of 2026.4 where they differ.

use std::sync::LazyLock;

use regex::Regex;

/// A job of the scheduler, or a webhook's.
pub(crate) const SCHEDULED: &str = "scheduled run";
/// The gateway asks whether anything needs attention.
pub(crate) const HEARTBEAT: &str = "heartbeat";
/// The gateway tells the agent of an event.
pub(crate) const SYSTEM_EVENT: &str = "system event";
/// Another agent's order.
pub(crate) const TASK: &str = "task of another agent";
/// The gateway tells that a session ended.
pub(crate) const RESET: &str = "reset notice";
/// A slash command.
pub(crate) const COMMAND: &str = "command";
/// The agent chose to say nothing.
pub(crate) const NO_REPLY: &str = "no reply";
/// What Dreamer itself wrote.
pub(crate) const DREAM_LOG: &str = "dream log";
/// What the gateway's own dreaming wrote.
pub(crate) const DREAMING: &str = "dreaming block of the gateway";
/// A picture or a file without words, or only an envelope.
pub(crate) const NO_WORDS: &str = "no words";
/// The hook could not read the session.
pub(crate) const UNAVAILABLE: &str = "transcript was unavailable";
/// The gateway tells that the agent could not answer.
pub(crate) const FAILURE: &str = "failure notice";
/// The agent answers one of the above.
pub(crate) const ANSWER: &str = "reply to a scheduled run";

/// Why nobody said a prompt; none for a person's words.
pub(crate) fn of_prompt(text: &str) -> Option<&'static str> {
    const OPENINGS: [(&str, &str); 25] = [
        ("[cron:", SCHEDULED),
        ("Read HEARTBEAT.md if it exists", HEARTBEAT),
        ("Follow the heartbeat monitor scratch context", HEARTBEAT),
        ("[OpenClaw heartbeat poll]", HEARTBEAT),
        ("[OpenClaw exec completion]", SYSTEM_EVENT),
        ("[OpenClaw cron wake]", SYSTEM_EVENT),
        ("[OpenClaw session event]", SYSTEM_EVENT),
        ("An async command completion event was triggered", SYSTEM_EVENT),
        ("An async command did not run.", SYSTEM_EVENT),
        ("An async command the user already approved has completed", SYSTEM_EVENT),
        ("An async command you ran earlier ", SYSTEM_EVENT),
        ("A background task completed. Use this result to reply", SYSTEM_EVENT),
        ("A background task completed. Keep internal details private", SYSTEM_EVENT),
        ("[Internal task completion event]", SYSTEM_EVENT),
        ("Continue pursuing the current goal.", SYSTEM_EVENT),
        ("(session bootstrap)", SYSTEM_EVENT),
        ("A scheduled reminder has been triggered.", SCHEDULED),
        ("Run the following periodic tasks (only those due", HEARTBEAT),
        ("Pre-compaction memory flush", SYSTEM_EVENT),
        ("A new session was started via /new or /reset", RESET),
        ("[Subagent Context]", TASK),
        ("[Subagent Task]", TASK),
        ("[Inter-session message]", TASK),
        ("HEARTBEAT_OK", HEARTBEAT),
        ("# Dream log", DREAM_LOG),
    ];
    let text = without_stamp(text);
    if let Some((_, reason)) = OPENINGS.iter().find(|(opening, _)| text.starts_with(opening)) {
        return Some(reason);
    }
    if text.contains("This is an unattended scheduled run.")
        || text.contains("<<<EXTERNAL_UNTRUSTED_CONTENT") && text.starts_with("Job ID:")
    {
        return Some(SCHEDULED);
    }
    static COMMANDS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"^/(?:new|reset|status|models?|think|verbose|reasoning|compact|stop|help|commands|usage|elevated|queue|",
            r"context|whoami|restart|activation|send|approve|tts|config|debug|exec|export)(?:@\w+)?(?: \S+)?$",
        ))
    });
    if COMMANDS.is_match(text) {
        return Some(COMMAND);
    }
    of_silence(text)
}

/// Why a prompt of which nothing is left was sent: for an event, if that is what was taken out of it.
pub(crate) fn of_emptied(written: &str) -> Option<&'static str> {
    const EVENTS: [&str; 4] = [
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
        "OpenClaw runtime context (internal):",
        "System: [",
        "System (untrusted): [",
    ];
    EVENTS.iter().any(|event| written.contains(event)).then_some(SYSTEM_EVENT)
}

/// Why an assistant's message says nothing; none if it does.
pub(crate) fn of_reply(text: &str) -> Option<&'static str> {
    static NOTICE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:✅|🆕)\s*(?:New session started|Session reset)\b"));
    if NOTICE.is_match(text) {
        return Some(RESET);
    }
    if text.trim_matches(['*', '_', '`', '.', '!', ' ', '\n']) == "HEARTBEAT_OK" {
        return Some(HEARTBEAT);
    }
    if text.starts_with("# Dream log") {
        return Some(DREAM_LOG);
    }
    const FAILURES: [&str; 3] =
        ["⚠️ Agent failed before reply", "⚠️ Agent couldn't generate a response", "⚠️ Context overflow"];
    if FAILURES.iter().any(|failure| text.starts_with(failure)) {
        return Some(FAILURE);
    }
    of_silence(text)
}

/// Whether the agent's next words answer nobody either.
pub(crate) fn is_unattended(reason: &str) -> bool {
    [SCHEDULED, HEARTBEAT, SYSTEM_EVENT, TASK, RESET].contains(&reason)
}

/// Strips the silent tokens from the edges of words that are otherwise meant for people.
pub(crate) fn without_tokens(text: &str) -> &str {
    let mut text = text.trim();
    for token in ["NO_REPLY", "HEARTBEAT_OK"] {
        // At the end only on a line of its own, as the hook does: a sentence may speak of the token.
        if let Some(before) = text.strip_suffix(token)
            && before.trim_end_matches([' ', '\t']).ends_with('\n')
        {
            text = before.trim();
        }
        if let Some(after) = text.strip_prefix(token)
            && after.starts_with('\n')
        {
            text = after.trim();
        }
    }
    text
}

/// The words after `/new` or `/reset`: the gateway makes them the first message of the next session.
pub(crate) fn without_command(text: &str) -> &str {
    static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"^/(?:new|reset)(?:@\w+)?\s+"));
    COMMAND.find(text).map_or(text, |command| &text[command.end()..])
}

fn of_silence(text: &str) -> Option<&'static str> {
    static SILENT: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"^(?i:NO_REPLY\.?|\{\s*"action"\s*:\s*"NO_REPLY"\s*\})$"#));
    SILENT.is_match(text.trim()).then_some(NO_REPLY)
}

/// The gateway puts the time before its own prompts too.
fn without_stamp(text: &str) -> &str {
    static STAMP: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^\[[A-Z][a-z]{2} \d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}[^\]\n]*\] *"));
    let text = text.trim();
    STAMP.find(text).map_or(text, |stamp| &text[stamp.end()..])
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_nobody_wrote_are_told() {
        let cases = [
            ("[cron:1 backup] Back up the notes", Some(SCHEDULED)),
            ("[Mon 2026-11-30 07:38 UTC] [OpenClaw heartbeat poll]", Some(HEARTBEAT)),
            ("Read HEARTBEAT.md if it exists (workspace context).", Some(HEARTBEAT)),
            ("Do it. This is an unattended scheduled run. Nobody is present", Some(SCHEDULED)),
            ("/new", Some(COMMAND)),
            ("/model gpt-5", Some(COMMAND)),
            ("NO_REPLY", Some(NO_REPLY)),
            ("/etc/hosts is broken", None),
            ("/new I moved to Rome", None),
            ("What is HEARTBEAT_OK?", None),
            ("Job ID: 7 is mine", None),
            ("I dreamt of a dream log", None),
        ];
        for (text, reason) in cases {
            assert_eq!(of_prompt(text), reason, "{text}");
        }
    }

    #[test]
    fn replies_that_say_nothing_are_told() {
        let cases = [
            ("✅ New session started.", Some(RESET)),
            ("✅ New session started · model: gpt-5", Some(RESET)),
            ("✅ Session reset.", Some(RESET)),
            ("**HEARTBEAT_OK**", Some(HEARTBEAT)),
            ("{\"action\": \"NO_REPLY\"}", Some(NO_REPLY)),
            ("# Dream log 2026-11-30", Some(DREAM_LOG)),
            ("✅ Booked for Thursday.", None),
            ("NO_REPLY means silence", None),
        ];
        for (text, reason) in cases {
            assert_eq!(of_reply(text), reason, "{text}");
        }
    }

    #[test]
    fn tokens_at_the_edges_go_and_words_stay() {
        assert_eq!(without_tokens("The door is open.\nNO_REPLY"), "The door is open.");
        assert_eq!(without_tokens("HEARTBEAT_OK\nThe door is open."), "The door is open.");
        assert_eq!(without_tokens("It answers NO_REPLY"), "It answers NO_REPLY");
        assert_eq!(without_command("/new I moved to Rome"), "I moved to Rome");
    }
}
