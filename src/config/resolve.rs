//! From raw values to a checked [`Config`]: what every variable may be, and what it is when nobody sets it.
//! All bad values are reported at once.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use chrono_tz::Tz;

use super::value::{
    api_key, builtin_model, days_or_off, decay_rate, embedding_provider, episode_source, fade, list,
    llm_provider, mask_pii, max_tokens, min_new, share, text, timezone, whole, window,
};
use super::{
    Agent, Config, ConfigError, EmbeddingProvider, Layers, Ollama, OpenAi, Origin, Problem, Setting,
    VARIABLES, address, variable,
};
use crate::providers::sentence_transformers::{Hub, is_name};
use crate::providers::{measured_on, thresholds_of};
use crate::rem::blacklist::Blacklist;

impl Config {
    /// Checks every value once.
    ///
    /// # Errors
    /// When a value does not parse, is out of range, or names something this build does not have: all such values.
    pub fn resolve(layers: &Layers) -> Result<(Self, Vec<Setting>), ConfigError> {
        let mut reader = Reader::new(layers);
        let config = reader.config();
        reader.check_similarities(&config);
        let (config, mut settings) = reader.done(config)?;
        let place = |s: &Setting| VARIABLES.iter().position(|v| v.name == s.name);
        settings.sort_by_key(place);
        Ok((config, settings))
    }
}

/// What works, but is probably not what the operator wants.
pub fn warnings(layers: &Layers, config: &Config) -> Vec<String> {
    let mut warnings = layers.warnings.clone();
    warnings.extend(layers.unknown());
    warnings.extend(layers.strangers(config.uses_ollama().then_some("OLLAMA_")));
    for (name, _, address) in config.openai.keys() {
        if address.starts_with("http://") && !crate::privacy::is_loopback(address) {
            warnings.push(format!(
                "{name} and everything a night sends travel unencrypted to {address}; use https"
            ));
        }
    }
    warnings.extend(config.alerts.warning());
    warnings
}

