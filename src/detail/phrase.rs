//! A Japanese or Korean text as phrases: each word without its inflection, with the part its particle gives it. In these
//! languages the order of phrases is free and the particles and endings say who does what, so two texts with the same
//! phrases say the same however they are ordered and however politely they are put. Reading the endings is the work of
//! `japanese.rs` and `korean.rs`.

use crate::language::{is_hangul, is_kana};

use super::{japanese, korean};

/// The part a phrase plays, as its particle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// No particle: a time, a modifier, the predicate.
    Bare,
    /// は, も, 은, 는, 도: the topic, which may be subject or object.
    Topic,
    /// が, 이, 가.
    Subject,
    /// を, 을, 를.
    Object,
    /// の, 의.
    Genitive,
    /// に, 에, 에게.
    Goal,
    /// で, 에서.
    Place,
    /// へ, 로.
    Way,
    /// と, や, 와.
    With,
    /// から, 부터.
    From,
    /// まで, 까지.
    Until,
    /// より, 보다.
    Than,
    /// だけ, 만.
    Only,
}

impl Role {
    /// Whether two texts may give one phrase these parts and mean the same: a topic is subject or object, and a particle
    /// is often left out where the sense is clear.
    fn agrees(self, other: Self) -> bool {
        use Role::{Bare, Genitive, Goal, Object, Place, Subject, Topic};
        let loose = |role: Self| matches!(role, Bare | Topic | Genitive);
        let plain = |role: Self| matches!(role, Bare | Topic | Genitive | Subject | Object);
        let dropped = |one: Self, other: Self| one == Bare && matches!(other, Goal | Place);
        self == other
            || loose(self) && plain(other)
            || loose(other) && plain(self)
            || dropped(self, other)
            || dropped(other, self)
    }
}

/// A word without its inflection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) word: String,
    pub(super) role: Role,
    /// Where it is a predicate: what its ending says.
    pub(super) ending: Option<Ending>,
}

/// What the ending of a predicate says besides politeness. Denial is `wording`'s work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// It was so.
    pub(super) past: bool,
    /// ている: it goes on, or is the result.
    pub(super) lasting: bool,
}

/// The phrases of a normalised text; none where it is neither Japanese nor Korean.
pub(super) fn phrases(normal: &str) -> Option<Vec<Phrase>> {
    if normal.chars().any(is_kana) {
        return Some(japanese::phrases(normal));
    }
    normal.chars().any(is_hangul).then(|| korean::phrases(normal))
}

/// Whether two texts consist of the same phrases in parts that agree.
pub(super) fn alike(a: &[Phrase], b: &[Phrase]) -> bool {
    if a.is_empty() || a.len() != b.len() || tense(a, b).is_some() {
        return false;
    }
    let mut left: Vec<&Phrase> = b.iter().collect();
    let mut moved: Vec<(Role, Role)> = Vec::new();
    for phrase in a {
        let same = |other: &&Phrase| phrase.word == other.word && phrase.role.agrees(other.role);
        let Some(place) = left.iter().position(same) else { return false };
        let other = left.remove(place);
        if phrase.role != other.role {
            moved.push((phrase.role, other.role));
        }
    }
    // "A likes B" and "B likes A": each takes the part of the other.
    !moved.iter().any(|(from, to)| moved.contains(&(*to, *from)))
}

/// A predicate that both texts have, in the present in one and in the past in the other, or lasting in one only.
pub(super) fn tense(a: &[Phrase], b: &[Phrase]) -> Option<(String, String)> {
    let of = |phrases: &[Phrase], word: &str| -> Vec<Ending> {
        phrases.iter().filter(|phrase| phrase.word == word).filter_map(|phrase| phrase.ending).collect()
    };
    let told = |ending: Ending| match (ending.past, ending.lasting) {
        (true, _) => "past",
        (false, true) => "lasting",
        (false, false) => "present",
    };
    a.iter().filter(|phrase| phrase.ending.is_some()).find_map(|phrase| {
        let (one, other) = (of(a, &phrase.word), of(b, &phrase.word));
        let lone = *one.iter().find(|ending| !other.contains(ending))?;
        let against = *other.iter().find(|ending| !one.contains(ending))?;
        Some((format!("{} ({})", phrase.word, told(lone)), format!("{} ({})", phrase.word, told(against))))
    })
}

/// A predicate of each text of which one is the other with more behind it, as the passive and the wish have: 説得した and
/// 説得された, やめた and やめたい. Neither stands in the other text.
pub(super) fn voice(a: &[Phrase], b: &[Phrase]) -> Option<(String, String)> {
    let lone = |one: &[Phrase], other: &[Phrase]| -> Vec<String> {
        let predicates = one.iter().filter(|phrase| phrase.ending.is_some() && !phrase.word.is_empty());
        let stands = |word: &str| other.iter().any(|phrase| phrase.word == word);
        predicates.filter(|phrase| !stands(&phrase.word)).map(|phrase| phrase.word.clone()).collect()
    };
    let (of_a, of_b) = (lone(a, b), lone(b, a));
    of_a.into_iter().find_map(|one| {
        let other = of_b.iter().find(|other| other.starts_with(&one) || one.starts_with(other.as_str()))?;
        Some((one, other.clone()))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::language::normalise;

    fn of(text: &str) -> Vec<Phrase> {
        phrases(&normalise(text)).unwrap()
    }

    #[test]
    fn order_and_politeness_make_no_difference_and_parts_do() {
        for (first, second, expected) in [
            ("倉庫には毎週荷物が届きます。", "荷物は毎週倉庫に届く。", true),
            ("毎日本を読んでいる。", "毎日本を読んでいます。", true),
            ("姉は医者です。", "姉は医者だ。", true),
            ("先生が生徒を褒めた。", "生徒を先生が褒めました。", true),
            ("先生が生徒を褒めた。", "生徒が先生を褒めた。", false),
            ("母は祖母に手紙を送った。", "祖母は母に手紙を送った。", false),
            ("犬は猫が嫌いだ。", "猫は犬が嫌いだ。", false),
            ("夏より冬が好きだ。", "冬より夏が好きだ。", false),
            ("図書館で働いている。", "図書館で働いていた。", false),
            ("本を売ります。", "本を売りました。", false),
            ("결과를 매주 서버에 올립니다.", "매주 서버에 결과를 올려요.", true),
            ("할머니는 시골에 사신다.", "할머니가 시골에 사세요.", true),
            ("선생님이 학생을 칭찬했다.", "학생이 선생님을 칭찬했다.", false),
            ("여름보다 겨울을 좋아해요.", "겨울보다 여름을 좋아해요.", false),
            ("누나는 의사예요.", "누나는 의사였어요.", false),
        ] {
            assert_eq!(
                alike(&of(first), &of(second)),
                expected,
                "{first} / {second}\n{:?}\n{:?}",
                of(first),
                of(second)
            );
            assert_eq!(alike(&of(second), &of(first)), expected, "{second} / {first}");
        }
    }

    #[test]
    fn a_passive_and_a_wish_are_told_from_the_plain_verb() {
        for (first, second, expected) in [
            ("母が弟を起こした。", "母が弟に起こされた。", true),
            ("髪を切りたい。", "髪を切った。", true),
            ("髪を切ります。", "髪を切る。", false),
            ("会議は九時からです。", "会議は九時から始まる。", false),
        ] {
            assert_eq!(voice(&of(first), &of(second)).is_some(), expected, "{first} / {second}");
        }
    }

    #[test]
    fn other_languages_have_no_phrases() {
        assert_eq!(phrases("alice likes tea"), None);
        assert_eq!(phrases("用户喜欢茶"), None);
    }
}
