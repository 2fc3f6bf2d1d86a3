//! The gateway's own settings, as far as `session-flush` needs them: where it listens, what it asks for, where an
//! agent's workspace lies, whether its hook is on. Reads `openclaw.json` (JSON5) and the gateway's global `.env`; never
//! writes either. What settings of ours win over is said at each function.
//!
//! Facts, read in the source of openclaw 2026.9.6 (`config/paths`, `gateway/connection-details`, `agent-scope-config`).
//! `$include` and secret references other than `env` are not followed.

use std::io;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::memory_settings::Key;
use crate::config::{EnvFile, Layers, address, expand, read_env_file};
use crate::privacy::is_loopback;

/// The port of a gateway that nobody gave another one.
const DEFAULT_PORT: u16 = 18_789;
/// Settings are larger, and nested deeper, only where somebody means harm.
const LARGEST_SETTINGS: u64 = 16 * 1024 * 1024;
const DEEPEST_SETTINGS: usize = 500;
/// How many messages the hook writes into an episode when nobody says otherwise.
const DEFAULT_MESSAGES: u64 = 15;

/// Why the gateway's settings cannot be used. Every one of these is exit 78.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenClawError {
    /// `openclaw.json` is there, or was named, and cannot be read.
    #[error("read the gateway's settings {}; run as the gateway's user, or set OPENCLAW_CONFIG_PATH", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `openclaw.json` is not JSON5.
    #[error("read the gateway's settings {}: {place} is not JSON5; check the file with `openclaw doctor`", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Which line. Never its text, which may hold a token.
        place: String,
    },
    /// The gateway's global `.env` cannot be read.
    #[error(transparent)]
    EnvFile(crate::config::ConfigError),
    /// An address that cannot be used.
    #[error("use {name} ({origin}): {why}")]
    Address {
        /// The variable or the key in `openclaw.json`.
        name: &'static str,
        /// Who set it.
        origin: String,
        /// What is wrong and what is allowed.
        why: String,
    },
    /// Nobody says where `/new` is to be posted.
    #[error(
        "post /new: no address is given, and no stock one of the gateway runs it; name the route that you installed \
         for it with --url, such as http://127.0.0.1:{DEFAULT_PORT}/new"
    )]
    NoRoute,
    /// Nobody says what to log in with.
    #[error(
        "log in to the gateway: {why}; set OPENCLAW_GATEWAY_TOKEN, or let OPENCLAW_CONFIG_PATH name the gateway's openclaw.json"
    )]
    NoToken {
        /// Where it was looked for.
        why: String,
    },
    /// The hook that writes episodes is switched off.
    #[error(
        "flush: {} switches the session-memory hook off, so no episode would be written; \
         enable it (`openclaw hooks enable session-memory`) and restart the gateway",
        path.display()
    )]
    HookOff {
        /// The file that says so.
        path: PathBuf,
    },
}

/// What a client logs in with.
#[derive(Debug, Clone)]
pub enum Credential {
    /// `gateway.auth.token`.
    Token(SecretString),
    /// `gateway.auth.password`.
    Password(SecretString),
    /// The gateway asks for nothing.
    Nothing,
}

impl Credential {
    /// The secret itself, to keep it out of what is printed.
    pub(crate) fn secret(&self) -> Option<&str> {
        match self {
            Self::Token(secret) | Self::Password(secret) => Some(secret.expose_secret()),
            Self::Nothing => None,
        }
    }
}

/// Where the gateway is and what it asks for.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `ws://`, `wss://`, `http://` or `https://`.
    pub url: String,
    /// What to log in with.
    pub credential: Credential,
    /// What `gateway.bind` says, where that may be why nothing answers.
    pub bind: Option<String>,
}

