//! What is asked of a gateway about a session, each a sandwich: parameters, one call, a pure reading of the answer.
//! Frames as recorded from openclaw 2026.9.6; older gateways lack `sessions.describe` and `expectedSessionId`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Gateway, GatewayError, Why};
use crate::openclaw::noise;

/// How many messages are looked at, the gateway's own limit.
const LIMIT: u64 = 1000;

/// A session that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its key as the gateway writes it.
    pub key: String,
    /// Its id.
    pub id: String,
}

/// What was said since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The session's id; none where no session exists.
    pub session_id: Option<String>,
    /// Messages of the user, without heartbeats, scheduled runs and commands.
    pub by_user: usize,
    /// Messages of user and assistant.
    pub messages: usize,
    /// Whether there are more than were looked at.
    pub is_cut: bool,
    /// Inputs that the agent has not taken up yet.
    pub waiting: usize,
    /// Whether the agent is at work.
    pub is_active: bool,
}

/// An agent the gateway has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: String,
    /// Where its workspace lies on the gateway's machine.
    pub workspace: Option<PathBuf>,
}

/// The agents; none where the gateway does not say.
pub async fn agents(gateway: &mut dyn Gateway) -> Result<Option<Vec<Agent>>, GatewayError> {
    match gateway.call("agents.list", json!({})).await {
        Ok(answer) => Ok(read_agents(&answer)),
        // Not worth failing for: it only helps to find folders and slips.
        Err(GatewayError::Denied { .. } | GatewayError::MissingScope { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the session exists. `None` for both is a gateway that cannot say.
pub async fn describe(gateway: &mut dyn Gateway, key: &str) -> Result<Described, GatewayError> {
    match gateway.call("sessions.describe", json!({ "key": key })).await {
        Ok(answer) => read_described(&answer),
        Err(error) if error.why() == Some(&Why::UnknownMethod) => Ok(Described::Unsaid),
        Err(error) => Err(error),
    }
}

/// What was said since the last reset.
pub async fn history(gateway: &mut dyn Gateway, key: &str) -> Result<History, GatewayError> {
    let answer = gateway.call("chat.history", json!({ "sessionKey": key, "limit": LIMIT })).await?;
    read_history(&answer)
}

/// Ends the session, if it still is `session`; gives its key as the gateway writes it.
pub async fn reset(gateway: &mut dyn Gateway, session: &Session) -> Result<String, GatewayError> {
    let mut params = json!({ "key": session.key, "reason": "new", "expectedSessionId": session.id });
    let answer = match gateway.call("sessions.reset", params.clone()).await {
        Err(error) if error.why() == Some(&Why::UnknownParameter("expectedSessionId".into())) => {
            tracing::info!("this gateway does not know expectedSessionId; asking again without it");
            params.as_object_mut().expect("it is an object").remove("expectedSessionId");
            gateway.call("sessions.reset", params).await?
        }
        answer => answer?,
    };
    if answer.get("ok") != Some(&Value::Bool(true)) {
        return Err(GatewayError::Unexpected { method: "sessions.reset", what: "it holds no \"ok\": true" });
    }
    Ok(answer.get("key").and_then(Value::as_str).unwrap_or(&session.key).to_string())
}

/// What a gateway says of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// It exists.
    Known(Session),
    /// It does not.
    Unknown,
    /// The gateway has no such method; the history tells.
    Unsaid,
}

fn read_described(answer: &Value) -> Result<Described, GatewayError> {
    let method = "sessions.describe";
    let session =
        answer.get("session").ok_or(GatewayError::Unexpected { method, what: "it holds no session" })?;
    if session.is_null() {
        return Ok(Described::Unknown);
    }
    let text = |key| session.get(key).and_then(Value::as_str).map(str::to_string);
    match (text("key"), text("sessionId")) {
        (Some(key), Some(id)) => Ok(Described::Known(Session { key, id })),
        // A row that was only prepared: nothing was ever said in it.
        (Some(_), None) => Ok(Described::Unknown),
        _ => Err(GatewayError::Unexpected { method, what: "its session has no key" }),
    }
}

fn read_history(answer: &Value) -> Result<History, GatewayError> {
    let messages = answer
        .get("messages")
        .and_then(Value::as_array)
        .ok_or(GatewayError::Unexpected { method: "chat.history", what: "it holds no messages" })?;
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_string);
    let is_user = |message: &&Value| role(message).as_deref() == Some("user");
    let info = answer.get("sessionInfo");
    let pending = answer.get("pendingInputs").and_then(|pending| pending.get("items")?.as_array());
    // Cancelled and interrupted inputs stay in the list and never run.
    let is_queued = |item: &&Value| item.get("state").is_none_or(|state| state == "queued");
    Ok(History {
        session_id: answer.get("sessionId").and_then(Value::as_str).map(str::to_string),
        by_user: messages.iter().filter(is_user).filter(|m| is_said(&words_of(m))).count(),
        messages: messages
            .iter()
            .filter(|m| matches!(role(m).as_deref(), Some("user" | "assistant")) && !words_of(m).is_empty())
            .count(),
        is_cut: answer.get("hasMore") == Some(&Value::Bool(true)),
        waiting: pending.map_or(0, |items| items.iter().filter(is_queued).count()),
        is_active: info.and_then(|info| info.get("hasActiveRun")) == Some(&Value::Bool(true)),
    })
}

/// Whether a person said it. Memories that the gateway puts before a prompt make a heartbeat no person's words.
fn is_said(words: &str) -> bool {
    let recalled =
        words.strip_prefix("<relevant-memories>").and_then(|rest| rest.split_once("</relevant-memories>"));
    noise::of_prompt(recalled.map_or(words, |(_, prompt)| prompt.trim_start())).is_none()
}

/// The text of a message: its content is a text, or a list of parts of which some are.
fn words_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.trim().to_string(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n").trim().to_string()
        }
        _ => String::new(),
    }
}

