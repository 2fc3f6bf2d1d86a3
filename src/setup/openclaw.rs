//! `dreamer setup --openclaw`: a home for the memory of an OpenClaw gateway, from its own settings. What they mean is known in
//! `openclaw/`; here it becomes our variables, and what could not be used is named. Never writes to `openclaw.json`, prints
//! no key, and refers to a key where that is possible instead of copying it.

use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use secrecy::ExposeSecret as _;

use super::settings::{Choice, Written, kept};
use super::{Absent, Report, SetupError, make};
use crate::config::{Layers, Origin, expand};
use crate::error::{Error, chain};
use crate::language::counted;
use crate::openclaw::config::{OpenClaw, OpenClawError};
use crate::openclaw::lengths::{LongDay, longest_day};
use crate::openclaw::memory_settings::{Database, Embedding, Key, MemorySettings, PLUGIN};
use crate::openclaw::models::ChatModel;
use crate::openclaw::wanted::{ENOUGH_MESSAGES, Hook, json5};
use crate::store::Store;

/// The settings a gateway's settings give.
#[derive(Debug, Default)]
struct Derived {
    choices: Vec<Choice>,
    /// What could not be used, and what to do about it.
    notes: Vec<String>,
    /// Keys that are copied, and from which file.
    copied: Vec<(&'static str, String)>,
    /// What stands above a line of the settings file that stays commented out.
    hints: Vec<(&'static str, String)>,
}

impl Derived {
    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.choices.push(Choice::new(name, value));
    }

    fn path(&mut self, name: &'static str, path: &Path) {
        self.set(name, path.display().to_string());
    }
}

/// Sets a home up for the gateway whose `openclaw.json`, or the folder it lies in, is `path`; else the one that
/// `OPENCLAW_CONFIG_PATH` and `OPENCLAW_STATE_DIR` name; else the one in `~/.openclaw`.
///
/// # Errors
/// When there are no such settings or they cannot be read, and as for [`super::setup`].
pub async fn setup_openclaw(layers: &Layers, path: Option<&Path>) -> Result<Report, Error> {
    let layers = pointed_at(layers, path);
    let openclaw = OpenClaw::read(&layers).map_err(|error| match error {
        OpenClawError::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            SetupError::NoOpenClaw { path }
        }
        error => SetupError::OpenClaw(error),
    })?;
    if !openclaw.found() {
        Err(SetupError::NoOpenClaw { path: openclaw.path().to_owned() })?;
    }
    let memory = openclaw.memory();
    let derived = derive(&openclaw, &memory, &layers);
    let mut choices = kept(&layers);
    let is_kept = |choice: &&Choice| !choices.iter().any(|kept| kept.name == choice.name);
    let more: Vec<Choice> = derived.choices.iter().filter(is_kept).cloned().collect();
    choices.extend(more);
    // Which of a gateway's table layouts is right only the gateway knows, so it makes the table.
    let (mut report, written) = make(&layers, &choices, &derived.hints, Absent::IsTheGateways, None).await?;
    report.notes.extend(differences(&derived, &layers, written));
    if written == Written::New {
        report.notes.extend(derived.copied.iter().map(|(name, place)| {
            format!("{name} stands in {place}, where only the gateway looks: it was copied into the settings file, for your eyes alone")
        }));
    }
    report.notes.extend(derived.notes);
    report.warnings.extend(too_few_messages(&openclaw));
    report.notes.extend(without_agent(&choices, &layers).await);
    report.snippet = openclaw.missing().map(|missing| (openclaw.path().to_owned(), json5(&missing)));
    Ok(report)
}

/// The layers with the gateway that was named, by its file or by its folder.
fn pointed_at(layers: &Layers, path: Option<&Path>) -> Layers {
    let mut layers = layers.clone();
    let Some(path) = path.map(|path| expand(&path.to_string_lossy(), &layers)) else { return layers };
    let mut point = |name: &str, to: &Path| layers.flags.insert(name.into(), to.display().to_string());
    if path.is_dir() {
        point("OPENCLAW_STATE_DIR", &path);
        point("OPENCLAW_CONFIG_PATH", &path.join("openclaw.json"));
        return layers;
    }
    point("OPENCLAW_CONFIG_PATH", &path);
    // A file that lies among the gateway's own is that of a gateway with its state there.
    if let Some(folder) = path.parent().filter(|folder| folder.join("agents").is_dir()) {
        point("OPENCLAW_STATE_DIR", folder);
    }
    layers
}

