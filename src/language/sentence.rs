//! Splitting a text into sentences by Latin and CJK punctuation, without a model.
//! Slices of the original; no sentence end is seen inside a fence, an abbreviation or a decimal.

use std::sync::LazyLock;

use regex::Regex;

use super::is_cjk;

/// Never ends a sentence.
const TITLES: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "e.g", "i.e", "z.b", "d.h", "u.a", "vs", "cf", "no", "nr", "bzw",
    "u.s", "u.k", "u.n", "fig", "p.ej", "sr", "sra", "mme", "approx", "ca", "jr", "vol",
];
/// Ends a sentence only before a capital.
const MAYBE: &[&str] = &["p.m", "a.m", "etc", "inc", "ltd", "co", "corp", "usw", "ph.d", "b.a", "m.a"];

/// A line that stands for itself: list item, heading, quote, table row.
static OWN_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:[-*+•]\s|\d{1,3}[.)、]\s?|#{1,6}\s|>|\|)").expect("a literal pattern")
});

const CLOSERS: &[char] =
    &['"', '\'', '”', '’', ')', ']', '}', '）', '】', '」', '』', '》', '〉', '»', '*', '_'];

/// The sentences of a text in order, trimmed, none empty. Together they hold every character but white space.
/// Lines of a list, headings, blank lines and whole fences separate.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut block = 0;
    let mut offset = 0;
    let mut fence = false;
    let mut own_line = false;
    for line in text.split_inclusive('\n') {
        let (start, end) = (offset, offset + line.len());
        offset = end;
        let is_mark = line.trim_start().starts_with("```");
        if fence {
            if is_mark {
                push(text, block, end, &mut found);
                (block, fence) = (end, false);
            }
            continue;
        }
        let own = OWN_LINE.is_match(line);
        if is_mark || own || own_line || line.trim().is_empty() {
            split(text, block, start, &mut found);
            block = start;
        }
        // A continuation line, indented below its list item, belongs to it no more than another line does.
        own_line = own;
        fence = is_mark && line.trim().matches("```").count() == 1;
    }
    if fence {
        push(text, block, text.len(), &mut found)
    } else {
        split(text, block, text.len(), &mut found)
    }
    found
}

fn push<'a>(text: &'a str, start: usize, end: usize, found: &mut Vec<&'a str>) {
    let sentence = text[start..end].trim();
    if !sentence.is_empty() {
        found.push(sentence);
    }
}

/// Splits one block of prose at its sentence ends.
fn split<'a>(text: &'a str, start: usize, end: usize, found: &mut Vec<&'a str>) {
    let block = &text[start..end];
    let mut sentence = 0;
    let mut chars = block.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !matches!(c, '.' | '!' | '?' | '。' | '！' | '？' | '；' | '…' | '．') {
            continue;
        }
        let mut close = at + c.len_utf8();
        while let Some((next, d)) = chars.next_if(|&(_, d)| "。！？!?….".contains(d)) {
            close = next + d.len_utf8();
        }
        let mark_end = close;
        while let Some((next, d)) = chars.next_if(|&(_, d)| CLOSERS.contains(&d)) {
            close = next + d.len_utf8();
        }
        if ends_here(&block[sentence..at], &block[at..mark_end], &block[close..]) {
            push(block, sentence, close, found);
            sentence = close;
        }
    }
    push(block, sentence, block.len(), found);
}

/// Whether a mark between these two texts ends a sentence.
fn ends_here(before: &str, mark: &str, after: &str) -> bool {
    let Some(next) = after.chars().next() else { return true };
    let capital = after.trim_start().chars().next().is_none_or(|c| !c.is_lowercase());
    if mark.chars().any(|c| "。！？；．".contains(c)) {
        return true;
    }
    if !next.is_whitespace() && !is_cjk(next) {
        return false;
    }
    if mark.starts_with('…') || mark.starts_with("..") {
        return capital;
    }
    if mark != "." {
        return true;
    }
    if is_cjk(next) {
        return before.ends_with(|c: char| c.is_alphabetic());
    }
    let word = before.rsplit(|c: char| c.is_whitespace() || "([\"'“".contains(c)).next().unwrap_or_default();
    let lower = word.to_lowercase();
    if TITLES.contains(&lower.as_str()) {
        return false;
    }
    if MAYBE.contains(&lower.as_str()) {
        return capital;
    }
    if word.chars().count() == 1 && word.chars().all(|c| c.is_uppercase()) && word != "I" {
        return false;
    }
    // "1. First point", "am 3. Mai": a number with a dot at the start, or before a month.
    let numbered = !word.is_empty() && word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit());
    let before_it = before[..before.len() - word.len()].trim_end();
    let point = before_it.ends_with([':', '：', ',', '，', ';', '；']);
    !(numbered && (before_it.is_empty() || point || starts_with_month(after)))
}

fn starts_with_month(text: &str) -> bool {
    const MONTHS: &[&str] = &[
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ];
    MONTHS.iter().any(|month| text.trim_start().starts_with(month))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_end_where_a_reader_would_end_them() {
        for (text, expected) in [
            ("I like tea. I hate coffee!", &["I like tea.", "I hate coffee!"][..]),
            ("i like tea. i hate coffee", &["i like tea.", "i hate coffee"][..]),
            (
                "Mr. Smith met Dr. Jones at 3 p.m. on Monday. It rained.",
                &["Mr. Smith met Dr. Jones at 3 p.m. on Monday.", "It rained."][..],
            ),
            ("We meet at 3 p.m. Bring snacks.", &["We meet at 3 p.m.", "Bring snacks."][..]),
            (
                "Use e.g. v2.3 or 1.5, as in the U.S. and elsewhere.",
                &["Use e.g. v2.3 or 1.5, as in the U.S. and elsewhere."][..],
            ),
            ("Das gilt z.B. am 3. Mai. Danach nicht.", &["Das gilt z.B. am 3. Mai.", "Danach nicht."][..]),
            ("J. Smith wrote it.", &["J. Smith wrote it."][..]),
            ("He said \"Go away.\" Then he left.", &["He said \"Go away.\"", "Then he left."][..]),
            ("今天很好。我去了公园！你呢？", &["今天很好。", "我去了公园！", "你呢？"][..]),
            (
                "他说：“我去。”然后走了；我没去……真的",
                &["他说：“我去。”", "然后走了；", "我没去……", "真的"][..],
            ),
            ("「行く。」と言った。明日だ", &["「行く。」", "と言った。", "明日だ"][..]),
            ("서울에 산다. 부산이 좋다.", &["서울에 산다.", "부산이 좋다."][..]),
            ("- one. two\n- three\n\nfour\nfive", &["- one.", "two", "- three", "four\nfive"][..]),
            ("1. First point\n2. Second point", &["1. First point", "2. Second point"][..]),
            ("See:\n```\na. b. c\n```\nDone. Bye.", &["See:", "```\na. b. c\n```", "Done.", "Bye."][..]),
            ("```\nnever. closed", &["```\nnever. closed"][..]),
            ("Wait... what? Yes.", &["Wait... what?", "Yes."][..]),
            ("It costs 30. Then 40.", &["It costs 30.", "Then 40."][..]),
            ("see example.com/a.b?c=d for more", &["see example.com/a.b?c=d for more"][..]),
            ("", &[][..]),
        ] {
            assert_eq!(sentences(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_character_is_lost(text in "([a-zA-Z。！？.!?…\"” \n`0-9你好-]|```\n){0,60}") {
            let joined: String = sentences(&text).concat().split_whitespace().collect();
            let whole: String = text.split_whitespace().collect();
            prop_assert_eq!(joined, whole);
        }
    }
}
