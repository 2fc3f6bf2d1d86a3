//! The similarities of an embedder nobody has measured: derived from labelled pairs that are shipped in the binary.
//! Pure, but for the one question to the embedder. When to calibrate is decided in `thresholds.rs`, keeping the result
//! `state/calibrations.rs`'s work.

use std::collections::{BTreeSet, HashMap};

use super::dialogue::{self, Strangers};
use super::{Embedder, ProviderError, Thresholds};
use crate::privacy::Privacy;

/// 20 pairs each of duplicates, conflicts, same topic and unrelated texts, in four languages.
pub(crate) const PAIRS: &str = include_str!("pairs.tsv");

/// Below this the embedder does not tell a duplicate from an unrelated text. A coin reaches 0.5, every embedder that was
/// measured 0.99 in the languages it was made for.
const LEAST_AUC: f32 = 0.8;

/// Where the cluster threshold may lie between related (0) and duplicate (1) where no dialogue was embedded, or the
/// embedder reads none of its languages.
const CLUSTER_BETWEEN: (f32, f32) = (0.25, 0.56);

/// How much worse a conflict that is never compared is than a comparison in vain: the first stays in memory for good, the
/// second is one more candidate in a question that is asked anyway.
const MISSED: f32 = 2.0;

/// What was derived for an embedder.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The similarities.
    pub thresholds: Thresholds,
    /// The chance that a duplicate scores above an unrelated pair, in the languages that the embedder can read.
    pub auc: f32,
    /// Languages of the pairs in which it is no better than guessing.
    pub blind: Vec<String>,
}

/// Why an embedder could not be calibrated.
#[derive(Debug)]
pub enum CalibrationError {
    /// It gave nothing.
    Provider(ProviderError),
    /// Its vectors do not tell duplicates from unrelated texts.
    Inseparable {
        /// The chance that a duplicate scores above an unrelated pair.
        auc: f32,
    },
}

/// How the two texts of a pair relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Relation {
    Duplicate,
    Conflict,
    Topic,
    Unrelated,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    relation: Relation,
    language: &'static str,
    texts: [&'static str; 2],
}

/// A pair's cosine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Score<'a> {
    pub(crate) relation: Relation,
    pub(crate) language: &'a str,
    pub(crate) cosine: f32,
}

/// Embeds the labelled pairs and the dialogues, each text once, and derives the thresholds.
///
/// # Errors
/// When the embedder gives nothing, or vectors that mean nothing.
pub async fn calibrate(embedder: &dyn Embedder, privacy: &Privacy) -> Result<Calibration, CalibrationError> {
    let texts = texts();
    let outbound: Vec<_> = texts.iter().map(|text| privacy.to_embed(text)).collect();
    let vectors = embedder.embed(&outbound).await.map_err(CalibrationError::Provider)?;
    derive(&texts, &vectors).map_err(|auc| CalibrationError::Inseparable { auc })
}

fn pairs() -> Vec<Pair> {
    let pair = |line: &'static str| {
        let mut cells = line.split('\t');
        let relation = match cells.next()? {
            "dup" => Relation::Duplicate,
            "conf" => Relation::Conflict,
            "topic" => Relation::Topic,
            "unrel" => Relation::Unrelated,
            // The same claim in two languages: few embedders see it, and a memory is rarely said in two.
            _ => return None,
        };
        Some(Pair { relation, language: cells.next()?, texts: [cells.next()?, cells.next()?] })
    };
    PAIRS.lines().filter_map(pair).collect()
}

/// The texts to embed, each once.
pub(crate) fn texts() -> Vec<&'static str> {
    let mut known = BTreeSet::new();
    let of_pairs = pairs().into_iter().flat_map(|pair| pair.texts);
    of_pairs.chain(dialogue::texts()).filter(|text| known.insert(*text)).collect()
}

/// The thresholds from the unit vectors of the texts; or the AUC, where that is too low.
fn derive(texts: &[&str], vectors: &[Vec<f32>]) -> Result<Calibration, f32> {
    let places: HashMap<&str, &Vec<f32>> = texts.iter().copied().zip(vectors).collect();
    let score = |pair: Pair| {
        let [one, other] = pair.texts.map(|text| places.get(text));
        let cosine: f32 = one?.iter().zip(*other?).map(|(a, b)| a * b).sum();
        let (relation, language) = (pair.relation, pair.language);
        cosine.is_finite().then_some(Score { relation, language, cosine })
    };
    let strangers = Strangers::of(&places);
    of_scores(&pairs().into_iter().filter_map(score).collect::<Vec<_>>(), Some(&strangers))
}

