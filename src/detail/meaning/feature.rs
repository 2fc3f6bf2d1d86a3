//! The words of content by which a claim is found again in its sources: stems of Latin words, pairs of Han characters
//! (with the kana behind them) and of syllables of Korean words. Rough on purpose: only what both texts share counts.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_segmentation::UnicodeSegmentation;

use super::super::slot::is_content;
use crate::language::{is_han, is_hangul, is_kana};

/// Verbs whose forms share no stem, each with its base.
#[rustfmt::skip]
const IRREGULAR: &[(&str, &str)] = &[
    ("went", "go"), ("gone", "go"), ("goes", "go"), ("going", "go"), ("bought", "buy"), ("sold", "sell"), ("ate", "eat"),
    ("eaten", "eat"), ("drank", "drink"), ("drunk", "drink"), ("took", "take"), ("taken", "take"), ("gave", "give"),
    ("given", "give"), ("met", "meet"), ("left", "leave"), ("taught", "teach"), ("thought", "think"), ("wrote", "write"),
    ("written", "write"), ("spoke", "speak"), ("spoken", "speak"), ("saw", "see"), ("seen", "see"), ("got", "get"),
    ("lent", "lend"), ("lost", "lose"), ("won", "win"), ("began", "begin"), ("begun", "begin"), ("found", "find"),
    ("slept", "sleep"), ("felt", "feel"), ("kept", "keep"), ("told", "tell"), ("said", "say"), ("ran", "run"),
    ("swam", "swim"), ("swum", "swim"), ("grew", "grow"), ("grown", "grow"), ("knew", "know"), ("known", "know"),
    ("paid", "pay"), ("built", "build"), ("broke", "break"), ("broken", "break"), ("drove", "drive"), ("driven", "drive"),
    ("rode", "ride"), ("chose", "choose"), ("chosen", "choose"), ("made", "make"), ("came", "come"), ("sent", "send"),
    ("spent", "spend"), ("flew", "fly"), ("sang", "sing"), ("stood", "stand"), ("heard", "hear"), ("brought", "bring"),
    ("isst", "ess"), ("aß", "ess"), ("gegessen", "ess"), ("ging", "geh"), ("gegangen", "geh"), ("trank", "trink"),
    ("getrunken", "trink"), ("kaufte", "kauf"), ("gekauft", "kauf"), ("zog", "zieh"), ("gezogen", "zieh"), ("umziehen", "zieh"),
    ("mag", "mög"), ("verkauft", "verkauf"), ("verkaufen", "verkauf"), ("spricht", "sprech"), ("liest", "les"), ("gibt", "geb"),
];

static BASES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| IRREGULAR.iter().copied().collect());

/// Latin words that tell nothing of what a claim is about, beside those of no content.
#[rustfmt::skip]
const EMPTY: &[&str] = &[
    "the", "user", "user's", "nutzer", "nutzerin", "benutzer", "ich", "mir", "mich", "mein", "meine", "meinen", "meiner", "meinem",
    "sich", "sein", "seine", "seinen", "seiner", "ihr", "ihre", "ihren", "i'm", "i've", "i'd", "i'll", "me", "myself", "them", "him",
    "there", "here", "now", "today", "yesterday", "tomorrow", "still", "yet", "already", "ever", "never", "don't", "doesn't", "didn't",
    "isn't", "aren't", "won't", "can't", "cannot", "wouldn't", "haven't", "hasn't", "wasn't", "nicht", "kein", "keine", "keinen",
    "keinem", "nie", "niemals", "auch", "noch", "schon", "aber", "dass", "wenn", "als", "wie", "was", "wird", "wurde", "hat", "habe",
    "haben", "bin", "war", "sind", "den", "dem", "im", "am", "zu", "zum", "zur", "von", "mit", "bei", "seit", "about", "because", "any",
    "really", "much", "lot", "well", "get", "got", "one", "some", "more", "since", "before", "again", "often", "want", "wants",
    "it's", "that's", "without", "ohne", "because", "however", "though", "although", "whether", "maybe", "perhaps", "vielleicht",
    "probably", "using", "used", "going", "anymore", "longer", "mehr", "he's", "she's", "we're", "they're", "you're", "let", "please",
];

const EMPTY_KOREAN: &[&str] = &[
    "사용자",
    "사용자는",
    "사용자가",
    "사용자의",
    "저는",
    "나는",
    "제가",
    "내가",
    "저도",
    "나도",
    "우리",
    "우리는",
    "그리고",
    "하지만",
];

/// The features of a text, in order, with the byte where each begins; `normal` is a normalised text.
pub(super) fn features(normal: &str, german: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, word) in normal.unicode_word_indices() {
        if word.chars().all(is_hangul) {
            korean(at, word, &mut found);
        } else if !word.chars().any(|c| is_han(c) || is_kana(c)) {
            latin(at, word, german, &mut found);
        }
    }
    han(normal, &mut found);
    found.sort_by_key(|(at, _)| *at);
    found
}

