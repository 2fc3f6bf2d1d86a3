//! What the tests of the providers share: texts that may leave, a prompt, and budgets that wait milliseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Prompt;
use super::budget::{Budget, Limits, Patience};
use crate::config::MaskPii;
use crate::privacy::{Outbound, Privacy};

/// Texts for an embedder.
pub(crate) fn outbound(texts: &[&str]) -> Vec<Outbound> {
    let privacy = Privacy::new(MaskPii::Never, false);
    texts.iter().map(|text| privacy.to_embed(text)).collect()
}

/// A prompt with a small schema.
pub(crate) fn prompt(user: &str) -> Prompt {
    Prompt {
        system: "Say what is remembered.".into(),
        user: Privacy::new(MaskPii::Never, false).to_prompt(user),
        schema_name: "memories",
        schema: json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false }),
        max_tokens: 900,
    }
}

/// An hour, four requests at once, 30 retries.
pub(crate) fn limits(max_calls: u32) -> Limits {
    Limits::new(max_calls, 60, 4, Instant::now())
}

/// A budget for `max_calls` requests whose waits take milliseconds.
pub(crate) fn budget(max_calls: u32) -> Arc<Budget> {
    Budget::with_patience(limits(max_calls), patience())
}

/// Four tries, a millisecond between them, half a second a request.
pub(crate) fn patience() -> Patience {
    Patience {
        request: Duration::from_millis(500),
        first_delay: Duration::from_millis(1),
        longest_delay: Duration::from_millis(2),
        ..Patience::default()
    }
}
