//! `dreamer calibrate`: the similarities of the configured embedding model, derived from labelled pairs or from the user's
//! own table, with how sure that is. The derivation is the one of a first night (`providers/calibration.rs`); what is kept,
//! nights find where they look anyway (`state/calibrations.rs`).

use chrono::{DateTime, NaiveDate, Utc};

use crate::check_pairs::{self, Label, LabelledPair};
use crate::config::Config;
use crate::error::Error;
use crate::language::normalise;
use crate::memory::Departure;
use crate::nrem::cluster::dot;
use crate::nrem::dedup::says_the_same;
use crate::privacy::Privacy;
use crate::providers::calibration::{Relation, Score, of_scores};
use crate::providers::local::lexical;
use crate::providers::{Embedder, Thresholds};
use crate::state::calibrations::{Calibrated, Calibrations};
use crate::state::lock::Lock;
use crate::store::Store;

/// What stands for the run in an entry that a person made.
pub const BY_HAND: &str = "calibrate";

/// Parts the pairs are split into: each is left out once.
const PARTS: usize = 5;
/// Fewest duplicates, and fewest unrelated pairs, that say anything.
const FEWEST: usize = 10;
/// Rows of a table that are looked at: all pairs of them are compared.
const MOST_ROWS: usize = 1_000;
/// Pairs of a kind that are taken from a table.
const MOST_PAIRS: usize = 400;
/// The one language that a table counts as.
const TABLE: &str = "table";

/// Why nothing could be derived.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// There is too little to go by.
    #[error(
        "calibrate {model}: {from} hold {duplicates} pairs that say the same and {unrelated} unrelated ones, \
         {FEWEST} of each are needed; use more pairs, or the built-in ones (without --pairs and --table)"
    )]
    TooFew {
        /// The model.
        model: String,
        /// Where the pairs are from.
        from: &'static str,
        /// Pairs that say the same.
        duplicates: usize,
        /// Pairs that have nothing to do with each other.
        unrelated: usize,
    },
}

/// What was derived.
#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    /// The similarities.
    pub thresholds: Thresholds,
    /// The chance that a duplicate scores above an unrelated pair.
    pub auc: f32,
    /// Languages that the model cannot read.
    pub blind: Vec<String>,
    /// Pairs it rests on.
    pub pairs: usize,
    /// What came out with each part of the pairs left out; fewer than all where a rest of them said nothing.
    pub without: Vec<Thresholds>,
    /// Of the pairs that were left out, the share that was then on the right side of the related similarity: the mean of
    /// those that belong together and those that do not.
    pub held_out: f32,
}

/// How much the figures can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sureness {
    /// They hardly depend on which pairs there are, and fit pairs they were not derived from.
    Sure,
    /// They fit other pairs mostly.
    Fair,
    /// They do not.
    Unsure,
}

impl Sureness {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sure => "sure",
            Self::Fair => "fairly sure",
            Self::Unsure => "unsure",
        }
    }
}

impl Derived {
    /// Lowest and highest of one similarity, with the parts left out in turn.
    pub fn range(&self, of: impl Fn(&Thresholds) -> f32) -> (f32, f32) {
        let all = self.without.iter().chain([&self.thresholds]).map(of);
        all.fold((f32::MAX, f32::MIN), |(low, high), at| (low.min(at), high.max(at)))
    }

    /// How sure it is.
    pub fn sureness(&self) -> Sureness {
        let (low, high) = self.range(|thresholds| thresholds.related);
        match self.held_out {
            _ if self.without.len() < PARTS => Sureness::Unsure,
            right if right >= 0.9 && high - low <= 0.1 => Sureness::Sure,
            right if right >= 0.8 => Sureness::Fair,
            _ => Sureness::Unsure,
        }
    }
}

/// From labelled pairs; those across languages are left out.
///
/// # Errors
/// When the embedder gives nothing, there are too few pairs, or its vectors do not tell them apart.
pub async fn from_pairs(
    pairs: &[LabelledPair],
    embedder: &dyn Embedder,
    privacy: &Privacy,
) -> Result<Derived, Error> {
    let cosines = check_pairs::cosines(pairs, embedder, privacy).await?;
    let mut scores = Vec::with_capacity(pairs.len());
    for (pair, cosine) in pairs.iter().zip(cosines) {
        let relation = match pair.label {
            Label::Duplicate => Relation::Duplicate,
            Label::Conflict => Relation::Conflict,
            Label::Topic => Relation::Topic,
            Label::Unrelated => Relation::Unrelated,
            Label::AcrossLanguages => continue,
        };
        scores.push(Score { relation, language: &pair.language, cosine });
    }
    derive(&scores, embedder.model(), "the pairs")
}

