//! `dreamer setup`: the folders of a home, an empty table where there is none, a settings file to edit, and on request
//! example episodes of today. Safe to repeat: what exists is left as it is and said.
//! Never reads or prints a key.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};

use crate::config::{Config, ConfigError, EnvFile, Layers, Origin};
use crate::error::Error;
use crate::store::{Created, Store, StoreError};

/// The settings file that is written into a home: the shipped template.
const TEMPLATE: &str = include_str!("../.env.example");

/// The folders of a home.
const FOLDERS: [&str; 10] = [
    "episodes",
    "episodes/archive",
    "lancedb",
    "dream-log",
    "memory-archive",
    "runs",
    "queues",
    "recalls",
    "state",
    "workspace",
];

/// The example episodes: the end of the file's name, and its text with `{at}` and `{agent}` left open.
const EXAMPLES: [(&str, &str); 3] = [
    ("dreamer-example-1.md", include_str!("../examples/episodes/session-1.md")),
    ("dreamer-example-2.md", include_str!("../examples/episodes/session-2.md")),
    ("dreamer-example-note.md", include_str!("../examples/episodes/note.md")),
];

/// What a person may have set to choose an embedder, and what the example chooses where nobody has.
const EMBEDDER: [(&str, Option<&str>); 5] = [
    ("DREAMER_EMBEDDING_PROVIDER", Some("builtin")),
    ("DREAMER_BUILTIN_MODEL", Some("lexical")),
    ("OPENAI_BASE_URL", None),
    ("OPENAI_EMBEDDING_MODEL", None),
    ("OPENAI_API_KEY", None),
];
/// The same for the language model.
const LANGUAGE_MODEL: [(&str, Option<&str>); 4] = [
    ("DREAMER_LLM_PROVIDER", Some("extractive")),
    ("OPENAI_BASE_URL", None),
    ("OPENAI_LLM_MODEL", None),
    ("OPENAI_API_KEY", None),
];

/// Whether setup adds the example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// Episodes of today, and models that need nothing where none are chosen.
    Wanted,
    /// A home for real episodes.
    No,
}

/// Why setup stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A folder or file could not be made.
    #[error("create {}", path.display())]
    Create {
        /// What was to be made.
        path: PathBuf,
        /// Why it could not.
        source: io::Error,
    },
    /// The home is somebody's real one: invented episodes would become memories.
    #[error("add the example to {}: {why}; give it a home of its own with --home DIR", home.display())]
    RealHome {
        /// The home.
        home: PathBuf,
        /// What shows that it is real.
        why: &'static str,
    },
}

/// What setup did, for the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One line a thing, made or found.
    pub lines: Vec<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// What keeps a night from starting yet, if anything: what to do about it.
    pub open: Option<String>,
    /// The home, to be named in the next command when it is not where Dreamer looks by itself.
    pub home: PathBuf,
    /// Whether the next command has to name the home.
    pub must_name_home: bool,
}

impl Report {
    fn made(&mut self, path: &Path, what: &str) {
        self.lines.push(format!("created  {}{what}", path.display()));
    }

    fn found(&mut self, path: &Path, what: &str) {
        self.lines.push(format!("exists   {}{what}", path.display()));
    }
}

