//! The embedders inside this binary, chosen by name: each sits in a file of its own with its thresholds.
//! Weights, where a model needs some, are fetched once (`pull`) and kept in the user's data directory (`stored`).

pub(super) mod archive;
pub mod lexical;
pub mod pull;
pub mod stored;
pub mod use3;

use std::path::Path;

use self::stored::{Look, Models, State, Stored};
use super::Embedder;
use crate::error::chain;

/// The model that is used where none is named.
pub const DEFAULT: &str = use3::MODEL;

/// The names of the built-in models.
pub const NAMES: &[&str] = &[use3::MODEL, lexical::MODEL];

/// A built-in model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// None has this name.
    #[error("there is no built-in model {name:?}; DREAMER_BUILTIN_MODEL is one of: {known}", known = NAMES.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// Its weights are not there.
    #[error(
        "the weights of {name} are not in {folder}; fetch them once with `dreamer model pull` (32 MB), or name the \
         built-in model that needs none: DREAMER_BUILTIN_MODEL=lexical"
    )]
    NoWeights {
        /// The model.
        name: &'static str,
        /// Where they were looked for.
        folder: String,
    },
    /// Its weights are there and cannot be used.
    #[error("the weights of {name} in {folder} cannot be used ({why}); fetch them again: dreamer model pull")]
    Damaged {
        /// The model.
        name: &'static str,
        /// Where they lie.
        folder: String,
        /// What is wrong with them.
        why: String,
    },
}

/// What is kept of the model of that name; none where it has no weights or does not exist.
pub fn stored(name: &str) -> Option<&'static Stored> {
    use3::MODEL.eq_ignore_ascii_case(name.trim()).then_some(&use3::STORED)
}

/// Whether a built-in model can be used, as far as that is seen without reading its weights.
///
/// # Errors
/// When there is none of this name, or its weights are missing or of the wrong length.
pub fn check(name: &str, models_dir: &Path) -> Result<(), OpenError> {
    let name = name.trim().to_lowercase();
    if name == lexical::MODEL {
        return Ok(());
    }
    let model = stored(&name).ok_or(OpenError::Unknown { name })?;
    let models = Models::in_folder(models_dir);
    let folder = models.folder(&model.name).display().to_string();
    match models.state(model, Look::Lengths) {
        State::Whole => Ok(()),
        State::Absent => Err(OpenError::NoWeights { name: use3::MODEL, folder }),
        State::Damaged => {
            let why = "a file is missing or not as long as it should be".to_owned();
            Err(OpenError::Damaged { name: use3::MODEL, folder, why })
        }
    }
}

/// Opens a built-in model.
///
/// # Errors
/// When there is none of this name, or its weights cannot be used.
pub fn open(name: &str, models_dir: &Path) -> Result<Box<dyn Embedder>, OpenError> {
    check(name, models_dir)?;
    if name.trim().eq_ignore_ascii_case(lexical::MODEL) {
        return Ok(Box::new(lexical::Lexical));
    }
    let folder = models_dir.join(use3::MODEL);
    let model = use3::UseMultilingual::open(&folder).map_err(|error| OpenError::Damaged {
        name: use3::MODEL,
        folder: folder.display().to_string(),
        why: chain(&error),
    })?;
    Ok(Box::new(model))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_known_and_has_thresholds() {
        let dir = tempfile::tempdir().unwrap();
        for name in NAMES {
            assert!(!matches!(check(name, dir.path()), Err(OpenError::Unknown { .. })), "{name}");
            assert!(crate::providers::thresholds_of(name).is_some());
        }
        assert_eq!(open("Lexical", dir.path()).unwrap().model(), "lexical");
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = open("minilm", Path::new("/nowhere")).err().unwrap().to_string();
        let known = "DREAMER_BUILTIN_MODEL is one of: use-multilingual-3, lexical";
        assert_eq!(error, format!("there is no built-in model \"minilm\"; {known}"));
    }

    #[test]
    fn without_weights_it_is_said_how_to_get_them_and_nothing_else_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let told = open(use3::MODEL, dir.path()).err().unwrap().to_string();
        assert!(
            told.contains("`dreamer model pull`") && told.contains("DREAMER_BUILTIN_MODEL=lexical"),
            "{told}"
        );
        std::fs::create_dir(dir.path().join(use3::MODEL)).unwrap();
        let told = open(use3::MODEL, dir.path()).err().unwrap().to_string();
        assert!(told.contains("cannot be used") && told.contains("dreamer model pull"), "{told}");
    }
}