fn derive(openclaw: &OpenClaw, memory: &MemorySettings, layers: &Layers) -> Derived {
    let mut derived = Derived::default();
    database(memory, &mut derived);
    let embeds = match &memory.embedding {
        Some(embedding) => embedding_model(embedding, layers, &mut derived),
        None => Server::None,
    };
    let (agents, default) = agents(openclaw);
    language_model(openclaw.chat_model(&default), &embeds, layers, &mut derived);
    episodes(openclaw, &agents, &default, &mut derived);
    match openclaw.user_timezone() {
        Some(zone) if zone.parse::<Tz>().is_ok() => derived.set("DREAMER_TIMEZONE", zone),
        Some(zone) => derived.notes.push(format!(
            "agents.defaults.userTimezone is {zone}, which is no IANA name: set DREAMER_TIMEZONE, such as Europe/Berlin"
        )),
        None => {}
    }
    gateway(openclaw, layers, &mut derived);
    derived
}

fn database(memory: &MemorySettings, derived: &mut Derived) {
    if memory.slot != PLUGIN {
        derived.notes.push(format!(
            "plugins.slots.memory is {}, not {PLUGIN}: the gateway would not recall what a night writes; see below",
            memory.slot
        ));
    }
    if memory.is_off {
        derived.notes.push(format!("plugins.entries.{PLUGIN} is switched off; see below"));
    }
    if memory.embedding.is_none() {
        derived.notes.push(match memory.is_there {
            false => format!("plugins.entries.{PLUGIN} is not there: the gateway has no LanceDB memory yet; install it \
                 (`openclaw plugins install @openclaw/memory-lancedb`), see below, then run this again"),
            true => format!("plugins.entries.{PLUGIN}.config has no embedding, so its model is not known; see below, then run this again"),
        });
        return;
    }
    match &memory.database {
        Database::Folder(folder) => {
            if memory.database_is_relative {
                derived.notes.push(format!(
                    "plugins.entries.{PLUGIN}.config.dbPath is relative and was taken to be {}; correct \
                     DREAMER_LANCEDB_URI if the gateway is started elsewhere",
                    folder.display()
                ));
            }
            derived.path("DREAMER_LANCEDB_URI", folder);
        }
        Database::Remote(address) => derived.notes.push(format!(
            "plugins.entries.{PLUGIN}.config.dbPath is {}…: Dreamer opens only folders of this machine",
            address.split("://").next().unwrap_or_default()
        )),
    }
}

/// Where the texts to embed go.
enum Server {
    /// An OpenAI-compatible server: its address as it will be set, and whether `OPENAI_API_KEY` of the environment is its
    /// key.
    OpenAi(Option<String>, bool),
    /// An Ollama server.
    Ollama(Option<String>),
    /// None of ours.
    None,
}

fn embedding_model(embedding: &Embedding, layers: &Layers, derived: &mut Derived) -> Server {
    let server = match kind(&embedding.provider, embedding.api.as_deref(), embedding.base_url.as_deref()) {
        Kind::Ollama => {
            let address = embedding.base_url.as_deref().map(ollama_address);
            derived.set("DREAMER_EMBEDDING_PROVIDER", "ollama");
            address.iter().for_each(|address| derived.set("OLLAMA_BASE_URL", address));
            derived.set("OLLAMA_EMBEDDING_MODEL", &embedding.model);
            Server::Ollama(address)
        }
        Kind::OpenAi => {
            derived.set("DREAMER_EMBEDDING_PROVIDER", "openai");
            embedding.base_url.iter().for_each(|address| derived.set("OPENAI_BASE_URL", address));
            derived.set("OPENAI_EMBEDDING_MODEL", &embedding.model);
            key(&embedding.key, embedding.base_url.as_deref(), "the embedding model", layers, derived);
            let takes_ours = matches!(&embedding.key, Key::Variable(name) if name == "OPENAI_API_KEY");
            Server::OpenAi(embedding.base_url.clone(), takes_ours)
        }
        Kind::Other => {
            let told = format!(
                "the gateway embeds {} with {}, which this version cannot ask: set DREAMER_EMBEDDING_PROVIDER and its \
                 model to a server that has the very same model",
                embedding.model, embedding.provider
            );
            derived.hints.push(("DREAMER_EMBEDDING_PROVIDER", told.clone()));
            derived.notes.push(told);
            Server::None
        }
    };
    if let Some(dimensions) = embedding.dimensions {
        derived.set("DREAMER_EMBEDDING_DIM", dimensions.to_string());
    }
    server
}

