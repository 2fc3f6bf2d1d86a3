//! One swapped slot in the same sentence frame: "Indent Go files with tabs" and "… with four spaces".

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use unicode_segmentation::UnicodeSegmentation;

use super::japanese;
use super::phrase::phrases;
use crate::language::{is_han, is_hangul, is_kana, normalise};

/// Most tokens of content a slot may have; more is another sentence.
const SLOT: usize = 3;
/// Slots that may differ before the frames count as different.
const SLOTS: usize = 3;

/// Words that carry no content of their own.
const EMPTY: &str = " a an the is are was were be been am has have had do does did to of in on at by for with from as and or but that this it its his her their our my your he she they we you i not no so then there will would can could should may might must also very too just about into over under user users takes take place within who which what when where how if than up out off all any every each der das ein eine ist und für auf le la les de du des et est un une el los las y es en con para 的 了 在 是 和 与 也 都 就 很 着 过 把 被 由 从 到 对 个 有 这 那 它 他 她 我 你 于 之 而 及 を は が に で と も の へ や か ね よ た て し い だ です ます する した して ";

static EMPTY_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| EMPTY.split_whitespace().collect());

/// Groups of words that say the same.
#[rustfmt::skip]
const SYNONYMS: &[&[&str]] = &[
    &["like", "likes", "love", "loves", "prefer", "prefers", "enjoy", "enjoys", "favours", "favors", "best", "fond", "want", "wants"],
    &["buy", "bought", "purchase", "purchased"], &["big", "large", "huge"], &["small", "little", "tiny"], &["quick", "fast", "rapid"],
    &["begin", "begins", "start", "starts", "began", "started"], &["stop", "stopped", "quit", "ceased"],
    &["film", "films", "movie", "movies"], &["job", "work", "position"], &["works", "employed", "working"],
    &["choose", "chose", "chosen", "picked", "selected", "decided"], &["use", "uses", "using", "utilises", "employs"],
    &["called", "named"], &["fix", "fixed", "repaired", "resolved"], &["kids", "children"], &["mum", "mom", "mother"],
    &["dad", "father"], &["phone", "telephone"], &["every", "each", "all", "any"], &["repo", "repository"],
    &["error", "fault", "failure"], &["lives", "resides"], &["speaks", "talks"], &["meeting", "sync"],
    &["must", "should", "needs", "has"], &["done", "finished", "completed"], &["hates", "dislikes", "can't stand", "detests"], &["say", "says", "said", "told", "tells"], &["never", "don't"],
    &["forbidden", "prohibited", "banned", "disallowed"], &["allowed", "permitted"], &["mode", "theme"], &["team", "group"],
    &["car", "automobile"], &["bike", "bicycle"], &["learning", "learns", "studies", "studying"], &["doctor", "physician"],
    &["birthday", "born"], &["about", "roughly", "around", "approximately"], &["spouse", "partner"],
    &["喜欢", "更喜欢", "喜爱", "偏好", "爱", "爱好", "热爱"], &["使用", "采用", "用"], &["模式", "主题"], &["所有", "任何", "全部", "一切", "每个"],
    &["禁止", "不要", "不得", "不能"], &["生日", "出生", "生于"], &["仓库", "代码仓库"], &["存", "留"], &["里", "中", "内"], &["位", "名", "个"], &["有", "养"],
    // What is left of 好きだ and 好む behind their common character.
    &["好む", "好き", "好きだ", "きだ", "き", "む", "きです"],
    &["선호하", "좋아하", "즐기"],
];

/// The words of a text, normalised: Latin words, Korean words, runs of katakana, single Han and hiragana characters.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let normal = normalise(text);
    let mut tokens: Vec<String> = Vec::new();
    for word in normal.unicode_words() {
        if word.chars().all(|c| !is_han(c) && !is_kana(c)) || word.chars().all(is_hangul) {
            tokens.push(word.strip_suffix("'s").unwrap_or(word).to_owned());
            continue;
        }
        let mut katakana = false;
        for c in word.chars() {
            let joins = matches!(c, '\u{30a1}'..='\u{30ff}');
            match tokens.last_mut() {
                Some(last) if joins && katakana => last.push(c),
                _ => tokens.push(c.to_string()),
            }
            katakana = joins;
        }
    }
    tokens
}

