//! The settings file of a home: the shipped template with what was chosen, so that the next night runs without being
//! told again. Never overwrites one, never holds a key it was not given by hand.

use std::path::{Path, PathBuf};

use super::{Example, Report, create_new};
use crate::config::{
    EnvFile, FLUSH_VARIABLES, Layers, Origin, VARIABLES, Variable, expand, models_dir, read_env_file,
    st_model_name, variable,
};
use crate::error::Error;
use crate::providers::local;

/// The settings file that is written into a home: the shipped template.
pub(super) const TEMPLATE: &str = include_str!("../../.env.example");

/// What a person sets to choose an embedder.
const EMBEDDER: [&str; 5] = [
    "DREAMER_EMBEDDING_PROVIDER",
    "OPENAI_BASE_URL",
    "OPENAI_EMBEDDING_BASE_URL",
    "OPENAI_EMBEDDING_MODEL",
    "OPENAI_API_KEY",
];
/// What a person sets to choose a language model.
const LANGUAGE_MODEL: [&str; 4] =
    ["DREAMER_LLM_PROVIDER", "OPENAI_BASE_URL", "OPENAI_LLM_MODEL", "OPENAI_API_KEY"];

/// A line of the settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// The variable.
    pub(super) name: &'static str,
    /// What it is set to.
    pub(super) value: String,
    /// The variable of the environment that holds the value, where the file refers to it.
    refers_to: Option<String>,
}

impl Choice {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), refers_to: None }
    }

    /// A value that stands in the environment and is not copied.
    pub(super) fn referring(name: &'static str, value: &str, refers_to: &str) -> Self {
        Self { refers_to: Some(refers_to.to_owned()), ..Self::new(name, value) }
    }

    pub(super) fn is_secret(&self) -> bool {
        variable(self.name).is_some_and(|variable| variable.secret)
    }

    /// The value as it may be printed.
    pub(super) fn shown(&self) -> String {
        match &self.refers_to {
            Some(name) => format!("${{{name}}}"),
            None if self.is_secret() => "(a key, not shown)".to_owned(),
            None => self.value.clone(),
        }
    }

    /// The value as the file holds it.
    fn written(&self) -> String {
        match &self.refers_to {
            Some(name) => format!("${{{name}}}"),
            None => quote(&self.value),
        }
    }

    /// Whether a value somebody set means the same.
    pub(super) fn says_the_same(&self, value: &str, layers: &Layers) -> bool {
        let plain = |value: &str| value.trim().trim_end_matches('/').to_owned();
        let is_path = matches!(self.name, "DREAMER_EPISODES_DIR" | "DREAMER_LANCEDB_URI")
            || self.name.starts_with("OPENCLAW_") && self.value.starts_with('/');
        match is_path {
            true => expand(value, layers) == expand(&self.value, layers),
            false => plain(value) == plain(&self.value),
        }
    }
}

/// Whether there was a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is new.
    New,
    /// There was one, and it was left as it is.
    Existed,
}

/// What goes into the home's settings file: what the environment of this setup says and the next night's may not, so
/// that it uses the same models and folders; for the example, models that need nothing where none were chosen.
pub(super) fn choices(layers: &Layers, example: Example) -> Vec<Choice> {
    let mut choices = kept(layers);
    if example == Example::No || layers.env_file.is_some() {
        return choices;
    }
    // A key that happens to be in the environment is not a choice: the example sends nothing anywhere.
    let is_chosen = |name: &&str| match layers.get(name) {
        Some((_, Origin::Environment)) => *name != "OPENAI_API_KEY",
        found => found.is_some(),
    };
    let is_builtin = match layers.get("DREAMER_EMBEDDING_PROVIDER") {
        Some((provider, _)) => provider.eq_ignore_ascii_case("builtin"),
        None if EMBEDDER.iter().any(is_chosen) => false,
        None => {
            choices.push(Choice::new("DREAMER_EMBEDDING_PROVIDER", "builtin"));
            true
        }
    };
    if is_builtin && layers.get("DREAMER_BUILTIN_MODEL").is_none() {
        let is_there = local::check(local::DEFAULT, &models_dir(layers)).is_ok();
        let model = if is_there { local::DEFAULT } else { local::lexical::MODEL };
        choices.push(Choice::new("DREAMER_BUILTIN_MODEL", model));
    }
    if !LANGUAGE_MODEL.iter().any(is_chosen) {
        choices.push(Choice::new("DREAMER_LLM_PROVIDER", "extractive"));
    }
    choices
}

/// Said of an example whose model sees words alone, because the one that sees meaning is not on this machine.
pub(super) fn lexical_for_want_of_weights(layers: &Layers, choices: &[Choice]) -> Option<String> {
    let is_set = layers.get("DREAMER_BUILTIN_MODEL").is_some();
    let chosen = choices.iter().find(|choice| choice.name == "DREAMER_BUILTIN_MODEL").filter(|_| !is_set)?;
    (chosen.value == local::lexical::MODEL).then(|| {
        format!(
            "the weights of the embedding model {} are not on this machine, so the example uses lexical, which compares \
             words and not what they mean; for the better one run `dreamer model pull` before `dreamer setup --example`",
            local::DEFAULT
        )
    })
}

