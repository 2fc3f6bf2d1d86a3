//! `dreamer setup`: the folders of a home, an empty table where there is none, a settings file to edit, and on request
//! example episodes of yesterday and today, or settings that match a gateway's (`openclaw`). Safe to repeat: what exists is left
//! as it is and said. Never prints a key.

mod example;
mod openclaw;
mod settings;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::{DateTime, Utc};

use self::example::{make_examples, refuse_real_home};
use self::settings::{Choice, Written, choices, lexical_for_want_of_weights, make_env_file, with_choices};
use crate::config::{Config, ConfigError, Layers, Origin, warnings};
use crate::error::{Error, chain, way_out_if_empty, way_to_move};
use crate::openclaw::config::OpenClawError;
use crate::privacy::Privacy;
use crate::providers::budget::{Budget, Limits};
use crate::providers::configured;
use crate::state::create_folder;
use crate::store::{Created, Store, StoreError};

pub use self::openclaw::setup_openclaw;

/// The folders of a home.
pub(crate) const FOLDERS: [&str; 10] = [
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

/// Whether setup adds the example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// Episodes of yesterday and today, and models that need nothing where none are chosen.
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
    /// The embedding model did not say how long its vectors are, and the table is made for one length.
    #[error("ask {model} how long its vectors are: {why}; or set DREAMER_EMBEDDING_DIM, if you know it")]
    Length {
        /// The model.
        model: String,
        /// What came of asking, with the remedy.
        why: String,
    },
    /// There is no gateway where it was looked for.
    #[error(
        "find the gateway's settings {}; name the file or its folder: dreamer setup --openclaw PATH",
        path.display()
    )]
    NoOpenClaw {
        /// The file that is not there.
        path: PathBuf,
    },
    /// The gateway's settings cannot be used.
    #[error(transparent)]
    OpenClaw(OpenClawError),
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
    /// Whether there is still no table, so that setup has to run again.
    pub lacks_table: bool,
    /// The home, to be named in the next command when it is not where Dreamer looks by itself.
    pub home: PathBuf,
    /// Whether the next command has to name the home.
    pub must_name_home: bool,
    /// The settings file the next command has to name.
    pub env_file: Option<PathBuf>,
    /// Whether it was `setup --openclaw`.
    pub is_for_openclaw: bool,
    /// What could not be taken from a gateway's settings, or differs from them.
    pub notes: Vec<String>,
    /// What a gateway's settings lack: the file, and what a person can paste into it.
    pub snippet: Option<(PathBuf, String)>,
}

impl Report {
    fn made(&mut self, path: &Path, what: &str) {
        self.lines.push(format!("created  {}{what}", path.display()));
    }

    fn found(&mut self, path: &Path, what: &str) {
        self.lines.push(format!("exists   {}{what}", path.display()));
    }
}

/// What becomes of a table that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// It is made.
    IsMade,
    /// It is the gateway's to make.
    IsTheGateways,
}

/// Sets a home up.
///
/// # Errors
/// When the settings cannot be used (before anything is made), or a folder, the table or a file cannot be made.
pub async fn setup(layers: &Layers, example: Example, now: DateTime<Utc>) -> Result<Report, Error> {
    let at = (example == Example::Wanted).then_some(now);
    let choices = choices(layers, example);
    let (mut report, written) = make(layers, &choices, &[], Absent::IsMade, at).await?;
    if written == Written::New {
        report.warnings.extend(lexical_for_want_of_weights(layers, &choices));
    }
    Ok(report)
}