fn read_agents(answer: &Value) -> Option<Vec<Agent>> {
    let agents = answer.get("agents")?.as_array()?;
    let agent = |agent: &Value| {
        let workspace = agent.get("workspace").and_then(Value::as_str).map(PathBuf::from);
        Some(Agent { id: agent.get("id")?.as_str()?.to_string(), workspace })
    };
    Some(agents.iter().filter_map(agent).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_unknown_or_only_prepared() {
        let known = json!({"session": {"key": "agent:main:main", "sessionId": "s-1"}});
        let session = Session { key: "agent:main:main".into(), id: "s-1".into() };
        assert_eq!(read_described(&known).unwrap(), Described::Known(session));
        assert_eq!(read_described(&json!({"session": null})).unwrap(), Described::Unknown);
        assert_eq!(read_described(&json!({"session": {"key": "k"}})).unwrap(), Described::Unknown);
        assert!(read_described(&json!({})).is_err());
    }

    #[test]
    fn only_what_a_person_said_counts_as_said_by_the_user() {
        let answer = json!({"sessionId": "s-1", "hasMore": false, "messages": [
            {"role": "user", "content": "Anna visits on Thursday."},
            {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
            {"role": "assistant", "content": [{"type": "toolCall", "name": "x"}]},
            {"role": "toolResult", "content": "42"},
            {"role": "user", "content": [{"type": "text", "text": "Read HEARTBEAT.md if it exists (workspace context)."}]},
            {"role": "user", "content": "<relevant-memories>\n1. [fact] tea\n</relevant-memories>\n\nRead HEARTBEAT.md if it exists"},
            {"role": "user", "content": "<relevant-memories>\n1. [fact] tea\n</relevant-memories>\n\nI like it black."},
        ]});
        let history = read_history(&answer).unwrap();
        assert_eq!((history.by_user, history.messages), (2, 5));
        assert_eq!(history.session_id.as_deref(), Some("s-1"));
    }

    #[test]
    fn queued_inputs_wait_and_cancelled_ones_do_not() {
        let item = |state: &str| json!({"state": state, "message": {"role": "user", "content": "x"}});
        let answer = json!({"messages": [], "sessionInfo": {"hasActiveRun": true},
            "pendingInputs": {"items": [item("queued"), item("cancelled"), item("interrupted")], "total": 3}});
        let history = read_history(&answer).unwrap();
        assert_eq!((history.waiting, history.is_active, history.by_user), (1, true, 0));
    }
}