/// What a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OpenAi,
    Ollama,
    Other,
}

fn kind(provider: &str, api: Option<&str>, base_url: Option<&str>) -> Kind {
    match (api, provider) {
        (Some("ollama"), _) | (None, "ollama") => Kind::Ollama,
        (Some("openai-completions" | "openai-responses"), _) | (None, "openai") => Kind::OpenAi,
        // A custom provider with an address speaks the API of OpenAI unless it says otherwise.
        (None, _) if base_url.is_some() && !matches!(provider, "anthropic" | "google") => Kind::OpenAi,
        _ => Kind::Other,
    }
}

/// Without the path of the OpenAI API, which Ollama serves too.
fn ollama_address(address: &str) -> String {
    let address = address.trim_end_matches('/');
    address.strip_suffix("/v1").or_else(|| address.strip_suffix("/api")).unwrap_or(address).to_owned()
}

fn key(key: &Key, base_url: Option<&str>, whose: &str, layers: &Layers, derived: &mut Derived) {
    const NAME: &str = "OPENAI_API_KEY";
    if derived.choices.iter().any(|choice| choice.name == NAME) {
        return;
    }
    let from_environment = |name: &str| matches!(layers.get(name), Some((_, Origin::Environment)));
    match key {
        Key::Variable(name) => {
            if from_environment(name) {
                derived.notes.push(format!(
                    "{NAME} is taken from {name} in the environment, as the gateway does: a timed run needs it there, too, or \
                     in the settings file"
                ));
            }
            if name != NAME
                && let Some((value, _)) = layers.get(name)
            {
                derived.choices.push(Choice::referring(NAME, value, name));
            }
        }
        Key::Plain(secret, place) => {
            derived.set(NAME, secret.expose_secret());
            derived.copied.push((NAME, place.clone()));
        }
        Key::Elsewhere(what) => {
            derived.notes.push(format!("the key of {whose} is {what}: set {NAME} in the settings file"));
        }
        Key::Nowhere if base_url.is_none() && layers.get(NAME).is_none() => {
            derived.notes.push(format!(
                "no key of {whose} stands in the gateway's settings (it may lie in its auth profiles): set {NAME} in the settings file"
            ));
        }
        Key::Nowhere => {}
    }
}

fn language_model(chat: Option<ChatModel>, embeds: &Server, layers: &Layers, derived: &mut Derived) {
    let Some(chat) = chat else {
        leave_open("agents.defaults.model names no language model of a provider", derived);
        return;
    };
    let name = format!("{}/{}", chat.provider, chat.model);
    match kind(&chat.provider, chat.api.as_deref(), chat.base_url.as_deref()) {
        Kind::Ollama => {
            let address = chat.base_url.as_deref().map(ollama_address);
            if let (Server::Ollama(other), Some(address)) = (embeds, &address)
                && other.as_ref().is_some_and(|other| other != address)
            {
                leave_open(
                    &format!(
                        "{name} is on another Ollama server than the embedding model, and OLLAMA_BASE_URL is one for both"
                    ),
                    derived,
                );
                return;
            }
            derived.set("DREAMER_LLM_PROVIDER", "ollama");
            if !matches!(embeds, Server::Ollama(Some(_))) {
                address.iter().for_each(|address| derived.set("OLLAMA_BASE_URL", address));
            }
            derived.set("OLLAMA_LLM_MODEL", &chat.model);
        }
        Kind::OpenAi => match embeds {
            Server::OpenAi(other, takes_ours) if !same_server(other.as_deref(), chat.base_url.as_deref()) => {
                if *takes_ours {
                    // The environment beats the settings file: the other server would get this one's key.
                    leave_open(
                        &format!(
                            "{name} is on another server than the embedding model, whose key is OPENAI_API_KEY in the \
                             environment; call that OPENAI_EMBEDDING_API_KEY and set OPENAI_EMBEDDING_BASE_URL"
                        ),
                        derived,
                    );
                    return;
                }
                embeds_alone(other.as_deref(), derived);
                openai_chat(&chat, layers, derived);
            }
            Server::OpenAi(..) => {
                derived.set("DREAMER_LLM_PROVIDER", "openai");
                derived.set("OPENAI_LLM_MODEL", &chat.model);
            }
            Server::Ollama(_) | Server::None => openai_chat(&chat, layers, derived),
        },
        Kind::Other => {
            leave_open(&format!("the agent talks with {name}, which this version cannot ask"), derived)
        }
    }
}

