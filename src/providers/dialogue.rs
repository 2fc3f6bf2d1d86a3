//! Where the cluster similarity of an embedder lies, from real dialogue: what eight people wrote to a companion on ten days
//! (MemoryBank, MIT, see `memorybank.LICENSE`; four write English, four Chinese). Nobody labelled which messages belong
//! together, but those of different people mostly do not: the threshold is the similarity that no more than
//! [`MET_BY_CHANCE`] of such pairs reach. Pure; embedding and keeping are others' work.
//!
//! Measured with the persons left out in turn, each of the eight held out once; `clusters` counts what leader clustering
//! makes of each person's ten days at the shipped figure (the tests below recompute all of it):
//!
//! | | all persons | one left out | shipped | held-out pairs joined, mean ± deviation | alone en, zh | leader to member |
//! |---|---|---|---|---|---|---|
//! | `lexical` | 0.334 | 0.321 to 0.351 | 0.34 | 1.1 % ± 0.5 | 56 %, 62 % | 0.46 |
//! | `use-multilingual-3` | 0.621 | 0.589 to 0.652 | 0.60 | 1.1 % ± 0.6 | 67 %, 57 % | 0.68 |
//!
//! A stricter measure does not work here: at no similarity are 95 % of the pairs within clusters of two persons' pooled days
//! one person's, because different people do say the same things ("thank you for the advice", "which film do you
//! recommend"). The shipped figure of `use-multilingual-3` is in the lower half of its range, where it is also in the 0.55
//! to 0.65 that kept most of the evidence on LoCoMo. Nor does the place of this figure between related and duplicate carry
//! over from one model to another: it is 0.27 for `lexical` and 0.8 for `use-multilingual-3`, so each embedder is measured.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The messages, a line each: person, language, day, text.
const MESSAGES: &str = include_str!("memorybank.tsv");

/// The share of pairs of different people's messages that may count as about one thing.
const MET_BY_CHANCE: f32 = 0.01;

/// What somebody wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) person: &'static str,
    pub(crate) language: &'static str,
    pub(crate) text: &'static str,
}

/// All messages, in the order they were written.
pub(crate) fn messages() -> impl Iterator<Item = Message> {
    MESSAGES.lines().skip(1).filter_map(|line| {
        let mut cells = line.split('\t');
        let (person, language) = (cells.next()?, cells.next()?);
        Some(Message { person, language, text: cells.nth(1)? })
    })
}

/// The texts to embed, each once.
pub(crate) fn texts() -> Vec<&'static str> {
    let mut known = BTreeSet::new();
    messages().map(|message| message.text).filter(|text| known.insert(*text)).collect()
}

/// The similarities of different people's messages, each pair in one language.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Strangers {
    pairs: Vec<Pair>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    language: &'static str,
    persons: [&'static str; 2],
    cosine: f32,
}

impl Strangers {
    /// From the unit vectors of [`texts`].
    pub(crate) fn of(vectors: &HashMap<&str, &Vec<f32>>) -> Self {
        let all: Vec<(Message, &Vec<f32>)> =
            messages().filter_map(|message| Some((message, *vectors.get(message.text)?))).collect();
        let mut pairs = Vec::new();
        for (place, (one, a)) in all.iter().enumerate() {
            for (other, b) in &all[place + 1..] {
                if one.person != other.person && one.language == other.language {
                    let cosine: f32 = a.iter().zip(*b).map(|(x, y)| x * y).sum();
                    pairs.push(Pair { language: one.language, persons: [one.person, other.person], cosine });
                }
            }
        }
        pairs.retain(|pair| pair.cosine.is_finite());
        Self { pairs }
    }

