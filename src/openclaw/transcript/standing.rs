//! What a session is: a conversation with people, the work of a machine, or one that wanted to leave no trace. Told from
//! its key and from what the gateway keeps about it. Pure.
//!
//! Facts, read in the source of openclaw 2026.9.6 (`session-key`, `session-visibility`, `openclaw-agent-schema`):
//! incognito sessions are held in memory and named `agent:<id>:dashboard:incognito-…`; cron, webhooks, sub-agents and
//! coding harnesses have `cron:`, `hook:`, `subagent:`, `acp:` after the agent, a heartbeat of its own ends in
//! `:heartbeat`; a draft is seen by nobody but who made it.

use serde_json::Value;

/// What a session is; the later, the less may be read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Standing {
    /// A conversation: its messages are episodes.
    #[default]
    Conversation,
    /// Nobody took part: no message counts, but that a memory was recalled or forgotten does.
    Unattended,
    /// Private or incognito: nothing is read.
    Private,
}

/// Of a session key and the session's entry (`sessions.json`, `session_nodes.entry_json`).
pub(crate) fn of(key: Option<&str>, entry: &Value) -> Standing {
    let key = key.unwrap_or_default().to_lowercase();
    let parts: Vec<&str> = match key.strip_prefix("agent:") {
        Some(rest) => rest.split(':').skip(1).collect(),
        None => key.split(':').collect(),
    };
    let is = |name: &str| entry[name] == Value::Bool(true);
    let holds = |name: &str| entry[name].as_str().is_some_and(|text| !text.trim().is_empty());
    let private = matches!(entry["visibility"].as_str(), Some("draft" | "private"));
    if is("incognito") || is("private") || private || parts.iter().any(|part| part.starts_with("incognito-"))
    {
        return Standing::Private;
    }
    let machine = matches!(
        parts.first(),
        Some(&"cron" | &"hook" | &"subagent" | &"acp" | &"node" | &"internal-session-effects")
    );
    let heartbeat = parts.len() > 1 && parts.last() == Some(&"heartbeat");
    let spawned = holds("spawnedBy")
        || entry["spawnDepth"].as_u64().is_some_and(|depth| depth > 0)
        || holds("heartbeatIsolatedBaseSessionKey")
        || entry["acp"].is_object()
        || holds("hookExternalContentSource")
        || matches!(entry["createdVia"].as_str(), Some("cron" | "spawn" | "internal"));
    if machine || heartbeat || spawned { Standing::Unattended } else { Standing::Conversation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_tells_what_a_session_is() {
        for (key, standing) in [
            ("agent:main:main", Standing::Conversation),
            ("agent:main:telegram:group:-100", Standing::Conversation),
            ("agent:main:openai:incognito-lovers", Standing::Private),
            ("agent:main:dashboard:incognito-1f", Standing::Private),
            ("agent:main:dashboard:1f", Standing::Conversation),
            ("agent:main:cron:job:run:1", Standing::Unattended),
            ("agent:main:hook:gmail", Standing::Unattended),
            ("agent:main:subagent:1f", Standing::Unattended),
            ("agent:main:acp:codex", Standing::Unattended),
            ("agent:main:main:heartbeat", Standing::Unattended),
            ("heartbeat", Standing::Conversation),
        ] {
            assert_eq!(of(Some(key), &Value::Null), standing, "{key}");
        }
        assert_eq!(of(None, &Value::Null), Standing::Conversation);
    }

    #[test]
    fn an_entry_tells_it_too() {
        for (entry, standing) in [
            (json!({"incognito": true}), Standing::Private),
            (json!({"visibility": "draft"}), Standing::Private),
            (json!({"visibility": "shared", "chatType": "direct"}), Standing::Conversation),
            (json!({"spawnedBy": "agent:main:main"}), Standing::Unattended),
            (json!({"spawnDepth": 1}), Standing::Unattended),
            (json!({"createdVia": "cron"}), Standing::Unattended),
            (json!({"createdVia": "channel"}), Standing::Conversation),
        ] {
            assert_eq!(of(Some("agent:main:x"), &entry), standing, "{entry}");
        }
    }
}
