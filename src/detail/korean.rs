//! The words of a Korean text without inflection and politeness: 먹습니다, 먹어요 and 먹는다; 마시지 않는다 and 안 마셔요.
//! Rules on syllables and their letters, without a dictionary: what a verb loses here it loses in both texts compared.

use super::phrase::{Ending, Phrase, Role};

/// Particles; whether one stands behind a final consonant (`Some(true)`), a vowel, or either; and how many syllables the
/// word in front has at least, since 회의 and 제주도 end in what looks like one.
const PARTICLES: &[(&str, Role, Option<bool>, usize)] = &[
    ("에서는", Role::Place, None, 1),
    ("에게서", Role::From, None, 1),
    ("에게는", Role::Goal, None, 1),
    ("까지는", Role::Until, None, 1),
    ("부터는", Role::From, None, 1),
    ("으로는", Role::Way, None, 1),
    ("에는", Role::Goal, None, 1),
    ("에도", Role::Goal, None, 1),
    ("에서", Role::Place, None, 1),
    ("에게", Role::Goal, None, 1),
    ("한테", Role::Goal, None, 1),
    ("께서", Role::Subject, None, 1),
    ("까지", Role::Until, None, 1),
    ("부터", Role::From, None, 1),
    ("보다", Role::Than, None, 1),
    ("마다", Role::Bare, None, 2),
    ("으로", Role::Way, Some(true), 1),
    ("이랑", Role::With, Some(true), 1),
    ("은", Role::Topic, Some(true), 1),
    ("는", Role::Topic, Some(false), 1),
    ("이", Role::Subject, Some(true), 1),
    ("가", Role::Subject, Some(false), 1),
    ("을", Role::Object, Some(true), 1),
    ("를", Role::Object, Some(false), 1),
    ("과", Role::With, Some(true), 2),
    ("와", Role::With, Some(false), 2),
    ("랑", Role::With, Some(false), 2),
    ("로", Role::Way, None, 2),
    ("에", Role::Goal, None, 1),
    ("의", Role::Genitive, None, 2),
    ("도", Role::Topic, None, 2),
    ("만", Role::Only, None, 2),
];

/// Words that count the number before them.
const COUNTERS: &[&str] = &[
    "시간", "마리", "사람", "가지", "개월", "개", "명", "번", "살", "잔", "권", "대", "달", "주", "분", "곳",
    "병", "장", "층", "회", "일", "년", "세", "원",
];

/// Final consonants by their place in a syllable.
const NO_FINAL: u32 = 0;
const N: u32 = 4;
const L: u32 = 8;
const B: u32 = 17;
const SS: u32 = 20;

/// The place of a syllable's final consonant; none for what is no syllable.
fn last_consonant(c: char) -> Option<u32> {
    ('가'..='힣').contains(&c).then(|| (c as u32 - 0xac00) % 28)
}

/// The syllable without its final consonant.
fn open(c: char) -> char {
    last_consonant(c).and_then(|last| char::from_u32(c as u32 - last)).unwrap_or(c)
}

/// The syllable with another vowel, where it has the one named and no final consonant.
fn uncontracted(c: char) -> char {
    // ㅕ ㅣ, ㅝ ㅜ, ㅘ ㅗ, ㅙ ㅚ by their places.
    const VOWELS: [(u32, u32); 4] = [(6, 20), (14, 13), (9, 8), (10, 11)];
    let vowel = (c as u32).wrapping_sub(0xac00) / 28 % 21;
    let plain =
        VOWELS.iter().find(|(contracted, _)| last_consonant(c) == Some(NO_FINAL) && *contracted == vowel);
    match plain {
        _ if c == '해' => '하',
        Some((from, to)) => char::from_u32(c as u32 - from * 28 + to * 28).unwrap_or(c),
        None => c,
    }
}

