//! What can be told about a text without a model: its language, its sentences, whether it asks or only greets,
//! and the folded form in which texts are compared.
//! What a text states (numbers, dates, names) is `detail`'s work.

mod controls;
mod sentence;
mod small_talk;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::UnicodeNormalization;

pub use controls::without_controls;
pub use sentence::sentences;
pub use small_talk::is_small_talk;

/// A number with its noun, in English: `1 memory`, `2 memories`.
pub fn counted(count: usize, noun: &str) -> String {
    let ends_in_ies = |stem: &str| !stem.ends_with(['a', 'e', 'o', 'u']);
    match (count, noun.strip_suffix('y').filter(|stem| ends_in_ies(stem))) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// The language of a text, as far as scripts tell. Languages in Latin letters are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// English, German, French, Spanish and the like.
    Latin,
    /// Chinese.
    Chinese,
    /// Japanese: Han characters with kana.
    Japanese,
    /// Korean.
    Korean,
    /// Any other script.
    Other,
}

/// Characters a memory may have, when most of it is not CJK.
const LIMIT: usize = 300;
/// Characters a memory may have, when most of it is CJK: they say about twice as much each.
const CJK_LIMIT: usize = 150;
/// Share of a source above which a language counts as used there.
const USED_SHARE: f64 = 0.3;

/// Fences, code spans, URLs, addresses, paths and anything else that says nothing about the language.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s)```.*?(?:```|\z)|`[^`\n]*`|https?://[^\s\p{Han}]+|\S+@[\w.-]+|[\w-]*[/\\][\w./\\-]+",
        r"|\b\w+_\w+\b|\b[A-Za-z]*\d\w*\b|--?[a-z][\w-]+"
    ))
    .expect("a literal pattern")
});

/// The language most of the text is in; code, URLs and numbers do not count. `None` without letters.
pub fn of(text: &str) -> Option<Language> {
    let weights = weights(text);
    let best = weights.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(*best.0)
}

/// The language somebody speaks in one sentence: Japanese where there is kana, however many Han characters and digits
/// stand around it.
pub fn spoken(text: &str) -> Option<Language> {
    let found = of(text);
    let kana = text.chars().filter(|c| is_kana(*c)).count();
    let latin = text.chars().filter(|c| is_latin(*c)).count();
    match found {
        Some(Language::Latin) if latin > text.chars().filter(|c| is_cjk(*c)).count() => found,
        Some(Language::Korean) => found,
        _ if kana > 0 => Some(Language::Japanese),
        _ => found,
    }
}

/// Whether a draft is in a language its sources use. Names and identifiers in another script do not count; a
/// text without letters agrees with everything.
pub fn agrees(draft: &str, sources: &[&str]) -> bool {
    let Some(language) = of(draft) else { return true };
    let mut any = false;
    for source in sources {
        let weights = weights(source);
        let total: f64 = weights.values().sum();
        any |= total > 0.0;
        if weights.get(&language).is_some_and(|weight| *weight >= USED_SHARE * total) {
            return true;
        }
    }
    !any
}

/// Words of each language; two Han characters or Korean syllables weigh as much as one Latin word.
fn weights(text: &str) -> BTreeMap<Language, f64> {
    let prose = CODE.replace_all(text, " ");
    let (mut han, mut kana, mut hangul, mut other) = (0.0, 0.0, 0.0, 0.0);
    let (mut plain, mut capitalised) = (0.0, 0.0);
    let mut word_start = true;
    for c in prose.chars() {
        let starts = word_start;
        word_start = !is_latin(c);
        match c {
            _ if is_han(c) => han += 0.5,
            _ if is_kana(c) => kana += 0.5,
            _ if is_hangul(c) => hangul += 0.5,
            _ if is_latin(c) && starts && c.is_uppercase() => capitalised += 1.0,
            _ if is_latin(c) && starts => plain += 1.0,
            _ if c.is_alphabetic() && !is_latin(c) => other += 0.25,
            _ => {}
        }
    }
    // A lone capitalised word among other letters is most likely a name.
    let latin = if plain > 0.0 || han + kana + hangul + other == 0.0 { plain + capitalised } else { 0.0 };
    let mut weights = BTreeMap::new();
    // Decorative kana (の) in Chinese stays below a tenth; Japanese prose has a third and more.
    if kana > 0.1 * (han + kana) {
        weights.insert(Language::Japanese, han + kana);
    } else if han + kana > 0.0 {
        weights.insert(Language::Chinese, han + kana);
    }
    for (language, weight) in [(Language::Latin, latin), (Language::Korean, hangul), (Language::Other, other)]
    {
        if weight > 0.0 {
            weights.insert(language, weight);
        }
    }
    weights
}