fn latin(at: usize, word: &str, german: bool, found: &mut Vec<(usize, String)>) {
    let word = word.strip_suffix("'s").unwrap_or(word);
    let short = word.chars().count() < 3 && !word.chars().any(|c| c.is_ascii_digit());
    if short || !is_content(word) || EMPTY.contains(&word) {
        return;
    }
    found.push((at, stem(word, german)));
}

/// The word without endings.
fn stem(word: &str, german: bool) -> String {
    if let Some(base) = BASES.get(word) {
        return (*base).to_owned();
    }
    let word: String = word
        .chars()
        .map(|c| match c {
            'ä' => 'a',
            'ö' => 'o',
            'ü' => 'u',
            c => c,
        })
        .collect();
    let cut = |endings: &[&str], least: usize| {
        endings
            .iter()
            .find_map(|end| word.strip_suffix(end).filter(|stem| stem.len() >= least))
            .unwrap_or(&word)
            .to_owned()
    };
    if german {
        // A participle: "geraucht" is "raucht".
        let word = word
            .strip_prefix("ge")
            .filter(|rest| rest.len() > 4 && rest.ends_with(['t', 'n']))
            .unwrap_or(&word);
        let cut = |endings: &[&str], least: usize| {
            endings
                .iter()
                .find_map(|end| word.strip_suffix(end).filter(|stem| stem.len() >= least))
                .unwrap_or(word)
                .to_owned()
        };
        return cut(&["est", "ten", "tet", "te", "st", "en", "et", "er", "em", "es", "e", "t", "n", "s"], 3);
    }
    let stem = cut(&["ing", "ied", "ies", "ed", "es", "s", "ly", "e", "y"], 3);
    let stem = stem.strip_suffix('e').filter(|stem| stem.len() >= 3).unwrap_or(&stem);
    // "stopped" and "stop" are one word.
    let mut letters = stem.chars().rev();
    match (letters.next(), letters.next()) {
        (Some(a), Some(b)) if a == b && stem.len() > 3 && !"ls".contains(a) => {
            stem[..stem.len() - a.len_utf8()].to_owned()
        }
        _ => stem.to_owned(),
    }
}

fn korean(at: usize, word: &str, found: &mut Vec<(usize, String)>) {
    if EMPTY_KOREAN.contains(&word) {
        return;
    }
    let syllables: Vec<(usize, char)> = word.char_indices().collect();
    for pair in syllables.windows(2) {
        found.push((at + pair[0].0, format!("{}{}", pair[0].1, pair[1].1)));
    }
}

/// Characters that part Chinese words and belong to none, and the words that name the user.
const PARTS: &str = "的了在是和与也都就很着过把被由从到对个有这那它他她我你您们于之而及会要想能可不没未别";

fn han(normal: &str, found: &mut Vec<(usize, String)>) {
    if !normal.chars().any(is_han) && !normal.chars().any(is_kana) {
        return;
    }
    let plain = normal.replace("用户", "\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}");
    let japanese = plain.chars().any(is_kana);
    let mut run: Vec<(usize, char)> = Vec::new();
    for (at, c) in plain.char_indices().chain([(plain.len(), ' ')]) {
        let cut = !japanese && PARTS.contains(c);
        // 睡不着 is 睡着, denied: what denies leaves no gap.
        if cut && "不没未".contains(c) && !run.is_empty() {
            continue;
        }
        if (is_han(c) || is_kana(c)) && !cut {
            run.push((at, c));
            continue;
        }
        close(&mut run, found);
    }
}

fn close(run: &mut Vec<(usize, char)>, found: &mut Vec<(usize, String)>) {
    let katakana = |c: char| matches!(c, '\u{30a1}'..='\u{30ff}');
    if let [(at, c)] = run[..]
        && is_han(c)
    {
        found.push((at, c.to_string()));
    }
    for pair in run.windows(2) {
        let ((at, a), (_, b)) = (pair[0], pair[1]);
        // A pair of hiragana is grammar; ユーザー is the user.
        if (is_han(a) || katakana(a))
            && !matches!((a, b), ('ユ', 'ー') | ('ー', 'ザ') | ('ザ', 'ー'))
            && (is_han(b) || is_kana(b))
        {
            found.push((at, format!("{a}{b}")));
        }
    }
    run.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, german: bool) -> Vec<String> {
        features(&crate::language::normalise(text), german).into_iter().map(|(_, f)| f).collect()
    }

    #[test]
    fn inflections_of_a_word_are_one_feature() {
        for (texts, german) in [
            (&["I eat pork", "The user eats pork", "The user ate pork"][..], false),
            (&["I stopped", "stop", "stopping"], false),
            (&["I study law", "The user studies law"], false),
            (&["Ich rauche", "Der Nutzer raucht"], true),
            (&["Ich esse Fisch", "Der Nutzer isst Fisch"], true),
            (&["我不吃辣", "用户吃辣"], false),
            (&["我睡不着", "用户睡着了"], false),
        ] {
            for text in texts {
                assert_eq!(of(text, german), of(texts[0], german), "{text}");
            }
        }
        assert_eq!(of("豚肉を食べない", false)[..3], ["豚肉", "肉を", "食べ"]);
        assert_eq!(of("돼지고기를 안 먹어요", false)[..2], ["돼지", "지고"]);
    }
}
