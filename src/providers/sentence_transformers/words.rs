//! Texts become the ids of a model's vocabulary, and whether that vocabulary has words for a script at all: a model that has
//! none compares such texts by little more than their length.

use std::collections::BTreeMap;

use tokenizers::{Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy};

use super::OpenError;
use super::description::Description;
use crate::language::{self, Language, is_cjk};
use crate::providers::calibration;

/// A vocabulary does not know a script if more than this share of what it makes of it are unknown words …
///
/// The vocabulary of English BERT, which most English models have, knows 488 Han characters: 70 % of the ids of the
/// Chinese texts are unknown, 24 % of the Japanese. One that was made for a language knows nearly all of them.
const UNKNOWN: f64 = 0.1;
/// … or if it takes more than this many ids a character, which are bytes and strokes then, and no words. English BERT takes
/// Korean syllables apart: 2.0; a vocabulary with Korean words takes 0.5 to 1.
const IDS_A_CHARACTER: f64 = 1.5;

/// A model's vocabulary.
pub(super) struct Words {
    tokenizer: Tokenizer,
    unknown: Option<u32>,
    padding: u32,
    lowercase: bool,
    prefix: String,
}

impl Words {
    /// Reads the vocabulary, which must not be larger than the model's.
    ///
    /// # Errors
    /// When the file is not one, or of another model.
    pub(super) fn read(of: &Description) -> Result<Self, OpenError> {
        let unreadable = |why: String| OpenError::Unreadable { path: of.tokenizer.clone(), why };
        let mut tokenizer =
            Tokenizer::from_file(&of.tokenizer).map_err(|error| unreadable(error.to_string()))?;
        // What the file says of lengths is how the model was trained, which is shorter than what it can do.
        let truncation = TruncationParams {
            max_length: of.max_tokens,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
            direction: TruncationDirection::Right,
        };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| unreadable(error.to_string()))?;
        tokenizer.with_padding(None);
        let (own, models) = (tokenizer.get_vocab_size(true), of.vocabulary);
        if own > models {
            return Err(unreadable(format!(
                "it has {own} words, the weights know {models}: it is of another model"
            )));
        }
        let unknown = ["[UNK]", "<unk>"].iter().find_map(|word| tokenizer.token_to_id(word));
        let (padding, lowercase, prefix) = (of.padding, of.lowercase, of.prefix.clone());
        Ok(Self { tokenizer, unknown, padding, lowercase, prefix })
    }

    /// The ids of a text with what stands before it, the model's own marks around it; cut off at the model's length, never
    /// empty.
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub(super) fn ids(&self, text: &str) -> Result<Vec<u32>, String> {
        let mut ids = self.encode(&format!("{}{text}", self.prefix), true)?;
        if ids.is_empty() {
            ids.push(self.unknown.unwrap_or(self.padding));
        }
        Ok(ids)
    }

    fn encode(&self, text: &str, has_marks: bool) -> Result<Vec<u32>, String> {
        let lower = self.lowercase.then(|| text.to_lowercase());
        let encoding = self.tokenizer.encode_fast(lower.as_deref().unwrap_or(text), has_marks);
        encoding.map(|encoding| encoding.get_ids().to_vec()).map_err(|error| error.to_string())
    }

    /// Of Chinese, Japanese and Korean those that the vocabulary has no words for: tried on the built-in pairs' texts.
    pub(super) fn unread(&self) -> Vec<Language> {
        let mut seen: BTreeMap<Language, [usize; 3]> = BTreeMap::new();
        for text in calibration::texts() {
            let Some(language) = cjk(text) else { continue };
            // Korean has words with spaces between them: run together they would be one unknown word.
            let letters: String = text.chars().map(|c| if is_cjk(c) { c } else { ' ' }).collect();
            let count = letters.chars().filter(|c| *c != ' ').count();
            let Ok(ids) = self.encode(&letters, false) else { continue };
            let unknown = ids.iter().filter(|id| Some(**id) == self.unknown).count();
            let counts = seen.entry(language).or_default();
            for (count, more) in counts.iter_mut().zip([count, ids.len(), unknown]) {
                *count += more;
            }
        }
        let is_unread = |[letters, ids, unknown]: [usize; 3]| {
            unknown as f64 > UNKNOWN * ids as f64 || ids as f64 > IDS_A_CHARACTER * letters as f64
        };
        seen.into_iter().filter(|(_, counts)| is_unread(*counts)).map(|(language, _)| language).collect()
    }
}

/// The language of a text, if it is one of the three.
pub(super) fn cjk(text: &str) -> Option<Language> {
    let found = text.chars().any(is_cjk).then(|| language::of(text)).flatten()?;
    matches!(found, Language::Chinese | Language::Japanese | Language::Korean).then_some(found)
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