/// The phrases, in order; marks stand for values that were taken out.
pub(super) fn phrases(normal: &str) -> Vec<Phrase> {
    let mut phrases: Vec<Phrase> = Vec::new();
    for clause in normal.split(['.', '!', '?', '。', ';', ',']) {
        let words: Vec<&str> = clause
            .split(|c: char| !c.is_alphanumeric() && c != '\u{1}' && c != '_' && c != '-')
            .filter(|word| !word.is_empty())
            .collect();
        let closing = words.len().saturating_sub(1);
        for (place, word) in words.iter().enumerate() {
            let bare = without_value(word);
            // 30일 동안 and 30일간 are one.
            if bare == "동안" {
                continue;
            }
            if place == closing {
                close(bare, &mut phrases);
            } else if matches!(bare, "안" | "못") {
                phrases.push(lone(if bare == "안" { "않" } else { "못" }));
            } else {
                let (stem, role) = without_particle(bare);
                phrases.push(Phrase { word: stem.to_owned(), role, ending: None });
            }
        }
    }
    phrases.retain(|phrase| !phrase.word.is_empty() || phrase.ending.is_some());
    phrases
}

fn lone(word: &str) -> Phrase {
    Phrase { word: word.to_owned(), role: Role::Bare, ending: None }
}

/// What stands behind the value that was taken out of a word, without the counter of a number.
fn without_value(word: &str) -> &str {
    let Some((_, behind)) = word.rsplit_once('\u{1}') else { return word };
    COUNTERS.iter().find_map(|counter| behind.strip_prefix(counter)).unwrap_or(behind)
}

/// The word without its particles, and the part the last of them gives it.
pub(super) fn without_particle(word: &str) -> (&str, Role) {
    let (mut stem, mut role) = (word, None);
    // Twice: 고양이를 and a lone 고양이 must become one.
    for _ in 0..2 {
        let found = PARTICLES.iter().find(|(particle, _, behind, least)| {
            stem.strip_suffix(particle).is_some_and(|front| {
                let last = front.chars().next_back().and_then(last_consonant);
                let fits = behind.is_none_or(|closed| last.is_some_and(|last| (last != NO_FINAL) == closed));
                front.chars().count() >= *least && fits || front.is_empty()
            })
        });
        let Some((particle, of_particle, ..)) = found else { break };
        stem = &stem[..stem.len() - particle.len()];
        role = role.or(Some(*of_particle));
        if stem.chars().count() < 3 {
            break;
        }
    }
    (stem, role.unwrap_or(Role::Bare))
}

/// The last word of a clause: its predicate, with what stands before an auxiliary verb.
fn close(word: &str, phrases: &mut Vec<Phrase>) {
    let (stem, ending) = predicate(word);
    let before = phrases.last().map(|last| last.word.clone()).unwrap_or_default();
    let auxiliary = match stem.as_str() {
        "있" | "계" => before.strip_suffix('고'),
        "않" | "못하" => before.strip_suffix('지'),
        _ => None,
    };
    let Some(main) = auxiliary.filter(|main| !main.is_empty()) else {
        phrases.push(Phrase { word: stem, role: Role::Bare, ending: Some(ending) });
        return;
    };
    let main = shortened(main);
    phrases.pop();
    match stem.as_str() {
        "않" => phrases.push(lone("않")),
        "못하" => phrases.push(lone("못")),
        _ => {}
    }
    phrases.push(Phrase { word: main, role: Role::Bare, ending: Some(ending) });
}

/// The stem of a predicate, and what its ending says.
fn predicate(word: &str) -> (String, Ending) {
    let polite = word.strip_suffix('요');
    let mut stem: String = polite.unwrap_or(word).to_owned();
    let mut verbal = polite.is_some();
    if let Some(front) = stem.strip_suffix("습니다") {
        (stem, verbal) = (front.to_owned(), true);
    } else if let Some(front) = stem.strip_suffix("니다").filter(|front| ends(front, B)) {
        let copula = front.ends_with('입');
        stem = opened(front);
        if copula {
            stem.pop();
        }
        verbal = !copula;
    } else if let Some(front) = stem.strip_suffix("는다") {
        (stem, verbal) = (front.to_owned(), true);
    } else if let Some(front) = stem.strip_suffix('다').filter(|front| ends(front, N)) {
        (stem, verbal) = (opened(front), true);
    } else if let Some(front) = stem.strip_suffix('다') {
        (stem, verbal) =
            (front.strip_suffix('이').unwrap_or(front).to_owned(), ends(front, SS) || front.ends_with('시'));
    } else if polite.is_some() {
        let copula = stem.strip_suffix("이에").or(stem.strip_suffix('예'));
        verbal = copula.is_none();
        let honoured = stem.strip_suffix('세').map(|front| format!("{front}시"));
        stem = copula.map(str::to_owned).or(honoured).unwrap_or_else(|| without_vowel(&stem));
    }
    let past = ends(&stem, SS) && !stem.ends_with(['있', '겠']);
    if past {
        stem = without_vowel(&opened(&stem));
        // 의사였다, 선생님이었다: the copula's past.
        let copula = stem.strip_suffix('여').or(stem.strip_suffix('이')).map(str::to_owned);
        if let Some(noun) = copula {
            return (noun, Ending { past, lasting: false });
        }
    }
    (if verbal { shortened(&stem) } else { stem }, Ending { past, lasting: false })
}