impl Endpoint {
    /// The address as it may be printed: what follows a `?` or `#` may be a token.
    pub fn shown(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

/// The gateway's settings, read.
#[derive(Debug, Clone)]
pub struct OpenClaw {
    pub(super) layers: Layers,
    state_dir: PathBuf,
    path: PathBuf,
    found: bool,
    settings: Value,
    pub(super) env_file: Option<EnvFile>,
}

impl OpenClaw {
    /// Reads `OPENCLAW_CONFIG_PATH`, else `openclaw.json` in `OPENCLAW_STATE_DIR`, else in `~/.openclaw`. A file that
    /// nobody named need not exist.
    ///
    /// # Errors
    /// When a file cannot be read or is no JSON5.
    pub fn read(layers: &Layers) -> Result<Self, OpenClawError> {
        let named = |name| layers.get(name).map(|(value, _)| expand(value, layers));
        let state_dir = named("OPENCLAW_STATE_DIR").unwrap_or_else(|| expand("~/.openclaw", layers));
        let named = named("OPENCLAW_CONFIG_PATH");
        let must_exist = named.is_some();
        let path = named.unwrap_or_else(|| state_dir.join("openclaw.json"));
        let (found, settings) = match read_regular(&path) {
            Ok(text) => (true, parse(&path, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => (false, Value::Null),
            Err(source) => return Err(OpenClawError::Read { path, source }),
        };
        let env_file = read_env_file(&state_dir.join(".env")).map_err(OpenClawError::EnvFile)?;
        Ok(Self { layers: layers.clone(), state_dir, path, found, settings, env_file })
    }

    /// The folder in which the gateway keeps its own state: `OPENCLAW_STATE_DIR`, else `~/.openclaw`.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The settings file, whether it is there or not.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the settings file is there.
    pub fn found(&self) -> bool {
        self.found
    }

    /// The address of the gateway's WebSocket and what to log in with: `OPENCLAW_GATEWAY_URL`, else
    /// `gateway.remote.url` of a remote set-up, else this machine and `OPENCLAW_GATEWAY_PORT` or `gateway.port`.
    ///
    /// # Errors
    /// When the address cannot be used, would carry the token unencrypted over a network, or there is no token.
    pub fn websocket(&self) -> Result<Endpoint, OpenClawError> {
        if let Some((url, origin)) = self.layers.get("OPENCLAW_GATEWAY_URL") {
            let url = self.checked("OPENCLAW_GATEWAY_URL", &origin.to_string(), url, &["ws", "wss"])?;
            let credential = self.credential(is_loopback(&url))?;
            return Ok(Endpoint { url, credential, bind: None });
        }
        let origin = self.path.display().to_string();
        if self.text(&["gateway", "mode"]).as_deref() == Some("remote")
            && let Some(url) = self.text(&["gateway", "remote", "url"])
        {
            let url = self.checked("gateway.remote.url", &origin, &url, &["ws", "wss"])?;
            return Ok(Endpoint { url, credential: self.credential(true)?, bind: None });
        }
        let tls = self.at(&["gateway", "tls", "enabled"]).and_then(Value::as_bool).unwrap_or(false);
        let url = format!("{}://127.0.0.1:{}", if tls { "wss" } else { "ws" }, self.port()?);
        let bind = self.text(&["gateway", "bind"]).filter(|bind| bind != "loopback");
        Ok(Endpoint { url, credential: self.credential(true)?, bind })
    }

    /// Host and port at which the gateway would listen, whether it does or not and whatever it asks for.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn listens_at(&self) -> Result<String, OpenClawError> {
        let named =
            self.layers.get("OPENCLAW_GATEWAY_URL").map(|(url, origin)| (url.to_owned(), origin.to_string()));
        let Some((url, origin)) = named else { return Ok(format!("127.0.0.1:{}", self.port()?)) };
        let name = "OPENCLAW_GATEWAY_URL";
        let url = self.checked(name, &origin, &url, &["ws", "wss", "http", "https"])?;
        let parsed = reqwest::Url::parse(&url).ok();
        let place =
            parsed.as_ref().and_then(|url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?)));
        let why = || "must be ws://host[:port]".to_owned();
        let (host, port) = place.ok_or_else(|| OpenClawError::Address { name, origin, why: why() })?;
        Ok(format!("{host}:{port}"))
    }

    /// The address of the operator's own route (`OPENCLAW_GATEWAY_URL`) and the bearer token.
    ///
    /// # Errors
    /// As for [`OpenClaw::websocket`], and when no address is given.
    pub fn route(&self) -> Result<Endpoint, OpenClawError> {
        let name = "OPENCLAW_GATEWAY_URL";
        let Some((url, origin)) = self.layers.get(name) else { return Err(OpenClawError::NoRoute) };
        let url = self.checked(name, &origin.to_string(), url, &["http", "https"])?;
        let credential = self.credential(is_loopback(&url))?;
        Ok(Endpoint { url, credential, bind: None })
    }

    /// What the gateway's own program is to be told beyond what it finds itself: settings of our `.env` files, which it
    /// does not read.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let names = [
            "OPENCLAW_GATEWAY_URL",
            "OPENCLAW_GATEWAY_PORT",
            "OPENCLAW_GATEWAY_TOKEN",
            "OPENCLAW_GATEWAY_PASSWORD",
            "OPENCLAW_CONFIG_PATH",
            "OPENCLAW_STATE_DIR",
            "OPENCLAW_ALLOW_INSECURE_PRIVATE_WS",
        ];
        names.iter().filter_map(|name| Some((*name, self.layers.get(name)?.0.to_string()))).collect()
    }

    /// Where an agent's workspace lies, by the gateway's rules.
    pub fn workspace(&self, agent: &str) -> PathBuf {
        if let Some(own) = self.agent_entry(agent).and_then(|entry| self.resolve(entry.get("workspace")?)) {
            return expand(&own, &self.layers);
        }
        let default = self.text(&["agents", "defaults", "workspace"]);
        match (self.default_agent().eq_ignore_ascii_case(agent), default) {
            (true, Some(default)) => expand(&default, &self.layers),
            (true, None) => self.state_dir.join("workspace"),
            (false, Some(default)) => expand(&default, &self.layers).join(agent),
            (false, None) => self.state_dir.join(format!("workspace-{agent}")),
        }
    }

    /// How many messages of a session its episode holds at most.
    pub fn messages_kept(&self) -> u64 {
        let set = self.at(&["hooks", "internal", "entries", "session-memory", "messages"]);
        set.and_then(Value::as_u64).filter(|messages| *messages > 0).unwrap_or(DEFAULT_MESSAGES)
    }

    /// Whether the hook that writes episodes may be on, as far as the settings tell.
    ///
    /// # Errors
    /// When they say that it is off.
    pub fn check_hook(&self) -> Result<(), OpenClawError> {
        let is_off = |path: &[&str]| self.at(path).and_then(Value::as_bool) == Some(false);
        let off = is_off(&["hooks", "internal", "enabled"])
            || is_off(&["hooks", "internal", "entries", "session-memory", "enabled"]);
        if off { Err(OpenClawError::HookOff { path: self.path.clone() }) } else { Ok(()) }
    }

    /// Of the environment and our `.env` files first, then of `openclaw.json` where the address is `trusted`: a token
    /// of that file is for the gateway it describes, not for another host that somebody named.
    fn credential(&self, trusted: bool) -> Result<Credential, OpenClawError> {
        let ours = |name| self.layers.get(name).map(|(value, _)| SecretString::from(value.to_string()));
        if let Some(token) = ours("OPENCLAW_GATEWAY_TOKEN") {
            return Ok(Credential::Token(token));
        }
        if let Some(password) = ours("OPENCLAW_GATEWAY_PASSWORD") {
            return Ok(Credential::Password(password));
        }
        let no_token = |why: String| OpenClawError::NoToken { why };
        if !trusted {
            return Err(no_token(
                "no token is set, and the one of openclaw.json is not sent to another host".into(),
            ));
        }
        let mode = self.text(&["gateway", "auth", "mode"]);
        let is_remote = self.text(&["gateway", "mode"]).as_deref() == Some("remote");
        let section: &[&str] = if is_remote { &["gateway", "remote"] } else { &["gateway", "auth"] };
        let value = |key: &str| self.text(&[section, &[key]].concat()).map(SecretString::from);
        let found = match mode.as_deref() {
            Some("none") if !is_remote => Some(Credential::Nothing),
            Some("password") => value("password").map(Credential::Password),
            _ => value("token")
                .map(Credential::Token)
                .or_else(|| value("password").map(Credential::Password))
                .or_else(|| self.global("OPENCLAW_GATEWAY_TOKEN").map(|t| Credential::Token(t.into()))),
        };
        found.ok_or_else(|| {
            let behind = match self.at(&[section, &["token"]].concat()).map(|token| self.key(token)) {
                Some(Key::Elsewhere(what)) => format!("; its token is {what}"),
                _ => String::new(),
            };
            no_token(if self.found {
                format!("{} holds no plain token in {}{behind}", self.path.display(), section.join("."))
            } else {
                format!("no token is set and there is no {}", self.path.display())
            })
        })
    }

    fn checked(
        &self,
        name: &'static str,
        origin: &str,
        url: &str,
        schemes: &[&str],
    ) -> Result<String, OpenClawError> {
        let wrong = |why: String| OpenClawError::Address { name, origin: origin.to_string(), why };
        let allowed = format!("must be {}://host[:port][/path]", schemes.join(":// or "));
        if address::has_credentials(url) {
            return Err(wrong("must not hold a user or password; set OPENCLAW_GATEWAY_TOKEN instead".into()));
        }
        let parsed = reqwest::Url::parse(url).map_err(|_| wrong(allowed.clone()))?;
        if !schemes.contains(&parsed.scheme()) || !parsed.has_host() {
            return Err(wrong(allowed));
        }
        let is_plain = matches!(parsed.scheme(), "ws" | "http");
        let may =
            self.layers.get("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS").is_some_and(|(value, _)| value == "1");
        if is_plain && !is_loopback(url) && !may {
            return Err(wrong(format!(
                "would carry the token unencrypted over the network; use {}:// or an SSH tunnel to this machine, or \
                 set OPENCLAW_ALLOW_INSECURE_PRIVATE_WS=1 in a network that you trust",
                schemes[1]
            )));
        }
        Ok(url.to_string())
    }

    /// The port at which the gateway listens.
    pub(crate) fn port(&self) -> Result<u16, OpenClawError> {
        let Some((value, origin)) = self.layers.get("OPENCLAW_GATEWAY_PORT") else {
            let port = self.at(&["gateway", "port"]).and_then(Value::as_u64);
            return Ok(port.and_then(|p| u16::try_from(p).ok()).filter(|p| *p > 0).unwrap_or(DEFAULT_PORT));
        };
        // Compose files say `127.0.0.1:18789`.
        let port = value.rsplit(':').next().and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        port.ok_or_else(|| OpenClawError::Address {
            name: "OPENCLAW_GATEWAY_PORT",
            origin: origin.to_string(),
            why: "must be a port, from 1 to 65535".into(),
        })
    }

    /// Agents as `agents.entries` or, in older files, `agents.list` have them.
    pub(crate) fn agents(&self) -> Vec<(String, &Value)> {
        if let Some(entries) = self.at(&["agents", "entries"]).and_then(Value::as_object) {
            return entries.iter().map(|(id, entry)| (id.clone(), entry)).collect();
        }
        let list = self.at(&["agents", "list"]).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|entry| Some((entry.get("id")?.as_str()?.to_string(), entry)))
            .collect()
    }

    /// The ids of its agents, as sessions and rows have them; none where the settings list none.
    pub(crate) fn agent_ids(&self) -> Vec<String> {
        let ids = self.agents().into_iter().map(|(id, _)| id.trim().to_lowercase());
        ids.filter(|id| !id.is_empty()).collect()
    }

    pub(super) fn agent_entry(&self, agent: &str) -> Option<&Value> {
        self.agents().into_iter().find(|(id, _)| id.eq_ignore_ascii_case(agent)).map(|(_, entry)| entry)
    }

    /// The agent that the default workspace is for.
    pub(crate) fn default_agent(&self) -> String {
        let agents = self.agents();
        let marked = agents.iter().find(|(_, entry)| entry.get("default") == Some(&Value::Bool(true)));
        match (marked, agents.as_slice()) {
            (Some((id, _)), _) | (None, [(id, _)]) => id.clone(),
            (None, []) => "main".into(),
            _ => String::new(),
        }
    }

    /// What the settings hold at a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.settings, |value, key| value.get(key))
    }

    /// A text of the settings, with its variables filled in.
    pub(crate) fn text(&self, path: &[&str]) -> Option<String> {
        self.resolve(self.at(path)?)
    }

    /// A text with its `${NAME}`s filled in, or what a reference to the environment stands for; none where something is
    /// missing or empty.
    pub(crate) fn resolve(&self, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => self.substitute(text)?,
            Value::Object(reference) if reference.get("source")?.as_str()? == "env" => {
                self.global(reference.get("id")?.as_str()?)?
            }
            _ => return None,
        };
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    }

    /// `$${NAME}` stands for a literal `${NAME}`.
    fn substitute(&self, text: &str) -> Option<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}').map(|end| at + end) else { break };
            let name = &rest[at + 2..end];
            let is_name = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            if rest[..at].ends_with('$') {
                filled.push_str(&rest[..at - 1]);
                filled.push_str(&rest[at..=end]);
            } else if is_name {
                filled.push_str(&rest[..at]);
                filled.push_str(&self.global(name)?);
            } else {
                filled.push_str(&rest[..=end]);
            }
            rest = &rest[end + 1..];
        }
        filled.push_str(rest);
        Some(filled)
    }

    /// A variable as the gateway sees it: the environment (and our `.env` files), its own global `.env`, its `env` section.
    pub(super) fn global(&self, name: &str) -> Option<String> {
        let of_file = || self.env_file.as_ref()?.values.get(name).cloned();
        let of_section = || {
            let value = self.at(&["env", "vars", name]).or_else(|| self.at(&["env", name]))?;
            value.as_str().map(str::to_string)
        };
        let ours = self.layers.get(name).map(|(value, _)| value.to_string());
        ours.or_else(of_file).or_else(of_section).filter(|value| !value.trim().is_empty())
    }
}