/// The tokens of a text without the endings of Japanese and Korean predicates and without Korean particles: 住んでいます
/// and 住んでいる are one.
pub(super) fn plain_tokens(text: &str) -> Vec<String> {
    let normal = normalise(text);
    match phrases(&normal) {
        // Where every character is a token, the particles stay: they carry no content.
        Some(_) if normal.chars().any(is_kana) => tokens(&japanese::plain(&normal)),
        Some(phrases) => {
            phrases.into_iter().map(|phrase| phrase.word).filter(|word| !word.is_empty()).collect()
        }
        None => tokens(text),
    }
}

/// Whether a token carries content.
pub(super) fn is_content(token: &str) -> bool {
    !EMPTY_WORDS.contains(token)
}

/// The values of the first slot that differs while the frame is the same. `None` when the frames differ, or when
/// the values are the same word inflected or synonyms.
pub(super) fn swapped(a: &[String], b: &[String]) -> Option<(String, String)> {
    let (a, b) = without_fronted(a, b);
    let (a, b) = (&a[..], &b[..]);
    let hunks: Vec<(&[String], &[String])> =
        joined(hunks(a, b), a).into_iter().map(|(x, y)| (&a[x], &b[y])).collect();
    let changed_a: usize = hunks.iter().map(|(x, _)| x.len()).sum();
    let changed_b: usize = hunks.iter().map(|(_, y)| y.len()).sum();
    let common = a.len() - changed_a;
    // The same frame: one stretch of each text, or few and at least half of the shorter text stands in both.
    let framed = hunks.len() == 1 && common > 0
        || (1..=SLOTS).contains(&hunks.len()) && common * 2 >= a.len().min(b.len()) && common > 1;
    if !framed || changed_a.max(changed_b) > 2 * SLOT * SLOTS {
        return None;
    }
    let content = |tokens: &[String]| tokens.iter().filter(|token| is_content(token)).count();
    let cjk = a.iter().any(|token| token.chars().any(|c| is_han(c) || is_kana(c)));
    // A word in Han or kana is about two tokens.
    let most = if cjk { 2 * SLOT } else { SLOT };
    let glue = if cjk { "" } else { " " };
    let alone = hunks.len() == 1;
    hunks.into_iter().find_map(|(x, y)| {
        let (p, q) = (content(x), content(y));
        let values = (1..=most).contains(&p) && (1..=most).contains(&q) && !same_words(x, y);
        let small = matches!((x, y), ([x], [y]) if tense(x, y) || alone && small_words_differ(x, y));
        (values || small).then(|| (x.join(glue), y.join(glue)))
    })
}

/// Both texts without a phrase of place or time that opens the one and stands further back in the other: "on trains the
/// user likes window seats".
fn without_fronted(a: &[String], b: &[String]) -> (Vec<String>, Vec<String>) {
    let cut = |front: &[String], other: &[String]| {
        let opens = front.first().is_some_and(|word| PLACING.contains(&word.as_str()));
        let lengths = if opens { 2..front.len().min(7) } else { 0..0 };
        lengths.rev().find_map(|length| {
            let phrase = &front[..length];
            let at = (1..other.len()).find(|at| other[*at..].starts_with(phrase))?;
            Some((front[length..].to_vec(), [&other[..at], &other[at + length..]].concat()))
        })
    };
    if let Some(found) = cut(a, b) {
        return found;
    }
    cut(b, a).map_or_else(|| (a.to_vec(), b.to_vec()), |(b, a)| (a, b))
}

/// What one text says beyond the other, where it holds all of the other: two words of content or more. Calling
/// the two duplicates would lose it.
pub(super) fn added(a: &[String], b: &[String]) -> Option<String> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let hunks: Vec<(&[String], &[String])> =
        hunks(short, long).into_iter().map(|(x, y)| (&short[x], &long[y])).collect();
    let content = |tokens: &[String]| tokens.iter().filter(|token| is_content(token)).count();
    let held = hunks.iter().all(|(x, _)| content(x) == 0);
    let cjk = long.iter().any(|token| token.chars().any(|c| is_han(c) || is_kana(c)));
    let (_, longest) = hunks.iter().max_by_key(|(_, y)| content(y))?;
    // One word tells where or when if a preposition leads it: "on sofas".
    let placed = longest.first().is_some_and(|word| PLACING.contains(&word.as_str()));
    let least = if cjk {
        4
    } else if placed {
        1
    } else {
        2
    };
    let (_, longest) = hunks.into_iter().max_by_key(|(_, y)| content(y))?;
    (held && content(short) > 0 && content(longest) >= least)
        .then(|| longest.join(if cjk { "" } else { " " }))
}