fn ends(text: &str, consonant: u32) -> bool {
    text.chars().next_back().and_then(last_consonant) == Some(consonant)
}

/// The text with its last syllable opened.
fn opened(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(last) = text.pop() {
        text.push(open(last));
    }
    text
}

/// Without the vowel that joins stem and ending: 먹어 → 먹, 마셔 → 마시, 해 → 하.
fn without_vowel(text: &str) -> String {
    let mut text = text.to_owned();
    match text.pop() {
        Some('어' | '아') if !text.is_empty() => {}
        Some('여') => text.push('여'),
        Some(last) => text.push(uncontracted(last)),
        None => {}
    }
    text
}

/// A verb's stem without 시 of respect and without the ㄹ that some endings swallow.
fn shortened(stem: &str) -> String {
    let more = |text: &str| text.chars().count() > 1;
    let respect = stem.strip_suffix("으시").or(stem.strip_suffix('시').filter(|_| more(stem)));
    let stem = respect.unwrap_or(stem);
    if ends(stem, L) { opened(stem) } else { stem.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn polite_and_plain_forms_are_one_word() {
        for (forms, word, past) in [
            (&["먹는다", "먹습니다", "먹어요"][..], "먹", false),
            (&["간다", "갑니다", "가요"], "가", false),
            (&["한다", "합니다", "해요", "하고 있다", "하고 있어요"], "하", false),
            (&["키운다", "키워요", "키우고 있습니다"], "키우", false),
            (&["산다", "살아요", "삽니다", "사신다", "사세요", "살고 있다"], "사", false),
            (&["의사다", "의사예요", "의사입니다"], "의사", false),
            (&["선생님이다", "선생님이에요", "선생님입니다"], "선생님", false),
            (&["의사였다", "의사였어요", "의사였습니다"], "의사", true),
            (&["했다", "했어요", "했습니다", "하셨다"], "하", true),
            (&["있다", "있어요", "있습니다"], "있", false),
        ] {
            for form in forms {
                let found = phrases(form);
                assert_eq!(found.len(), 1, "{form}: {found:?}");
                assert_eq!((found[0].word.as_str(), found[0].ending.unwrap().past), (word, past), "{form}");
            }
        }
    }

    #[test]
    fn denial_before_and_behind_the_verb_is_one() {
        for (one, other) in
            [("안 마셔요", "마시지 않는다"), ("못 먹는다", "먹지 못합니다"), ("안 가요", "가지 않습니다")]
        {
            assert_eq!(phrases(one), phrases(other), "{one} / {other}");
        }
        assert_ne!(phrases("안 먹는다"), phrases("못 먹는다"));
    }

    #[test]
    fn a_particle_is_told_from_the_end_of_a_word() {
        for (word, expected) in [
            ("책을", ("책", Role::Object)),
            ("고양이", ("고양", Role::Subject)),
            ("회의", ("회의", Role::Bare)),
            ("회의에서", ("회의", Role::Place)),
            ("지은", ("지은", Role::Bare)),
            ("민지는", ("민지", Role::Topic)),
            ("서버의", ("서버", Role::Genitive)),
            ("집에", ("집", Role::Goal)),
            ("집만", ("집만", Role::Bare)),
        ] {
            assert_eq!(without_particle(word), expected, "{word}");
        }
        assert_eq!(without_particle("고양이를").0, without_particle("고양이").0);
    }
}
