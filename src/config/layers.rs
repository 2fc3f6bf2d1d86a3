//! Where settings come from: flags, environment, `.env` files. Reads the files and remembers each value's origin.
//! What the values mean is decided in `resolve`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::variables::{instead_of, nearest, variable};
use super::{ConfigError, expand};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of this command.
    Flag,
    /// The process environment.
    Environment,
    /// An `.env` file.
    File(PathBuf),
    /// Nobody set it.
    Default,
    /// Nobody set it; it is what this machine says.
    System,
    /// Nobody set it; it is a property of the embedding model: its name, and what that was measured on.
    Model(String, &'static str),
    /// Nobody set it; it was derived for the embedding model: its name, and when, by what and how surely.
    Calibrated(String, String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment => f.write_str("environment"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
            Self::System => f.write_str("system"),
            Self::Model(model, measured) => write!(f, "model {model}, {measured}"),
            Self::Calibrated(model, how) => write!(f, "calibrated for {model} {how}"),
        }
    }
}

/// One `.env` file, read.
#[derive(Debug, Clone, Default)]
pub struct EnvFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it sets; the last line counts when a name stands twice.
    pub values: BTreeMap<String, String>,
}

/// The raw settings of one process, strongest layer first.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// From flags, by variable name.
    pub flags: BTreeMap<String, String>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The `.env` files, the strongest first.
    pub files: Vec<EnvFile>,
    /// The one file that replaces both `.env` files, if the person named one.
    pub env_file: Option<PathBuf>,
    /// What relative paths are relative to.
    pub working_dir: PathBuf,
    /// What `~` stands for.
    pub user_home: Option<PathBuf>,
    /// The machine's time zone, an IANA name.
    pub system_timezone: Option<String>,
    /// What the operator should know about the files.
    pub warnings: Vec<String>,
}

impl Layers {
    /// Layers with an environment alone, for tests and examples: nothing is read from this machine.
    pub fn of(environment: &[(&str, &str)]) -> Self {
        Self {
            environment: environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            working_dir: PathBuf::from("/"),
            ..Self::default()
        }
    }

    /// The layers of this process.
    ///
    /// # Errors
    /// When an `.env` file cannot be read or parsed.
    pub fn of_process(home: Option<&Path>, env_file: Option<&Path>) -> Result<Self, ConfigError> {
        let working_dir =
            std::env::current_dir().map_err(|source| ConfigError::WorkingDirectory { source })?;
        Self::without_files(home, working_dir).with_files(env_file)
    }

    /// The layers of this process as far as they can be read, for telling the operator that something in them cannot.
    pub fn readable(home: Option<&Path>, env_file: Option<&Path>) -> Self {
        let mut layers = Self::without_files(home, std::env::current_dir().unwrap_or_default());
        match env_file {
            Some(path) => layers.files.extend(readable_lines(path)),
            None => {
                layers.files.extend(readable_lines(Path::new(".env")));
                let of_home = layers.home().map(|home| home.join(".env"));
                layers.files.extend(of_home.as_deref().and_then(readable_lines));
            }
        }
        layers
    }

    fn without_files(home: Option<&Path>, working_dir: PathBuf) -> Self {
        let environment = std::env::vars_os()
            .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
            .collect();
        let flags = home
            .map(|home| ("DREAMER_HOME".to_string(), home.to_string_lossy().into_owned()))
            .into_iter()
            .collect();
        Self {
            flags,
            environment,
            working_dir,
            user_home: std::env::home_dir().filter(|home| home.is_absolute()),
            system_timezone: iana_time_zone::get_timezone().ok(),
            ..Self::default()
        }
    }

