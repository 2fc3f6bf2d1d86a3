//! What `openclaw.json` says of the gateway's memory: which plugin has the slot, which model embeds, where the table lies,
//! and where the keys stand. Both shapes of `plugins.entries.memory-lancedb.config` are read: `embedding.apiKey` and `baseUrl`
//! (all of it up to 2026.4), and `embedding.provider`, whose address and key may stand in `models.providers`.
//!
//! Facts, read in the source of the plugin in openclaw 2026.4.15 and in the documentation of 2026.9.6.

use std::path::PathBuf;

use secrecy::SecretString;
use serde_json::Value;

use super::config::OpenClaw;
use crate::config::{Origin, expand};

/// The plugin whose table Dreamer works on.
pub const PLUGIN: &str = "memory-lancedb";
/// The plugin that has the memory slot when nobody says otherwise.
pub const DEFAULT_SLOT: &str = "memory-core";
/// The embedding model when nobody says otherwise.
pub const DEFAULT_MODEL: &str = "text-embedding-3-small";

/// Where a key stands.
#[derive(Debug, Clone)]
pub enum Key {
    /// Nobody gives one.
    Nowhere,
    /// In a variable of this process's environment: it can be referred to.
    Variable(String),
    /// In a file that only the gateway reads: the key, and which file.
    Plain(SecretString, String),
    /// Behind a reference that is not followed here: what it says.
    Elsewhere(String),
}

/// How the gateway embeds.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// `openai` unless another is named.
    pub provider: String,
    /// What speaks there, where `models.providers` says: `openai-completions`, `ollama`, …
    pub api: Option<String>,
    /// The model.
    pub model: String,
    /// The server.
    pub base_url: Option<String>,
    /// The key.
    pub key: Key,
    /// The length of its vectors, where it is said.
    pub dimensions: Option<usize>,
}

/// Where the table lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A folder.
    Folder(PathBuf),
    /// An address that is no folder.
    Remote(String),
}

/// The gateway's memory.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// The plugin with the memory slot.
    pub slot: String,
    /// Whether the plugin has an entry at all.
    pub is_there: bool,
    /// Whether its entry is switched off.
    pub is_off: bool,
    /// How it embeds; none where its entry does not say.
    pub embedding: Option<Embedding>,
    /// Where its table lies.
    pub database: Database,
    /// Whether the path is relative: the gateway takes it from the folder in which it was started.
    pub database_is_relative: bool,
}

impl OpenClaw {
    /// What the settings say of the memory.
    pub fn memory(&self) -> MemorySettings {
        let entry = self.at(&["plugins", "entries", PLUGIN]);
        let set = self.text(&["plugins", "entries", PLUGIN, "config", "dbPath"]);
        let (database, relative) = match set {
            Some(path) if path.contains("://") => (Database::Remote(path), false),
            Some(path) => {
                let relative = !path.starts_with(['/', '~']);
                (Database::Folder(expand(&path, &self.layers)), relative)
            }
            None => (Database::Folder(self.default_database()), false),
        };
        MemorySettings {
            slot: self.text(&["plugins", "slots", "memory"]).unwrap_or_else(|| DEFAULT_SLOT.into()),
            is_there: entry.is_some(),
            is_off: entry.and_then(|entry| entry.get("enabled")) == Some(&Value::Bool(false)),
            embedding: self.embedding(),
            database,
            database_is_relative: relative,
        }
    }

    /// In the state folder where it is there, else where every release has put it so far.
    fn default_database(&self) -> PathBuf {
        let in_state = self.state_dir().join("memory/lancedb");
        if in_state.is_dir() { in_state } else { expand("~/.openclaw/memory/lancedb", &self.layers) }
    }

    fn embedding(&self) -> Option<Embedding> {
        let base = ["plugins", "entries", PLUGIN, "config", "embedding"];
        let own = self.at(&base)?.as_object()?;
        let text = |key: &str| self.resolve(own.get(key)?);
        let provider = text("provider").unwrap_or_else(|| "openai".into());
        let shared = |key: &str| self.at(&["models", "providers", &provider, key]);
        let key = own.get("apiKey").or_else(|| shared("apiKey"));
        let fallback = || match provider.as_str() {
            "openai" => self.key_of_variable("OPENAI_API_KEY").unwrap_or(Key::Nowhere),
            _ => Key::Nowhere,
        };
        let dimensions = own.get("dimensions").and_then(Value::as_f64).filter(|d| *d >= 1.0);
        Some(Embedding {
            api: shared("api").and_then(|api| self.resolve(api)),
            model: text("model").unwrap_or_else(|| DEFAULT_MODEL.into()),
            base_url: text("baseUrl").or_else(|| self.resolve(shared("baseUrl")?)),
            key: key.map_or_else(fallback, |key| self.key(key)),
            dimensions: dimensions.map(|d| d as usize),
            provider,
        })
    }

    /// Where a key stands, which is never printed.
    pub(crate) fn key(&self, value: &Value) -> Key {
        let in_settings = || format!("{}", self.path().display());
        match value {
            Value::String(text) => match variable_in(text.trim()) {
                Some(name) => self.key_of_variable(name).unwrap_or_else(|| {
                    Key::Elsewhere(format!("the variable {name}, which is set nowhere I can read"))
                }),
                None => match self.resolve(value) {
                    Some(key) => Key::Plain(key.into(), in_settings()),
                    None => Key::Nowhere,
                },
            },
            Value::Object(reference) => {
                let source = reference.get("source").and_then(Value::as_str).unwrap_or("unknown");
                let name = reference.get("id").and_then(Value::as_str).filter(|_| source == "env");
                name.and_then(|name| self.key_of_variable(name))
                    .unwrap_or_else(|| Key::Elsewhere(format!("a secret reference (source: {source})")))
            }
            _ => Key::Nowhere,
        }
    }