/// Words that only deny.
const DENIALS: &[&str] = &["never", "don't", "doesn't", "didn't", "isn't", "aren't", "wasn't"];

/// Words that lead to where, when, with whom or for whom.
const PLACING: &[&str] = &[
    "on", "in", "at", "with", "for", "from", "near", "under", "during", "by", "without", "when", "after",
    "before", "auf", "im", "mit", "bei", "für",
];

/// Words that set two names of one thing equal.
const COPULAS: &[&str] = &["是", "is", "was", "ist", "est", "es"];

/// Whether two different small words change the meaning, as up and down or and and or do, and a and the do not.
fn small_words_differ(x: &str, y: &str) -> bool {
    const WEAK: &[&str] = &[
        "a", "an", "the", "this", "that", "in", "on", "at", "for", "of", "by", "its", "it", "their", "is",
        "are", "as", "user", "users", "each", "every", "any", "all", "has", "have", "to", "will", "do",
        "does", "also", "too", "very", "just", "within",
    ];
    let weak = |word: &str| WEAK.contains(&word);
    x.is_ascii() && y.is_ascii() && !(weak(x) && weak(y)) && stem(x) != stem(y) && !synonyms(x, y)
}

/// "Is the case" and "was the case" differ though neither word has content.
fn tense(x: &str, y: &str) -> bool {
    [("is", "was"), ("are", "were"), ("has", "had")]
        .iter()
        .any(|&(now, then)| (x, y) == (now, then) || (x, y) == (then, now))
}

/// Whether the words are the same but for their order, which then carries the meaning ("Alice manages Bob").
pub(super) fn reordered(a: &[String], b: &[String]) -> Option<(String, String)> {
    let (mut x, mut y) = (a.to_vec(), b.to_vec());
    x.sort();
    y.sort();
    // A phrase moved from the end to the front says the same ("on Sundays the office is closed").
    let rotated = || (0..a.len()).any(|shift| a[shift..].iter().chain(&a[..shift]).eq(b));
    // "The dog is Rex" and "Rex is the dog".
    let turned = || {
        a.iter()
            .enumerate()
            .filter(|(_, token)| COPULAS.contains(&token.as_str()))
            .any(|(at, _)| a[at + 1..].iter().chain(&a[at..=at]).chain(&a[..at]).eq(b))
    };
    (x == y && a != b && !rotated() && !turned()).then(|| (a.join(" "), b.join(" ")))
}

/// Stretches in which two token lists differ: where in the one, where in the other.
type Hunks = Vec<(Range<usize>, Range<usize>)>;

/// The stretches, those of a swap that the alignment tore apart around one character joined again: 订阅 and 退订 have 订 in
/// common and are two words all the same.
fn joined(hunks: Hunks, a: &[String]) -> Hunks {
    let mut found: Hunks = Vec::new();
    for (x, y) in hunks {
        let torn = found.last().is_some_and(|(before_x, before_y)| {
            let one_sided = before_x.is_empty() && y.is_empty() || before_y.is_empty() && x.is_empty();
            let common = before_x.end..x.start;
            let lone = common.len() == 1 && a[common].iter().all(|token| token.chars().all(is_han));
            one_sided && lone
        });
        match found.last_mut() {
            Some((before_x, before_y)) if torn => (before_x.end, before_y.end) = (x.end, y.end),
            _ => found.push((x, y)),
        }
    }
    found
}

