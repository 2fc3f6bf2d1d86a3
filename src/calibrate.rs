//! `dreamer calibrate`: the similarities of the configured embedding model, derived from labelled pairs or from the user's
//! own table, with how sure that is. The derivation is the one of a first night (`providers/calibration.rs`); what is kept,
//! nights find where they look anyway (`state/calibrations.rs`).

use std::collections::HashMap;

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
use crate::providers::dialogue::{self, Strangers};
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
    /// Of pairs of messages of different people, the share that one cluster would hold, each person's with the cluster
    /// similarity from the others; none where no dialogue was embedded.
    pub joined: Option<f32>,
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
    let strangers = strangers(embedder, privacy).await?;
    derive(&scores, Some(&strangers), embedder.model(), "the pairs")
}

/// Embeds the dialogues that the cluster similarity is measured on.
async fn strangers(embedder: &dyn Embedder, privacy: &Privacy) -> Result<Strangers, Error> {
    let texts = dialogue::texts();
    let outbound: Vec<_> = texts.iter().map(|text| privacy.to_embed(text)).collect();
    let vectors = embedder.embed(&outbound).await?;
    Ok(Strangers::of(&texts.into_iter().zip(&vectors).collect()))
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
    derive(&of_table(&spread(rows, MOST_ROWS)), None, model, "the memories of the table")
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

fn derive(
    scores: &[Score<'_>],
    strangers: Option<&Strangers>,
    model: &str,
    from: &'static str,
) -> Result<Derived, Error> {
    let of = |relation| scores.iter().filter(|score| score.relation == relation).count();
    let (duplicates, unrelated) = (of(Relation::Duplicate), of(Relation::Unrelated));
    if duplicates < FEWEST || unrelated < FEWEST {
        return Err(CalibrateError::TooFew { model: model.to_owned(), from, duplicates, unrelated }.into());
    }
    let whole =
        of_scores(scores, strangers).map_err(|auc| Error::Uncalibrated { model: model.to_owned(), auc })?;
    let parts: Vec<(Thresholds, f32)> =
        (0..PARTS).filter_map(|part| without(scores, strangers, part)).collect();
    let held_out = parts.iter().map(|(_, right)| right).sum::<f32>() / parts.len().max(1) as f32;
    let blind: Vec<&str> = whole.blind.iter().map(String::as_str).collect();
    let joined: Vec<f32> = strangers
        .map(|strangers| strangers.held_out(&blind).into_iter().map(|(_, joined)| joined).collect())
        .unwrap_or_default();
    Ok(Derived {
        thresholds: whole.thresholds,
        auc: whole.auc,
        pairs: scores.len(),
        without: parts.into_iter().map(|(thresholds, _)| thresholds).collect(),
        held_out,
        joined: (!joined.is_empty()).then(|| joined.iter().sum::<f32>() / joined.len() as f32),
        blind: whole.blind,
    })
}

/// The part that each score belongs to: of every relation and language each part holds its share.
fn parts<'a>(scores: &[Score<'a>]) -> Vec<usize> {
    let mut seen: HashMap<(Relation, &'a str), usize> = HashMap::new();
    let mut parts = Vec::with_capacity(scores.len());
    for score in scores {
        // Each language starts with another part, so that the few pairs of small ones are not all in the first.
        let first = seen.len();
        let count = seen.entry((score.relation, score.language)).or_insert(first);
        parts.push(*count % PARTS);
        *count += 1;
    }
    parts
}

/// The similarities from all pairs but those of one part, and the share of that part that is then on the right side. Of
/// the dialogues a person or two are left out.
fn without(scores: &[Score<'_>], strangers: Option<&Strangers>, part: usize) -> Option<(Thresholds, f32)> {
    let parts = parts(scores);
    let of_part = |place: usize| parts[place] == part;
    let kept: Vec<Score<'_>> =
        scores.iter().enumerate().filter(|(place, _)| !of_part(*place)).map(|(_, score)| *score).collect();
    let others = strangers.map(|strangers| {
        let persons: Vec<&str> = strangers.persons().into_iter().skip(part).step_by(PARTS).collect();
        strangers.without(&persons)
    });
    let thresholds = of_scores(&kept, others.as_ref()).ok()?.thresholds;
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
        sureness: Some(derived.sureness().as_str().to_owned()),
    };
    Ok(Calibrations::keep(&config.state_dir(), &entry)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::MaskPii;
    use crate::providers::local::{self, use3};

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

    /// The shipped figures against what comes out with a fifth of the pairs left out in turn.
    async fn agrees(embedder: &dyn Embedder, shipped: Thresholds) {
        let privacy = Privacy::new(MaskPii::Never, false);
        let derived = from_pairs(&check_pairs::built_in(), embedder, &privacy).await.unwrap();
        let (lowest, highest) = derived.range(|thresholds| thresholds.related);
        let told = format!("{}: {shipped:?} {derived:?}", embedder.model());
        // Rounded figures may stand a hair beyond the range.
        assert!(lowest - 0.01 <= shipped.related && shipped.related <= highest + 0.01, "{told}");
        // A duplicate similarity above the range costs a question to the judge, one below it would lose a claim.
        let (lowest, highest) = derived.range(|thresholds| thresholds.duplicate);
        assert!(lowest <= shipped.duplicate && shipped.duplicate <= highest + 0.02, "{told}");
        let (lowest, highest) = derived.range(|thresholds| thresholds.cluster);
        assert!(lowest - 0.01 <= shipped.cluster && shipped.cluster <= highest + 0.01, "{told}");
        assert!(derived.held_out >= 0.9 && derived.joined.is_some_and(|share| share < 0.015), "{told}");
    }

    #[tokio::test]
    async fn the_shipped_figures_lie_where_the_pairs_put_them() {
        agrees(&lexical::Lexical, lexical::THRESHOLDS).await;
        if let Some(model) = use3::for_tests() {
            agrees(&model, use3::THRESHOLDS).await;
        }
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
        assert!(matches!(derive(&same, None, "m", "the pairs"), Err(Error::Uncalibrated { .. })));
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
        let derived = derive(&scores, None, "high", "the memories of the table").unwrap();
        let Thresholds { duplicate, related, .. } = derived.thresholds;
        assert!(derived.auc > 0.99 && related > 0.55 && duplicate > related, "{derived:?}");
        assert_eq!(of_table(&[]).len(), 0);
    }
}