/// Takes values out of the layers and notes each as a setting, and what is wrong as a problem.
pub(super) struct Reader<'a> {
    layers: &'a Layers,
    settings: Vec<Setting>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(layers: &'a Layers) -> Self {
        Self { layers, settings: Vec::new(), problems: Vec::new() }
    }

    /// What was taken, unless something was wrong with it.
    pub(super) fn done<T>(self, taken: T) -> Result<(T, Vec<Setting>), ConfigError> {
        match self.problems.is_empty() {
            true => Ok((taken, self.settings)),
            false => Err(ConfigError::Invalid { problems: self.problems }),
        }
    }

    fn config(&mut self) -> Config {
        let home = self.home();
        let embedding_provider = self.take("DREAMER_EMBEDDING_PROVIDER", embedding_provider);
        let builtin_model = self.take("DREAMER_BUILTIN_MODEL", builtin_model);
        let (st_model_name, hub) = (self.st_model_name(), self.hub());
        let (openai, ollama) = (self.openai(), self.ollama());
        let model = match embedding_provider {
            EmbeddingProvider::OpenAi => openai.embedding_model.clone(),
            EmbeddingProvider::Ollama => ollama.embedding_model.clone(),
            EmbeddingProvider::Builtin => builtin_model.clone(),
            EmbeddingProvider::SentenceTransformers => st_model_name.clone(),
        };
        let of_model = thresholds_of(&model);
        let episodes_dir = self.folder("DREAMER_EPISODES_DIR", &home.join("episodes"));
        let agents = self.agents(&episodes_dir, &home.join("episodes/archive"));
        Config {
            agent: self.agent(&agents),
            agents,
            episodes_dir,
            episode_source: self.take("DREAMER_EPISODE_SOURCE", episode_source),
            gateway_state_dir: self.gateway_state_dir(),
            lancedb_uri: self
                .folder("DREAMER_LANCEDB_URI", &home.join("lancedb"))
                .to_string_lossy()
                .into_owned(),
            embedding_provider,
            llm_provider: self.take("DREAMER_LLM_PROVIDER", llm_provider),
            builtin_model,
            st_model_name,
            hub,
            models_dir: models_dir(self.layers),
            openai,
            ollama,
            embedding_dim: self.take_optional("DREAMER_EMBEDDING_DIM", |v| whole(v, 1..=65_536)),
            cluster_similarity: self.similarity("CLUSTER_SIMILARITY", &model, of_model.map(|t| t.cluster)),
            dedup_similarity: self.similarity("DEDUP_SIMILARITY", &model, of_model.map(|t| t.duplicate)),
            contradiction_similarity: self.similarity(
                "CONTRADICTION_SIMILARITY",
                &model,
                of_model.map(|t| t.related),
            ),
            decay_rate: self.take("IMPORTANCE_DECAY_RATE", decay_rate),
            fade_threshold: self.take("SOFT_DELETE_THRESHOLD", share),
            fade: self.take("DREAMER_FADE", fade),
            max_episode_days: self.take("MAX_EPISODES_PER_RUN", |v| whole(v, 1..=36_500)),
            max_new_memories: self.take("MAX_NEW_MEMORIES", |v| whole(v, 1..=100_000)),
            max_calls: self.take("DREAMER_MAX_CALLS", |v| whole(v, 1..=1_000_000)),
            max_tokens: self.take("DREAMER_MAX_TOKENS", max_tokens),
            max_minutes: self.take("DREAMER_MAX_MINUTES", |v| whole(v, 1..=1_440)),
            concurrency: self.take("DREAMER_CONCURRENCY", |v| whole(v, 1..=64)),
            owner: self.take_optional("DREAMER_OWNER", list).unwrap_or_default(),
            timezone: self.timezone(),
            mask_pii: self.take("DREAMER_MASK_PII", mask_pii),
            merge_blacklist: self.merge_blacklist(),
            window: self.take("DREAMER_WINDOW", window),
            min_new: self.take("DREAMER_MIN_NEW", min_new),
            snapshot_days: self.take("DREAMER_SNAPSHOT_DAYS", |v| whole(v, 1..=365)),
            raw_days: self.take("DREAMER_RAW_DAYS", days_or_off),
            archive_days: self.take("DREAMER_ARCHIVE_DAYS", days_or_off),
            min_free_mb: self.take("DREAMER_MIN_FREE_MB", |v| whole(v, 0..=1_000_000_000)),
            alerts: self.alerts(),
            only_agent: None,
            home,
        }
    }

    /// The agents that are named. A folder that is the one of all is nobody's own.
    fn agents(&mut self, all: &Path, archive: &Path) -> Vec<Agent> {
        let layers = self.layers;
        let read = |value: &str| {
            let mut agents = super::agents::agents(value, layers)?;
            for agent in &mut agents {
                if let Some(folder) = agent.folder.as_ref().filter(|folder| folder.starts_with(archive)) {
                    return Err(format!(
                        "gives `{}` the folder {}: done episodes go to this archive; name the folder they are written to",
                        agent.id,
                        folder.display()
                    ));
                }
                agent.folder = agent.folder.take().filter(|folder| !super::agents::same(folder, all));
            }
            Ok(agents)
        };
        self.take_optional("DREAMER_AGENTS", read).unwrap_or_default()
    }

    /// Whose what names nobody is: as set, else `main`, or where that is not among the named ones the first of them.
    fn agent(&mut self, agents: &[Agent]) -> String {
        let agent = self.take("DREAMER_AGENT", text);
        if agents.is_empty() || agents.iter().any(|known| known.id == agent) {
            return agent;
        }
        match self.layers.get("DREAMER_AGENT") {
            Some((value, origin)) => {
                let named = agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ");
                let allowed = format!(
                    "is not among DREAMER_AGENTS ({named}); name it there, or leave DREAMER_AGENT unset"
                );
                self.problem("DREAMER_AGENT", value, origin, allowed);
                agent
            }
            None => {
                self.show_as("DREAMER_AGENT", agents[0].id.clone());
                agents[0].id.clone()
            }
        }
    }

    /// The gateway's variable, which is shown where its other ones are.
    fn gateway_state_dir(&self) -> PathBuf {
        let named = self.layers.get("OPENCLAW_STATE_DIR").map(|(value, _)| value);
        expand(named.unwrap_or("~/.openclaw"), self.layers)
    }

    /// Pairs of names, or the file that holds them.
    fn merge_blacklist(&mut self) -> Blacklist {
        let layers = self.layers;
        let read = |value: &str| {
            let path = expand(value.trim(), layers);
            // A pair needs `=`; what has none, or is a file that exists, is a path.
            if value.contains('=') && !path.is_file() {
                return Blacklist::parse(value);
            }
            let text = std::fs::read_to_string(&path).map_err(|error| {
                format!(
                    "the file {} cannot be read ({error}); name a file, or write name=name;name=name",
                    path.display()
                )
            })?;
            Blacklist::parse_file(&text).map_err(|why| format!("the file {}: {why}", path.display()))
        };
        self.take_optional("DREAMER_MERGE_BLACKLIST", read).unwrap_or_default()
    }

    /// A variable with a default.
    pub(super) fn take<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        if let Some(value) = self.set(name, &parse) {
            return value;
        }
        let default = variable(name).and_then(|v| v.default).expect("a variable that is taken has a default");
        if !self.is_noted(name) {
            self.note(name, Some(default.to_string()), Origin::Default);
        }
        parse(default).expect("defaults can be parsed")
    }

    /// A variable that may be unset.
    pub(super) fn take_optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.set(name, &parse);
        if !self.is_noted(name) {
            self.note(name, None, Origin::Default);
        }
        value
    }

    /// The value somebody set, parsed. One that cannot be used is noted as a problem and counts as unset here.
    fn set<T>(&mut self, name: &'static str, parse: &impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let (value, origin) = self.layers.get(name)?;
        self.note(name, Some(value.to_string()), origin.clone());
        match parse(value) {
            Ok(parsed) => Some(parsed),
            Err(allowed) => {
                self.problem(name, value, origin, allowed);
                None
            }
        }
    }

    pub(super) fn problem(&mut self, name: &'static str, value: &str, origin: Origin, allowed: String) {
        let hidden = variable(name).is_some_and(|v| v.secret)
            || address::has_credentials(value)
            || (name.ends_with("_URL") && address::has_secret_query(value));
        let value = (!hidden).then(|| value.chars().take(200).collect());
        let value = value.filter(|value: &String| !value.is_empty());
        self.problems.push(Problem { variable: name, value, origin, allowed });
    }

    fn note(&mut self, name: &'static str, value: Option<String>, origin: Origin) {
        let secret = variable(name).is_some_and(|v| v.secret);
        let value = if secret { value.map(|_| "set".to_string()) } else { value };
        self.settings.push(Setting { name, value, origin, secret });
    }

    /// Whether somebody set it, well or not.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.layers.get(name).is_some()
    }

    fn is_noted(&self, name: &str) -> bool {
        self.settings.iter().any(|s| s.name == name)
    }

    /// Shows the effective value instead of the one that was typed.
    fn show_as(&mut self, name: &str, value: String) {
        if let Some(setting) = self.settings.iter_mut().find(|s| s.name == name) {
            setting.value = Some(value);
        }
    }

    pub(super) fn home(&mut self) -> PathBuf {
        let origin = self.layers.get("DREAMER_HOME").map_or(Origin::Default, |(_, origin)| origin);
        let home = self.layers.home();
        if home.is_none() {
            let allowed =
                "is not set and this user has no home directory; set it, or give --home".to_string();
            self.problem("DREAMER_HOME", "", Origin::Default, allowed);
        }
        let home = home.unwrap_or_default();
        self.note("DREAMER_HOME", Some(home.display().to_string()), origin);
        home
    }

    fn folder(&mut self, name: &'static str, default: &Path) -> PathBuf {
        let layers = self.layers;
        let path =
            self.take_optional(name, |value| folder(value, layers)).unwrap_or_else(|| default.to_owned());
        self.show_as(name, path.display().to_string());
        path
    }

    fn st_model_name(&mut self) -> String {
        let layers = self.layers;
        let name = self.take("ST_MODEL_NAME", |value| st_model_name(value, layers));
        self.show_as("ST_MODEL_NAME", name.clone());
        name
    }

    fn hub(&mut self) -> Hub {
        let endpoint = self.take("HF_ENDPOINT", address::normalise_hub);
        self.show_as("HF_ENDPOINT", endpoint.clone());
        let token = self.take_optional("HF_TOKEN", api_key);
        let of_user = match self.layers.environment.get("XDG_CACHE_HOME") {
            Some(path) if Path::new(path).is_absolute() => PathBuf::from(path),
            _ => expand("~/.cache", self.layers),
        };
        let home = self.folder("HF_HOME", &of_user.join("huggingface"));
        Hub { endpoint, token, cache: self.folder("HF_HUB_CACHE", &home.join("hub")) }
    }

    fn openai(&mut self) -> OpenAi {
        let base_url = self.take("OPENAI_BASE_URL", address::normalise);
        self.show_as("OPENAI_BASE_URL", base_url.clone());
        let embedding_api_key = self.take_optional("OPENAI_EMBEDDING_API_KEY", api_key);
        let api_key = self.take_optional("OPENAI_API_KEY", api_key);
        let embedding_base_url = self.take_optional("OPENAI_EMBEDDING_BASE_URL", address::normalise);
        if let Some(address) = &embedding_base_url {
            self.show_as("OPENAI_EMBEDDING_BASE_URL", address.clone());
        }
        let embedding_model = self.take("OPENAI_EMBEDDING_MODEL", text);
        let llm_model = self.take("OPENAI_LLM_MODEL", text);
        OpenAi { api_key, base_url, embedding_api_key, embedding_base_url, embedding_model, llm_model }
    }

    fn ollama(&mut self) -> Ollama {
        let base_url = self.take("OLLAMA_BASE_URL", address::normalise_ollama);
        self.show_as("OLLAMA_BASE_URL", base_url.clone());
        let embedding_model = self.take("OLLAMA_EMBEDDING_MODEL", text);
        Ollama { base_url, embedding_model, llm_model: self.take("OLLAMA_LLM_MODEL", text) }
    }

    fn similarity(&mut self, name: &'static str, model: &str, of_model: Option<f32>) -> Option<f32> {
        let set = self.take_optional(name, share);
        if let (None, Some(value), Some(setting)) =
            (set, of_model, self.settings.iter_mut().find(|s| s.name == name && s.value.is_none()))
        {
            setting.value = Some(value.to_string());
            setting.origin =
                Origin::Model(model.to_string(), measured_on(model, name == "CLUSTER_SIMILARITY"));
        }
        set
    }

    fn timezone(&mut self) -> Tz {
        if let Some(zone) = self.take_optional("DREAMER_TIMEZONE", timezone) {
            return zone;
        }
        let zone = self
            .layers
            .system_timezone
            .as_deref()
            .and_then(|name| Tz::from_str(name).ok())
            .unwrap_or(Tz::UTC);
        if let Some(setting) =
            self.settings.iter_mut().find(|s| s.name == "DREAMER_TIMEZONE" && s.value.is_none())
        {
            setting.value = Some(zone.name().to_string());
            setting.origin = Origin::System;
        }
        zone
    }

    /// A duplicate is more alike than a candidate for a conflict, whoever set which of the two.
    fn check_similarities(&mut self, config: &Config) {
        let of_model = thresholds_of(config.embedding_model());
        let duplicate = config.dedup_similarity.or(of_model.map(|t| t.duplicate));
        let related = config.contradiction_similarity.or(of_model.map(|t| t.related));
        let (Some(duplicate), Some(related)) = (duplicate, related) else { return };
        if duplicate >= related {
            return;
        }
        let name =
            if config.dedup_similarity.is_some() { "DEDUP_SIMILARITY" } else { "CONTRADICTION_SIMILARITY" };
        let (value, origin) = self.layers.get(name).unwrap_or(("", Origin::Default));
        let allowed = format!(
            "must leave DEDUP_SIMILARITY ({duplicate}) at or above CONTRADICTION_SIMILARITY ({related}); \
             set both, or neither"
        );
        self.problem(name, value, origin, allowed);
    }
}