    /// Reads the `.env` files: `env_file` alone when it is given, else that of the working directory and that of the
    /// home, which flag, environment or the first of them may have moved.
    ///
    /// # Errors
    /// When one cannot be read or parsed, or `env_file` does not exist.
    pub fn with_files(mut self, env_file: Option<&Path>) -> Result<Self, ConfigError> {
        if let Some(path) = env_file {
            let path = expand(&path.to_string_lossy(), &self);
            let text = std::fs::read(&path)
                .map_err(|source| ConfigError::ReadEnvFile { path: path.clone(), source })?;
            self.files.push(parse_env_file(&path, &text)?);
            self.env_file = Some(path);
            return Ok(self);
        }
        let here = self.working_dir.join(".env");
        if let Some(file) = read_env_file(&here)? {
            self.files.push(file);
        }
        let Some(home) = self.home() else { return Ok(self) };
        let there = home.join(".env");
        if same_file(&here, &there) {
            return Ok(self);
        }
        if let Some(mut file) = read_env_file(&there)? {
            // The file was found through the home, so it cannot move it any more.
            if let Some(other) = file.values.remove("DREAMER_HOME").filter(|v| !v.trim().is_empty())
                && expand(&other, &self) != home
            {
                self.warnings.push(format!(
                    "DREAMER_HOME in {} is ignored: the home is {} already; set it by flag, environment or the \
                     working directory's .env",
                    there.display(),
                    home.display()
                ));
            }
            self.files.push(file);
        }
        Ok(self)
    }

    /// The strongest non-empty value of a variable, trimmed, and where it comes from.
    pub fn get(&self, name: &str) -> Option<(&str, Origin)> {
        let counts = |value: &&String| !value.trim().is_empty();
        let flag = self.flags.get(name).filter(counts).map(|v| (v, Origin::Flag));
        let environment = || self.environment.get(name).filter(counts).map(|v| (v, Origin::Environment));
        let file = || {
            let found = |f: &'_ EnvFile| f.values.get(name).is_some_and(|v| !v.trim().is_empty());
            let file = self.files.iter().find(|f| found(f))?;
            Some((file.values.get(name)?, Origin::File(file.path.clone())))
        };
        flag.or_else(environment).or_else(file).map(|(value, origin)| (value.trim(), origin))
    }

    /// The home: as set, else `~/.dreamer`; none when it is not set and the person has no home.
    pub fn home(&self) -> Option<PathBuf> {
        match self.get("DREAMER_HOME") {
            Some((value, _)) => Some(expand(value, self)),
            None => self.user_home.as_ref().map(|home| home.join(".dreamer")),
        }
    }

    /// What looks like a slip: `DREAMER_…` variables this build does not read, and lines of an `.env` file that are
    /// almost one it reads.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let of_environment = self.environment.keys().map(|name| (name, Origin::Environment));
        let of_files =
            self.files.iter().flat_map(|f| f.values.keys().map(|name| (name, Origin::File(f.path.clone()))));
        of_environment
            .chain(of_files)
            .filter(|(name, _)| variable(name).is_none() && instead_of(name).is_none())
            .filter_map(|(name, origin)| match nearest(name) {
                Some(meant) if name.starts_with("DREAMER_") || origin != Origin::Environment => {
                    Some(format!("{name} ({origin}) is not a setting; did you mean {meant}?"))
                }
                None if name.starts_with("DREAMER_") => {
                    Some(format!("{name} ({origin}) is not read by this version"))
                }
                _ => None,
            })
            .collect()
    }

    /// Names that others read and Dreamer does not: in an `.env` file always, in the environment, where they may well be
    /// meant for others, only those that begin with `prefix` while the variable to set instead is not set.
    pub(crate) fn strangers(&self, prefix: Option<&str>) -> Vec<String> {
        let meant_for_us = |name: &str, instead: &str| {
            prefix.is_some_and(|prefix| name.starts_with(prefix)) && self.get(instead).is_none()
        };
        let of_environment = self
            .environment
            .keys()
            .filter_map(|name| Some((name, instead_of(name)?, Origin::Environment)))
            .filter(|(name, instead, _)| meant_for_us(name, instead));
        let of_files = self.files.iter().flat_map(|file| {
            let origin = || Origin::File(file.path.clone());
            file.values.keys().filter_map(move |name| Some((name, instead_of(name)?, origin())))
        });
        of_environment
            .chain(of_files)
            .map(|(name, instead, origin)| format!("{name} ({origin}) is not read by Dreamer; set {instead}"))
            .collect()
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Reads an `.env` file that need not exist.
pub(crate) fn read_env_file(path: &Path) -> Result<Option<EnvFile>, ConfigError> {
    match std::fs::read(path) {
        Ok(bytes) => parse_env_file(path, &bytes).map(Some),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(ConfigError::ReadEnvFile { path: path.to_owned(), source }),
    }
}

/// The lines of an `.env` file that can be read, whatever the others are.
fn readable_lines(path: &Path) -> Option<EnvFile> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let values = dotenvy::from_read_iter(text.trim_start_matches('\u{feff}').as_bytes()).flatten().collect();
    Some(EnvFile { path: path.to_owned(), values })
}