fn openai_chat(chat: &ChatModel, layers: &Layers, derived: &mut Derived) {
    derived.set("DREAMER_LLM_PROVIDER", "openai");
    chat.base_url.iter().for_each(|address| derived.set("OPENAI_BASE_URL", address));
    derived.set("OPENAI_LLM_MODEL", &chat.model);
    key(&chat.key, chat.base_url.as_deref(), "the language model", layers, derived);
}

/// What was set for one server is that of the server that embeds: another one talks.
fn embeds_alone(address: Option<&str>, derived: &mut Derived) {
    if address.is_none() {
        derived.set("OPENAI_BASE_URL", "https://api.openai.com/v1");
    }
    for (name, own) in
        [("OPENAI_BASE_URL", "OPENAI_EMBEDDING_BASE_URL"), ("OPENAI_API_KEY", "OPENAI_EMBEDDING_API_KEY")]
    {
        derived.choices.iter_mut().filter(|choice| choice.name == name).for_each(|choice| choice.name = own);
        derived.copied.iter_mut().filter(|(copied, _)| *copied == name).for_each(|(copied, _)| *copied = own);
    }
}

fn leave_open(why: &str, derived: &mut Derived) {
    let told = format!(
        "{why}: choose who distils yourself, DREAMER_LLM_PROVIDER=openai (OPENAI_LLM_MODEL), ollama (OLLAMA_LLM_MODEL) or \
         extractive (no model)"
    );
    derived.hints.push(("DREAMER_LLM_PROVIDER", told.clone()));
    derived.notes.push(told);
}

fn same_server(one: Option<&str>, other: Option<&str>) -> bool {
    let plain = |address: Option<&str>| {
        let address = address.unwrap_or("https://api.openai.com/v1").trim_end_matches('/');
        address.strip_suffix("/v1").unwrap_or(address).to_lowercase()
    };
    plain(one) == plain(other)
}

/// The agents by the ids that their rows have, and the default one.
fn agents(openclaw: &OpenClaw) -> (Vec<String>, String) {
    let mut ids: Vec<String> = openclaw
        .agents()
        .into_iter()
        .map(|(id, _)| id.trim().to_lowercase())
        .filter(|id| !id.is_empty())
        .collect();
    ids.dedup();
    if ids.is_empty() {
        ids.push("main".into());
    }
    let default = openclaw.default_agent().to_lowercase();
    let default = [default.as_str(), "main"].into_iter().find(|id| ids.iter().any(|known| known == id));
    let default = default.unwrap_or(&ids[0]).to_owned();
    (ids, default)
}

fn episodes(openclaw: &OpenClaw, agents: &[String], default: &str, derived: &mut Derived) {
    let folder = |agent: &str| openclaw.memory_folder(agent);
    derived.path("DREAMER_EPISODES_DIR", &folder(default));
    derived.set("DREAMER_AGENT", default);
    if agents.len() > 1 {
        let all: Vec<String> =
            agents.iter().map(|agent| format!("{agent}={}", folder(agent).display())).collect();
        derived.set("DREAMER_AGENTS", all.join(","));
    }
    derived.set("DREAMER_EPISODE_SOURCE", "both");
}

/// How the gateway is found again, where it is not where everybody looks.
fn gateway(openclaw: &OpenClaw, layers: &Layers, derived: &mut Derived) {
    let usual: PathBuf = expand("~/.openclaw", layers);
    if openclaw.path() != openclaw.state_dir().join("openclaw.json") {
        derived.path("OPENCLAW_CONFIG_PATH", openclaw.path());
    }
    if openclaw.state_dir() != usual {
        derived.path("OPENCLAW_STATE_DIR", openclaw.state_dir());
    }
    for name in ["OPENCLAW_GATEWAY_URL", "OPENCLAW_GATEWAY_PORT"] {
        if let Some((value, Origin::Environment)) = layers.get(name) {
            derived.set(name, value);
        }
    }
    if let Err(error) = openclaw.websocket() {
        derived.notes.push(format!("session-flush could not {}", chain(&error)));
    } else if let Some(Key::Variable(name)) =
        openclaw.at(&["gateway", "auth", "token"]).map(|token| openclaw.key(token))
    {
        derived.notes.push(format!(
            "the gateway's token is taken from {name} in the environment: a timed session-flush needs it there, too, or as \
             OPENCLAW_GATEWAY_TOKEN in the settings file"
        ));
    }
}

