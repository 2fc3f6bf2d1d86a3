//! A server's answer to a request it did not accept, read from whatever shape it has: what it does not like, and whether
//! that is the request's way, its content, or the account. Pure; whether to ask again is for `http.rs` and the providers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The server's answer to a request it did not accept; trying the same again is pointless.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rejection {
    /// HTTP status.
    pub(crate) status: u16,
    /// What the server said: shortened, secrets removed.
    pub(crate) message: String,
    /// `error.code` and `error.type`, also the inner ones.
    code: String,
    /// `error.param`: the parameter it did not like.
    param: String,
    /// When the account's limit ends, in milliseconds since 1970, where the body says.
    pub(crate) resets_at: Option<i64>,
}

impl Rejection {
    /// Reads an answer of this status. The message still has to be made fit to be shown.
    pub(crate) fn read(status: u16, text: &str) -> Self {
        let body: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let error = error_of(&body);
        let message = ["message", "detail", "error"].iter().find_map(|name| error.get(*name));
        let mut message = match (error, message) {
            (Value::String(message), _) | (_, Some(Value::String(message))) => message.clone(),
            (_, Some(other)) => other.to_string(),
            _ => text.to_owned(),
        };
        // A relay says in `metadata.raw` what the server behind it said.
        if let Some(raw) = error["metadata"]["raw"].as_str().filter(|raw| !raw.trim().is_empty()) {
            message = format!("{message}: {raw}");
        }
        let code = [&error["code"], &error["type"], &error["innererror"]["code"]].map(word).join(" ");
        let reset = &error["metadata"]["headers"]["X-RateLimit-Reset"];
        let resets_at = reset.as_i64().or_else(|| reset.as_str()?.trim().parse().ok());
        Self { status, message, code, param: word(&error["param"]), resets_at }
    }

    /// Whether the server names one of these words as what it did not like.
    pub(crate) fn names(&self, words: &[&str]) -> bool {
        let said = format!("{} {}", self.param, self.message).to_lowercase();
        words.iter().any(|word| said.contains(word))
    }

    /// Whether the text, and not the way it was sent, is too long for the model.
    pub(crate) fn is_too_long(&self) -> bool {
        self.code.contains("context_length")
            || self.code.contains("exceed_context_size")
            || self.names(&["context length", "context window", "context size", "maximum input length"])
            || self.names(&[
                "too many tokens",
                "input is too long",
                "input length exceeds",
                "maximum context",
                // llama.cpp: a text to embed must fit into one physical batch.
                "is too large to process",
            ])
    }

    /// Whether there are too many texts in one request; then also how many it may be, where the server says.
    pub(crate) fn is_too_many(&self) -> Option<Option<usize>> {
        static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?:max\w*[a-z _]*(?:is|size|length|of)?|(?:larger|more|greater) than|at most|up to)[\s:=]{0,3}(\d{1,5})\b")
                .expect("a valid pattern")
        });
        let words = [
            "batch size",
            "batch_size",
            "too many inputs",
            "array too long",
            "too many input",
            "maximum number of inputs",
        ];
        if self.status != 413 && !self.names(&words) {
            return None;
        }
        let said = self.message.to_lowercase();
        let limit =
            LIMIT.captures_iter(&said).filter_map(|found| found[1].parse().ok()).find(|limit| *limit > 0);
        Some(limit)
    }

    /// Whether the account has nothing left: another try is no use.
    pub(crate) fn is_quota(&self) -> bool {
        self.status == 402
            || self.code.contains("insufficient_quota")
            || self.names(&["insufficient_quota", "insufficient credits"])
    }

    /// Whether a filter of the server's holds back what the request says: it is about this request alone.
    pub(crate) fn is_filtered(&self) -> bool {
        let code = self.code.to_lowercase();
        ["content_filter", "content_policy", "responsibleaipolicy"].iter().any(|word| code.contains(word))
            || self.names(&["content management policy", "input was flagged", "requires moderation"])
    }

    /// Whether the version of the API that the address names is none the server has.
    pub(crate) fn is_version(&self) -> bool {
        self.names(&["api version not supported", "api-version query parameter", "unsupported api version"])
    }

    /// Whether a relay has no server behind it for a request with these parameters.
    pub(crate) fn is_routing(&self) -> bool {
        matches!(self.status, 404 | 503)
            && self.names(&["no endpoints found that", "no endpoints available that", "requested parameters"])
    }

    /// Whether there is no such model, or no such address.
    pub(crate) fn is_model_name(&self) -> bool {
        (self.status == 404 && !self.is_routing())
            || self.code.contains("model_not_found")
            || self.is_deployment()
    }

    /// Whether there is no deployment of that name at Azure.
    pub(crate) fn is_deployment(&self) -> bool {
        self.code.contains("DeploymentNotFound")
    }
}

