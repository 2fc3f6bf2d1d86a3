//! The embedders inside this binary, chosen by name.
//! Each sits in a file of its own with its thresholds.

pub mod lexical;

use super::Embedder;

/// No built-in model has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find a built-in model {name:?}; DREAMER_BUILTIN_MODEL is one of: {known}", known = NAMES.join(", "))]
pub struct UnknownModel {
    /// The name that was asked for.
    pub name: String,
}

/// The names of the built-in models.
pub const NAMES: &[&str] = &[lexical::MODEL];

/// Opens a built-in model.
///
/// # Errors
/// When there is none of this name.
pub fn open(name: &str) -> Result<Box<dyn Embedder>, UnknownModel> {
    match name.trim().to_lowercase().as_str() {
        lexical::MODEL => Ok(Box::new(lexical::Lexical)),
        _ => Err(UnknownModel { name: name.to_owned() }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_opens_and_has_thresholds() {
        for name in NAMES {
            assert_eq!(open(name).unwrap().model(), *name);
            assert!(crate::providers::thresholds_of(name).is_some());
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = open("minilm").err().unwrap().to_string();
        assert_eq!(error, "find a built-in model \"minilm\"; DREAMER_BUILTIN_MODEL is one of: lexical");
    }
}