    /// The people, in order.
    pub(crate) fn persons(&self) -> BTreeSet<&'static str> {
        self.pairs.iter().flat_map(|pair| pair.persons).collect()
    }

    /// The pairs without those of some people.
    pub(crate) fn without(&self, left_out: &[&str]) -> Self {
        let stays = |pair: &&Pair| !pair.persons.iter().any(|person| left_out.contains(person));
        Self { pairs: self.pairs.iter().filter(stays).copied().collect() }
    }

    /// The similarity that [`MET_BY_CHANCE`] of the pairs reach, the mean over the languages that the embedder can read;
    /// none where it reads none of them.
    pub(crate) fn threshold(&self, blind: &[&str]) -> Option<f32> {
        let mut languages: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
        for pair in self.pairs.iter().filter(|pair| !blind.contains(&pair.language)) {
            languages.entry(pair.language).or_default().push(pair.cosine);
        }
        let points: Vec<f32> = languages
            .into_values()
            .map(|mut cosines| {
                cosines.sort_by(f32::total_cmp);
                let place = (cosines.len() as f32 * (1.0 - MET_BY_CHANCE)) as usize;
                cosines[place.min(cosines.len() - 1)]
            })
            .collect();
        (!points.is_empty()).then(|| points.iter().sum::<f32>() / points.len() as f32)
    }

    /// The share of the pairs of one person with others at or above a similarity; none where there is none.
    fn joined(&self, person: &str, threshold: f32) -> Option<f32> {
        let of_person: Vec<&Pair> = self.pairs.iter().filter(|pair| pair.persons.contains(&person)).collect();
        let joined = of_person.iter().filter(|pair| pair.cosine >= threshold).count();
        (!of_person.is_empty()).then(|| joined as f32 / of_person.len() as f32)
    }

    /// Leaves each person out in turn: the threshold from the others, and the share of that person's pairs that it would
    /// join.
    pub(crate) fn held_out(&self, blind: &[&str]) -> Vec<(f32, f32)> {
        let readable = |pair: &&Pair| !blind.contains(&pair.language);
        let readable = Self { pairs: self.pairs.iter().filter(readable).copied().collect() };
        let one_out = |person: &'static str| {
            let threshold = readable.without(&[person]).threshold(&[])?;
            Some((threshold, readable.joined(person, threshold)?))
        };
        readable.persons().into_iter().filter_map(one_out).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::nrem::cluster::{cluster, dot};
    use crate::nrem::sample::chunk;
    use crate::providers::Thresholds;
    use crate::providers::local::{lexical, use3};

    /// What was measured of an embedder.
    struct Measured {
        all: f32,
        range: (f32, f32),
        joined: (f32, f32),
        alone: [f32; 2],
        to_leader: f32,
    }

    fn measured(shipped: Thresholds, embed: impl Fn(&[&str]) -> Vec<Vec<f32>>) -> Measured {
        let texts = texts();
        let vectors = embed(&texts);
        let by_text: HashMap<&str, &Vec<f32>> = texts.iter().copied().zip(&vectors).collect();
        let strangers = Strangers::of(&by_text);
        let held_out = strangers.held_out(&[]);
        assert_eq!(held_out.len(), 8);
        let fold = |pick: fn(f32, f32) -> f32, from| held_out.iter().map(|(at, _)| *at).fold(from, pick);
        let mean = held_out.iter().map(|(_, joined)| joined).sum::<f32>() / 8.0;
        let square = held_out.iter().map(|(_, joined)| (joined - mean).powi(2)).sum::<f32>() / 8.0;
        let (alone, cosines): (Vec<f32>, Vec<Vec<f32>>) =
            ["en", "zh"].into_iter().map(|language| clusters(language, shipped.cluster, &by_text)).unzip();
        let cosines = cosines.concat();
        Measured {
            all: strangers.threshold(&[]).unwrap(),
            range: (fold(f32::min, 1.0), fold(f32::max, 0.0)),
            joined: (mean, square.sqrt()),
            alone: [alone[0], alone[1]],
            to_leader: cosines.iter().sum::<f32>() / cosines.len() as f32,
        }
    }

    /// Leader clustering of each person's days: the share of messages alone, and the cosines of members to leaders.
    fn clusters(language: &str, threshold: f32, vectors: &HashMap<&str, &Vec<f32>>) -> (f32, Vec<f32>) {
        let persons: BTreeSet<&str> =
            messages().filter(|m| m.language == language).map(|m| m.person).collect();
        let (mut alone, mut all, mut cosines) = (0, 0, Vec::new());
        for person in persons {
            let said = messages().filter(|m| m.person == person).enumerate();
            let chunks = said.map(|(place, message)| {
                let mut chunk = chunk(message.text, "user");
                chunk.lines = (place, place);
                (chunk, vectors[message.text].clone())
            });
            for cluster in cluster(chunks.collect(), threshold) {
                all += cluster.chunks.len();
                alone += usize::from(cluster.chunks.len() == 1);
                cosines.extend(cluster.vectors[1..].iter().map(|member| dot(&cluster.vectors[0], member)));
            }
        }
        (alone as f32 / all as f32, cosines)
    }

    fn told(model: &str, found: &Measured) -> String {
        format!(
            "{model}: {:.3}, {:.3} to {:.3}, joined {:.2} % ± {:.2}, alone {:.0} %, {:.0} %, to leader {:.3}",
            found.all,
            found.range.0,
            found.range.1,
            found.joined.0 * 100.0,
            found.joined.1 * 100.0,
            found.alone[0] * 100.0,
            found.alone[1] * 100.0,
            found.to_leader
        )
    }

    fn agrees(model: &str, shipped: Thresholds, found: &Measured, table: [f32; 8]) {
        let told = told(model, found);
        let [all, low, high, mean, deviation, en, zh, to_leader] = table;
        for (measured, expected, within) in [
            (found.all, all, 0.0015),
            (found.range.0, low, 0.0015),
            (found.range.1, high, 0.0015),
            (found.joined.0 * 100.0, mean, 0.06),
            (found.joined.1 * 100.0, deviation, 0.06),
            (found.alone[0], en, 0.006),
            (found.alone[1], zh, 0.006),
            (found.to_leader, to_leader, 0.006),
        ] {
            assert!((measured - expected).abs() <= within, "{measured} instead of {expected}: {told}");
        }
        assert!(low <= shipped.cluster && shipped.cluster <= high, "{told}");
        assert!(found.to_leader >= shipped.related, "{told}");
    }

    #[test]
    fn the_table_of_the_lexical_model_is_what_the_messages_give() {
        let shipped = lexical::THRESHOLDS;
        let found = measured(shipped, |texts| texts.iter().map(|text| lexical::vector(text)).collect());
        agrees("lexical", shipped, &found, [0.334, 0.321, 0.351, 1.1, 0.5, 0.56, 0.62, 0.46]);
    }

    #[test]
    fn the_table_of_use_multilingual_3_is_what_the_messages_give() {
        let Some(model) = use3::for_tests() else { return };
        let shipped = use3::THRESHOLDS;
        let found = measured(shipped, |texts| model.vectors(texts).unwrap());
        agrees(use3::MODEL, shipped, &found, [0.621, 0.589, 0.652, 1.1, 0.6, 0.67, 0.57, 0.68]);
    }

    #[test]
    fn the_sample_holds_eight_people_in_two_languages_and_is_small() {
        assert!(MESSAGES.len() < 60_000);
        let people: BTreeSet<(&str, &str)> = messages().map(|m| (m.person, m.language)).collect();
        assert_eq!((people.len(), messages().count()), (8, 341));
        assert_eq!(people.iter().filter(|(_, language)| *language == "zh").count(), 4);
    }

    #[test]
    fn a_language_that_cannot_be_read_does_not_count() {
        let texts = texts();
        // What it cannot read is all alike to it.
        let vectors: Vec<Vec<f32>> = texts
            .iter()
            .map(|text| if text.is_ascii() { lexical::vector(text) } else { lexical::vector("x") })
            .collect();
        let strangers = Strangers::of(&texts.iter().copied().zip(&vectors).collect());
        let (both, english) = (strangers.threshold(&[]).unwrap(), strangers.threshold(&["zh"]).unwrap());
        assert!(both > 0.6 && english < 0.4, "{both} {english}");
        assert_eq!(strangers.threshold(&["zh", "en"]), None);
        assert_eq!(strangers.held_out(&["zh"]).len(), 4);
    }
}