fn is_latin(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}') && c.is_alphabetic()
        || matches!(c, '\'' | '’')
}

pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3005}' | '\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

pub(crate) fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}')
}

pub(crate) fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{ac00}'..='\u{d7a3}')
}

/// Whether the character is Chinese, Japanese or Korean: Han, kana or hangul, not punctuation.
pub fn is_cjk(c: char) -> bool {
    is_han(c) || is_kana(c) || is_hangul(c)
}

static GERMAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:der|das|dem|und|ist|sind|nicht|kein\w*|ein|eine|einen|mit|für|auf|von|zu|wird|ich|mir|mich|wir|mein\w*|bitte|immer|nie|vor|möchte|nutzer|müssen|habe|aus|auch|seit|jetzt|über|heute)(?-u:\b)")
        .expect("a literal pattern")
});

/// Whether a text in Latin letters is German, as far as its small words tell: a fifth of all.
pub(crate) fn is_german(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    let known = GERMAN.find_iter(text).count();
    known > 0 && known * 5 >= words
}

/// How many characters a memory with this text may have: 300, or 150 when CJK dominates.
pub fn limit(text: &str) -> usize {
    let cjk = text.chars().filter(|&c| is_cjk(c)).count();
    let other = text.chars().filter(|&c| c.is_alphanumeric()).count() - cjk;
    if cjk > other { CJK_LIMIT } else { LIMIT }
}

/// The form in which texts are compared: NFKC (full-width becomes half-width), lower case, straight quotes, plain
/// dashes, one space between words. Doing it twice changes nothing.
pub fn normalise(text: &str) -> String {
    let mut folded = fold(text).to_lowercase();
    if !folded.is_ascii() {
        // The lower case of a composed character may be a sequence that NFKC composes again.
        folded = folded.nfkc().collect();
    }
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// NFKC with unified quotes and dashes; keeps case and line breaks.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.nfkc() {
        folded.push(match c {
            '“' | '”' | '„' | '‟' | '«' | '»' => '"',
            '‘' | '’' | '‚' | '‛' => '\'',
            '‐' | '‑' | '–' | '—' | '−' => '-',
            c => c,
        });
    }
    folded
}

static QUESTION_WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:(?:so|and|but|well|then|hi|hello|ok|okay)[, ]+)?(?:what|who|whom|whose|where|when|why|how|which|do|does|did|can|could|would|will|is|are|am|was|were|should|have|has)",
        r"(?:'s|'re)? (?:you|i|we|it|he|she|they|the|this|that|there|your|my|is|are|do|does|did|can|could|should|would|will|much|many|about)\b"
    ))
    .expect("a literal pattern")
});

static QUESTION_END: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:吗|嗎|怎么办|怎么样|为什么|是什么|呢|ですか|ますか|でしょうか|ましたか|ませんか|습니까|을까요|ㄹ까요|나요|ㄴ가요|인가요|은가요)$")
        .expect("a literal pattern")
});

/// Whether the text only asks: every sentence is a question or small talk, and one is a question. A fact with a
/// question after it is not one, or the fact would be lost.
pub fn is_question(text: &str) -> bool {
    let mut asks = false;
    for sentence in sentences(text) {
        if asks_alone(sentence) {
            asks = true;
        } else if !is_small_talk(sentence) {
            return false;
        }
    }
    asks
}

/// Verbs whose polite form ends like a question: 일어나요 says that somebody gets up.
static KOREAN_STATEMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:일어|태어|깨어|헤어|드러|튀어|벗어|[만떠지끝빛겁혼신]|생각|나타|자라|달아|살아|화|열|소문|향기|냄새)나요$")
        .expect("a literal pattern")
});

static ASKING_CLAUSE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"什么|怎么|怎样|哪|谁|多少|有没有|是不是|能不能|可不可以|如何|是否|吗|何|どう|どこ|誰|いつ|무엇|뭐|어디|누구|언제|어떻게")
        .expect("a literal pattern")
});