/// The text of a file; a pipe or a device would be waited for without end.
fn read_regular(path: &Path) -> io::Result<String> {
    let found = std::fs::metadata(path)?;
    match (found.is_file(), found.len() <= LARGEST_SETTINGS) {
        (true, true) => std::fs::read_to_string(path),
        (true, false) => Err(io::Error::other("it is far too large for settings")),
        (false, _) => Err(io::Error::other("it is no regular file")),
    }
}

/// How deep brackets stand in one another, whatever they stand in.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn parse(path: &Path, text: &str) -> Result<Value, OpenClawError> {
    if depth(text) > DEEPEST_SETTINGS {
        let place = format!("it is nested more than {DEEPEST_SETTINGS} levels deep and");
        return Err(OpenClawError::Parse { path: path.to_owned(), place });
    }
    json5::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| OpenClawError::Parse {
        path: path.to_owned(),
        place: match error.position() {
            Some(position) => format!("line {}", position.line + 1),
            None => "it".into(),
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The gateway of a settings text, for a person whose home is a fresh folder.
    fn openclaw(
        text: &str,
        environment: &[(&str, &str)],
    ) -> (tempfile::TempDir, Result<OpenClaw, OpenClawError>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        let mut layers = Layers::of(environment);
        layers.user_home = Some(dir.path().to_owned());
        let read = OpenClaw::read(&layers);
        (dir, read)
    }

    fn endpoint(text: &str, environment: &[(&str, &str)]) -> Endpoint {
        openclaw(text, environment).1.unwrap().websocket().unwrap()
    }

    #[test]
    fn the_address_is_the_one_the_gateways_own_clients_take() {
        let token = [("OPENCLAW_GATEWAY_TOKEN", "t")];
        let url = |text: &str, more: &[(&str, &str)]| endpoint(text, &[&token[..], more].concat()).url;
        assert_eq!(url("{}", &[]), "ws://127.0.0.1:18789");
        assert_eq!(url("{gateway: {port: 19001}}", &[]), "ws://127.0.0.1:19001");
        assert_eq!(url("{gateway: {port: 19001, tls: {enabled: true}}}", &[]), "wss://127.0.0.1:19001");
        let port = [("OPENCLAW_GATEWAY_PORT", "127.0.0.1:19002")];
        assert_eq!(url("{gateway: {port: 19001}}", &port), "ws://127.0.0.1:19002");
        let remote = "{gateway: {mode: 'remote', remote: {url: 'wss://gateway.example'}}}";
        assert_eq!(url(remote, &[]), "wss://gateway.example");
        let named = [("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:19003")];
        assert_eq!(url(remote, &named), "ws://127.0.0.1:19003");
        let insecure =
            [("OPENCLAW_GATEWAY_URL", "ws://gateway:1"), ("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS", "1")];
        assert_eq!(url("{}", &insecure), "ws://gateway:1");
        assert_eq!(endpoint("{gateway: {bind: 'tailnet'}}", &token).bind.as_deref(), Some("tailnet"));
    }

    #[test]
    fn the_credential_is_the_one_the_gateway_asks_for() {
        let secret = |text: &str, environment: &[(&str, &str)]| {
            endpoint(text, environment).credential.secret().map(str::to_string)
        };
        let of = |auth: &str| format!("{{gateway: {{auth: {auth}}}}}");
        assert_eq!(secret(&of("{token: 'a'}"), &[]).as_deref(), Some("a"));
        assert_eq!(secret(&of("{mode: 'password', token: 'a', password: 'b'}"), &[]).as_deref(), Some("b"));
        assert_eq!(secret(&of("{mode: 'none'}"), &[]), None);
        let reference = of("{token: {source: 'env', provider: 'default', id: 'X'}}");
        assert_eq!(secret(&reference, &[("X", "c")]).as_deref(), Some("c"));
        let vars = "{env: {vars: {X: 'd'}}, gateway: {auth: {token: '${X}'}}}";
        assert_eq!(secret(vars, &[]).as_deref(), Some("d"));
        let remote = "{gateway: {mode: 'remote', auth: {token: 'a'}, remote: {url: 'wss://h', token: 'r'}}}";
        assert_eq!(secret(remote, &[]).as_deref(), Some("r"));
        for nothing in [of("{}"), of("{token: '${MISSING}'}"), of("{token: {source: 'exec', id: 'x'}}")] {
            let told = openclaw(&nothing, &[]).1.unwrap().websocket().unwrap_err().to_string();
            assert!(told.contains("no plain token in gateway.auth"), "{told}");
        }
    }

    #[test]
    fn variables_are_filled_in_as_the_gateway_does() {
        let (_dir, read) = openclaw("{}", &[("A", "1"), ("B_2", "two")]);
        let read = read.unwrap();
        for (text, filled) in [
            ("${A}", Some("1")),
            ("x-${A}-${B_2}/y", Some("x-1-two/y")),
            ("$${A}", Some("${A}")),
            ("${a}", Some("${a}")),
            ("${", Some("${")),
            ("$5", Some("$5")),
            ("${MISSING}", None),
        ] {
            assert_eq!(read.substitute(text).as_deref(), filled, "{text}");
        }
    }

    #[test]
    fn a_workspace_lies_where_the_gateway_puts_it() {
        let at = |text: &str, agent: &str| {
            let (dir, read) = openclaw(text, &[]);
            read.unwrap().workspace(agent).strip_prefix(dir.path()).map(Path::to_owned).unwrap_or_default()
        };
        assert_eq!(at("{}", "main"), Path::new(".openclaw/workspace"));
        assert_eq!(at("{agents: {defaults: {workspace: '~/ws'}}}", "main"), Path::new("ws"));
        let two = "{agents: {defaults: {workspace: '~/ws'}, entries: {a: {default: true}, b: {}, c: {workspace: '~/c'}}}}";
        assert_eq!(at(two, "a"), Path::new("ws"));
        assert_eq!(at(two, "b"), Path::new("ws/b"));
        assert_eq!(at(two, "c"), Path::new("c"));
        let listed = "{agents: {list: [{id: 'a'}, {id: 'b'}]}}";
        assert_eq!(at(listed, "b"), Path::new(".openclaw/workspace-b"));
        assert_eq!(at("{agents: {list: [{id: 'work'}]}}", "work"), Path::new(".openclaw/workspace"));
    }

    #[test]
    fn the_hook_is_on_unless_the_settings_say_otherwise() {
        let check = |text: &str| openclaw(text, &[]).1.unwrap().check_hook();
        assert!(check("{}").is_ok());
        assert!(check("{hooks: {internal: {enabled: true}}}").is_ok());
        assert!(check("{hooks: {internal: {enabled: false}}}").is_err());
        assert!(check("{hooks: {internal: {entries: {'session-memory': {enabled: false}}}}}").is_err());
        let kept = "{hooks: {internal: {entries: {'session-memory': {messages: 200}}}}}";
        assert_eq!(openclaw(kept, &[]).1.unwrap().messages_kept(), 200);
        assert_eq!(openclaw("{}", &[]).1.unwrap().messages_kept(), 15);
    }

    #[test]
    fn what_would_be_waited_for_or_overflow_is_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let told = openclaw(&deep, &[]).1.unwrap_err().to_string();
        assert!(told.contains("500 levels deep"), "{told}");
        let told = openclaw("{}", &[("OPENCLAW_CONFIG_PATH", "/dev/zero")]).1.unwrap_err();
        assert!(crate::error::chain(&told).contains("no regular file"), "{told:?}");
    }

    #[test]
    fn a_file_that_is_no_json5_is_named_by_line_and_never_quoted() {
        let told = openclaw("{\n token: 'secret\n}", &[]).1.unwrap_err().to_string();
        assert!(told.contains("line 2") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn a_token_in_a_variable_that_is_not_set_names_the_variable() {
        let text = "{gateway: {auth: {mode: 'token', token: '${MY_GATEWAY_TOKEN}'}}}";
        let (_dir, read) = openclaw(text, &[]);
        let told = read.unwrap().websocket().unwrap_err().to_string();
        assert!(told.contains("MY_GATEWAY_TOKEN, which is set nowhere"), "{told}");
        let (_dir, read) = openclaw(text, &[("MY_GATEWAY_TOKEN", "t")]);
        assert!(read.unwrap().websocket().is_ok());
    }
}
