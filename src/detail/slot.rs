//! One swapped slot in the same sentence frame: "Indent Go files with tabs" and "… with four spaces".

use unicode_segmentation::UnicodeSegmentation;

use crate::language::{is_han, is_hangul, is_kana, normalise};

/// Most tokens of content a slot may have; more is another sentence.
const SLOT: usize = 3;
/// Slots that may differ before the frames count as different.
const SLOTS: usize = 3;

/// Words that carry no content of their own.
const EMPTY: &str = " a an the is are was were be been am has have had do does did to of in on at by for with from as and or but that this it its his her their our my your he she they we you i not no so then there will would can could should may might must also very too just about into over under user users who which what when where how if than up out off all any every each der das ein eine ist und für auf le la les de du des et est un une el los las y es en con para 的 了 在 是 和 与 也 都 就 很 着 过 把 被 由 从 到 对 个 有 这 那 它 他 她 我 你 于 里 中 上 下 之 而 及 を は が に で と も の へ や か ね よ た て し い だ です ます する した して ";

/// Groups of words that say the same.
const SYNONYMS: &[&[&str]] = &[
    &[
        "like", "likes", "love", "loves", "prefer", "prefers", "enjoy", "enjoys", "favour", "favors", "best",
        "fond",
    ],
    &["buy", "bought", "purchase", "purchased"],
    &["big", "large", "huge"],
    &["small", "little", "tiny"],
    &["quick", "fast", "rapid"],
    &["begin", "begins", "start", "starts", "began", "started"],
    &["stop", "stopped", "quit", "ceased"],
    &["film", "films", "movie", "movies"],
    &["job", "work", "position"],
    &["works", "employed", "working"],
    &["choose", "chose", "chosen", "picked", "selected", "decided"],
    &["use", "uses", "using", "utilises", "employs"],
    &["called", "named"],
    &["fix", "fixed", "repaired", "resolved"],
    &["kids", "children"],
    &["mum", "mom", "mother"],
    &["dad", "father"],
    &["phone", "telephone"],
    &["every", "each", "all", "any"],
    &["repo", "repository"],
    &["error", "fault", "failure"],
    &["wants", "wishes", "would"],
    &["lives", "resides"],
    &["speaks", "talks"],
    &["meeting", "sync"],
    &["must", "should", "needs", "has"],
    &["say", "says", "said", "told", "tells"],
    &["forbidden", "prohibited", "banned", "disallowed"],
    &["allowed", "permitted"],
    &["mode", "theme"],
    &["team", "group"],
    &["car", "automobile"],
    &["喜欢", "喜爱", "偏好", "爱"],
    &["使用", "采用", "用"],
    &["模式", "主题"],
    &["所有", "任何", "全部", "一切", "每个"],
    &["禁止", "不要", "不得", "不能"],
    &["生日", "出生", "生于"],
    &["birthday", "born"],
    &["仓库", "代码仓库"],
    &["好む", "好き", "好きだ"],
    &["선호한다", "좋아한다"],
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

/// Whether a token carries content.
pub(super) fn is_content(token: &str) -> bool {
    !EMPTY.contains(&format!(" {token} "))
}

/// The values of the first slot that differs while the frame is the same. `None` when the frames differ, or when
/// the values are the same word inflected or synonyms.
pub(super) fn swapped(first: &str, second: &str) -> Option<(String, String)> {
    let (a, b) = (tokens(first), tokens(second));
    let hunks = hunks(&a, &b);
    let changed_a: usize = hunks.iter().map(|(x, _)| x.len()).sum();
    let changed_b: usize = hunks.iter().map(|(_, y)| y.len()).sum();
    let content = |tokens: &[String]| tokens.iter().filter(|token| is_content(token)).count();
    let kept = content(&a).saturating_sub(hunks.iter().map(|(x, _)| content(x)).sum());
    // The same frame: few slots, and at least half of the shorter text stands in both.
    let shorter = a.len().min(b.len());
    let common = a.len() - changed_a;
    if hunks.is_empty()
        || hunks.len() > SLOTS
        || common * 2 < shorter
        || kept == 0
        || changed_a.max(changed_b) > 2 * SLOT * SLOTS
    {
        return None;
    }
    let cjk = a.iter().any(|token| token.chars().any(|c| is_han(c) || is_kana(c)));
    // A word in Han or kana is about two tokens.
    let most = if cjk { 2 * SLOT } else { SLOT };
    hunks.into_iter().find_map(|(x, y)| {
        let (p, q) = (content(x), content(y));
        let values = (1..=most).contains(&p) && (1..=most).contains(&q) && !same_words(x, y);
        // "Is the case" and "was the case" differ though neither word has content.
        let tense = matches!((x, y), ([x], [y]) if tense(x, y));
        let glue = if cjk { "" } else { " " };
        (values || tense).then(|| (x.join(glue), y.join(glue)))
    })
}

fn tense(x: &str, y: &str) -> bool {
    [("is", "was"), ("are", "were"), ("has", "had")]
        .iter()
        .any(|&(now, then)| (x, y) == (now, then) || (x, y) == (then, now))
}

/// Whether the words are the same but for their order, which then carries the meaning ("Alice manages Bob").
pub(super) fn reordered(first: &str, second: &str) -> Option<(String, String)> {
    let (a, b) = (tokens(first), tokens(second));
    let (mut x, mut y) = (a.clone(), b.clone());
    x.sort();
    y.sort();
    (x == y && a != b).then(|| (a.join(" "), b.join(" ")))
}

/// The stretches in which two token lists differ, by longest common subsequence.
fn hunks<'a>(a: &'a [String], b: &'a [String]) -> Vec<(&'a [String], &'a [String])> {
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
            found.push((&a[from_i..i], &b[from_j..j]));
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
    if synonyms(&joined(x), &joined(y)) {
        return true;
    }
    let content =
        |tokens: &[String]| tokens.iter().filter(|token| is_content(token)).cloned().collect::<Vec<_>>();
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

    #[test]
    fn a_swapped_slot_is_found_in_the_same_frame_only() {
        for (first, second, expected) in [
            ("Indent Go files with tabs.", "Indent Go files with four spaces.", true),
            ("The project license is MIT.", "The project license is GPL version 3.", true),
            ("用户喜欢深色模式。", "用户喜欢浅色模式。", true),
            ("ユーザーはダークモードを好む。", "ユーザーはライトモードを好む。", true),
            ("사용자는 다크 모드를 선호한다.", "사용자는 라이트 모드를 선호한다.", true),
            ("The server is up.", "The server was up.", true),
            ("The user likes tea.", "The user loves tea.", false),
            ("The user deploys on request.", "The user deployed on request.", false),
            ("Biscuit is the name of the user's dog.", "The user's dog is called Biscuit.", false),
            ("The user likes tea.", "The user likes tea very much.", false),
            ("Penguins swim.", "Alice bakes bread.", false),
        ] {
            assert_eq!(swapped(first, second).is_some(), expected, "{first} / {second}");
        }
    }

    #[test]
    fn the_values_of_the_slot_are_told() {
        let values = swapped("Indent Go files with tabs.", "Indent Go files with four spaces.").unwrap();
        assert_eq!(values, ("tabs".to_owned(), "four spaces".to_owned()));
    }
}