fn parse_env_file(path: &Path, bytes: &[u8]) -> Result<EnvFile, ConfigError> {
    let malformed = |line| ConfigError::ParseEnvFile { path: path.to_owned(), line };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            return Err(malformed(1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count()));
        }
    };
    let mut values = BTreeMap::new();
    for item in dotenvy::from_read_iter(text.as_bytes()) {
        match item {
            Ok((name, value)) => values.insert(name, value),
            // The error quotes the line, which may hold a key: only its number is passed on.
            Err(dotenvy::Error::LineParse(line, _)) => return Err(malformed(line_number(text, &line))),
            Err(_) => return Err(malformed(1)),
        };
    }
    Ok(EnvFile { path: path.to_owned(), values })
}

/// The number of the line, counted from 1, with which `statement` begins.
fn line_number(text: &str, statement: &str) -> usize {
    let first = statement.lines().next().unwrap_or_default().trim();
    1 + text.lines().position(|line| line.trim() == first).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn layers_in(dir: &Path) -> Layers {
        Layers { working_dir: dir.to_owned(), user_home: Some(dir.join("user")), ..Layers::default() }
    }

    #[test]
    fn flag_beats_environment_beats_working_directory_beats_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("user/.dreamer");
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(dir.path().join(".env"), "B=here\nC=here\nEMPTY=here\n").unwrap();
        std::fs::write(home.join(".env"), "B=home\nC=home\nD=home\n").unwrap();
        let mut layers = layers_in(dir.path());
        layers.flags.insert("A".into(), "flag".into());
        for (name, value) in [("A", "environment"), ("B", "environment"), ("EMPTY", " ")] {
            layers.environment.insert(name.into(), value.into());
        }
        let layers = layers.with_files(None).unwrap();
        let value = |name| layers.get(name).map(|(v, _)| v);
        assert_eq!(value("A"), Some("flag"));
        assert_eq!(value("B"), Some("environment"));
        assert_eq!(layers.get("C"), Some(("here", Origin::File(dir.path().join(".env")))));
        assert_eq!(layers.get("D"), Some(("home", Origin::File(home.join(".env")))));
        assert_eq!(value("EMPTY"), Some("here"), "an empty value counts as unset");
        assert_eq!(value("E"), None);
    }

    #[test]
    fn the_working_directory_may_move_the_home_and_its_env_file_is_read_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join(".env"), "DREAMER_HOME=elsewhere\n").unwrap();
        std::fs::write(dir.path().join("elsewhere/.env"), "D=moved\nDREAMER_HOME=/third\n").unwrap();
        let layers = layers_in(dir.path()).with_files(None).unwrap();
        assert_eq!(layers.get("D").map(|(v, _)| v), Some("moved"));
        assert_eq!(layers.home(), Some(dir.path().join("elsewhere")));
        assert!(layers.warnings[0].contains("DREAMER_HOME"), "{:?}", layers.warnings);
    }

    #[test]
    fn a_named_env_file_replaces_both_and_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "A=here\n").unwrap();
        std::fs::write(dir.path().join("other.env"), "\u{feff}B='quoted # not a comment'\r\n").unwrap();
        let layers = layers_in(dir.path()).with_files(Some(Path::new("other.env"))).unwrap();
        assert_eq!(layers.get("A"), None);
        assert_eq!(layers.get("B").map(|(v, _)| v), Some("quoted # not a comment"));
        let error = layers_in(dir.path()).with_files(Some(Path::new("none.env"))).unwrap_err();
        assert!(error.to_string().contains("none.env"), "{error}");
    }

    #[test]
    fn what_can_be_read_of_a_damaged_file_is_there_for_an_alert() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env");
        std::fs::write(&path, b"\xef\xbb\xbfA=1\nOPENAI_API_KEY sk-secret\nB=\xff\nC=3\n").unwrap();
        let values = readable_lines(&path).unwrap().values;
        assert_eq!(
            (values.get("A").map(String::as_str), values.get("C").map(String::as_str)),
            (Some("1"), Some("3"))
        );
        assert!(readable_lines(dir.path()).is_none());
    }

    #[test]
    fn a_malformed_line_is_named_by_number_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "A=1\n# fine\nOPENAI_API_KEY 'sk-secret\n").unwrap();
        let error = layers_in(dir.path()).with_files(None).unwrap_err().to_string();
        assert!(error.contains("line 3") && !error.contains("secret"), "{error}");
        std::fs::write(dir.path().join(".env"), b"A=1\nB=\xff\n").unwrap();
        let error = layers_in(dir.path()).with_files(None).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn slips_are_told_and_strangers_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "CLUSTER_SIMILARTY=0.5\nMY_OWN=1\nOLLAMA_BASE_URL=x\n")
            .unwrap();
        let mut layers = layers_in(dir.path());
        for name in ["DREAMER_HOEM", "DREAMER_UNRELATED", "PATH", "CLUSTER_SIMILARTY"] {
            layers.environment.insert(name.into(), "x".into());
        }
        let layers = layers.with_files(None).unwrap();
        let told = layers.unknown();
        let of = |name: &str| told.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!((of("DREAMER_HOEM"), of("DREAMER_UNRELATED"), of("CLUSTER_SIMILARTY")), (1, 1, 1));
    }

    #[test]
    fn names_that_others_read_are_told_where_they_were_meant_for_dreamer() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "OLLAMA_HOST=0.0.0.0\nMAX_NEW_MEMORY=3\n").unwrap();
        let mut layers = layers_in(dir.path());
        for name in ["OLLAMA_MODEL", "OPENAI_MODEL", "MAX_NEW_MEMORY"] {
            layers.environment.insert(name.into(), "x".into());
        }
        let mut layers = layers.with_files(None).unwrap();
        assert_eq!(layers.unknown(), Vec::<String>::new(), "each is told once");
        let file = dir.path().join(".env");
        let of_file = [
            format!("MAX_NEW_MEMORY ({}) is not read by Dreamer; set MAX_NEW_MEMORIES", file.display()),
            format!("OLLAMA_HOST ({}) is not read by Dreamer; set OLLAMA_BASE_URL", file.display()),
        ];
        assert_eq!(layers.strangers(None), of_file);
        let told = layers.strangers(Some("OLLAMA_"));
        assert_eq!(told[0], "OLLAMA_MODEL (environment) is not read by Dreamer; set OLLAMA_LLM_MODEL");
        assert_eq!(told[1..], of_file);
        layers.environment.insert("OLLAMA_LLM_MODEL".into(), "qwen2.5:7b".into());
        assert_eq!(layers.strangers(Some("OLLAMA_")), of_file, "what is to be set instead is set");
    }
}