/// Where what counts is not what the gateway's settings say: an older settings file is never overwritten, and the
/// environment beats it.
fn differences(derived: &Derived, layers: &Layers, written: Written) -> Vec<String> {
    let differing = |choice: &Choice| {
        let shown = choice.shown();
        match layers.get(choice.name) {
            Some((value, origin)) if !choice.says_the_same(value, layers) => Some(match choice.is_secret() {
                true => format!("{} ({origin}) is another key than the gateway's", choice.name),
                false => {
                    format!("{}={value} ({origin}), but the gateway's settings say {shown}", choice.name)
                }
            }),
            None if written == Written::Existed => {
                Some(format!("the settings file, which is left as it is, lacks {}={shown}", choice.name))
            }
            _ => None,
        }
    };
    // What was pointed at by a flag of this command is a difference to nobody.
    let is_named = |choice: &&Choice| !layers.flags.contains_key(choice.name);
    let of_flags = |choice: &Choice| {
        (written == Written::Existed
            && !layers.files.iter().any(|file| file.values.contains_key(choice.name)))
        .then(|| {
            format!("the settings file, which is left as it is, lacks {}={}", choice.name, choice.shown())
        })
    };
    let others = derived.choices.iter().filter(is_named).filter_map(differing);
    let flags = derived.choices.iter().filter(|choice| !is_named(choice)).filter_map(of_flags);
    others.chain(flags).collect()
}

/// Warns where the hook would not write the day, or only its end.
fn too_few_messages(openclaw: &OpenClaw) -> Option<String> {
    match openclaw.hook() {
        Hook::On => {}
        Hook::Off => {
            return Some("the session-memory hook is switched off: no episode is written; see below".into());
        }
        Hook::NotSelected => {
            return Some(
                "the session-memory hook is not switched on: no episode is written; see below".into(),
            );
        }
    }
    let kept = openclaw.messages_kept();
    let (agents, _) = agents(openclaw);
    let days = agents.iter().filter_map(|agent| longest_day(openclaw.state_dir(), agent));
    match days.max_by_key(|day| day.messages) {
        Some(LongDay { messages, date }) if messages > kept => Some(format!(
            "the session-memory hook keeps the last {kept} messages of a session; on {date} one had {messages}: {} would be \
             missing from its episode; see below",
            messages - kept
        )),
        Some(_) => None,
        None if kept < ENOUGH_MESSAGES => Some(format!(
            "the session-memory hook keeps the last {} of a session: of a day with more, the beginning is dropped; see below",
            counted(kept as usize, "message")
        )),
        None => None,
    }
}

