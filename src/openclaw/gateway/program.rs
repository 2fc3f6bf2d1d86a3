//! The gateway's own program as a way to ask it: `openclaw gateway call METHOD --params JSON --json`. It knows secret
//! references, pairing and every version's protocol. The token goes through its environment, never its arguments.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Gateway, GatewayError, Refusal, credential_of, quote};
use crate::openclaw::config::Credential;

/// The gateway's program.
pub struct Program {
    /// Its name or path.
    pub program: String,
    /// What its environment holds besides ours.
    pub environment: Vec<(&'static str, String)>,
    /// How long one call may take.
    pub patience: Duration,
}

#[async_trait::async_trait]
impl Gateway for Program {
    async fn call(&mut self, method: &'static str, params: Value) -> Result<Value, GatewayError> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(["gateway", "call", method, "--params", &params.to_string(), "--json", "--timeout"])
            .arg(self.patience.as_millis().to_string())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        // The program has the same time-out; ours only catches one that hangs.
        let limit = self.patience + Duration::from_secs(10);
        let output = tokio::time::timeout(limit, command.output())
            .await
            .map_err(|_| GatewayError::Silent { method, seconds: limit.as_secs() })?
            .map_err(|source| GatewayError::NoProgram { program: self.program.clone(), source })?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        match (output.status.success(), read(&stdout)) {
            (true, Some(Ok(answer))) => Ok(answer),
            (_, Some(Err(error))) => Err(self.refused(method, &error)),
            (is_done, _) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                if let Some(error) = self.failed_in_words(method, &stderr) {
                    return Err(error);
                }
                let said = quote(
                    last_line(&stderr).or_else(|| last_line(&stdout)).unwrap_or("nothing"),
                    &self.secret(),
                );
                let status = if is_done { "no JSON".to_string() } else { output.status.to_string() };
                Err(GatewayError::Program { program: self.program.clone(), method, status, said })
            }
        }
    }

    fn way(&self) -> &'static str {
        "cli"
    }
}

impl Program {
    /// The token, as far as we know it, so that it is not repeated.
    fn secret(&self) -> Credential {
        let of =
            |name| self.environment.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone().into());
        let token = of("OPENCLAW_GATEWAY_TOKEN").map(Credential::Token);
        token
            .or_else(|| of("OPENCLAW_GATEWAY_PASSWORD").map(Credential::Password))
            .unwrap_or(Credential::Nothing)
    }

    /// Older gateways' programs tell an error in words alone, also with `--json`: `Gateway call failed:
    /// GatewayClientRequestError: unknown method: …` (openclaw 2026.4.15).
    fn failed_in_words(&self, method: &'static str, stderr: &str) -> Option<GatewayError> {
        let said = stderr.lines().find_map(|line| line.trim().strip_prefix("Gateway call failed: "))?;
        let secret = self.secret();
        if let Some(message) = said.strip_prefix("GatewayClientRequestError: ") {
            // The code is not printed. Of the codes only that for a busy session makes a difference.
            let code = if message.contains("try again") { "UNAVAILABLE" } else { "INVALID_REQUEST" };
            let error = json!({ "code": code, "message": message });
            return Some(Refusal::read(&error, &secret).into_error(method, &secret));
        }
        let closed = said.strip_prefix("Error: gateway closed ")?;
        let said = quote(closed, &secret);
        Some(match closed.contains("): unauthorized") {
            true => GatewayError::Unauthorized { credential: credential_of(&secret), said },
            false => GatewayError::Closed { method, why: format!(" ({said})") },
        })
    }

    /// `{"ok": false, "error": {"type": …}}`: an error of the gateway, or of the way to it.
    fn refused(&self, method: &'static str, answer: &Value) -> GatewayError {
        let secret = self.secret();
        let nothing = json!({});
        let error = answer.get("error").unwrap_or(&nothing);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_string();
        if text(error.get("type")) != "gateway_transport_error" {
            return Refusal::read(error, &secret).into_error(method, &secret);
        }
        let reason = quote(&text(error.get("reason")), &secret);
        let url = text(answer.get("gateway").and_then(|gateway| gateway.get("url")));
        match text(error.get("kind")).as_str() {
            _ if reason.contains("ECONNREFUSED") => GatewayError::Refused { url, bind: String::new() },
            "timeout" => GatewayError::Silent { method, seconds: self.patience.as_secs() },
            _ => GatewayError::Closed {
                method,
                why: format!(" ({})", quote(&text(error.get("message")), &secret)),
            },
        }
    }
}

/// The JSON object a program printed, after whatever it printed before; an error if it says `"ok": false` with one.
fn read(stdout: &str) -> Option<Result<Value, Value>> {
    let starts =
        stdout.match_indices('{').map(|(at, _)| at).filter(|at| stdout[..*at].ends_with('\n') || *at == 0);
    let answer = starts.filter_map(|at| serde_json::from_str::<Value>(stdout[at..].trim()).ok()).next()?;
    let failed = answer.get("ok") == Some(&Value::Bool(false)) && answer.get("error").is_some();
    Some(if failed { Err(answer) } else { Ok(answer) })
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::Why;
    use super::*;

    #[test]
    fn the_answer_is_found_behind_what_else_was_printed() {
        assert_eq!(read("{\n  \"session\": null\n}\n"), Some(Ok(json!({ "session": null }))));
        assert_eq!(read("update {available}\n{\"a\": {\"b\": 1}}"), Some(Ok(json!({ "a": { "b": 1 } }))));
        let failed = json!({ "ok": false, "error": { "code": "X" } });
        assert_eq!(read(&failed.to_string()), Some(Err(failed)));
        assert_eq!(read("no json"), None);
    }

    #[test]
    fn an_error_in_words_is_the_same_error() {
        let program =
            Program { program: "openclaw".into(), environment: Vec::new(), patience: Duration::from_secs(1) };
        let told = |stderr: &str| program.failed_in_words("sessions.reset", stderr);
        let refused =
            |said: &str| told(&format!("note\nGateway call failed: GatewayClientRequestError: {said}\n"));
        let unknown = refused("unknown method: sessions.describe");
        assert_eq!(unknown.as_ref().and_then(GatewayError::why), Some(&Why::UnknownMethod));
        let property =
            refused("invalid sessions.reset params: at root: unexpected property 'expectedSessionId'");
        let parameter = Why::UnknownParameter("expectedSessionId".into());
        assert_eq!(property.as_ref().and_then(GatewayError::why), Some(&parameter));
        let busy = refused("Session agent:main:main is still active; try again in a moment.");
        assert_eq!(busy.map(|error| error.exit_code()), Some(75));
        let wrong = "Gateway call failed: Error: gateway closed (1008): unauthorized: gateway token mismatch\n\
                     Gateway target: ws://127.0.0.1:18802\nBind: loopback\n";
        assert!(matches!(told(wrong), Some(GatewayError::Unauthorized { credential: "token", .. })));
        let gone = "Gateway call failed: Error: gateway closed (1006 abnormal closure (no close frame)): no close reason";
        assert_eq!(told(gone).map(|error| error.exit_code()), Some(75));
        assert!(told("Error: unknown option --json\n").is_none());
    }
}