/// From the user's own table, by the vectors it holds: the gap between memories that say the same in other words (found by
/// their words and the rules, never by these vectors) and memories picked at random that share no words.
///
/// # Errors
/// When the table cannot be read, holds too few of either, or its vectors do not tell them apart.
pub async fn from_table(store: &Store, agent: &str, model: &str) -> Result<Derived, Error> {
    let mut rows: Vec<(String, Vec<f32>)> = Vec::new();
    let live = store.rows(agent).await?.memories;
    let ids: Vec<String> = live.iter().map(|memory| memory.id.clone()).collect();
    let mut vectors = store.vectors(&ids).await?;
    // What left as a duplicate is what the table has of them after a while.
    let gone: Vec<_> = store
        .archived_all(agent)
        .await?
        .into_iter()
        .filter(|archived| archived.reason == Departure::Duplicate)
        .map(|archived| archived.memory)
        .collect();
    let gone_ids: Vec<String> = gone.iter().map(|memory| memory.id.clone()).collect();
    vectors.extend(store.archived_vectors(&gone_ids).await?);
    for memory in live.into_iter().chain(gone) {
        if let Some(vector) = vectors.remove(&memory.id) {
            rows.push((memory.text, vector));
        }
    }
    derive(&of_table(&spread(rows, MOST_ROWS)), model, "the memories of the table")
}

/// Pairs of a table's rows that say the same, and pairs at random that share no words.
fn of_table(rows: &[(String, Vec<f32>)]) -> Vec<Score<'static>> {
    let words: Vec<Vec<f32>> = rows.iter().map(|(text, _)| lexical::vector(text)).collect();
    // Both on one day: what counts is what they say.
    let day = NaiveDate::default();
    let score = |relation, one: usize, other: usize| {
        let cosine = dot(&rows[one].1, &rows[other].1);
        Score { relation, language: TABLE, cosine }
    };
    let mut same = Vec::new();
    for one in 0..rows.len() {
        for other in one + 1..rows.len() {
            let (a, b) = (&rows[one].0, &rows[other].0);
            let alike = dot(&words[one], &words[other]) >= lexical::THRESHOLDS.duplicate;
            // The same words tell nothing of a model: their vectors are the same with any.
            if alike && normalise(a) != normalise(b) && says_the_same(a, day, b, day) {
                same.push(score(Relation::Duplicate, one, other));
            }
        }
    }
    let mut scores = spread(same, MOST_PAIRS);
    // Two strides that share no factor with each other meet ever new pairs, the same ones each time.
    let pick = |place: usize, stride: usize| (place * stride + stride / 2) % rows.len().max(1);
    let at_random = (0..MOST_PAIRS * 4)
        .map(|place| (pick(place, 7_919), pick(place, 104_729)))
        .filter(|(one, other)| {
            one != other && dot(&words[*one], &words[*other]) < lexical::THRESHOLDS.related / 2.0
        })
        .take(if rows.len() < 2 { 0 } else { MOST_PAIRS });
    scores.extend(at_random.map(|(one, other)| score(Relation::Unrelated, one, other)));
    scores
}

/// At most so many, spread evenly.
fn spread<T>(items: Vec<T>, most: usize) -> Vec<T> {
    let every = items.len().div_ceil(most).max(1);
    items.into_iter().step_by(every).collect()
}