/// Makes the home with these choices, and example episodes of this time.
async fn make(
    layers: &Layers,
    choices: &[Choice],
    hints: &[(&'static str, String)],
    absent: Absent,
    example: Option<DateTime<Utc>>,
) -> Result<(Report, Written), Error> {
    let layers = with_choices(layers, choices);
    let (config, _) = Config::resolve(&layers)?;
    let table = table_of(&config).await?;
    let open = config.check_night().err();
    let length = match (&table, &open, absent) {
        (Some(table), _, _) => Some(table.dim()),
        (None, None, Absent::IsMade) => Some(length(&config).await?),
        // Made for a model that nobody has chosen, it would stop every night of the one that is.
        (None, _, _) => None,
    };
    if example.is_some() {
        refuse_real_home(&config, table.as_ref()).await?;
    }

    let mut report = Report {
        home: config.home.clone(),
        must_name_home: matches!(layers.get("DREAMER_HOME"), Some((_, Origin::Flag))),
        env_file: layers.env_file.clone(),
        warnings: warnings(&layers, &config),
        lacks_table: length.is_none(),
        is_for_openclaw: absent == Absent::IsTheGateways,
        ..Report::default()
    };
    make_folders(&config, &mut report)?;
    match (&table, absent) {
        (None, Absent::IsTheGateways) => report.lines.push(format!(
            "later    no table yet in {}: the gateway makes it with its first memory; then run this again",
            config.lancedb_uri
        )),
        _ => make_table(&config, table.as_ref(), length, &mut report).await?,
    }
    if let Some(table) = &table {
        compare(&config, table, &mut report).await?;
    }
    let written = make_env_file(&config.home.join(".env"), choices, hints, &mut report)?;
    if let Some(now) = example {
        make_examples(&config, now, &mut report)?;
    }
    report.open = open.map(|error| match error {
        ConfigError::Missing { variable, remedy } => format!("{variable}: {remedy}"),
        other => other.to_string(),
    });
    Ok((report, written))
}

/// The table, where there is one.
async fn table_of(config: &Config) -> Result<Option<Store>, StoreError> {
    match Store::open(&config.lancedb_uri).await {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Missing { .. } | StoreError::NoTable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long the embedding model's vectors are: as set, else what is known of it, else what its server says.
async fn length(config: &Config) -> Result<usize, Error> {
    if let Some(length) = config.dimension() {
        return Ok(length);
    }
    // Once: a person is waiting.
    let limits = Limits { retries: 0, ..Limits::new(4, 30, 1, Instant::now()) };
    let embedder = configured::embedder(config, Budget::new(limits))?;
    let asked = embedder.embed(&[Privacy::new(config.mask_pii, false).to_embed("dimension")]).await;
    let why = match asked.as_deref() {
        Ok([vector]) => return Ok(vector.len()),
        Ok(_) => "it gave no vector".to_owned(),
        Err(error) => format!("could not {}", chain(error)),
    };
    Err(SetupError::Length { model: config.embedding_model().to_owned(), why })?
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
            make_private_folder(&path)?;
            missing.push(name);
        }
    }
    if missing.is_empty() {
        report.lines.push(format!("exists   its folders ({})", FOLDERS.join(", ")));
    } else {
        report.lines.push(format!("created  its folders {}", missing.join(", ")));
    }
    for folder in config.folders().into_iter().filter(|folder| !folder.path.is_dir()) {
        let variable = if folder.of.is_empty() { "DREAMER_EPISODES_DIR" } else { "DREAMER_AGENTS" };
        report.warnings.push(format!(
            "the episodes folder {} does not exist (yet); is {variable} right?",
            folder.path.display()
        ));
    }
    Ok(())
}

/// Memories are private: a home that is made here can be entered by its owner alone.
fn make_private_folder(path: &Path) -> Result<(), SetupError> {
    create_folder(path).map_err(|source| SetupError::Create { path: path.to_owned(), source })
}

async fn make_table(
    config: &Config,
    table: Option<&Store>,
    length: Option<usize>,
    report: &mut Report,
) -> Result<(), Error> {
    let Some(length) = length else {
        report.lines.push(
            "later    no table yet: run `dreamer setup` again once the models are chosen, it is made for the \
             embedding model's vectors"
                .to_owned(),
        );
        return Ok(());
    };
    let path = Path::new(&config.lancedb_uri);
    let what = format!(", the table `memories` with vectors of {length} numbers");
    if table.is_none() && Store::create(&config.lancedb_uri, length).await? == Created::New {
        report.made(path, &what);
    } else {
        report.found(path, &what);
    }
    Ok(())
}

/// Warns of a table that the chosen embedding model cannot use, and where that cannot be said.
async fn compare(config: &Config, table: &Store, report: &mut Report) -> Result<(), Error> {
    if config.dimension().is_none() && config.check_embedder().is_err() {
        return Ok(());
    }
    match length(config).await {
        Ok(other) if other != table.dim() => report.warnings.push(format!(
            "the table holds vectors of {} numbers, {} makes {other}: a night will stop; set the provider and model \
             that wrote the table{}{}",
            table.dim(),
            config.embedding_model(),
            way_to_move(config.embedding_model(), table.dim()),
            way_out_if_empty(table.is_empty().await?, &config.lancedb_uri)
        )),
        Ok(_) => {}
        Err(error) => {
            report.warnings.push(format!("whether the table fits is not known: could not {}", chain(&error)))
        }
    }
    Ok(())
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::settings::{TEMPLATE, env_file};
    use super::*;
    use crate::config::{FLUSH_VARIABLES, VARIABLES};
    use crate::memory::{Category, Memory, Partition};
    use crate::store::{Inherit, NewRow};
    use chrono::TimeDelta;

    fn now() -> DateTime<Utc> {
        "2026-03-10T21:30:00Z".parse().unwrap()
    }

    fn layers(dir: &Path, more: &[(&str, &str)]) -> Layers {
        let mut layers = Layers::of(more);
        layers.flags.insert("DREAMER_HOME".into(), dir.join("home").to_str().unwrap().into());
        layers.working_dir = dir.to_owned();
        layers.with_files(None).unwrap()
    }

    /// Every file below a folder with its content.
    fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(Result::unwrap);
        entries
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| (entry.path().to_owned(), fs::read(entry.path()).unwrap()))
            .collect()
    }

    #[tokio::test]
    async fn the_example_needs_no_further_settings_and_no_network() {
        let dir = tempfile::tempdir().unwrap();
        let report = setup(&layers(dir.path(), &[]), Example::Wanted, now()).await.unwrap();
        assert_eq!(report.open, None);
        let (config, _) = Config::resolve(&layers(dir.path(), &[])).unwrap();
        assert!(config.check_night().is_ok(), "the next command finds the settings by itself");
        assert_eq!(config.embedding_model(), "lexical");
        assert_eq!(Store::open(&config.lancedb_uri).await.unwrap().dim(), 1024);
        let names: Vec<_> = files(&config.episodes_dir);
        assert_eq!(names.len(), 3);
        let first = String::from_utf8(names[0].1.clone()).unwrap();
        assert!(names[0].0.ends_with("2026-03-09-dreamer-example-1.md"));
        assert!(names[1].0.ends_with("2026-03-10-dreamer-example-2.md"));
        assert!(first.starts_with("# Session: 2026-03-09 20:00:00 UTC\n"), "{first}");
        assert!(first.contains("agent:main:main") && !first.contains('{'));
    }

    #[tokio::test]
    async fn a_second_time_changes_nothing_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        setup(&layers(dir.path(), &[]), Example::Wanted, now()).await.unwrap();
        let before = files(dir.path());
        let tomorrow = now() + TimeDelta::days(1);
        let report = setup(&layers(dir.path(), &[]), Example::Wanted, tomorrow).await.unwrap();
        assert_eq!(files(dir.path()), before);
        assert!(report.lines.iter().all(|line| line.starts_with("exists")), "{:?}", report.lines);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn home_settings_and_episodes_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        setup(&layers(dir.path(), &[]), Example::Wanted, now()).await.unwrap();
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("home"), mode("home/.env")), (0o700, 0o600));
    }

    #[tokio::test]
    async fn a_home_for_real_episodes_says_what_is_still_missing() {
        let dir = tempfile::tempdir().unwrap();
        let report = setup(&layers(dir.path(), &[]), Example::No, now()).await.unwrap();
        assert!(report.open.unwrap().starts_with("OPENAI_API_KEY"));
        assert!(report.lacks_table && files(&dir.path().join("home/lancedb")).is_empty());
        let written = fs::read_to_string(dir.path().join("home/.env")).unwrap();
        assert_eq!(written, TEMPLATE);
        assert!(files(&dir.path().join("home/episodes")).is_empty());
    }

    #[tokio::test]
    async fn a_table_that_the_chosen_model_cannot_use_is_told_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let set = |dim| [("OPENAI_API_KEY", "sk-x"), ("DREAMER_EMBEDDING_DIM", dim)];
        assert_eq!(
            setup(&layers(dir.path(), &set("768")), Example::No, now()).await.unwrap().warnings.len(),
            0
        );
        fs::remove_file(dir.path().join("home/.env")).unwrap();
        let before = files(&dir.path().join("home/lancedb"));
        let report = setup(&layers(dir.path(), &set("1536")), Example::No, now()).await.unwrap();
        assert!(report.warnings[0].contains("768 numbers"), "{:?}", report.warnings);
        assert!(
            report.warnings[0].ends_with("/memories.lance and run `dreamer setup`"),
            "{:?}",
            report.warnings
        );
        assert_eq!(files(&dir.path().join("home/lancedb")), before);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_settings_file_with_a_key_that_others_may_read_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        let path = dir.path().join("home/.env");
        for (text, mode, told) in [
            ("OPENAI_API_KEY=sk-x\n", 0o644, true),
            ("OPENCLAW_GATEWAY_TOKEN=x\n", 0o640, true),
            ("OPENAI_API_KEY=sk-x\n", 0o600, false),
            ("OPENAI_API_KEY=\nDREAMER_FADE=off\n", 0o644, false),
        ] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let warnings = setup(&layers(dir.path(), &[]), Example::No, now()).await.unwrap().warnings;
            let found = warnings.iter().any(|line| line.contains("chmod 600") && !line.contains("sk-x"));
            assert_eq!(found, told, "{text} {mode:o}: {warnings:?}");
        }
    }

    #[tokio::test]
    async fn what_the_environment_chose_is_kept_for_the_next_night_but_never_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let set = [
            ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
            ("OPENAI_EMBEDDING_MODEL", "text-embedding-3-large"),
            ("OPENAI_LLM_MODEL", "a model"),
            ("OPENAI_API_KEY", "sk-very-secret"),
        ];
        let report = setup(&layers(dir.path(), &set), Example::Wanted, now()).await.unwrap();
        assert!(!format!("{report:?}").contains("secret"));
        let written = fs::read_to_string(dir.path().join("home/.env")).unwrap();
        assert!(
            !written.contains("secret") && !written.contains("\nDREAMER_EMBEDDING_PROVIDER"),
            "{written}"
        );
        let (config, _) = Config::resolve(&layers(dir.path(), &[])).unwrap();
        assert_eq!(config.embedding_model(), "text-embedding-3-large");
        assert_eq!(config.openai.llm_model, "a model");
        assert_eq!(Store::open(&config.lancedb_uri).await.unwrap().dim(), 3072);
    }

    #[tokio::test]
    async fn folders_are_kept_too_and_a_half_chosen_embedder_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        let set = [("DREAMER_LANCEDB_URI", "home/db"), ("DREAMER_EMBEDDING_PROVIDER", "builtin")];
        setup(&layers(dir.path(), &set), Example::Wanted, now()).await.unwrap();
        let (config, _) = Config::resolve(&layers(dir.path(), &[])).unwrap();
        assert_eq!(Path::new(&config.lancedb_uri), dir.path().join("home/db"));
        assert!(config.check_night().is_ok());
    }

    #[tokio::test]
    async fn a_named_settings_file_is_what_the_next_command_needs_too() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("my.env"),
            "DREAMER_EMBEDDING_PROVIDER=builtin\nDREAMER_BUILTIN_MODEL=lexical\nDREAMER_LLM_PROVIDER=extractive\n",
        )
        .unwrap();
        let mut layers = Layers { working_dir: dir.path().into(), ..Layers::default() };
        layers.flags.insert("DREAMER_HOME".into(), "home".into());
        let layers = layers.with_files(Some(Path::new("my.env"))).unwrap();
        let report = setup(&layers, Example::Wanted, now()).await.unwrap();
        assert_eq!((report.open, report.env_file), (None, Some(dir.path().join("my.env"))));
    }

    #[tokio::test]
    async fn a_key_in_the_environment_alone_does_not_send_the_example_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        setup(&layers(dir.path(), &[("OPENAI_API_KEY", "sk-x")]), Example::Wanted, now()).await.unwrap();
        let (config, _) = Config::resolve(&layers(dir.path(), &[("OPENAI_API_KEY", "sk-x")])).unwrap();
        assert_eq!(config.embedding_model(), "lexical");
    }

    #[tokio::test]
    async fn an_unknown_model_asks_for_its_dimension_before_anything_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let set = [("OPENAI_EMBEDDING_MODEL", "nomic-embed-text"), ("OPENAI_BASE_URL", "http://127.0.0.1:9")];
        let error = setup(&layers(dir.path(), &set), Example::No, now()).await.unwrap_err();
        assert!(error.to_string().contains("DREAMER_EMBEDDING_DIM"), "{error}");
        assert_eq!(error.exit_code(), 78);
        assert!(!dir.path().join("home").exists());
        let set = [&set[..], &[("DREAMER_EMBEDDING_DIM", "768")]].concat();
        setup(&layers(dir.path(), &set), Example::No, now()).await.unwrap();
        let uri = dir.path().join("home/lancedb");
        assert_eq!(Store::open(uri.to_str().unwrap()).await.unwrap().dim(), 768);
    }

    #[tokio::test]
    async fn the_example_never_goes_to_a_gateway_or_among_real_memories() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("notes");
        let set = [("DREAMER_EPISODES_DIR", outside.to_str().unwrap())];
        let error = setup(&layers(dir.path(), &set), Example::Wanted, now()).await.unwrap_err();
        assert!(error.to_string().contains("gateway") && error.exit_code() == 78, "{error}");
        assert!(!outside.exists() && !dir.path().join("home").exists());

        let builtin = [
            ("DREAMER_EMBEDDING_PROVIDER", "builtin"),
            ("DREAMER_BUILTIN_MODEL", "lexical"),
            ("DREAMER_LLM_PROVIDER", "extractive"),
        ];
        setup(&layers(dir.path(), &builtin), Example::No, now()).await.unwrap();
        let store = Store::open(dir.path().join("home/lancedb").to_str().unwrap()).await.unwrap();
        let memory = Memory {
            id: "7d4b7c0e-1f0a-4b57-9a53-3f1d2a0c9e11".into(),
            text: "real".into(),
            importance: 0.7,
            category: Category::Fact,
            created_at: 0,
            partition: Partition::of_agent("main"),
        };
        let mut vector = vec![0.0; 1024];
        vector[0] = 1.0;
        store
            .insert(&[NewRow { memory, vector, inherit: Inherit::Nothing, only_if: Vec::new() }])
            .await
            .unwrap();
        let error = setup(&layers(dir.path(), &[]), Example::Wanted, now()).await.unwrap_err();
        assert!(error.to_string().contains("holds memories"), "{error}");
    }

    #[test]
    fn the_template_names_every_variable_this_build_reads_and_no_other() {
        let named: Vec<&str> = TEMPLATE
            .lines()
            .filter_map(|line| line.strip_prefix('#').unwrap_or(line).split_once('='))
            .map(|(name, _)| name)
            .filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
            .collect();
        let known: Vec<&str> = VARIABLES.iter().chain(FLUSH_VARIABLES).map(|v| v.name).collect();
        assert_eq!(named, known);
    }

    #[test]
    fn the_template_shows_the_defaults_and_sets_nothing() {
        for line in TEMPLATE.lines() {
            assert!(line.is_empty() || line.starts_with('#'), "{line} would set something");
        }
        for (name, default) in
            VARIABLES.iter().chain(FLUSH_VARIABLES).filter_map(|v| Some((v.name, v.default?)))
        {
            assert!(TEMPLATE.contains(&format!("\n#{name}={default}\n")), "{name}={default}");
        }
    }

    #[test]
    fn chosen_values_stand_in_the_template_and_survive_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let odd = r#"it's "q" $HOME \ # end"#;
        let text = env_file(
            &[Choice::new("OPENAI_LLM_MODEL", odd), Choice::new("DREAMER_LLM_PROVIDER", "extractive")],
            &[],
        );
        fs::write(dir.path().join(".env"), text).unwrap();
        let layers = Layers { working_dir: dir.path().into(), ..Layers::default() }.with_files(None).unwrap();
        assert_eq!(layers.get("OPENAI_LLM_MODEL").unwrap().0, odd);
        assert_eq!(layers.get("DREAMER_LLM_PROVIDER").unwrap().0, "extractive");
        assert_eq!(layers.files[0].values.len(), 2);
    }
}
