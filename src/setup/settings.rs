//! The settings file of a home: the shipped template with what was chosen, so that the next night runs without being
//! told again. Never overwrites one, never holds a key it was not given by hand.

use std::path::{Path, PathBuf};

use super::{Example, Report, create_new};
use crate::config::{EnvFile, FLUSH_VARIABLES, Layers, Origin, VARIABLES, Variable, expand, read_env_file};
use crate::error::Error;

/// The settings file that is written into a home: the shipped template.
pub(super) const TEMPLATE: &str = include_str!("../../.env.example");

/// What a person sets to choose an embedder.
const EMBEDDER: [&str; 4] =
    ["DREAMER_EMBEDDING_PROVIDER", "OPENAI_BASE_URL", "OPENAI_EMBEDDING_MODEL", "OPENAI_API_KEY"];
/// What a person sets to choose a language model.
const LANGUAGE_MODEL: [&str; 4] =
    ["DREAMER_LLM_PROVIDER", "OPENAI_BASE_URL", "OPENAI_LLM_MODEL", "OPENAI_API_KEY"];

/// What goes into the home's settings file: what the environment of this setup says and the next night's may not, so
/// that it uses the same models and folders; for the example, models that need nothing where none were chosen.
pub(super) fn choices(layers: &Layers, example: Example) -> Vec<(&'static str, String)> {
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
            choices.push(("DREAMER_EMBEDDING_PROVIDER", "builtin".to_string()));
            true
        }
    };
    if is_builtin && layers.get("DREAMER_BUILTIN_MODEL").is_none() {
        choices.push(("DREAMER_BUILTIN_MODEL", "lexical".to_string()));
    }
    if !LANGUAGE_MODEL.iter().any(is_chosen) {
        choices.push(("DREAMER_LLM_PROVIDER", "extractive".to_string()));
    }
    choices
}

/// What the environment says, without secrets and the home itself; paths independent of the working directory.
fn kept(layers: &Layers) -> Vec<(&'static str, String)> {
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
            "DREAMER_EPISODES_DIR" | "DREAMER_LANCEDB_URI" if !value.contains("://") => {
                (name, expand(value, layers).display().to_string())
            }
            _ => (name, value.to_string()),
        })
        .collect()
}

/// The layers as the next command will see them: with the home's settings file, if there is none yet.
pub(super) fn with_choices(layers: &Layers, choices: &[(&'static str, String)]) -> Layers {
    let mut layers = layers.clone();
    let is_read = |path: &PathBuf| layers.env_file.is_none() && !path.exists();
    if let Some(path) = layers.home().map(|home| home.join(".env")).filter(is_read) {
        let values = choices.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        layers.files.push(EnvFile { path, values });
    }
    layers
}

/// Writes the settings file if there is none. It may come to hold keys, so only its owner can read it.
pub(super) fn make_env_file(
    path: &Path,
    choices: &[(&'static str, String)],
    report: &mut Report,
) -> Result<(), Error> {
    if !create_new(path, &env_file(choices), 0o600)? {
        report.found(path, ", left as it is");
        report.warnings.extend(open_to_others(path));
        return Ok(());
    }
    match choices.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ") {
        set if set.is_empty() => report.made(path, ", every setting in it commented out"),
        set => report.made(path, &format!(" with {set}")),
    }
    Ok(())
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

/// The template with the chosen values in their places.
pub(super) fn env_file(choices: &[(&str, String)]) -> String {
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