/// The error in a body: its `error`, that of a choice which failed while it was written, or the body itself.
fn error_of(body: &Value) -> &Value {
    let of_choice = &body["choices"][0]["error"];
    [&body["error"], of_choice].into_iter().find(|error| !error.is_null()).unwrap_or(body)
}

fn word(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejection(status: u16, body: &Value) -> Rejection {
        Rejection::read(status, &body.to_string())
    }

    fn said(status: u16, message: &str) -> Rejection {
        rejection(status, &json!({ "error": { "message": message } }))
    }

    #[test]
    fn a_text_that_is_too_long_is_told_from_too_many_texts() {
        for message in [
            "This model's maximum context length is 8192 tokens.",
            "request (25837 tokens) exceeds the available context size (25088 tokens), try increasing it",
            "input (596 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
        ] {
            assert!(said(500, message).is_too_long(), "{message}");
        }
        assert!(!said(422, "batch size 100 > maximum allowed batch size 32").is_too_long());
    }

    #[test]
    fn how_many_texts_a_request_may_have_is_read_where_it_is_said() {
        for (status, message, limit) in [
            (
                400,
                "Too many inputs. The max number of inputs is 16.  We hope to increase it soon.",
                Some(Some(16)),
            ),
            (422, "batch size 100 > maximum allowed batch size 32", Some(Some(32))),
            (400, "batch size is invalid, it should not be larger than 10.: input.contents", Some(Some(10))),
            (
                400,
                "Invalid 'input': array too long. Expected an array with maximum length 2048, but got 3000",
                Some(Some(2048)),
            ),
            (413, "Payload Too Large", Some(None)),
            (400, "too many inputs", Some(None)),
            (400, "Bad Request", None),
        ] {
            assert_eq!(said(status, message).is_too_many(), limit, "{message}");
        }
    }

    #[test]
    fn a_relay_s_error_says_what_the_server_behind_it_said_and_when_to_come_back() {
        let found = rejection(
            429,
            &json!({ "error": {
                "code": 429, "message": "Provider returned error",
                "metadata": { "raw": "small is rate-limited upstream", "headers": { "X-RateLimit-Reset": "1741305600000" } },
            } }),
        );
        assert_eq!(found.message, "Provider returned error: small is rate-limited upstream");
        assert_eq!(found.resets_at, Some(1_741_305_600_000));
    }

    #[test]
    fn what_concerns_the_content_the_account_or_the_way_is_told_apart() {
        let filtered = rejection(
            400,
            &json!({ "error": { "message": "The response was filtered", "type": null, "param": "prompt",
                "code": "content_filter", "status": 400, "innererror": { "code": "ResponsibleAIPolicyViolation" } } }),
        );
        assert!(filtered.is_filtered() && !filtered.is_quota());
        assert!(said(402, "This request requires more credits, or fewer max_tokens.").is_quota());
        let routing = said(404, "No endpoints found that can handle the requested parameters.");
        assert!(routing.is_routing() && !routing.is_model_name());
        let unknown = said(404, "No endpoints found for nous/hermes:free.");
        assert!(unknown.is_model_name() && !unknown.is_routing());
        assert!(said(404, "API version not supported").is_version());
    }
}
