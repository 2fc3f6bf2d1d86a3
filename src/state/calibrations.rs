//! What embedding models were calibrated to: `calibrations.json`, one entry a model. Written from an applied plan.
//! How it is derived is `providers/calibration.rs`'s work.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{StateError, read_if_there, write_atomically};
use crate::calibrate::BY_HAND;
use crate::providers::Thresholds;

/// The format of `calibrations.json` that this program writes and reads.
const FORMAT: u32 = 1;

/// One embedding model, calibrated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The provider's word in the settings.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// What tells these weights from others of that name: a digest, or the server's address; empty where nothing does.
    pub version: String,
    /// Chunks about one thing.
    pub cluster: f32,
    /// The same claim.
    pub duplicate: f32,
    /// Perhaps about the same thing.
    pub related: f32,
    /// The chance that a duplicate of the built-in pairs scores above an unrelated pair.
    pub auc: f32,
    /// Languages of the pairs that the model cannot read.
    pub blind: Vec<String>,
    /// When.
    pub at: DateTime<Utc>,
    /// The run that did it.
    pub run: String,
    /// How sure it is, where that was asked: a night does not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sureness: Option<String>,
}

impl Calibrated {
    /// The similarities.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds { cluster: self.cluster, duplicate: self.duplicate, related: self.related }
    }

    /// When it was derived, by what, and how sure that is.
    pub fn how(&self) -> String {
        let by = match self.run.as_str() {
            BY_HAND => "dreamer calibrate".to_owned(),
            run => format!("the night {run}"),
        };
        let sure = self.sureness.as_ref().map(|sure| format!(", {sure}")).unwrap_or_default();
        let auc = self.auc * 100.0;
        format!("on {} by {by}{sure}; duplicates above unrelated texts in {auc:.0} %", self.at.date_naive())
    }

    /// What the log of the night that did it says. `again` is whether other weights of that name were calibrated before.
    pub fn told(&self, again: bool) -> Vec<String> {
        let Self { model, cluster, duplicate, related, .. } = self;
        let why = match again {
            false => "its similarities were not known",
            true => "the model behind the name is another than before",
        };
        let mut lines = vec![format!(
            "the embedding model {model} was calibrated on the built-in pairs, because {why}: CLUSTER_SIMILARITY \
             {cluster}, DEDUP_SIMILARITY {duplicate}, CONTRADICTION_SIMILARITY {related} (a duplicate scores above an \
             unrelated text in {:.0} % of the cases); later nights use the same, and what you set comes first",
            self.auc * 100.0
        )];
        if !self.blind.is_empty() {
            lines.push(format!(
                "the embedding model {model} cannot tell texts in these languages apart: {}; if you write in one of \
                 them, choose another model",
                self.blind.join(", ")
            ));
        }
        lines
    }
}

/// All models that were calibrated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibrations {
    format: u32,
    models: Vec<Calibrated>,
}

impl Calibrations {
    /// Where they lie.
    pub fn path(state_dir: &Path) -> PathBuf {
        state_dir.join("calibrations.json")
    }

    /// Reads them; none when nothing was calibrated yet. A file that cannot be understood is passed over: it can be made
    /// again.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(state_dir: &Path) -> Result<Self, StateError> {
        let path = Self::path(state_dir);
        let Some(bytes) = read_if_there(&path)? else { return Ok(Self::default()) };
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(read) if read.format == FORMAT => Ok(read),
            Ok(read) => {
                tracing::warn!("{}: format {} is unknown, passed over", path.display(), read.format);
                Ok(Self::default())
            }
            Err(error) => {
                tracing::warn!("{}: passed over, unreadable: {error}", path.display());
                Ok(Self::default())
            }
        }
    }

    /// The entry of a model. Another version of it is another model; where the version is unknown, the name decides.
    pub fn of(&self, provider: &str, model: &str, version: Option<&str>) -> Option<&Calibrated> {
        let is_it = |entry: &&Calibrated| {
            let same_version = version.is_none_or(|version| entry.version == version);
            entry.provider == provider && entry.model == model && same_version
        };
        self.models.iter().find(is_it)
    }

    /// Takes an entry in, in place of the model's earlier one, and writes the file. Doing it twice changes nothing.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn keep(state_dir: &Path, entry: &Calibrated) -> Result<(), StateError> {
        let mut all = Self::read(state_dir)?;
        all.format = FORMAT;
        all.models.retain(|other| (&other.provider, &other.model) != (&entry.provider, &entry.model));
        all.models.push(entry.clone());
        let bytes = serde_json::to_vec_pretty(&all).expect("calibrations are plain data");
        write_atomically(&Self::path(state_dir), &bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(model: &str, version: &str, related: f32) -> Calibrated {
        Calibrated {
            provider: "ollama".into(),
            model: model.into(),
            version: version.into(),
            cluster: 0.7,
            duplicate: 0.8,
            related,
            auc: 0.99,
            blind: vec!["ko".into()],
            at: "2026-03-10T02:00:00Z".parse().unwrap(),
            run: "20260310-020000-000001".into(),
            sureness: None,
        }
    }

    #[test]
    fn a_model_has_one_entry_and_another_version_of_it_none() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert_eq!(Calibrations::read(&state).unwrap(), Calibrations::default());
        for entry in [entry("a", "old", 0.5), entry("b", "x", 0.6), entry("a", "new", 0.61)] {
            Calibrations::keep(&state, &entry).unwrap();
            Calibrations::keep(&state, &entry).unwrap();
        }
        let read = Calibrations::read(&state).unwrap();
        assert_eq!(read.models, [entry("b", "x", 0.6), entry("a", "new", 0.61)]);
        let related =
            |model, version| read.of("ollama", model, version).map(|entry| entry.thresholds().related);
        assert_eq!(related("a", Some("new")), Some(0.61));
        assert_eq!(related("a", None), Some(0.61));
        assert_eq!((related("a", Some("old")), related("c", None)), (None, None));
        assert_eq!(read.of("openai", "a", None), None);
    }

    #[test]
    fn a_file_that_makes_no_sense_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", "[]", r#"{"format":2,"models":[]}"#] {
            std::fs::write(Calibrations::path(dir.path()), text).unwrap();
            assert_eq!(Calibrations::read(dir.path()).unwrap(), Calibrations::default(), "{text}");
        }
        Calibrations::keep(dir.path(), &entry("a", "", 0.5)).unwrap();
        assert!(Calibrations::read(dir.path()).unwrap().of("ollama", "a", None).is_some());
    }

    #[test]
    fn the_log_says_what_was_derived_and_what_the_model_cannot_read() {
        let told = entry("nomic-embed-text", "x", 0.61).told(false);
        assert!(
            told[0].contains("nomic-embed-text") && told[0].contains("CONTRADICTION_SIMILARITY 0.61"),
            "{told:?}"
        );
        assert!(told[0].contains("99 %") && told[1].contains("ko"), "{told:?}");
        let told = Calibrated { blind: vec![], ..entry("a", "x", 0.61) }.told(true);
        assert!(told.len() == 1 && told[0].contains("another than before"), "{told:?}");
    }

    #[test]
    fn a_file_of_format_1_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let old = include_str!("../../tests/fixtures/state/calibrations-1.json");
        std::fs::write(Calibrations::path(dir.path()), old).unwrap();
        let read = Calibrations::read(dir.path()).unwrap();
        let entry = read.of("ollama", "nomic-embed-text", None).unwrap();
        assert_eq!((entry.thresholds().duplicate, entry.blind.len()), (0.861, 2));
    }
}