fn asks_alone(sentence: &str) -> bool {
    let closers: &[char] = &['"', '\'', '”', '’', ')', '）', '」', '』', '*', '_', ' '];
    let sentence = normalise(sentence.trim_end_matches(closers));
    let bare = sentence.trim_end_matches(['。', '.', '!', '~', '…', ' ']);
    let asks = sentence.ends_with('?')
        || QUESTION_END.is_match(bare) && !KOREAN_STATEMENT.is_match(bare)
        || !sentence.ends_with(['.', '!']) && QUESTION_WORD.is_match(bare);
    // "I like painting, can you recommend a book?" states something before it asks.
    let mut clauses: Vec<&str> = bare.split([',', '、', ';']).map(str::trim).collect();
    clauses.pop();
    let empty = |clause: &&str| {
        is_small_talk(clause) || QUESTION_WORD.is_match(clause) || ASKING_CLAUSE.is_match(clause)
    };
    asks && clauses.iter().all(empty) && !bare.contains("that i ") && !bare.contains("that my ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_thing_is_singular_and_all_other_numbers_are_not() {
        for (count, noun, expected) in [
            (1, "memory", "1 memory"),
            (0, "memory", "0 memories"),
            (2, "day", "2 days"),
            (3, "try", "3 tries"),
            (1, "chunk", "1 chunk"),
            (12, "chunk", "12 chunks"),
        ] {
            assert_eq!(counted(count, noun), expected);
        }
    }

    #[test]
    fn a_text_has_the_language_most_of_it_is_in() {
        for (text, expected) in [
            ("The user likes tea.", Some(Language::Latin)),
            ("用户喜欢茶。", Some(Language::Chinese)),
            ("前端使用 React 和 TypeScript 编写。", Some(Language::Chinese)),
            ("ユーザーは紅茶が好きだ。", Some(Language::Japanese)),
            ("사용자는 서울에 산다.", Some(Language::Korean)),
            ("Пользователь живёт в Москве.", Some(Language::Other)),
            ("12:30 `let x = 1;` https://example.com/path", None),
            ("", None),
            ("请运行 `cargo build --release --locked`", Some(Language::Chinese)),
            ("She said 你好 to the shopkeeper in town.", Some(Language::Latin)),
            ("```\nfn main() {}\n``` 这是代码", Some(Language::Chinese)),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_draft_agrees_with_a_language_its_sources_use() {
        for (draft, sources, expected) in [
            ("The user likes tea.", &["I like tea."][..], true),
            ("用户喜欢茶。", &["I like tea."][..], false),
            ("The user likes tea.", &["我喜欢茶。"][..], false),
            ("用户使用 PostgreSQL。", &["我们用 PostgreSQL。"][..], true),
            ("ユーザーは東京に住む。", &["我住在东京。"][..], false),
            ("用户喜欢茶。", &["I like tea.", "我喜欢茶。"][..], true),
            ("42", &["我喜欢茶。"][..], true),
        ] {
            assert_eq!(agrees(draft, sources), expected, "{draft}");
        }
    }

    #[test]
    fn cjk_text_may_have_half_the_characters() {
        assert_eq!(limit("The user likes tea."), 300);
        assert_eq!(limit("用户喜欢茶。"), 150);
        assert_eq!(limit(""), 300);
    }

    #[test]
    fn folding_unifies_width_case_quotes_and_space() {
        assert_eq!(normalise("  ＡＢＣ　“１２”\n x "), "abc \"12\" x");
        assert_eq!(normalise("It’s 9–10"), "it's 9-10");
    }

    #[test]
    fn only_a_text_without_a_statement_is_a_question() {
        for (text, expected) in [
            ("Do you like novels?", true),
            ("Hello! How have you been?", true),
            ("what is the time", true),
            ("I went to Berlin. Do you know it?", false),
            ("I like tea.", false),
            ("I like tea, can you recommend one?", false),
            ("Do you know that I like photography?", false),
            ("我很喜欢旅游和看电影，你呢？", false),
            ("你觉得时间管理很重要吗？", true),
            ("你好，你喜欢运动吗", true),
            ("我最近去了厦门。你去过吗？", false),
            ("コーヒーは好きですか。", true),
            ("몇 시에 시작하나요?", true),
            ("저는 여섯 시에 일어나요.", false),
            ("", false),
        ] {
            assert_eq!(is_question(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "\\PC{0,40}") {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once);
        }

        #[test]
        fn a_draft_agrees_with_itself(text in "\\PC{0,40}") {
            prop_assert!(agrees(&text, &[&text]));
        }
    }
}
