//! URLs, e-mail addresses and identifiers: code spans, paths, versions, hashes, snake_case, camelCase, model names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::{blank, compile};

static URL: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?i)(?:https?://|www\.)[^\s<>"'`\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}，。；）」』】]+|[\w.+-]+@[\w-]+\.[\w.-]*\w"#,
    )
});

static SPAN: LazyLock<Regex> = LazyLock::new(|| compile(r"`+([^`]+)`+"));

static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i)\b(?:v|version |版本 ?|バージョン ?|버전 ?)(\d+(?:\.\d+)*[a-z0-9.-]*)|\b(\d+\.\d+\.\d+(?:[.-]\w+)*)\b",
    )
});

static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?-u:(?:[A-Za-z0-9_.~-]*/[A-Za-z0-9_./-]*[A-Za-z0-9_-])",
        r"|--[A-Za-z][A-Za-z-]+",
        r"|[A-Za-z0-9_.-]*[A-Za-z0-9_-]\.(?:rs|py|js|ts|tsx|jsx|md|json|toml|yaml|yml|txt|sh|csv|html|css|go|java|cpp|sql|env|lock|log|pdf|docx?|xlsx?|png|jpe?g|conf|ini|xml|com|org|net|io|dev|cn|jp|kr)\b",
        r"|[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*)"
    ))
});

/// Takes URLs and addresses out of the text.
pub(super) fn take_urls(text: &mut String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if !text.contains(['@', ':', '.']) {
        return found;
    }
    let mut taken = Vec::new();
    for m in URL.find_iter(text) {
        let trimmed = m.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '*', '_']);
        found.insert(trimmed.trim_end_matches('/').to_owned());
        taken.push(m.start()..m.start() + trimmed.len());
    }
    taken.into_iter().for_each(|range| blank(text, range));
    found
}

/// Takes code spans and version numbers out of the text; before dates, since a version is no date.
pub(super) fn take_spans(text: &mut String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut taken = Vec::new();
    if text.contains('`') {
        for m in SPAN.captures_iter(text) {
            let span = m[1].split_whitespace().collect::<Vec<_>>().join(" ");
            if span.chars().any(char::is_alphanumeric) {
                found.insert(span);
            }
            taken.push(m.get(0).expect("group 0").range());
        }
        std::mem::take(&mut taken).into_iter().for_each(|range| blank(text, range));
    }
    if text.bytes().any(|b| b.is_ascii_digit()) {
        for m in VERSION.captures_iter(text) {
            let number = m.get(1).or(m.get(2)).map_or("", |part| part.as_str()).trim_end_matches(['.', '-']);
            // Three parts with a four-digit year in front or behind are a date.
            let dated = m.get(1).is_none() && number.split('.').any(|part| part.len() == 4);
            if !dated {
                found.insert(format!("v{number}"));
                taken.push(m.get(0).expect("group 0").range());
            }
        }
        taken.into_iter().for_each(|range| blank(text, range));
    }
    found
}

/// Takes the other identifiers out of the text; after dates and times, before numbers.
pub(super) fn take_tokens(text: &mut String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut taken = Vec::new();
    for m in TOKEN.find_iter(text) {
        if is_identifier(m.as_str()) {
            found.insert(m.as_str().to_owned());
            taken.push(m.range());
        }
    }
    taken.into_iter().for_each(|range| blank(text, range));
    found
}

fn is_identifier(token: &str) -> bool {
    let bytes = token.as_bytes();
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    let (digits, letters) = (has(u8::is_ascii_digit), has(u8::is_ascii_alphabetic));
    if token.contains('/') {
        // "and/or", "4/5" are prose; a path begins at the root, has two slashes, or a dot or underscore.
        let rooted = token.starts_with(['/', '.', '~']) && letters;
        return rooted
            || letters && (token.matches('/').count() > 1 || token.contains(['.', '_']))
            || letters && digits;
    }
    if !letters {
        return false;
    }
    if token.starts_with("--") {
        return true;
    }
    let underscore = token.trim_matches('_').contains('_');
    let camel = bytes[0].is_ascii_lowercase()
        && !token.contains('-')
        && bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let dotted = token.contains('.');
    // Letters and digits together, unless digits come first: 30s, 128k, 3rd are numbers, 4o or 7b1c2d3 are not.
    let mixed = digits && (!bytes[0].is_ascii_digit() || !number_like(token));
    underscore || camel || dotted || mixed
}

/// Digits followed by one run of letters that reads as a unit, a magnitude or an ordinal, or a hyphenated word.
fn number_like(token: &str) -> bool {
    let rest = token.trim_start_matches(|c: char| c.is_ascii_digit());
    if let Some(word) = rest.strip_prefix('-') {
        return word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
            || word.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    }
    matches!(
        rest.to_ascii_lowercase().as_str(),
        "st" | "nd"
            | "rd"
            | "th"
            | "k"
            | "m"
            | "s"
            | "ms"
            | "h"
            | "min"
            | "sec"
            | "hr"
            | "hrs"
            | "km"
            | "cm"
            | "mm"
            | "kg"
            | "g"
            | "kb"
            | "mb"
            | "gb"
            | "tb"
            | "px"
            | "hz"
            | "ghz"
            | "mhz"
            | "l"
            | "ml"
            | "usd"
            | "eur"
            | "am"
            | "pm"
            | "mins"
            | "secs"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn urls_end_before_the_punctuation_of_the_sentence() {
        for (text, expected) in [
            ("See https://example.com/a?b=1.", &["https://example.com/a?b=1"][..]),
            ("(https://example.com/)", &["https://example.com"]),
            ("文档在https://example.com/docs。", &["https://example.com/docs"]),
            ("mail a.b@example.com, please", &["a.b@example.com"]),
            ("no link here: none", &[]),
        ] {
            let found = take_urls(&mut text.to_owned());
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn identifiers_are_found_and_prose_is_not() {
        for (text, expected) in [
            ("call read_file on src/main.rs", &["read_file", "src/main.rs"][..]),
            ("run `cargo  build`", &["cargo build"]),
            ("upgrade to v2.3", &["v2.3"]),
            ("fixed as of version 2.3.", &["v2.3"]),
            ("GPL version 3", &["v3"]),
            ("an RTX4090 and GPT-4 in useState", &["GPT-4", "RTX4090", "useState"]),
            ("commit 7b1c2d3", &["7b1c2d3"]),
            ("pass --dry-run to it", &["--dry-run"]),
            ("用RTX4090训练", &["RTX4090"]),
            ("30s, 128k tokens, the 3rd, and/or second-hand 30-second", &[]),
            ("at /etc/hosts or ~/.ssh", &["/etc/hosts", "~/.ssh"]),
        ] {
            let mut text = text.to_owned();
            let mut found = take_spans(&mut text);
            found.extend(take_tokens(&mut text));
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