/// The thresholds from the cosines of labelled pairs and, for clustering, of messages of different people, where those
/// were embedded; or the AUC, where that is too low.
pub(crate) fn of_scores(scores: &[Score<'_>], strangers: Option<&Strangers>) -> Result<Calibration, f32> {
    let languages: BTreeSet<&str> = scores.iter().map(|score| score.language).collect();
    let of_language = |language: &str| -> Vec<Score<'_>> {
        scores.iter().copied().filter(|score| score.language == language).collect()
    };
    let (seen, blind): (Vec<&str>, Vec<&str>) =
        languages.into_iter().partition(|language| auc(&of_language(language)) >= LEAST_AUC);
    // An embedder made for one language is of use to who speaks it. But two pairs that come out right by chance are no
    // language: half of the duplicates must be in the languages that it sees.
    let sees = |score: &&Score<'_>| seen.contains(&score.language);
    let readable: Vec<Score<'_>> = scores.iter().filter(sees).copied().collect();
    let duplicates = |scores: &[Score<'_>]| cosines(scores, &[Relation::Duplicate]).len();
    let is_enough = 2 * duplicates(&readable) >= duplicates(scores) && !readable.is_empty();
    let auc = if is_enough { auc(&readable) } else { auc(scores) };
    if !is_enough || auc < LEAST_AUC {
        return Err(auc);
    }
    let met = strangers.and_then(|strangers| strangers.threshold(&blind));
    let blind = blind.into_iter().map(str::to_owned).collect();
    Ok(Calibration { thresholds: thresholds(&readable, scores, met), auc, blind })
}

/// The three points. What may be duplicates is decided on the pairs of all languages: a threshold that is too low would
/// lose claims in a language the embedder does not see; one that is too high costs a question to the judge.
/// `met` is the similarity that messages of different people hardly reach.
fn thresholds(readable: &[Score<'_>], all: &[Score<'_>], met: Option<f32>) -> Thresholds {
    let related = best_split(
        &cosines(readable, &[Relation::Duplicate, Relation::Conflict]),
        &cosines(readable, &[Relation::Topic, Relation::Unrelated]),
    );
    let duplicates = cosines(readable, &[Relation::Duplicate]);
    let duplicate = just_above(&cosines(all, &[Relation::Topic, Relation::Unrelated]), &duplicates);
    let related = floor(related).clamp(0.05, 1.0);
    let duplicate = ceil(duplicate).clamp(related, 1.0);
    let cluster = round(met.unwrap_or_else(|| {
        // Chunks of a cluster go into one memory, so pairs that merely share a topic should mostly stay apart: nine of
        // ten. Ten pairs either way move that point much, hence the limits.
        let topic = quantile(&cosines(readable, &[Relation::Topic]), 0.9);
        let at = |share: f32| related + share * (duplicate - related);
        topic.clamp(at(CLUSTER_BETWEEN.0), at(CLUSTER_BETWEEN.1))
    }))
    // It may lie above duplicate: a message says more than one claim, and rules look at the words of duplicates.
    .clamp(related, 1.0);
    Thresholds { cluster, duplicate, related }
}

/// The cosines of the pairs of these relations, ascending.
fn cosines(scores: &[Score<'_>], relations: &[Relation]) -> Vec<f32> {
    let mut cosines: Vec<f32> =
        scores.iter().filter(|score| relations.contains(&score.relation)).map(|score| score.cosine).collect();
    cosines.sort_by(f32::total_cmp);
    cosines
}

/// The chance that a duplicate scores above an unrelated pair; a draw is half a chance. Nothing to compare is 0.
fn auc(scores: &[Score<'_>]) -> f32 {
    let (above, below) = (cosines(scores, &[Relation::Duplicate]), cosines(scores, &[Relation::Unrelated]));
    if above.is_empty() || below.is_empty() {
        return 0.0;
    }
    let chance = |a: &f32, b: &f32| match a.total_cmp(b) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let wins: f32 = above.iter().flat_map(|a| below.iter().map(move |b| chance(a, b))).sum();
    wins / (above.len() * below.len()) as f32
}

/// The point with the largest difference between the shares of `yes` and of `no` at or above it, where `yes` counts
/// [`MISSED`] times; in the middle of its gap, and of several the lowest.
fn best_split(yes: &[f32], no: &[f32]) -> f32 {
    let mut all: Vec<f32> = yes.iter().chain(no).copied().collect();
    all.sort_by(f32::total_cmp);
    all.dedup();
    let share = |cosines: &[f32], point: f32| {
        cosines.iter().filter(|cosine| **cosine >= point).count() as f32 / cosines.len().max(1) as f32
    };
    let mut best = (f32::MIN, 0.0);
    let mut below = None;
    for cosine in all {
        let middle = below.map_or(cosine, |below: f32| (below + cosine) / 2.0);
        let gain = MISSED * share(yes, cosine) - share(no, cosine);
        if gain > best.0 + 1e-6 {
            best = (gain, middle);
        }
        below = Some(cosine);
    }
    best.1
}

/// A point above all of `no`: half-way to the next of `yes`; where none is above, a little above the highest of `no`.
fn just_above(no: &[f32], yes: &[f32]) -> f32 {
    let Some(highest) = no.last().copied() else { return 1.0 };
    let next = yes.iter().copied().find(|cosine| *cosine > highest);
    next.map_or(highest + 0.01, |next| (highest + next) / 2.0)
}

/// The value below which this share of ascending `values` lies.
fn quantile(values: &[f32], share: f32) -> f32 {
    let place = (values.len().saturating_sub(1)) as f32 * share;
    values.get(place.round() as usize).copied().unwrap_or(0.0)
}

// Three places are as much as a few dozen pairs can say. Rounding widens what is compared and narrows what is a
// duplicate.
fn floor(x: f32) -> f32 {
    (x * 1000.0).floor() / 1000.0
}

fn ceil(x: f32) -> f32 {
    (x * 1000.0).ceil() / 1000.0
}

fn round(x: f32) -> f32 {
    (x * 1000.0).round() / 1000.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::providers::local::lexical;

    fn scores(rows: &[(Relation, &'static str, &[f32])]) -> Vec<Score<'static>> {
        let of_row = |(relation, language, cosines): &(Relation, &'static str, &[f32])| {
            let (relation, language) = (*relation, *language);
            cosines
                .iter()
                .map(move |cosine| Score { relation, language, cosine: *cosine })
                .collect::<Vec<_>>()
        };
        rows.iter().flat_map(of_row).collect()
    }

    /// One language with these cosines.
    fn english(duplicate: &[f32], conflict: &[f32], topic: &[f32], unrelated: &[f32]) -> Vec<Score<'static>> {
        let rows = [
            (Relation::Duplicate, duplicate),
            (Relation::Conflict, conflict),
            (Relation::Topic, topic),
            (Relation::Unrelated, unrelated),
        ];
        let of_row = |(relation, cosines): (Relation, &[f32])| {
            cosines
                .iter()
                .map(|cosine| Score { relation, language: "en", cosine: *cosine })
                .collect::<Vec<_>>()
        };
        rows.into_iter().flat_map(of_row).collect()
    }

    fn share_at(point: f32, scores: &[Score<'_>], relations: &[Relation]) -> usize {
        cosines(scores, relations).iter().filter(|cosine| **cosine >= point).count()
    }

    #[test]
    fn the_pairs_are_all_read() {
        let pairs = pairs();
        for relation in [Relation::Duplicate, Relation::Conflict, Relation::Topic, Relation::Unrelated] {
            assert_eq!(pairs.iter().filter(|pair| pair.relation == relation).count(), 20, "{relation:?}");
        }
        let texts = texts();
        assert!(texts.len() > 100 && texts.iter().all(|text| !text.trim().is_empty()));
    }

    #[test]
    fn real_vectors_give_what_their_pairs_say() {
        let texts = texts();
        let vectors: Vec<_> = texts.iter().map(|text| lexical::vector(text)).collect();
        let found = derive(&texts, &vectors).unwrap();
        assert_eq!((found.auc, found.blind.len()), (1.0, 0));
        let Thresholds { cluster, duplicate, related } = found.thresholds;
        let similarity = |[one, other]: [&str; 2]| -> f32 {
            lexical::vector(one).iter().zip(lexical::vector(other)).map(|(a, b)| a * b).sum()
        };
        let at = |point: f32| {
            [Relation::Duplicate, Relation::Conflict, Relation::Topic, Relation::Unrelated].map(|relation| {
                let of_relation = pairs().into_iter().filter(|pair| pair.relation == relation);
                of_relation.filter(|pair| similarity(pair.texts) >= point).count()
            })
        };
        // By hand this model got 0.34, 0.50 and 0.28, with [15, 18, 0, 0] and [20, 20, 5, 0] pairs above the last two.
        let told = format!("{:?}: {:?} {:?} {:?}", found.thresholds, at(duplicate), at(cluster), at(related));
        assert!(at(duplicate)[0] >= 14 && at(duplicate)[2..] == [0, 0], "{told}");
        assert!(
            at(related)[0] + at(related)[1] >= 38 && at(related)[2] <= 5 && at(related)[3] == 0,
            "{told}"
        );
        assert!(at(cluster)[2] <= 5, "{told}");
        assert!((cluster - 0.34).abs() < 0.02 && (duplicate - 0.5).abs() < 0.05, "{told}");
    }

    #[test]
    fn a_model_whose_cosines_are_all_high_gets_high_points() {
        // As multilingual-e5-small does: unrelated text at 0.74 to 0.84.
        let found = of_scores(
            &english(
                &[0.93, 0.95, 0.97, 0.92],
                &[0.92, 0.95, 0.96, 0.93],
                &[0.84, 0.86, 0.90, 0.88],
                &[0.74, 0.80, 0.84, 0.78],
            ),
            None,
        );
        let Thresholds { cluster, duplicate, related } = found.unwrap().thresholds;
        assert!((related - 0.91).abs() < 0.002 && (duplicate - 0.91).abs() < 0.002, "{related} {duplicate}");
        assert!(related <= cluster && cluster <= duplicate);
    }

    #[test]
    fn no_pair_that_is_none_counts_as_a_duplicate() {
        // One pair of the same topic is higher than most duplicates.
        let scores = english(
            &[0.60, 0.70, 0.80, 0.95],
            &[0.62, 0.72, 0.82, 0.66],
            &[0.30, 0.40, 0.35, 0.90],
            &[0.10, 0.05, 0.12, 0.0],
        );
        let Thresholds { duplicate, related, .. } = of_scores(&scores, None).unwrap().thresholds;
        assert_eq!(share_at(duplicate, &scores, &[Relation::Topic, Relation::Unrelated]), 0);
        assert_eq!(share_at(duplicate, &scores, &[Relation::Duplicate]), 1);
        assert_eq!(related, 0.5, "the middle of the gap that separates best");
    }

    #[test]
    fn where_no_duplicate_is_highest_nothing_is_one() {
        let scores = english(&[0.5, 0.6], &[0.5, 0.6], &[0.7, 0.2], &[0.1, 0.0]);
        let found = of_scores(&scores, None).unwrap().thresholds;
        assert!(found.duplicate > 0.7 && found.duplicate <= 0.72, "{found:?}");
    }

    #[test]
    fn an_embedder_that_separates_nothing_is_told() {
        let texts = texts();
        let same = vec![vec![1.0, 0.0]; texts.len()];
        assert_eq!(derive(&texts, &same), Err(0.5));
        // Directions that have nothing to do with the text.
        let turned = |n: usize| (n as f32 * 2.399_963).sin_cos();
        let random: Vec<Vec<f32>> =
            (0..texts.len()).map(turned).map(|(sine, cosine)| vec![sine, cosine]).collect();
        assert!(derive(&texts, &random).is_err());
        let broken = vec![vec![f32::NAN, 0.0]; texts.len()];
        assert!(derive(&texts, &broken).is_err());
        assert!(derive(&texts, &[]).is_err());
    }

    #[test]
    fn a_model_of_one_language_works_there_and_says_where_it_does_not() {
        let good = |relation| -> &'static [f32] {
            match relation {
                Relation::Duplicate | Relation::Conflict => &[0.8, 0.9, 0.85],
                Relation::Topic => &[0.4, 0.5, 0.45],
                Relation::Unrelated => &[0.1, 0.0, 0.05],
            }
        };
        let all = [Relation::Duplicate, Relation::Conflict, Relation::Topic, Relation::Unrelated];
        let mut rows: Vec<(Relation, &'static str, &[f32])> =
            all.map(|relation| (relation, "en", good(relation))).to_vec();
        // What it cannot read is all alike to it.
        rows.extend(all.map(|relation| (relation, "zh", &[0.86, 0.87, 0.86][..])));
        let found = of_scores(&scores(&rows), None).unwrap();
        assert_eq!(found.blind, ["zh"]);
        assert!(found.thresholds.related < 0.7, "{found:?}");
        assert!(found.thresholds.duplicate > 0.87, "no two Chinese texts count as the same claim: {found:?}");
        // The other way round the readable language holds too few of the pairs.
        rows.extend(all.map(|relation| (relation, "ko", &[0.86, 0.87, 0.86][..])));
        assert!(of_scores(&scores(&rows), None).is_err());
    }

    proptest! {
        #[test]
        fn the_points_are_in_order_and_are_cosines(
            duplicate in prop::collection::vec(-1.0f32..1.0, 1..20),
            conflict in prop::collection::vec(-1.0f32..1.0, 1..20),
            topic in prop::collection::vec(-1.0f32..1.0, 1..20),
            unrelated in prop::collection::vec(-1.0f32..1.0, 1..20),
            met in prop::option::of(-1.0f32..1.0),
        ) {
            let scores = english(&duplicate, &conflict, &topic, &unrelated);
            let Thresholds { cluster, duplicate, related } = thresholds(&scores, &scores, met);
            prop_assert!(0.0 < related && related <= cluster && related <= duplicate);
            prop_assert!(cluster <= 1.0 && duplicate <= 1.0 && (met.is_some() || cluster <= duplicate));
        }
    }
}
