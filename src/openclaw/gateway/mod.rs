//! Asking a running gateway: the trait that the ways of asking share (its WebSocket in `websocket`, its own program in
//! `program`, the one and then the other in `fallback`), what can go wrong with what to do about it, and in `http` another
//! way, a route of the operator's own. What is asked is in `session`.

pub mod fallback;
pub mod hello;
pub mod http;
pub mod program;
pub mod session;
pub mod websocket;

use serde_json::Value;

use super::config::Credential;

/// A way to call the gateway's methods.
#[async_trait::async_trait]
pub trait Gateway: Send {
    /// Calls `method` and gives the payload of its answer.
    ///
    /// # Errors
    /// When the gateway cannot be reached, does not answer in time, or refuses.
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, GatewayError>;

    /// The way in which the last call was made: `ws` or `cli`.
    fn way(&self) -> &'static str;
}

/// Why a method was refused, as far as it makes a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The session is no longer the one that was expected.
    SessionChanged,
    /// The method does not know a parameter: its name.
    UnknownParameter(String),
    /// The gateway is too old, or too new, for this method.
    UnknownMethod,
    /// Something is going on; it may work in a moment.
    Unavailable,
    /// Anything else.
    Other,
}

/// What went wrong between us and the gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Nothing listens.
    #[error(
        "reach the gateway at {url}: the connection was refused{bind}; start the gateway (`openclaw gateway start`), \
         or name its address with --url or OPENCLAW_GATEWAY_URL"
    )]
    Refused {
        /// The address.
        url: String,
        /// `, and gateway.bind is …`, where that may be the reason.
        bind: String,
    },
    /// No connection, for another reason.
    #[error("reach the gateway at {url}; check the address and the network between")]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something listens that is no gateway, or a proxy stands before it.
    #[error(
        "talk to the gateway at {url}: {what}; check that OPENCLAW_GATEWAY_URL is the gateway's own address"
    )]
    NotAGateway {
        /// The address.
        url: String,
        /// What came instead.
        what: String,
    },
    /// It took the connection and then said nothing.
    #[error("get an answer to {method} within {seconds} s; the gateway is busy, try again later")]
    Silent {
        /// What was asked.
        method: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// It closed the connection.
    #[error(
        "get an answer to {method}: the gateway closed the connection{why}; is it restarting? try again later"
    )]
    Closed {
        /// What was asked.
        method: &'static str,
        /// ` (1012 service restart)`, where it said so.
        why: String,
    },
    /// The token or password is wrong or missing.
    #[error(
        "log in to the gateway: it refuses the {credential} ({said}); set OPENCLAW_GATEWAY_TOKEN to gateway.auth.token \
         of the gateway's openclaw.json, and restart the gateway if that was changed"
    )]
    Unauthorized {
        /// `token` or `password`.
        credential: &'static str,
        /// What the gateway said.
        said: String,
    },
    /// The gateway counts failed attempts.
    #[error(
        "log in to the gateway: it refuses more attempts for a while ({said}); correct the token, try again later"
    )]
    RateLimited {
        /// What the gateway said.
        said: String,
    },
    /// The gateway wants to know the device, as it does for every client that is not on its own machine.
    #[error(
        "log in to the gateway: it wants this device to be paired ({said}); run session-flush on the gateway's own \
         machine, reach it through an SSH tunnel, or use --transport cli with a paired `openclaw`"
    )]
    NotPaired {
        /// What the gateway said.
        said: String,
    },
    /// The gateway does not take us for a client it knows.
    #[error(
        "log in to the gateway: it rejects this client ({said}); its version may not fit, use --transport cli, \
         the gateway's own program"
    )]
    ClientRejected {
        /// What the gateway said.
        said: String,
    },
    /// The connection lacks a right.
    #[error(
        "call {method}: the gateway grants no {scope}; use the gateway's own token (gateway.auth.token) and not one \
         with fewer rights, or --transport cli with an approved `openclaw`"
    )]
    MissingScope {
        /// What was asked.
        method: &'static str,
        /// The right.
        scope: String,
    },
    /// It refused for another reason.
    #[error("call {method}: the gateway refuses ({code}: {said})")]
    Denied {
        /// What was asked.
        method: &'static str,
        /// The gateway's code.
        code: String,
        /// What the gateway said.
        said: String,
        /// What kind of refusal it is.
        why: Why,
    },
    /// An answer without what was asked for.
    #[error("understand the gateway's answer to {method}: {what}; is it a newer version?")]
    Unexpected {
        /// What was asked.
        method: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// The gateway's program is not there.
    #[error("start the gateway's program {program}; name it with --program or DREAMER_FLUSH_PROGRAM")]
    NoProgram {
        /// Its name or path.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The gateway's program failed without saying why in JSON.
    #[error("call {method} with {program}: it ended with {status} and said: {said}")]
    Program {
        /// Its name or path.
        program: String,
        /// What was asked.
        method: &'static str,
        /// How it ended.
        status: String,
        /// The last of what it said.
        said: String,
    },
    /// A route over HTTP did not end the session.
    #[error(transparent)]
    Route(#[from] http::RouteError),
}

impl GatewayError {
    /// What kind of refusal it is; none if it is no refusal of a method.
    pub(crate) fn why(&self) -> Option<&Why> {
        match self {
            Self::Denied { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Whether the gateway refuses because it does not know our device or client. Its own program has both.
    pub(crate) fn is_for_want_of_a_device(&self) -> bool {
        matches!(self, Self::NotPaired { .. } | Self::MissingScope { .. } | Self::ClientRejected { .. })
    }

    /// Whether it may work later by itself: it is starting, or busy.
    pub(crate) fn is_temporary(&self) -> bool {
        self.exit_code() == 75
    }

    /// The exit code: 75 where it may work later by itself, 78 where a setting must change, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Silent { .. }
            | Self::Closed { .. }
            | Self::RateLimited { .. }
            | Self::Denied { why: Why::Unavailable | Why::SessionChanged, .. } => 75,
            Self::NoProgram { .. } => 78,
            Self::Route(route) => route.exit_code(),
            _ => 1,
        }
    }
}

/// An error as the gateway writes it, in frames and in its program's JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: String,
    said: String,
    detail: String,
    reason: String,
    scope: Option<String>,
}

impl Refusal {
    /// Reads `{"code", "message", "details": {"code", "reason", "missingScope"}}`. What the gateway says is kept short,
    /// on one line, and without the secret we sent.
    pub(crate) fn read(error: &Value, credential: &Credential) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_string();
        let details = error.get("details");
        let detail = |key| text(details.and_then(|details| details.get(key)));
        Self {
            code: quote(&text(error.get("code")), credential),
            said: quote(&text(error.get("message")), credential),
            detail: detail("code"),
            reason: detail("reason"),
            scope: Some(quote(&detail("missingScope"), credential)).filter(|scope| !scope.is_empty()),
        }
    }

    /// What it means when it answers `method`; for the log-in that is `connect`.
    pub(crate) fn into_error(self, method: &'static str, credential: &Credential) -> GatewayError {
        let Self { code, said, detail, reason, scope } = self;
        if detail == "MISSING_SCOPE" || scope.is_some() || said.contains("missing scope:") {
            let named = || said.split("missing scope:").nth(1).map(|scope| scope.trim().to_string());
            let scope = scope.or_else(named).unwrap_or_else(|| "operator.admin".into());
            return GatewayError::MissingScope { method, scope };
        }
        if let Some(error) = login_error(&code, &detail, &said, credential) {
            return error;
        }
        if method == "connect" && code != "UNAVAILABLE" {
            return GatewayError::ClientRejected { said };
        }
        let why = match (code.as_str(), reason.as_str()) {
            (_, "session-changed") => Why::SessionChanged,
            ("UNAVAILABLE", _) => Why::Unavailable,
            _ => why_invalid(&said),
        };
        GatewayError::Denied { method, code, said, why }
    }
}

/// Errors of the log-in, told by their structured code.
fn login_error(code: &str, detail: &str, said: &str, credential: &Credential) -> Option<GatewayError> {
    let said = said.to_string();
    Some(match detail {
        "AUTH_RATE_LIMITED" => GatewayError::RateLimited { said },
        "PAIRING_REQUIRED" | "DEVICE_IDENTITY_REQUIRED" => GatewayError::NotPaired { said },
        "PROTOCOL_MISMATCH" | "CLIENT_VERSION_MISMATCH" => GatewayError::ClientRejected { said },
        detail if detail.starts_with("DEVICE_AUTH_") => GatewayError::NotPaired { said },
        detail if detail.starts_with("AUTH_") => {
            GatewayError::Unauthorized { credential: credential_of(credential), said }
        }
        _ if code == "NOT_PAIRED" => GatewayError::NotPaired { said },
        _ => return None,
    })
}

/// What people call it.
pub(crate) fn credential_of(credential: &Credential) -> &'static str {
    if matches!(credential, Credential::Password(_)) { "password" } else { "token" }
}