fn derive(scores: &[Score<'_>], model: &str, from: &'static str) -> Result<Derived, Error> {
    let of = |relation| scores.iter().filter(|score| score.relation == relation).count();
    let (duplicates, unrelated) = (of(Relation::Duplicate), of(Relation::Unrelated));
    if duplicates < FEWEST || unrelated < FEWEST {
        return Err(CalibrateError::TooFew { model: model.to_owned(), from, duplicates, unrelated }.into());
    }
    let whole = of_scores(scores).map_err(|auc| Error::Uncalibrated { model: model.to_owned(), auc })?;
    let parts: Vec<(Thresholds, f32)> = (0..PARTS).filter_map(|part| without(scores, part)).collect();
    let held_out = parts.iter().map(|(_, right)| right).sum::<f32>() / parts.len().max(1) as f32;
    Ok(Derived {
        thresholds: whole.thresholds,
        auc: whole.auc,
        blind: whole.blind,
        pairs: scores.len(),
        without: parts.into_iter().map(|(thresholds, _)| thresholds).collect(),
        held_out,
    })
}

/// The similarities from all pairs but those of one part, and the share of that part that is then on the right side.
fn without(scores: &[Score<'_>], part: usize) -> Option<(Thresholds, f32)> {
    let of_part = |place: usize| place % PARTS == part;
    let kept: Vec<Score<'_>> =
        scores.iter().enumerate().filter(|(place, _)| !of_part(*place)).map(|(_, score)| *score).collect();
    let thresholds = of_scores(&kept).ok()?.thresholds;
    let side = |together: bool| {
        let left_out = scores.iter().enumerate().filter(|(place, score)| {
            let belongs = matches!(score.relation, Relation::Duplicate | Relation::Conflict);
            of_part(*place) && belongs == together
        });
        let right: Vec<bool> =
            left_out.map(|(_, score)| (score.cosine >= thresholds.related) == together).collect();
        let share = right.iter().filter(|right| **right).count() as f32 / right.len().max(1) as f32;
        if right.is_empty() { 1.0 } else { share }
    };
    Some((thresholds, f32::midpoint(side(true), side(false))))
}

/// Keeps what was derived where the next night finds it; what somebody has set comes first all the same.
///
/// # Errors
/// When another run holds the lock, or the file cannot be written.
pub async fn save(
    config: &Config,
    embedder: &dyn Embedder,
    derived: &Derived,
    now: DateTime<Utc>,
) -> Result<(), Error> {
    let _lock = Lock::take(&config.state_dir())?;
    let (provider, known_version) = config.embedding_source();
    let version = match known_version {
        Some(version) => version.to_owned(),
        None => embedder.version().await.unwrap_or_default(),
    };
    let Thresholds { cluster, duplicate, related } = derived.thresholds;
    let entry = Calibrated {
        provider: provider.to_owned(),
        model: embedder.model().to_owned(),
        version,
        cluster,
        duplicate,
        related,
        auc: derived.auc,
        blind: derived.blind.clone(),
        at: now,
        run: BY_HAND.to_owned(),
    };
    Ok(Calibrations::keep(&config.state_dir(), &entry)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::MaskPii;
    use crate::providers::local;

    #[tokio::test]
    async fn the_built_in_pairs_give_what_a_first_night_derives_and_say_how_sure_that_is() {
        let embedder = local::open(lexical::MODEL, "".as_ref()).unwrap();
        let privacy = Privacy::new(MaskPii::Never, false);
        let derived = from_pairs(&check_pairs::built_in(), embedder.as_ref(), &privacy).await.unwrap();
        let night = crate::providers::calibration::calibrate(embedder.as_ref(), &privacy).await.unwrap();
        assert_eq!((derived.thresholds, derived.pairs), (night.thresholds, 80));
        let (low, high) = derived.range(|thresholds| thresholds.related);
        assert!(low <= derived.thresholds.related && derived.thresholds.related <= high && low < high);
        assert!(derived.held_out > 0.8 && derived.held_out <= 1.0, "{derived:?}");
        assert_ne!(derived.sureness(), Sureness::Unsure);
    }

    #[tokio::test]
    async fn too_few_pairs_and_vectors_without_meaning_are_told() {
        let embedder = local::open(lexical::MODEL, "".as_ref()).unwrap();
        let privacy = Privacy::new(MaskPii::Never, false);
        let few: Vec<LabelledPair> = check_pairs::built_in().into_iter().take(15).collect();
        let told = from_pairs(&few, embedder.as_ref(), &privacy).await.unwrap_err().to_string();
        assert!(told.contains("15 pairs that say the same and 0 unrelated"), "{told}");
        let same: Vec<Score<'_>> = (0..40)
            .map(|n| {
                let relation = if n % 2 == 0 { Relation::Duplicate } else { Relation::Unrelated };
                Score { relation, language: "en", cosine: 0.9 }
            })
            .collect();
        assert!(matches!(derive(&same, "m", "the pairs"), Err(Error::Uncalibrated { .. })));
    }

    #[test]
    fn a_table_is_measured_by_the_gap_between_what_says_the_same_and_what_shares_nothing() {
        // The pairs of the file as if they were rows, with a model whose cosines are all high.
        let pairs = check_pairs::built_in();
        let texts = pairs.iter().filter(|pair| pair.label != Label::Conflict).flat_map(|pair| &pair.texts);
        let high = |text: &String| {
            let mut vector = lexical::vector(text);
            vector.push(1.0);
            let _ = crate::providers::normalise(&mut vector);
            (text.clone(), vector)
        };
        let rows: Vec<(String, Vec<f32>)> = texts.map(high).collect();
        let scores = of_table(&rows);
        let derived = derive(&scores, "high", "the memories of the table").unwrap();
        let Thresholds { duplicate, related, .. } = derived.thresholds;
        assert!(derived.auc > 0.99 && related > 0.55 && duplicate > related, "{derived:?}");
        assert_eq!(of_table(&[]).len(), 0);
    }
}