/// Sets a home up.
///
/// # Errors
/// When the settings cannot be used (before anything is made), or a folder, the table or a file cannot be made.
pub async fn setup(layers: &Layers, example: Example, now: DateTime<Utc>) -> Result<Report, Error> {
    let choices = choices(layers, example);
    let layers = with_choices(layers, &choices);
    let (config, _) = Config::resolve(&layers)?;
    let has_table = match Store::open(&config.lancedb_uri).await {
        Ok(store) => Some(store),
        Err(StoreError::Missing { .. } | StoreError::NoTable { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let dim = dimension(&config, has_table.as_ref())?;
    if example == Example::Wanted {
        refuse_real_home(&config, has_table.as_ref()).await?;
    }

    let mut report = Report {
        home: config.home.clone(),
        must_name_home: matches!(layers.get("DREAMER_HOME"), Some((_, Origin::Flag))),
        ..Report::default()
    };
    make_folders(&config, &mut report)?;
    make_table(&config, has_table.as_ref(), dim, &mut report).await?;
    make_env_file(&config.home.join(".env"), &choices, &mut report)?;
    if example == Example::Wanted {
        make_examples(&config, now, &mut report)?;
    }
    report.open = config.check_night().err().map(|error| match error {
        ConfigError::Missing { variable, remedy } => format!("{variable}: {remedy}"),
        other => other.to_string(),
    });
    Ok(report)
}

/// What goes into the home's settings file: what the process was told for this setup and would not be told again, so
/// that the next night uses the same models; for the example, models that need nothing where none were chosen.
fn choices(layers: &Layers, example: Example) -> Vec<(&'static str, String)> {
    // A key that happens to be in the environment is not a choice: the example sends nothing anywhere.
    let is_chosen = |name: &str| match layers.get(name) {
        Some((_, Origin::Environment)) => name != "OPENAI_API_KEY",
        found => found.is_some(),
    };
    let mut choices = Vec::new();
    for group in [&EMBEDDER[..], &LANGUAGE_MODEL[..]] {
        let group_is_chosen = group.iter().any(|(name, _)| is_chosen(name));
        for (name, offline) in group {
            let value = match layers.get(name) {
                Some((value, Origin::Environment)) if *name != "OPENAI_API_KEY" => Some(value),
                None if example == Example::Wanted && !group_is_chosen => *offline,
                _ => None,
            };
            if let Some(value) = value.filter(|_| choices.iter().all(|(chosen, _)| chosen != name)) {
                choices.push((*name, value.to_string()));
            }
        }
    }
    choices
}

/// The layers as the next command will see them: with the home's settings file, if there is none yet.
fn with_choices(layers: &Layers, choices: &[(&'static str, String)]) -> Layers {
    let mut layers = layers.clone();
    if let Some(path) = layers.home().map(|home| home.join(".env")).filter(|path| !path.exists()) {
        let values = choices.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        layers.files.push(EnvFile { path, values });
    }
    layers
}

fn dimension(config: &Config, table: Option<&Store>) -> Result<usize, Error> {
    if let Some(table) = table {
        return Ok(table.dim());
    }
    if config.embedding_model().is_empty() {
        config.check_embedder()?;
    }
    Ok(config.dimension().ok_or_else(|| ConfigError::Missing {
        variable: "DREAMER_EMBEDDING_DIM",
        remedy: format!(
            "say how long the vectors of {} are; the table is made for vectors of one length",
            config.embedding_model()
        ),
    })?)
}

/// Invented episodes must not become memories of a real agent.
async fn refuse_real_home(config: &Config, table: Option<&Store>) -> Result<(), Error> {
    let refuse = |why| Err(SetupError::RealHome { home: config.home.clone(), why }.into());
    if config.has_gateway() {
        return refuse("its episodes or its database belong to a gateway");
    }
    let Some(table) = table else { return Ok(()) };
    let is_empty = table.rows(&config.agent).await?.memories.is_empty();
    if !is_empty && example_in(&[&config.episodes_dir, &config.archive_dir()]).is_none() {
        return refuse("it holds memories already");
    }
    Ok(())
}

fn make_folders(config: &Config, report: &mut Report) -> Result<(), Error> {
    let existed = config.home.is_dir();
    make_private_folder(&config.home)?;
    if existed {
        report.found(&config.home, "");
    } else {
        report.made(&config.home, "");
    }
    let mut missing = Vec::new();
    for name in FOLDERS {
        let path = config.home.join(name);
        if !path.is_dir() {
            fs::create_dir_all(&path).map_err(|source| SetupError::Create { path, source })?;
            missing.push(name);
        }
    }
    if missing.is_empty() {
        report.lines.push(format!("exists   its folders ({})", FOLDERS.join(", ")));
    } else {
        report.lines.push(format!("created  its folders {}", missing.join(", ")));
    }
    if !config.episodes_dir.is_dir() {
        report.warnings.push(format!(
            "the episodes folder {} does not exist (yet); is DREAMER_EPISODES_DIR right?",
            config.episodes_dir.display()
        ));
    }
    Ok(())
}

/// Memories are private: a home that is made here can be entered by its owner alone.
fn make_private_folder(path: &Path) -> Result<(), SetupError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| SetupError::Create { path: path.to_owned(), source })
}

async fn make_table(
    config: &Config,
    table: Option<&Store>,
    dim: usize,
    report: &mut Report,
) -> Result<(), Error> {
    let path = Path::new(&config.lancedb_uri);
    let what = format!(", the table `memories` with vectors of {dim} numbers");
    if table.is_none() && Store::create(&config.lancedb_uri, dim).await? == Created::New {
        report.made(path, &what);
    } else {
        report.found(path, &what);
    }
    if let Some(other) = config.dimension().filter(|other| *other != dim) {
        report.warnings.push(format!(
            "the table holds vectors of {dim} numbers, {} makes {other}: a night will stop; set the provider and \
             model that wrote the table",
            config.embedding_model()
        ));
    }
    Ok(())
}

/// Writes the settings file if there is none. It may come to hold keys, so only its owner can read it.
fn make_env_file(path: &Path, choices: &[(&'static str, String)], report: &mut Report) -> Result<(), Error> {
    if !create_new(path, &env_file(choices), 0o600)? {
        report.found(path, ", left as it is");
        return Ok(());
    }
    match choices.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ") {
        set if set.is_empty() => report.made(path, ", every setting in it commented out"),
        set => report.made(path, &format!(" with {set}")),
    }
    Ok(())
}

/// The template with the chosen values in their places.
fn env_file(choices: &[(&str, String)]) -> String {
    let line = |line: &str| {
        let name = line.strip_prefix('#').and_then(|rest| rest.split_once('=')).map(|(name, _)| name);
        match choices.iter().find(|(chosen, _)| Some(*chosen) == name) {
            Some((name, value)) => format!("{name}={}\n", quote(value)),
            None => format!("{line}\n"),
        }
    };
    TEMPLATE.lines().map(line).collect()
}

/// A value as an `.env` file needs it.
fn quote(value: &str) -> String {
    if value.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c)) {
        return value.to_string();
    }
    let escaped: String =
        value.chars().flat_map(|c| if "\\\"$".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
    format!("\"{escaped}\"")
}

/// Writes the example episodes, dated today, unless some are here already.
fn make_examples(config: &Config, now: DateTime<Utc>, report: &mut Report) -> Result<(), Error> {
    if let Some(path) = example_in(&[&config.episodes_dir, &config.archive_dir()]) {
        report.found(&path, ", the example; it is not added again");
        return Ok(());
    }
    let today = now.with_timezone(&config.timezone).format("%Y-%m-%d");
    for (index, (name, text)) in EXAMPLES.iter().enumerate() {
        let path = config.episodes_dir.join(format!("{today}-{name}"));
        // The sessions ended one after the other, the last one just now.
        let ended = now - TimeDelta::minutes(30 * (EXAMPLES.len() - index) as i64);
        let text = text
            .replace("{at}", &ended.format("%Y-%m-%d %H:%M:%S").to_string())
            .replace("{agent}", &config.agent);
        if create_new(&path, &text, 0o600)? {
            report.made(&path, "");
        } else {
            report.found(&path, ", left as it is");
        }
    }
    Ok(())
}

/// The first example episode in these folders.
fn example_in(folders: &[&Path]) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(|n| n.to_str())
                .is_some_and(|n| EXAMPLES.iter().any(|(end, _)| n.ends_with(end)))
        })
        .collect();
    found.sort();
    found.into_iter().next()
}

/// Writes a file that does not exist yet; whether it did.
fn create_new(path: &Path, text: &str, mode: u32) -> Result<bool, SetupError> {
    let failed = |source| SetupError::Create { path: path.to_owned(), source };
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(source) => return Err(failed(source)),
    };
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(true)
}
