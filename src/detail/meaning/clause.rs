//! Clauses: the stretches of a sentence over which a denial, a condition or a subject reaches. Cut by punctuation and
//! conjunctions, without a grammar; where in doubt a clause is longer, so that a mark reaches further.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::super::compile;
use crate::language::{is_han, is_hangul, is_kana};

/// Words that open a clause wherever they stand.
const OPENERS: &[&str] = &[
    "but", "because", "since", "although", "though", "however", "while", "whereas", "so", "when", "where",
    "who", "which", "until", "unless", "if", "aber", "weil", "denn", "sondern", "obwohl", "während", "wenn",
    "falls", "doch", "after", "before", "except",
];

/// Words that open a clause behind a comma or "and": subjects, helping verbs, and verbs that people use of themselves.
const STARTERS: &[&str] = &[
    "i", "i'm", "i've", "i'd", "i'll", "we", "we're", "he", "she", "they", "it", "it's", "you", "my", "our",
    "his", "her", "their", "the", "this", "that", "there", "and", "am", "is", "are", "do", "does", "did",
    "has", "was", "were", "will", "can", "would", "used", "ich", "wir", "er", "es", "der", "die", "das",
    "mein", "meine", "und", "bin", "habe", "hat", "ist", "wohne", "wohnt", "arbeite", "arbeitet", "mag",
    "live", "lives", "work", "works", "like", "likes", "love", "loves", "have", "want", "wants", "prefer",
    "prefers", "use", "uses", "go", "goes", "need", "needs", "play", "plays", "eat", "eats", "drink",
    "drinks", "own", "owns", "study", "studies", "enjoy", "enjoys", "moved", "lived", "worked", "bought",
    "sold", "started", "hates", "hate", "drive", "drives", "speak", "speaks", "owes", "owe", "never",
    "always", "trinke", "trinkt", "esse", "isst", "spiele", "spielt", "lives", "runs", "plans", "hopes",
    "visits", "met", "smokes", "smoke", "instead", "plus", "also",
];

static CJK_OPENERS: LazyLock<Regex> =
    LazyLock::new(|| compile(r"但是?|不过|而是|可是|因为|所以|虽然|而且|只是|并且|同时|然后|就是"));
static JAPANESE_ENDS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"けれども?|けど|ので|のに|ですが|ますが|だが|るが|いが|たが|ていて|ており|くて|だから|ですから|ますし|るし",
    )
});
static KOREAN_ENDS: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?:지만|는데|은데|ㄴ데|니까|면서|어서|아서|해서|[^하싶]고) "));

/// The clauses of a normalised sentence, as ranges that cover it.
pub(super) fn clauses(sentence: &str) -> Vec<Range<usize>> {
    let mut cuts = vec![0];
    latin_cuts(sentence, &mut cuts);
    if sentence.chars().any(|c| is_han(c) || is_kana(c) || is_hangul(c)) {
        cjk_cuts(sentence, &mut cuts);
    }
    cuts.push(sentence.len());
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2)
        .map(|pair| pair[0]..pair[1])
        .filter(|range| !sentence[range.clone()].trim().is_empty())
        .collect()
}

fn latin_cuts(sentence: &str, cuts: &mut Vec<usize>) {
    let words: Vec<(usize, &str)> = words(sentence);
    for (place, (at, word)) in words.iter().enumerate().skip(1) {
        let before = sentence[..*at].trim_end();
        let parted = before.ends_with([',', ';', ':', '(', '-']);
        let previous = words[place - 1].1;
        let behind_and = matches!(previous, "and" | "und");
        // "eats pork and drinks wine": a verb with something after it, not the last word of a list.
        let more =
            words.get(place + 1).is_some_and(|(next, _)| !sentence[*at..*next].contains([',', '.', ';']));
        if OPENERS.contains(word)
            || before.ends_with(';')
            || (parted || behind_and) && STARTERS.contains(word) && (more || !behind_and)
        {
            cuts.push(*at);
        }
    }
}

/// The Latin words with the byte where each begins.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    let part = |c: char| c.is_alphanumeric() && !is_han(c) && !is_kana(c) && !is_hangul(c) || c == '\'';
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (part(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, text[from..at].trim_matches('\'')));
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn cjk_cuts(sentence: &str, cuts: &mut Vec<usize>) {
    for (at, c) in sentence.char_indices() {
        // 、 parts a list in Chinese and clauses in Japanese. NFKC has made ， a comma and ； a semicolon.
        let list = c == '、' && !sentence.chars().any(is_kana);
        if matches!(c, ',' | ';' | ':' | '、' | '。' | '!' | '?') && !list {
            cuts.push(at + c.len_utf8());
        }
    }
    if sentence.chars().any(is_kana) {
        cuts.extend(JAPANESE_ENDS.find_iter(sentence).map(|m| m.end()));
    } else if sentence.chars().any(is_han) {
        cuts.extend(CJK_OPENERS.find_iter(sentence).map(|m| m.start()));
    }
    if sentence.chars().any(is_hangul) {
        // 배우고 싶다 and 배우고 있다 are one verb.
        let whole = |end: &usize| ["싶", "있", "계시"].iter().any(|verb| sentence[*end..].starts_with(verb));
        cuts.extend(KOREAN_ENDS.find_iter(sentence).map(|m| m.end()).filter(|end| !whole(end)));
    }
}

/// Words after which what is denied ends: what somebody did not know may be so.
const KNOWN: &[&str] = &[
    "know", "knew", "realise", "realize", "realised", "realized", "notice", "noticed", "expect", "expected",
    "wusste",
];

/// How far a word at `mark` reaches in a clause: forward in Latin script and Chinese, over all of it in German, where the
/// denial comes last, and in Japanese and Korean, where the verb does.
pub(super) fn reach(clause: &str, mark: &Range<usize>, german: bool) -> Range<usize> {
    if german || clause.chars().any(|c| is_kana(c) || is_hangul(c)) {
        return 0..clause.len();
    }
    if let Some((at, _)) =
        words(clause).into_iter().find(|(at, word)| *at >= mark.end && KNOWN.contains(word))
    {
        return mark.start..at;
    }
    // 睡不着: the character before is half of the word.
    let before = clause[..mark.start].chars().next_back().filter(|c| is_han(*c));
    mark.start - before.map_or(0, char::len_utf8)..clause.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_cut_where_another_subject_or_verb_begins() {
        for (sentence, expected) in [
            ("i don't like coffee but i love tea", &["i don't like coffee ", "but i love tea"][..]),
            ("i never eat pork, beef or lamb", &["i never eat pork, beef or lamb"]),
            ("i never smoke, i live in oslo", &["i never smoke, ", "i live in oslo"]),
            ("i do not like cats and dogs", &["i do not like cats and dogs"]),
            ("the user eats beef and does not eat pork", &["the user eats beef and ", "does not eat pork"]),
            ("我不喜欢咖啡,喜欢茶", &["我不喜欢咖啡,", "喜欢茶"]),
            ("肉は食べないが、魚は食べる", &["肉は食べないが", "、", "魚は食べる"]),
            ("고기는 안 먹지만 생선은 먹어요", &["고기는 안 먹지만 ", "생선은 먹어요"]),
        ] {
            let found: Vec<&str> = clauses(sentence).into_iter().map(|range| &sentence[range]).collect();
            assert_eq!(found, expected);
        }
    }
}