/// The gateway has no codes for these, so its wording tells: `invalid sessions.reset params: at root: unexpected
/// property 'expectedSessionId'`, `unknown method: …`.
fn why_invalid(said: &str) -> Why {
    if said.starts_with("unknown method") {
        return Why::UnknownMethod;
    }
    match said.split_once("unexpected property '").and_then(|(_, rest)| rest.split_once('\'')) {
        Some((name, _)) if said.starts_with("invalid ") => Why::UnknownParameter(name.to_string()),
        _ => Why::Other,
    }
}

/// Somebody else's words, fit for an error: one line, short, and without the secret we sent.
pub(crate) fn quote(text: &str, credential: &Credential) -> String {
    let hidden = match credential.secret() {
        Some(secret) if !secret.is_empty() => text.replace(secret, "***"),
        _ => text.to_string(),
    };
    let line = hidden.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(240) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(method: &'static str, error: Value) -> GatewayError {
        let token = Credential::Token("test-gateway-token".to_string().into());
        Refusal::read(&error, &token).into_error(method, &token)
    }

    #[test]
    fn a_refusal_is_told_by_its_structured_code() {
        let at = |method, code: &str, message: &str, details: Value| {
            error(method, json!({"code": code, "message": message, "details": details}))
        };
        let scope =
            at("sessions.reset", "FORBIDDEN", "no", json!({"code": "MISSING_SCOPE", "missingScope": "x"}));
        assert!(matches!(scope, GatewayError::MissingScope { scope, .. } if scope == "x"));
        let wrong = at("connect", "INVALID_REQUEST", "unauthorized", json!({"code": "AUTH_TOKEN_MISMATCH"}));
        assert!(matches!(wrong, GatewayError::Unauthorized { credential: "token", .. }));
        let pairing = at("connect", "NOT_PAIRED", "pairing required", json!({"code": "PAIRING_REQUIRED"}));
        assert!(matches!(pairing, GatewayError::NotPaired { .. }));
        let limited = at("connect", "INVALID_REQUEST", "later", json!({"code": "AUTH_RATE_LIMITED"}));
        assert_eq!(limited.exit_code(), 75);
        let changed = at("sessions.reset", "INVALID_REQUEST", "x", json!({"reason": "session-changed"}));
        assert_eq!(changed.why(), Some(&Why::SessionChanged));
        let busy = at("sessions.reset", "UNAVAILABLE", "still active", Value::Null);
        assert_eq!((busy.why(), busy.exit_code()), (Some(&Why::Unavailable), 75));
        let starting = at("connect", "UNAVAILABLE", "starting", Value::Null);
        assert_eq!(starting.exit_code(), 75);
    }

    #[test]
    fn a_parameter_or_method_that_is_unknown_is_told_by_the_gateways_wording() {
        let why = |message: &str| {
            error("sessions.reset", json!({"code": "INVALID_REQUEST", "message": message})).why().cloned()
        };
        assert_eq!(
            why("invalid sessions.reset params: at root: unexpected property 'expectedSessionId'"),
            Some(Why::UnknownParameter("expectedSessionId".into()))
        );
        assert_eq!(why("unknown method: sessions.describe"), Some(Why::UnknownMethod));
        assert_eq!(why("Unknown agent id: x"), Some(Why::Other));
    }

    #[test]
    fn what_the_gateway_says_is_one_short_line_without_the_secret() {
        let token = Credential::Token("abc".to_string().into());
        assert_eq!(quote("the\n\ttoken abc\u{1b}[31m is wrong", &token), "the token *** [31m is wrong");
        assert_eq!(quote(&"x".repeat(1000), &token).chars().count(), 241);
        let said = error("connect", json!({"code": "INVALID_REQUEST", "message": "bad test-gateway-token"}));
        assert!(!said.to_string().contains("test-gateway-token"), "{said}");
    }
}
