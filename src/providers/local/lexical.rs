//! The embedder `lexical`: words and pieces of words, hashed. No weights, any language, over a thousand texts a second.
//! It sees the same words, not the same meaning; `features.rs` holds the rules.

mod features;

use async_trait::async_trait;

use crate::privacy::Outbound;
use crate::providers::{Embedder, ProviderError, Thresholds};

/// How many numbers a vector has.
pub const WIDTH: usize = 1024;

/// The model's name.
pub const MODEL: &str = "lexical";

/// Measured on the labelled pairs in `pairs.tsv` (20 of each relation in en, zh, ko, ja; the weights were chosen on the
/// same pairs, so expect a little less elsewhere):
///
/// | | duplicates | conflicts | same topic | unrelated |
/// |---|---|---|---|---|
/// | ≥ 0.28 (related) | 20 | 20 | 5 | 0 |
/// | ≥ 0.43 | 18 | 19 | 1 | 0 |
/// | ≥ 0.50 (duplicate) | 15 | 18 | 0 | 0 |
///
/// Duplicates against unrelated texts: AUC 1.000 in each language; against the same topic: 1.000 (en, ko, ja), 0.944
/// (zh). The duplicate threshold is the higher one, because a duplicate below it is still judged as a conflict
/// candidate, while a wrong one would not be stored at all. Messages of different people in MemoryBank reach 0.28 in
/// 2.3 % of all pairs and 0.50 in 0.15 %. Across languages the model sees nothing: 0.00 to 0.06.
///
/// How the cluster similarity was found stands in `providers/dialogue.rs`. Read by eye, most clusters are about one thing
/// (learning to draw, a speech, cooking noodles) or one formula ("thank you for your advice"). At 0.30 there are clusters of
/// seven that mix outings with films; at 0.44 four messages of five stay alone.
pub const THRESHOLDS: Thresholds = Thresholds { cluster: 0.34, duplicate: 0.50, related: 0.28 };

/// The embedder. It reaches no network and spends no budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lexical;

#[async_trait]
impl Embedder for Lexical {
    fn model(&self) -> &str {
        MODEL
    }

    async fn embed(&self, texts: &[Outbound]) -> Result<Vec<Vec<f32>>, ProviderError> {
        Ok(texts.iter().map(|text| vector(text.as_str())).collect())
    }
}

/// The unit vector of a text, 1024 long. A text without a word gets one that has nothing in common with any word.
pub fn vector(text: &str) -> Vec<f32> {
    features::vector(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    const PAIRS: &str = include_str!("../pairs.tsv");

    fn similarity(first: &str, second: &str) -> f32 {
        vector(first).iter().zip(vector(second)).map(|(a, b)| a * b).sum()
    }

    /// Similarities of the labelled pairs of a relation, in one language or all.
    fn pairs(relation: &str, language: Option<&str>) -> Vec<f32> {
        let rows = PAIRS.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
        let rows =
            rows.filter(|row| row[0] == relation && language.is_none_or(|language| row[1] == language));
        rows.map(|row| similarity(row[2], row[3])).collect()
    }

    /// The chance that a pair of the first kind scores above one of the second.
    fn auc(above: &[f32], below: &[f32]) -> f32 {
        let wins = above.iter().flat_map(|a| below.iter().map(move |b| if a > b { 1.0 } else { 0.0 }));
        wins.sum::<f32>() / (above.len() * below.len()) as f32
    }

    fn at_least(threshold: f32, similarities: &[f32]) -> usize {
        similarities.iter().filter(|similarity| **similarity >= threshold).count()
    }

    #[test]
    fn duplicates_score_above_what_is_not_in_every_language() {
        for language in ["en", "zh", "ko", "ja"] {
            let of = |relation| pairs(relation, Some(language));
            let unrelated = auc(&of("dup"), &of("unrel"));
            assert!(unrelated >= 0.999, "{language}: duplicates against unrelated {unrelated}");
            let topic = auc(&of("dup"), &of("topic"));
            assert!(topic >= 0.94, "{language}: duplicates against the same topic {topic}");
        }
    }

    #[test]
    fn the_thresholds_do_on_the_labelled_pairs_what_their_table_says() {
        let counts =
            |threshold| ["dup", "conf", "topic", "unrel"].map(|r| at_least(threshold, &pairs(r, None)));
        assert_eq!(pairs("dup", None).len(), 20);
        assert_eq!(counts(THRESHOLDS.related), [20, 20, 5, 0]);
        assert_eq!(counts(0.43), [18, 19, 1, 0]);
        assert_eq!(counts(THRESHOLDS.duplicate), [15, 18, 0, 0]);
    }

    #[test]
    fn stored_vectors_never_change() {
        // Vectors are in people's tables. If this fails, leave the digests and give the changed model a new name.
        let digest = |text: &str| {
            let rounded = vector(text).into_iter().flat_map(|x| ((x * 1e4).round() as i32).to_le_bytes());
            format!("{:x}", Sha256::digest(rounded.collect::<Vec<u8>>()))[..16].to_owned()
        };
        let digests = [
            "Alice's birthday is on March 14th, at 10:30.",
            "用户喜欢在所有编辑器里使用深色模式。",
            "ユーザーはＲｕｓｔが好き。",
            "사용자는 다크 모드를 선호한다.",
            "Пользователь живёт в Москве 🙂",
            "",
        ]
        .map(digest);
        let stored = [
            "669a95b4c736357e",
            "168abc008505ae0f",
            "220a731a515ed38a",
            "5619da245dac8be3",
            "a7543d3d2c76e894",
            "082c56f4ba5201d7",
        ];
        assert_eq!(digests, stored);
    }

    #[test]
    fn spelling_width_and_case_make_no_difference() {
        for (first, second) in [
            ("Dark Mode", "dark mode"),
            ("Ｒｕｓｔ １２３", "rust 123"),
            ("cafe\u{301}", "café"),
            ("ﾀﾞｰｸﾓｰﾄﾞ", "ダークモード"),
        ] {
            assert!(similarity(first, second) > 0.9999, "{first} / {second}");
        }
    }

    #[test]
    fn the_user_and_politeness_do_not_make_texts_similar() {
        for (first, second) in [
            ("用户对花生过敏。", "用户住在北京。"),
            ("The user is allergic to peanuts.", "The user lives in Beijing."),
            ("你好，今天想聊旅行。", "你好，今天头很痛。"),
        ] {
            let similarity = similarity(first, second);
            assert!(similarity < THRESHOLDS.related, "{first} / {second}: {similarity}");
        }
    }

    #[test]
    fn a_text_without_a_word_has_a_vector_that_resembles_nothing() {
        for text in ["", " \n", "?!… ---", "🙂🙂"] {
            assert_eq!(vector(text), vector(""), "{text:?}");
        }
        assert!(similarity("", "dark mode").abs() < 0.2);
    }

    proptest! {
        #[test]
        fn every_vector_has_length_one(text in ".{0,200}") {
            let vector = vector(&text);
            prop_assert_eq!(vector.len(), 1024);
            let norm: f32 = vector.iter().map(|x| x * x).sum();
            prop_assert!((norm - 1.0).abs() < 1e-4, "{}", norm);
        }

        #[test]
        fn a_text_is_most_similar_to_itself(text in "[a-z 用户猫한국0-9]{1,60}", other in ".{0,60}") {
            prop_assert!(similarity(&text, &text) > 0.9999);
            prop_assert!(similarity(&text, &other) < 1.0001);
        }
    }
}