/// `~` becomes the user's home, a relative path hangs on the working directory, `.` and `..` are taken out.
pub(crate) fn expand(value: &str, layers: &Layers) -> PathBuf {
    let path = match (value.strip_prefix('~'), &layers.user_home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(value),
    };
    let mut clean = PathBuf::new();
    for part in layers.working_dir.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// A folder by its absolute path, else a name. As the original program does, what is a folder here is meant as one.
pub(crate) fn st_model_name(value: &str, layers: &Layers) -> Result<String, String> {
    let path = expand(value, layers);
    if value.starts_with(['/', '~', '.']) || path.join("config.json").is_file() {
        return Ok(path.display().to_string());
    }
    match is_name(value) {
        true => Ok(value.to_owned()),
        false => Err("must be a model's name, such as intfloat/multilingual-e5-small, or a folder".into()),
    }
}

/// Where models are fetched from, without looking at anything else.
///
/// # Errors
/// When one of its variables cannot be used.
pub fn hub(layers: &Layers) -> Result<Hub, ConfigError> {
    let mut reader = Reader::new(layers);
    let hub = reader.hub();
    reader.done(hub).map(|(hub, _)| hub)
}

/// Where weights lie, by the rules for a user's data: below `XDG_DATA_HOME`, or `~/.local/share` where that is not set.
pub fn models_dir(layers: &Layers) -> PathBuf {
    let set = layers.environment.get("XDG_DATA_HOME").filter(|path| Path::new(path).is_absolute());
    expand(set.map_or("~/.local/share", String::as_str), layers).join("dreamer/models")
}

pub(crate) fn folder(value: &str, layers: &Layers) -> Result<PathBuf, String> {
    match value.split_once("://") {
        None => Ok(expand(value, layers)),
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            let path = path.strip_prefix("localhost").unwrap_or(path);
            if !path.starts_with('/') {
                return Err("must be file:// and an absolute path, such as file:///srv/memory".into());
            }
            address::decode(path).map(|path| expand(&path, layers))
        }
        Some((scheme, _)) => {
            Err(format!("must be a folder on this machine; this version does not open {scheme}:// addresses"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::providers::Thresholds;
    use chrono::NaiveTime;
    use secrecy::ExposeSecret;

    fn resolve(values: &[(&str, &str)]) -> Result<(Config, Vec<Setting>), ConfigError> {
        let mut layers = Layers::of(values);
        layers.user_home = Some("/home/ann".into());
        layers.working_dir = "/srv/here".into();
        Config::resolve(&layers)
    }

    fn refused(values: &[(&str, &str)]) -> String {
        resolve(values).map(|_| ()).expect_err(&format!("{values:?} is refused")).to_string()
    }

    #[test]
    fn nothing_set_gives_the_documented_defaults() {
        let (config, settings) = resolve(&[]).unwrap();
        assert_eq!(config.home, Path::new("/home/ann/.dreamer"));
        assert_eq!(config.episodes_dir, Path::new("/home/ann/.dreamer/episodes"));
        assert_eq!(config.lancedb_uri, "/home/ann/.dreamer/lancedb");
        assert_eq!(config.timezone, Tz::UTC);
        assert_eq!(config.openai.base_url, "https://api.openai.com/v1");
        assert_eq!((config.decay_rate, config.fade_threshold), (0.05, 0.15));
        assert_eq!((config.max_episode_days, config.max_new_memories), (7, 20));
        assert_eq!((config.max_calls, config.max_minutes, config.concurrency), (200, 120, 4));
        assert_eq!(config.min_new, Some(5));
        assert_eq!((config.snapshot_days, config.raw_days), (7, Some(30)));
        assert_eq!((config.archive_days, config.min_free_mb), (None, 100));
        assert_eq!(config.window, window("01:00-05:00").unwrap());
        assert!(config.openai.api_key.is_none() && config.embedding_dim.is_none());
        let names: Vec<_> = settings.iter().map(|s| s.name).collect();
        let known: Vec<_> = VARIABLES.iter().map(|v| v.name).collect();
        assert_eq!(names, known, "every variable is shown once, in the table's order");
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_origin_and_what_is_allowed() {
        for (name, value, allowed) in [
            ("DREAMER_EMBEDDING_PROVIDER", "openia", "must be one of: openai, ollama, builtin"),
            ("ST_MODEL_NAME", "a/b/c", "intfloat/multilingual-e5-small, or a folder"),
            ("HF_ENDPOINT", "huggingface.co", "https://huggingface.co"),
            ("DREAMER_LLM_PROVIDER", "anthropic", "it has: openai, ollama, extractive"),
            ("OLLAMA_BASE_URL", "localhost:11434", "http://localhost:11434"),
            ("DREAMER_BUILTIN_MODEL", "minilm", "must be one of: use-multilingual-3, lexical"),
            ("DREAMER_LANCEDB_URI", "s3://bucket/x", "s3://"),
            ("DREAMER_LANCEDB_URI", "file://relative", "absolute"),
            ("OPENAI_BASE_URL", "localhost:8080", "https://"),
            ("OPENAI_BASE_URL", "ftp://host", "https://"),
            ("OPENAI_BASE_URL", "https://host:port/v1", "https://"),
            ("DREAMER_EMBEDDING_DIM", "0", "whole number from 1 to"),
            ("CLUSTER_SIMILARITY", "1.5", "number from 0 to 1"),
            ("CLUSTER_SIMILARITY", "NaN", "number from 0 to 1"),
            ("DEDUP_SIMILARITY", "-0.1", "number from 0 to 1"),
            ("CONTRADICTION_SIMILARITY", "0,7", "number from 0 to 1"),
            ("IMPORTANCE_DECAY_RATE", "1", "0 to below 1"),
            ("SOFT_DELETE_THRESHOLD", "inf", "number from 0 to 1"),
            ("DREAMER_FADE", "yes", "auto, on, off"),
            ("MAX_EPISODES_PER_RUN", "0", "whole number from 1"),
            ("MAX_NEW_MEMORIES", "-1", "whole number from 1"),
            ("DREAMER_MAX_CALLS", "many", "whole number from 1"),
            ("DREAMER_MERGE_BLACKLIST", "/no/such/names.txt", "/no/such/names.txt cannot be read"),
            ("DREAMER_MERGE_BLACKLIST", "Ann=Ann", "both sides"),
            ("DREAMER_MAX_MINUTES", "1.5", "from 1 to 1440"),
            ("DREAMER_CONCURRENCY", "1000", "from 1 to 64"),
            ("DREAMER_TIMEZONE", "Berlin", "Europe/Berlin"),
            ("DREAMER_MASK_PII", "always!", "external, always, never"),
            ("DREAMER_WINDOW", "1-5", "01:00-05:00"),
            ("DREAMER_WINDOW", "25:00-05:00", "01:00-05:00"),
            ("DREAMER_WINDOW", "01:00-01:00", "two different times"),
            ("DREAMER_MIN_NEW", "0", "or off"),
            ("DREAMER_SNAPSHOT_DAYS", "0", "from 1 to 365"),
            ("DREAMER_SNAPSHOT_DAYS", "off", "from 1 to 365"),
            ("DREAMER_RAW_DAYS", "0", "from 1 to 36500, or off"),
            ("DREAMER_ARCHIVE_DAYS", "forever", "from 1 to 36500, or off"),
            ("DREAMER_MIN_FREE_MB", "-1", "whole number from 0"),
        ] {
            let told = refused(&[(name, value)]);
            for part in [&format!("{name}={value}"), "(environment)", allowed] {
                assert!(told.contains(part), "{name}={value}: {told:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn all_bad_values_are_told_at_once_and_no_secret_with_them() {
        let told = refused(&[
            ("OPENAI_API_KEY", "sk-se cret"),
            ("OPENAI_BASE_URL", "https://user:hidden@host/v1"),
            ("DREAMER_FADE", "perhaps"),
        ]);
        assert!(
            told.contains("OPENAI_API_KEY")
                && told.contains("OPENAI_BASE_URL")
                && told.contains("DREAMER_FADE")
        );
        assert!(!told.contains("cret") && !told.contains("hidden"), "{told}");
    }

    #[test]
    fn a_secret_is_kept_and_shown_only_as_set() {
        let (config, settings) = resolve(&[("OPENAI_API_KEY", " sk-very-secret ")]).unwrap();
        assert_eq!(config.openai.api_key.as_ref().unwrap().expose_secret(), "sk-very-secret");
        assert!(!super::super::show(&settings).contains("very"));
        assert!(!super::super::show_json(&settings).contains("very"));
        assert!(!format!("{config:?} {settings:?}").contains("very"));
    }

    #[test]
    fn paths_are_absolute_with_the_home_and_dots_resolved() {
        for (value, expected) in [
            ("~/.openclaw/memory", "/home/ann/.openclaw/memory"),
            ("~", "/home/ann"),
            ("notes/../db", "/srv/here/db"),
            ("./db/", "/srv/here/db"),
            ("file:///srv/my%20memory", "/srv/my memory"),
            ("file://localhost/srv/m", "/srv/m"),
            ("/srv/m", "/srv/m"),
        ] {
            let (config, settings) = resolve(&[("DREAMER_LANCEDB_URI", value)]).unwrap();
            assert_eq!(config.lancedb_uri, expected, "{value}");
            assert!(
                settings.iter().any(|s| s.value.as_deref() == Some(expected)),
                "the effective path is shown"
            );
        }
    }

    #[test]
    fn a_base_url_without_a_path_gets_v1_and_loses_its_slash() {
        for (value, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
            ("https://host/", "https://host/v1"),
            ("https://host/openai/v1/", "https://host/openai/v1"),
            ("HTTPS://host/v1", "https://host/v1"),
            ("http://[::1]:8080", "http://[::1]:8080/v1"),
        ] {
            assert_eq!(resolve(&[("OPENAI_BASE_URL", value)]).unwrap().0.openai.base_url, expected);
        }
    }

    #[test]
    fn ollama_is_found_where_it_usually_is_and_without_the_path_of_an_api() {
        for (value, expected) in [
            ("", "http://localhost:11434"),
            ("http://10.0.0.7:11434/", "http://10.0.0.7:11434"),
            ("http://localhost:11434/v1", "http://localhost:11434"),
            ("http://localhost:11434/api/", "http://localhost:11434"),
            ("https://models.lan/ollama", "https://models.lan/ollama"),
        ] {
            let (config, settings) = resolve(&[("OLLAMA_BASE_URL", value)]).unwrap();
            assert_eq!(config.ollama.base_url, expected);
            let shown = settings.iter().find(|s| s.name == "OLLAMA_BASE_URL").unwrap();
            assert_eq!(shown.value.as_deref(), Some(expected));
        }
        let (config, _) = resolve(&[("DREAMER_EMBEDDING_PROVIDER", "ollama")]).unwrap();
        assert_eq!((config.embedding_model(), config.dimension()), ("nomic-embed-text", None));
        assert_eq!(config.ollama.llm_model, "qwen2.5:3b");
    }

    #[test]
    fn prompts_leave_when_the_language_model_is_elsewhere_whoever_embeds() {
        let (near, far) = ("http://localhost:11434", "http://models.lan:11434");
        for (embedding, language, ollama, leaves) in [
            ("ollama", "ollama", near, false),
            ("ollama", "ollama", far, true),
            ("ollama", "openai", near, true),
            ("openai", "ollama", near, false),
            ("openai", "ollama", far, true),
            ("openai", "extractive", far, false),
            ("builtin", "openai", near, true),
        ] {
            let (config, _) = resolve(&[
                ("DREAMER_EMBEDDING_PROVIDER", embedding),
                ("DREAMER_LLM_PROVIDER", language),
                ("OLLAMA_BASE_URL", ollama),
            ])
            .unwrap();
            assert_eq!(config.prompts_leave(), leaves, "{embedding} {language} {ollama}");
        }
    }

    #[test]
    fn a_key_is_needed_only_for_openai_itself_and_only_by_what_asks_it() {
        let check = |values: &[(&str, &str)]| resolve(values).unwrap().0.check_night();
        assert!(check(&[]).unwrap_err().to_string().contains("OPENAI_API_KEY"));
        assert!(check(&[("OPENAI_API_KEY", "sk-x")]).is_ok());
        assert!(check(&[("OPENAI_BASE_URL", "http://127.0.0.1:1")]).is_ok());
        assert!(check(&[("OPENAI_BASE_URL", "https://eu.api.openai.com")]).is_err());
        assert!(check(&[("OPENAI_BASE_URL", "http://models.lan:8000/v1")]).is_ok());
        let ollama = [("DREAMER_EMBEDDING_PROVIDER", "ollama"), ("DREAMER_LLM_PROVIDER", "ollama")];
        assert!(check(&ollama).is_ok());
        for half in ollama {
            assert!(check(&[half]).unwrap_err().to_string().contains("OPENAI_API_KEY"), "{half:?}");
        }
        let offline = [("DREAMER_EMBEDDING_PROVIDER", "builtin"), ("DREAMER_LLM_PROVIDER", "extractive")];
        let told = check(&offline).unwrap_err().to_string();
        assert!(told.contains("DREAMER_BUILTIN_MODEL=lexical"), "{told}");
        assert!(check(&[&offline[..], &[("DREAMER_BUILTIN_MODEL", "lexical")]].concat()).is_ok());
    }

    #[test]
    fn what_is_set_wins_over_what_was_calibrated_and_that_over_a_profile() {
        let model =
            [("OPENAI_API_KEY", "sk-x"), ("OPENAI_EMBEDDING_MODEL", "nomic"), ("DEDUP_SIMILARITY", "0.9")];
        let (config, settings) = resolve(&model).unwrap();
        assert!(config.check_night().is_ok(), "the night calibrates it");
        assert_eq!(config.thresholds(None).unwrap(), None);
        assert_eq!(settings.iter().find(|s| s.name == "CLUSTER_SIMILARITY").unwrap().value, None);
        let calibrated = Thresholds { cluster: 0.6, duplicate: 0.7, related: 0.5 };
        let found = config.thresholds(Some(calibrated)).unwrap();
        assert_eq!(found, Some(Thresholds { duplicate: 0.9, ..calibrated }));
        let high = Thresholds { cluster: 0.93, duplicate: 0.96, related: 0.92 };
        let told = config.thresholds(Some(high)).unwrap_err().to_string();
        assert!(told.contains("DEDUP_SIMILARITY (0.9)") && told.contains("(0.92)"), "{told}");
        let all =
            [&model[..], &[("CLUSTER_SIMILARITY", "0.8"), ("CONTRADICTION_SIMILARITY", "0.7")]].concat();
        let (config, _) = resolve(&all).unwrap();
        assert_eq!(config.thresholds(None).unwrap().map(|t| t.related), Some(0.7));
        let (config, _) = resolve(&[]).unwrap();
        // A model that has its own is calibrated by hand alone, and then that counts.
        assert_eq!(config.thresholds(Some(calibrated)).unwrap().map(|t| t.cluster), Some(0.6));
        assert_eq!(config.thresholds(None).unwrap().map(|t| t.cluster), Some(0.75));
    }

    #[test]
    fn what_the_person_set_wins_over_the_model_but_a_duplicate_stays_the_stricter() {
        let (config, settings) = resolve(&[("CLUSTER_SIMILARITY", "0.6")]).unwrap();
        let thresholds = config.thresholds(None).unwrap().unwrap();
        assert_eq!((thresholds.cluster, thresholds.duplicate), (0.6, 0.90));
        let dedup = settings.iter().find(|s| s.name == "DEDUP_SIMILARITY").unwrap();
        assert_eq!(dedup.origin.to_string(), "model text-embedding-3-small, as documented, not measured");
        assert!(refused(&[("DEDUP_SIMILARITY", "0.6")]).contains("CONTRADICTION_SIMILARITY (0.7)"));
        assert!(refused(&[("CONTRADICTION_SIMILARITY", "0.95")]).contains("DEDUP_SIMILARITY (0.9)"));
    }

    #[test]
    fn a_local_model_is_a_name_or_an_absolute_folder_and_the_cache_is_where_python_has_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        std::fs::write(dir.path().join("mine/config.json"), "{}").unwrap();
        let of = |set: &[(&str, &str)]| {
            let mut layers = Layers::of(set);
            (layers.user_home, layers.working_dir) = (Some("/home/ann".into()), dir.path().to_owned());
            Config::resolve(&layers).unwrap().0
        };
        let mine = dir.path().join("mine").display().to_string();
        for (value, name) in [
            ("", "all-MiniLM-L6-v2"),
            ("intfloat/multilingual-e5-small", "intfloat/multilingual-e5-small"),
            ("mine", mine.as_str()),
            ("./mine/", mine.as_str()),
            ("~/models/x", "/home/ann/models/x"),
        ] {
            assert_eq!(of(&[("ST_MODEL_NAME", value)]).st_model_name, name, "{value}");
        }
        let cache = |set: &[(&str, &str)]| of(set).hub.cache.display().to_string();
        assert_eq!(cache(&[]), "/home/ann/.cache/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/c")]), "/c/huggingface/hub");
        assert_eq!(cache(&[("HF_HOME", "/hf")]), "/hf/hub");
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "~/h")]), "/home/ann/h");
        assert_eq!(of(&[("HF_ENDPOINT", "https://mirror.example/")]).hub.endpoint, "https://mirror.example");
        let layers = Layers::of(&[("DREAMER_HOME", "/h"), ("HF_TOKEN", "hf_secret")]);
        let (config, settings) = Config::resolve(&layers).unwrap();
        assert!(!format!("{config:?}{settings:?}").contains("hf_secret"));
        assert!(super::hub(&layers).unwrap().token.is_some());
    }

    #[test]
    fn a_build_without_such_models_says_so_and_one_with_them_names_the_command_that_fetches() {
        let set = [
            ("DREAMER_EMBEDDING_PROVIDER", "sentence-transformers"),
            ("DREAMER_LLM_PROVIDER", "extractive"),
            ("XDG_DATA_HOME", "/nowhere/data"),
            ("HF_HOME", "/nowhere/hf"),
        ];
        if !crate::providers::sentence_transformers::IS_BUILT_IN {
            assert!(refused(&set).contains("without the feature sentence-transformers"));
            return;
        }
        let config = resolve(&set).unwrap().0;
        assert_eq!((config.embedding_model(), config.dimension()), ("all-MiniLM-L6-v2", None));
        assert_eq!(config.thresholds(None).unwrap().map(|t| t.duplicate), Some(0.80));
        let told = config.check_night().unwrap_err().to_string();
        assert!(
            told.contains("ST_MODEL_NAME") && told.contains("`dreamer model pull all-MiniLM-L6-v2`"),
            "{told}"
        );
    }

    #[test]
    fn lists_windows_and_zones_are_read() {
        let (config, settings) = resolve(&[
            ("DREAMER_OWNER", "Ann, +49 170 1 ,,张工"),
            ("DREAMER_WINDOW", "23:30-04:00"),
            ("DREAMER_MIN_NEW", "OFF"),
            ("DREAMER_TIMEZONE", "Asia/Shanghai"),
        ])
        .unwrap();
        assert_eq!(config.owner, ["Ann", "+49 170 1", "张工"]);
        assert_eq!(config.window.unwrap().0, NaiveTime::from_hms_opt(23, 30, 0).unwrap());
        assert_eq!(config.min_new, None);
        assert_eq!(config.timezone, Tz::Asia__Shanghai);
        assert!(settings.iter().all(|s| s.name != "DREAMER_TIMEZONE" || s.origin == Origin::Environment));
        assert_eq!(resolve(&[("DREAMER_WINDOW", "off")]).unwrap().0.window, None);
    }

    #[test]
    fn the_machine_says_the_zone_when_nobody_else_does() {
        for (system, expected) in
            [(Some("Europe/Berlin"), Tz::Europe__Berlin), (Some("Nowhere"), Tz::UTC), (None, Tz::UTC)]
        {
            let mut layers = Layers::of(&[("DREAMER_HOME", "/h")]);
            layers.system_timezone = system.map(str::to_string);
            assert_eq!(Config::resolve(&layers).unwrap().0.timezone, expected);
        }
    }

    #[test]
    fn a_user_without_a_home_must_say_where_dreamer_lives() {
        let told = Config::resolve(&Layers::of(&[])).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("DREAMER_HOME") && told.contains("--home"), "{told}");
    }

    #[test]
    fn a_gateway_is_there_when_episodes_or_database_lie_elsewhere() {
        let has = |values: &[(&str, &str)]| resolve(values).unwrap().0.has_gateway();
        assert!(!has(&[("DREAMER_HOME", "/srv/d")]));
        assert!(!has(&[("DREAMER_HOME", "/srv/d"), ("DREAMER_EPISODES_DIR", "/srv/d/notes")]));
        assert!(has(&[("DREAMER_HOME", "/srv/d"), ("DREAMER_EPISODES_DIR", "/srv/other")]));
        assert!(has(&[("DREAMER_HOME", "/srv/d"), ("DREAMER_LANCEDB_URI", "/srv/d-too")]));
    }

    #[test]
    fn a_server_that_embeds_has_its_own_address_and_no_other_server_s_key() {
        use secrecy::ExposeSecret as _;
        let of = |set: &[(&str, &str)]| resolve(set).unwrap().0;
        let key = |config: &Config| config.openai.embedding_key().map(|key| key.expose_secret().to_owned());
        let one = of(&[("OPENAI_API_KEY", "k")]);
        assert_eq!(
            (one.openai.embedding_address(), key(&one).as_deref()),
            ("https://api.openai.com/v1", Some("k"))
        );
        let chat = [("OPENAI_API_KEY", "k"), ("OPENAI_EMBEDDING_BASE_URL", "http://127.0.0.1:8081/")];
        let two = of(&chat);
        assert_eq!((two.openai.embedding_address(), key(&two)), ("http://127.0.0.1:8081/v1", None));
        assert_eq!(two.embedding_source(), ("openai", Some("http://127.0.0.1:8081/v1")));
        assert!(two.check_night().is_ok());
        let own = of(&[&chat[..], &[("OPENAI_EMBEDDING_API_KEY", "e")]].concat());
        assert_eq!(key(&own).as_deref(), Some("e"));
        // Another path of the same server is no other server.
        let azure = |path: &str| {
            format!("https://r.openai.azure.com/openai/deployments/{path}?api-version=2024-10-21")
        };
        let same = of(&[
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", &azure("talks")),
            ("OPENAI_EMBEDDING_BASE_URL", &azure("embeds")),
        ]);
        assert_eq!(key(&same).as_deref(), Some("k"));
        let missing = of(&[
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1"),
            ("OPENAI_EMBEDDING_BASE_URL", "https://api.openai.com/v1"),
        ]);
        assert!(missing.check_embedder().unwrap_err().to_string().contains("OPENAI_EMBEDDING_API_KEY"));
    }

    #[test]
    fn a_key_over_plain_http_is_warned_of_beyond_this_machine() {
        let told = |url: &str| {
            let layers =
                Layers::of(&[("DREAMER_HOME", "/h"), ("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", url)]);
            let (config, _) = Config::resolve(&layers).unwrap();
            warnings(&layers, &config).len()
        };
        assert_eq!(
            (told("http://models.lan"), told("http://localhost:1"), told("https://models.lan")),
            (1, 0, 0)
        );
        assert_eq!(told("http://[::1]:8080"), 0);
    }
}