/// The stretches in which two token lists differ, by longest common subsequence.
fn hunks(a: &[String], b: &[String]) -> Hunks {
    let mut length = vec![vec![0u16; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] =
                if a[i] == b[j] { length[i + 1][j + 1] + 1 } else { length[i + 1][j].max(length[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        let (from_i, from_j) = (i, j);
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && a[i] == b[j] {
                break;
            }
            if j == b.len() || i < a.len() && length[i + 1][j] >= length[i][j + 1] { i += 1 } else { j += 1 }
        }
        if (from_i, from_j) != (i, j) {
            found.push((from_i..i, from_j..j));
        }
        while i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        }
    }
    found
}

/// Whether the contents of two slots are inflections or synonyms of each other.
fn same_words(x: &[String], y: &[String]) -> bool {
    let joined = |tokens: &[String]| tokens.concat();
    if synonyms(&joined(x), &joined(y)) || synonyms(&x.join(" "), &y.join(" ")) {
        return true;
    }
    // Whether one of the two denies something was compared before.
    let content = |tokens: &[String]| {
        let counts = |token: &&String| is_content(token) && !DENIALS.contains(&token.as_str());
        tokens.iter().filter(counts).cloned().collect::<Vec<_>>()
    };
    let (x, y) = (content(x), content(y));
    let matched =
        |x: &[String], y: &[String]| x.iter().all(|a| y.iter().any(|b| stem(a) == stem(b) || synonyms(a, b)));
    matched(&x, &y) && matched(&y, &x) || synonyms(&joined(&x), &joined(&y))
}

fn synonyms(x: &str, y: &str) -> bool {
    SYNONYMS.iter().any(|group| group.contains(&x) && group.contains(&y))
}

/// The word without its English endings; short words keep theirs.
fn stem(word: &str) -> &str {
    if !word.is_ascii() {
        return word;
    }
    let cut = ["ing", "ed", "es", "s", "ly", "e"]
        .iter()
        .find_map(|end| word.strip_suffix(end).filter(|stem| stem.len() >= 3));
    let stem = cut.unwrap_or(word);
    stem.strip_suffix('e').filter(|stem| stem.len() >= 3).unwrap_or(stem)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn swap(first: &str, second: &str) -> Option<(String, String)> {
        swapped(&plain_tokens(first), &plain_tokens(second))
    }

    #[test]
    fn a_swapped_slot_is_found_in_the_same_frame_only() {
        for (first, second, expected) in [
            ("Indent Go files with tabs.", "Indent Go files with four spaces.", true),
            ("The project license is MIT.", "The project license is GPL version 3.", true),
            ("用户喜欢深色模式。", "用户喜欢浅色模式。", true),
            ("ユーザーはダークモードを好む。", "ユーザーはライトモードを好む。", true),
            ("사용자는 다크 모드를 선호한다.", "사용자는 라이트 모드를 선호한다.", true),
            ("The server is up.", "The server was up.", true),
            ("The server is up.", "The server is down.", true),
            ("Order tea or coffee.", "Order tea and coffee.", true),
            ("用户住在楼上。", "用户住在楼下。", true),
            ("The user has the book.", "The user has a book.", false),
            ("用户在编辑器里写作。", "用户在编辑器中写作。", false),
            ("The user likes tea.", "The user loves tea.", false),
            ("The user deploys on request.", "The user deployed on request.", false),
            ("Biscuit is the name of the user's dog.", "The user's dog is called Biscuit.", false),
            ("The user likes tea.", "The user likes tea very much.", false),
            ("Penguins swim.", "Alice bakes bread.", false),
        ] {
            assert_eq!(swap(first, second).is_some(), expected, "{first} / {second}");
        }
    }

    #[test]
    fn what_one_text_adds_is_told() {
        for (first, second, expected) in [
            (
                "Alice lives in Berlin.",
                "Alice lives in Berlin with her husband and his mother.",
                Some("with her husband and his mother"),
            ),
            ("李华住在北京。", "李华和妻子儿子住在北京。", Some("和妻子儿子")),
            ("The user likes cats.", "The user likes cats on sofas.", Some("on sofas")),
            ("The user likes tea.", "The user likes tea very much.", None),
            ("The user likes tea.", "Bob bakes bread and sells it.", None),
        ] {
            let (a, b) = (plain_tokens(first), plain_tokens(second));
            assert_eq!(added(&a, &b).as_deref(), expected, "{second}");
            assert_eq!(added(&b, &a).as_deref(), expected, "{second}");
        }
    }

    #[test]
    fn the_values_of_the_slot_are_told() {
        let values = swap("Indent Go files with tabs.", "Indent Go files with four spaces.").unwrap();
        assert_eq!(values, ("tabs".to_owned(), "four spaces".to_owned()));
    }
}