/// Names rows that the gateway never recalls and Dreamer never touches.
async fn without_agent(choices: &[Choice], layers: &Layers) -> Option<String> {
    let value = |name: &str| {
        let set = layers.get(name).map(|(value, _)| value.to_owned());
        set.or_else(|| Some(choices.iter().find(|choice| choice.name == name)?.value.clone()))
    };
    let store = Store::open(&value("DREAMER_LANCEDB_URI")?).await.ok()?;
    let agent = value("DREAMER_AGENT").unwrap_or_else(|| "main".into());
    let rows = store.rows(&agent).await.ok()?;
    if !store.has_agent() && !rows.memories.is_empty() {
        return Some(format!(
            "the table has no column agentId, as that of an older gateway: its {} count as those of {agent}",
            counted(rows.memories.len(), "row")
        ));
    }
    (rows.ownerless > 0).then(|| {
        format!(
            "{} of the table without agentId: the gateway never recalls them and Dreamer leaves them alone; `openclaw doctor --fix` \
             gives those of an older release to the default agent",
            counted(rows.ownerless, "row")
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What is derived from settings, for a person with a home of their own. The folder is `@` in what is returned.
    fn derived(text: &str, environment: &[(&str, &str)]) -> (Vec<String>, Derived) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        let mut layers = Layers::of(environment);
        layers.user_home = Some(dir.path().to_owned());
        let openclaw = OpenClaw::read(&layers).unwrap();
        let derived = derive(&openclaw, &openclaw.memory(), &layers);
        let home = dir.path().display().to_string();
        let shown = derived.choices.iter().map(|c| format!("{}={}", c.name, c.value.replace(&home, "@")));
        (shown.collect(), derived)
    }

    fn memory(embedding: &str, more: &str) -> String {
        format!(
            "{{gateway: {{auth: {{token: 't'}}}}, plugins: {{slots: {{memory: 'memory-lancedb'}}, entries: {{'memory-lancedb': \
             {{config: {{embedding: {embedding}}}}}}}}}, {more}}}"
        )
    }

    #[test]
    fn a_gateway_of_its_own_server_gives_every_setting() {
        let text = memory(
            "{apiKey: 'k', baseUrl: 'http://127.0.0.1:9/v1', model: 'mock-embed', dimensions: 64}",
            "agents: {defaults: {workspace: '~/ws', userTimezone: 'Europe/Berlin', model: {primary: 'mock/chat'}}},
             models: {providers: {mock: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'k', api: 'openai-completions'}}}",
        );
        let (shown, derived) = derived(&text, &[]);
        assert_eq!(
            shown,
            [
                "DREAMER_LANCEDB_URI=@/.openclaw/memory/lancedb",
                "DREAMER_EMBEDDING_PROVIDER=openai",
                "OPENAI_BASE_URL=http://127.0.0.1:9/v1",
                "OPENAI_EMBEDDING_MODEL=mock-embed",
                "OPENAI_API_KEY=k",
                "DREAMER_EMBEDDING_DIM=64",
                "DREAMER_LLM_PROVIDER=openai",
                "OPENAI_LLM_MODEL=chat",
                "DREAMER_EPISODES_DIR=@/ws/memory",
                "DREAMER_AGENT=main",
                "DREAMER_EPISODE_SOURCE=both",
                "DREAMER_TIMEZONE=Europe/Berlin",
            ]
        );
        assert_eq!(derived.notes, Vec::<String>::new());
        assert_eq!(derived.copied[0].0, "OPENAI_API_KEY");
    }

    #[test]
    fn several_agents_are_named_with_their_folders() {
        let text = memory(
            "{apiKey: 'k'}",
            "agents: {defaults: {workspace: '~/ws'}, entries: {Main: {default: true}, work: {workspace: '/srv/work'}}}",
        );
        let (shown, _) = derived(&text, &[]);
        assert!(shown.contains(&"DREAMER_AGENTS=main=@/ws/memory,work=/srv/work/memory".into()), "{shown:?}");
        assert!(
            shown.contains(&"DREAMER_AGENT=main".into())
                && shown.contains(&"DREAMER_EPISODES_DIR=@/ws/memory".into())
        );
    }

    #[test]
    fn ollama_is_asked_by_its_own_api() {
        let text = memory(
            "{provider: 'ollama', baseUrl: 'http://box:11434/v1/', model: 'mxbai-embed-large', dimensions: 1024}",
            "agents: {defaults: {model: 'ollama/qwen3'}}",
        );
        let (shown, derived) = derived(&text, &[]);
        for setting in [
            "DREAMER_EMBEDDING_PROVIDER=ollama",
            "OLLAMA_BASE_URL=http://box:11434",
            "OLLAMA_EMBEDDING_MODEL=mxbai-embed-large",
            "DREAMER_EMBEDDING_DIM=1024",
            "DREAMER_LLM_PROVIDER=ollama",
            "OLLAMA_LLM_MODEL=qwen3",
        ] {
            assert!(shown.contains(&setting.into()), "{setting}: {shown:?}");
        }
        assert!(!shown.iter().any(|s| s.starts_with("OPENAI")) && derived.notes.is_empty(), "{derived:?}");
    }

    #[test]
    fn what_cannot_be_asked_is_named_and_left_commented_out() {
        let notes = |text: &str| derived(text, &[]).1.notes.join("\n");
        let copilot = notes(&memory("{provider: 'github-copilot', model: 'text-embedding-3-small'}", ""));
        assert!(copilot.contains("with github-copilot") && copilot.contains("very same model"), "{copilot}");
        let claude = memory("{apiKey: 'k'}", "agents: {defaults: {model: 'anthropic/claude-x'}}");
        let (shown, found) = derived(&claude, &[]);
        assert!(!shown.iter().any(|s| s.starts_with("DREAMER_LLM_PROVIDER")));
        assert!(
            found.hints[0].1.contains("anthropic/claude-x") && found.hints[0].0 == "DREAMER_LLM_PROVIDER"
        );
        let own = memory(
            "{apiKey: '${OPENAI_API_KEY}'}",
            "agents: {defaults: {model: 'mock/chat'}}, models: {providers: {mock: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'k'}}}",
        );
        let (shown, found) = derived(&own, &[("OPENAI_API_KEY", "sk-x")]);
        assert!(found.hints[0].1.contains("another server"), "{:?}", found.hints);
        assert!(!shown.iter().any(|s| s.starts_with("OPENAI_BASE_URL")), "{shown:?}");
        let odd = notes(
            "{plugins: {slots: {memory: 'memory-core'}}, agents: {defaults: {userTimezone: 'Berlin'}}}",
        );
        for part in [
            "memory-core, not memory-lancedb",
            "is not there",
            "is Berlin, which is no IANA name",
            "no plain token",
        ] {
            assert!(odd.contains(part), "{part}: {odd}");
        }
        let remote = "{plugins: {entries: {'memory-lancedb': {enabled: false, config: {dbPath: 's3://b', embedding: {}}}}}}";
        let (shown, found) = derived(remote, &[]);
        assert!(!shown.iter().any(|s| s.starts_with("DREAMER_LANCEDB_URI")));
        let told = found.notes.join("\n");
        assert!(told.contains("s3…") && told.contains("switched off") && told.contains("no key"), "{told}");
    }

    #[test]
    fn a_key_of_the_environment_is_referred_to_and_not_copied() {
        let text = memory(
            "{apiKey: '${ZHIPU_API_KEY}', model: 'embedding-3', baseUrl: 'https://z.example/v1', dimensions: 8}",
            "",
        );
        let (_, found) = derived(&text, &[("ZHIPU_API_KEY", "sk-secret")]);
        let choice = found.choices.iter().find(|c| c.name == "OPENAI_API_KEY").unwrap();
        assert_eq!(choice.shown(), "${ZHIPU_API_KEY}");
        assert!(found.copied.is_empty() && found.notes[0].contains("timed run"), "{:?}", found.notes);
        let own = memory("{apiKey: '${OPENAI_API_KEY}'}", "");
        let (shown, _) = derived(&own, &[("OPENAI_API_KEY", "sk-secret")]);
        assert!(!shown.iter().any(|s| s.starts_with("OPENAI_API_KEY")), "{shown:?}");
    }

    #[test]
    fn a_model_that_embeds_on_another_server_has_settings_of_its_own() {
        let text = memory(
            "{apiKey: 'k', baseUrl: 'http://127.0.0.1:9/v1', model: 'm', dimensions: 8}",
            "agents: {defaults: {model: 'other/chat'}}, models: {providers: {other: {baseUrl: 'http://127.0.0.1:8/v1', apiKey: 'c'}}}",
        );
        let (shown, found) = derived(&text, &[]);
        for setting in [
            "OPENAI_EMBEDDING_BASE_URL=http://127.0.0.1:9/v1",
            "OPENAI_EMBEDDING_API_KEY=k",
            "OPENAI_BASE_URL=http://127.0.0.1:8/v1",
            "OPENAI_API_KEY=c",
            "OPENAI_LLM_MODEL=chat",
        ] {
            assert!(shown.contains(&setting.into()), "{setting}: {shown:?}");
        }
        let copied: Vec<&str> = found.copied.iter().map(|(name, _)| *name).collect();
        assert_eq!(copied, ["OPENAI_EMBEDDING_API_KEY", "OPENAI_API_KEY"]);
        let at_openai = memory(
            "{apiKey: 'k'}",
            "agents: {defaults: {model: 'other/chat'}}, models: {providers: {other: {baseUrl: 'http://127.0.0.1:8/v1'}}}",
        );
        let (shown, _) = derived(&at_openai, &[]);
        assert!(shown.contains(&"OPENAI_EMBEDDING_BASE_URL=https://api.openai.com/v1".into()), "{shown:?}");
    }

    #[test]
    fn servers_are_the_same_whatever_ends_their_address() {
        assert!(same_server(None, Some("https://api.openai.com/v1/")));
        assert!(same_server(Some("http://127.0.0.1:9"), Some("http://127.0.0.1:9/v1")));
        assert!(!same_server(Some("http://127.0.0.1:9"), None));
    }
}