/// What the environment says, without secrets and the home itself; paths independent of the working directory.
pub(super) fn kept(layers: &Layers) -> Vec<Choice> {
    // Alert settings are of no use without the secret among them; half of them would stop the next night.
    let is_kept = |variable: &&Variable| {
        !variable.secret && variable.name != "DREAMER_HOME" && !variable.name.starts_with("DREAMER_ALERT_")
    };
    VARIABLES
        .iter()
        .filter(is_kept)
        .filter_map(|variable| match layers.get(variable.name) {
            Some((value, Origin::Environment)) => Some((variable.name, value)),
            _ => None,
        })
        .map(|(name, value)| match name {
            "DREAMER_EPISODES_DIR" | "DREAMER_LANCEDB_URI" | "HF_HOME" | "HF_HUB_CACHE"
                if !value.contains("://") =>
            {
                Choice::new(name, expand(value, layers).display().to_string())
            }
            "ST_MODEL_NAME" => {
                Choice::new(name, st_model_name(value, layers).unwrap_or_else(|_| value.to_owned()))
            }
            _ => Choice::new(name, value),
        })
        .collect()
}

/// The layers as the next command will see them: with the home's settings file, if there is none yet.
pub(super) fn with_choices(layers: &Layers, choices: &[Choice]) -> Layers {
    let mut layers = layers.clone();
    let is_read = |path: &PathBuf| layers.env_file.is_none() && !path.exists();
    if let Some(path) = layers.home().map(|home| home.join(".env")).filter(is_read) {
        let values = choices.iter().map(|choice| (choice.name.to_owned(), choice.value.clone())).collect();
        layers.files.push(EnvFile { path, values });
    }
    layers
}

/// Writes the settings file if there is none. It may come to hold keys, so only its owner can read it.
pub(super) fn make_env_file(
    path: &Path,
    choices: &[Choice],
    hints: &[(&'static str, String)],
    report: &mut Report,
) -> Result<Written, Error> {
    if !create_new(path, &env_file(choices, hints), 0o600)? {
        report.found(path, ", left as it is");
        report.warnings.extend(open_to_others(path));
        return Ok(Written::Existed);
    }
    let line = |choice: &Choice| match choice.is_secret() {
        true => format!("{} (not shown)", choice.name),
        false => format!("{}={}", choice.name, choice.shown()),
    };
    match choices.iter().map(line).collect::<Vec<_>>().join(" ") {
        set if set.is_empty() => report.made(path, ", every setting in it commented out"),
        set => report.made(path, &format!(" with {set}")),
    }
    Ok(Written::New)
}

/// Warns of a settings file with a key in it that others may read. It is somebody's own: its permissions stay.
fn open_to_others(path: &Path) -> Option<String> {
    let mode = mode_of(path).filter(|mode| mode & 0o077 != 0)?;
    let file = read_env_file(path).ok()??;
    let is_key = |variable: &&&str| file.values.get(**variable).is_some_and(|value| !value.trim().is_empty());
    let secrets: Vec<&str> =
        VARIABLES.iter().chain(FLUSH_VARIABLES).filter(|v| v.secret).map(|v| v.name).collect();
    let name = secrets.iter().find(is_key)?;
    Some(format!(
        "{} holds {name} and its permissions ({mode:03o}) are not for you alone: chmod 600 {0}",
        path.display()
    ))
}

#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<u32> {
    None
}

/// The template with the chosen values in their places, and a word above those that a person still has to choose. What the
/// template does not know stands at its end.
pub(super) fn env_file(choices: &[Choice], hints: &[(&str, String)]) -> String {
    let name_of = |line: &str| {
        let name = line.strip_prefix('#').and_then(|rest| rest.split_once('=')).map(|(name, _)| name);
        name.map(str::to_owned)
    };
    let line = |line: &str| {
        let Some(name) = name_of(line) else { return format!("{line}\n") };
        if let Some(choice) = choices.iter().find(|choice| choice.name == name) {
            return format!("{name}={}\n", choice.written());
        }
        match hints.iter().find(|(hinted, _)| *hinted == name) {
            Some((_, hint)) => format!("# To be chosen: {hint}\n{line}\n"),
            None => format!("{line}\n"),
        }
    };
    let mut text: String = TEMPLATE.lines().map(line).collect();
    let known: Vec<String> = TEMPLATE.lines().filter_map(name_of).collect();
    let others: Vec<&Choice> = choices.iter().filter(|c| !known.iter().any(|name| name == c.name)).collect();
    if !others.is_empty() {
        text.push_str("\n# --- Of the gateway ---------------------------------------------------------------------------------------------\n");
    }
    for choice in others {
        text.push_str(&format!("{}={}\n", choice.name, choice.written()));
    }
    text
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