    /// Where a variable with a key is set: in our environment, or where only the gateway looks.
    pub(crate) fn key_of_variable(&self, name: &str) -> Option<Key> {
        if let Some((_, Origin::Flag | Origin::Environment | Origin::File(_))) = self.layers.get(name) {
            return Some(Key::Variable(name.to_owned()));
        }
        let of_file = self.env_file.as_ref().filter(|file| file.values.contains_key(name));
        let place = of_file.map_or_else(|| self.path().to_owned(), |file| file.path.clone());
        Some(Key::Plain(self.global(name)?.into(), place.display().to_string()))
    }
}

/// The name in a text that is nothing but `${NAME}`.
fn variable_in(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use secrecy::ExposeSecret as _;

    fn openclaw(text: &str, environment: &[(&str, &str)]) -> (tempfile::TempDir, OpenClaw) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".openclaw")).unwrap();
        std::fs::write(dir.path().join(".openclaw/openclaw.json"), text).unwrap();
        std::fs::write(dir.path().join(".openclaw/.env"), "GLOBAL_KEY=from-global\n").unwrap();
        let mut layers = Layers::of(environment);
        layers.user_home = Some(dir.path().to_owned());
        let read = OpenClaw::read(&layers).unwrap();
        (dir, read)
    }

    fn with_embedding(embedding: &str, more: &str, environment: &[(&str, &str)]) -> Embedding {
        let text = format!(
            "{{{more} plugins: {{entries: {{'memory-lancedb': {{config: {{embedding: {embedding}}}}}}}}}}}"
        );
        openclaw(&text, environment).1.memory().embedding.unwrap()
    }

    fn told(key: &Key) -> String {
        match key {
            Key::Nowhere => "nowhere".into(),
            Key::Variable(name) => format!("${name}"),
            Key::Plain(secret, _) => secret.expose_secret().into(),
            Key::Elsewhere(what) => what.clone(),
        }
    }

    #[test]
    fn the_older_shape_names_address_and_key_itself() {
        let found = with_embedding(
            "{apiKey: 'mock-key', baseUrl: 'http://127.0.0.1:1/v1', model: 'm', dimensions: 64}",
            "",
            &[],
        );
        assert_eq!((found.provider.as_str(), found.model.as_str()), ("openai", "m"));
        assert_eq!((found.base_url.as_deref(), found.dimensions), (Some("http://127.0.0.1:1/v1"), Some(64)));
        assert_eq!(told(&found.key), "mock-key");
    }

    #[test]
    fn the_newer_shape_takes_address_and_key_from_the_provider() {
        let models =
            "models: {providers: {ollama: {baseUrl: 'http://box:11434', api: 'ollama', apiKey: 'k'}}},";
        let found = with_embedding("{provider: 'ollama', model: 'mxbai-embed-large'}", models, &[]);
        assert_eq!(
            (found.api.as_deref(), found.base_url.as_deref()),
            (Some("ollama"), Some("http://box:11434"))
        );
        let bare = with_embedding("{provider: 'openai'}", "", &[("OPENAI_API_KEY", "sk")]);
        assert_eq!((bare.model.as_str(), told(&bare.key).as_str()), (DEFAULT_MODEL, "$OPENAI_API_KEY"));
        assert_eq!((bare.base_url, bare.dimensions), (None, None));
    }

    #[test]
    fn a_key_is_referred_to_where_it_can_be_and_its_place_is_known() {
        let set = [("MY_KEY", "x")];
        let key = |value: &str| told(&with_embedding(&format!("{{apiKey: {value}}}"), "", &set).key);
        assert_eq!(key("'${MY_KEY}'"), "$MY_KEY");
        assert_eq!(key("'${GLOBAL_KEY}'"), "from-global");
        assert_eq!(key("{source: 'env', provider: 'default', id: 'MY_KEY'}"), "$MY_KEY");
        assert!(key("{source: 'exec', id: 'x'}").contains("source: exec"));
        assert!(key("'${NO_KEY}'").contains("NO_KEY, which is set nowhere"));
        let plain = with_embedding("{apiKey: '${GLOBAL_KEY}'}", "", &[]).key;
        assert!(matches!(plain, Key::Plain(_, place) if place.ends_with(".openclaw/.env")));
    }

    #[test]
    fn the_table_lies_where_the_plugin_puts_it() {
        let database = |config: &str| {
            let text = format!("{{plugins: {{entries: {{'memory-lancedb': {{config: {config}}}}}}}}}");
            let (dir, read) = openclaw(&text, &[]);
            (dir, read.memory())
        };
        let (dir, memory) = database("{}");
        assert_eq!(memory.database, Database::Folder(dir.path().join(".openclaw/memory/lancedb")));
        assert_eq!((memory.slot.as_str(), memory.is_there, memory.is_off), (DEFAULT_SLOT, true, false));
        let (dir, memory) = database("{dbPath: '~/db'}");
        assert_eq!(memory.database, Database::Folder(dir.path().join("db")));
        assert!(!memory.database_is_relative);
        assert!(database("{dbPath: 'db'}").1.database_is_relative);
        assert_eq!(database("{dbPath: 's3://b/x'}").1.database, Database::Remote("s3://b/x".into()));
        assert!(!openclaw("{}", &[]).1.memory().is_there);
    }
}
