//! What a gateway says when it lets us in: its release, what we may do, how long it has been running. Frames as recorded
//! from openclaw 2026.9.6; `snapshot.uptimeMs` is in its source and in that of 2026.4.15.

use std::time::Duration;

use serde_json::Value;

/// What ending a session asks for.
pub const SCOPE_OF_RESET: &str = "operator.admin";

/// The newest release of which it was measured that its memory keeps the table open at one version: the LanceDB clients of
/// 2026.4.15 (0.27.2) and 2026.9.6 (0.30.0) do.
const PINS_UP_TO: Release = (2026, 9, 6);

/// Year, month and number of a release.
pub type Release = (u32, u32, u32);

/// The answer to the log-in, as far as it concerns us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The gateway's release, such as `2026.9.6`.
    pub version: Option<String>,
    /// What this connection may do; none where the gateway does not say.
    pub scopes: Option<Vec<String>>,
    /// How long the gateway has been running.
    pub uptime: Option<Duration>,
}

impl Hello {
    /// Reads the payload of the answer to `connect`.
    pub fn read(payload: &Value) -> Self {
        let scopes = payload.pointer("/auth/scopes").and_then(Value::as_array);
        Self {
            version: payload.pointer("/server/version").and_then(Value::as_str).map(str::to_owned),
            scopes: scopes.map(|scopes| scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            uptime: payload.pointer("/snapshot/uptimeMs").and_then(Value::as_u64).map(Duration::from_millis),
        }
    }

    /// Whether this connection may end a session; none where the gateway does not say.
    pub fn may_reset(&self) -> Option<bool> {
        self.scopes.as_ref().map(|scopes| scopes.iter().any(|scope| scope == SCOPE_OF_RESET))
    }
}

/// A release out of `2026.9.6`, `v2026.9.6-beta.1` and the like.
pub fn release(version: &str) -> Option<Release> {
    let number = |part: &str| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let mut parts = version.trim().trim_start_matches('v').split('.').map(number);
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// Whether a gateway of that version is known to keep its table open at the version it found, so that it sees what others
/// wrote only after it wrote itself or was restarted; none where nobody has measured it.
pub fn pins_its_table(version: Option<&str>) -> Option<bool> {
    let release = release(version?)?;
    (release <= PINS_UP_TO).then_some(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_gateway_says_of_itself_is_read() {
        let said = json!({"type": "hello-ok", "server": {"version": "2026.9.6"},
            "auth": {"scopes": ["operator.read", "operator.write"]}, "snapshot": {"uptimeMs": 61_000}});
        let hello = Hello::read(&said);
        assert_eq!(hello.version.as_deref(), Some("2026.9.6"));
        assert_eq!((hello.may_reset(), hello.uptime), (Some(false), Some(Duration::from_secs(61))));
        let all = json!({"auth": {"scopes": ["operator.admin"]}});
        assert_eq!(Hello::read(&all).may_reset(), Some(true));
        assert_eq!(Hello::read(&json!({})), Hello::default());
        assert_eq!(Hello::default().may_reset(), None);
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(release("v2026.9.6-beta.1"), Some((2026, 9, 6)));
        assert_eq!(release("2026.10"), Some((2026, 10, 0)));
        assert_eq!(release("dev"), None);
        for (version, pins) in [
            (Some("2026.4.15"), Some(true)),
            (Some("2026.9.6"), Some(true)),
            (Some("2026.10.1"), None),
            (Some("unknown"), None),
            (None, None),
        ] {
            assert_eq!(pins_its_table(version), pins, "{version:?}");
        }
    }
}
