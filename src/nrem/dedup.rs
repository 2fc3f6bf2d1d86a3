//! Dedup: whether a draft says what is known already. Pure: similarities in, an outcome out. At or above the duplicate
//! threshold a draft reinforces only if nothing that matters differs; cosine cannot tell a conflict from a duplicate.

use chrono::NaiveDate;

use crate::detail;
use crate::memory::Departure;
use crate::nrem::quote::{Quote, of_different_people, words_of};

/// A known text that a draft resembles.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The memory's id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// The day it was said.
    pub said_on: NaiveDate,
    /// Cosine to the draft.
    pub similarity: f32,
    /// Where it is.
    pub place: Place,
}

/// Where a known text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In `memories`.
    Live,
    /// In the archive: why it left, and the live memory at the end of its chain of successors, if any.
    Archive(Departure, Option<String>),
}

/// What becomes of a draft before REM.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is new. REM compares it, also with these ids, whatever their similarity.
    New {
        /// Ids that REM must look at.
        against: Vec<String>,
    },
    /// It says what this live memory says.
    Reinforce {
        /// The memory.
        id: String,
        /// Cosine of the two.
        similarity: f32,
    },
    /// It says what this faded memory said: bring that back.
    Revive {
        /// The archived memory.
        id: String,
        /// Cosine of the two.
        similarity: f32,
    },
}

/// Decides about a draft that resembles `known`, most similar first.
pub fn dedup(text: &str, said_on: NaiveDate, known: &[Known], duplicate: f32) -> Outcome {
    let same = |k: &&Known| k.similarity >= duplicate && says_the_same(text, said_on, &k.text, k.said_on);
    let live = known.iter().filter(|k| k.place == Place::Live);
    if let Some(k) = live.filter(same).find(|k| adds_nothing(text, &k.text)) {
        return Outcome::Reinforce { id: k.id.clone(), similarity: k.similarity };
    }
    let mut against = Vec::new();
    for k in known.iter().filter(same) {
        match &k.place {
            // One that was forgotten comes back only when its tombstone is lifted, which is not decided here.
            Place::Archive(Departure::Faded | Departure::Forgotten, _) => {
                return Outcome::Revive { id: k.id.clone(), similarity: k.similarity };
            }
            Place::Archive(Departure::Duplicate, Some(successor)) => {
                return Outcome::Reinforce { id: successor.clone(), similarity: k.similarity };
            }
            Place::Archive(Departure::Superseded, Some(successor)) => against.push(successor.clone()),
            Place::Archive(..) | Place::Live => {}
        }
    }
    Outcome::New { against }
}

/// Whether nothing that matters differs between two texts, nor who said them.
pub fn says_the_same(one: &str, one_on: NaiveDate, other: &str, other_on: NaiveDate) -> bool {
    !of_different_people(one, other)
        && detail::difference(&words_of(one), &words_of(other), Some(one_on), Some(other_on)).is_none()
}

/// Whether a quote may count as said already: at least seven in ten of its words of content stand in the other text. A model
/// words a claim by what it says; of two quotes that are alike ("I like films", "I like comedies and romance films") the
/// second may say more. Any other text may.
pub fn adds_nothing(new: &str, known: &str) -> bool {
    Quote::read(new).is_none_or(|quote| {
        let known = words_of(known);
        detail::shared(&quote.words, &known) * 10 >= detail::shared(&quote.words, &quote.words) * 7
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn known(text: &str, similarity: f32, place: Place) -> Known {
        Known { id: text.into(), text: text.into(), said_on: day(), similarity, place }
    }

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 3, 10).unwrap()
    }

    #[test]
    fn a_quote_that_says_more_is_no_duplicate() {
        for (new, old, nothing) in [
            (
                "User (2026-03-11): “I like comedies and romance films.”",
                "User (2026-03-10): “I love travelling and watching films.”",
                false,
            ),
            (
                "User (2026-03-11): “I love watching films.”",
                "User (2026-03-10): “I love travelling and watching films.”",
                true,
            ),
            (
                "用户（2026-03-11）：“我喜欢喜剧片和爱情片”",
                "用户（2026-03-10）：“我很喜欢旅游和看电影”",
                false,
            ),
            (
                "用户（2026-03-11）：“最近我在学习烹饪”",
                "用户（2026-03-10）：“最近我在学习一门新的技能，但是学起来很吃力”",
                false,
            ),
            ("The user likes comedies.", "The user loves films.", true),
        ] {
            assert_eq!(adds_nothing(new, old), nothing, "{new} | {old}");
        }
    }

    #[test]
    fn a_changed_time_is_never_a_duplicate_however_similar() {
        let at_nine = known("Standup is at 9:00", 0.999, Place::Live);
        assert_eq!(
            dedup("Standup moved to 10:00", day(), std::slice::from_ref(&at_nine), 0.5),
            Outcome::New { against: vec![] }
        );
        let again = dedup("Standup is at 9:00", day(), &[at_nine], 0.5);
        assert!(matches!(again, Outcome::Reinforce { .. }));
    }

    #[test]
    fn what_is_known_decides_what_becomes_of_a_draft() {
        let text = "The user likes green tea.";
        let chain = Some("successor".to_owned());
        for (place, similarity, expected) in [
            (Place::Live, 0.95, Outcome::Reinforce { id: text.into(), similarity: 0.95 }),
            (Place::Live, 0.85, Outcome::New { against: vec![] }),
            (
                Place::Archive(Departure::Faded, None),
                0.95,
                Outcome::Revive { id: text.into(), similarity: 0.95 },
            ),
            (
                Place::Archive(Departure::Superseded, chain.clone()),
                0.95,
                Outcome::New { against: vec!["successor".into()] },
            ),
            (
                Place::Archive(Departure::Duplicate, chain),
                0.95,
                Outcome::Reinforce { id: "successor".into(), similarity: 0.95 },
            ),
            (Place::Archive(Departure::Superseded, None), 0.95, Outcome::New { against: vec![] }),
        ] {
            assert_eq!(
                dedup(text, day(), &[known(text, similarity, place.clone())], 0.9),
                expected,
                "{place:?}"
            );
        }
    }
}
