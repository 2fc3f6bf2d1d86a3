//! What tells a secret from a word that only stands where a secret would.

use std::sync::LazyLock;

use regex::Regex;

pub(super) fn always(_: &str) -> bool {
    true
}

pub(super) fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Behind "password:": anything but a word of prose, a variable or a type.
pub(super) fn is_password(text: &str) -> bool {
    !is_prose(text) && !is_reference(text)
}

/// A spoken password is told from an adjective: it has a digit, a sign or mixed case.
pub(super) fn is_spoken_password(text: &str) -> bool {
    let text = text.trim_end_matches(['!', '?', '.']);
    let mixed = text.chars().skip(1).any(char::is_uppercase) && text.chars().any(char::is_lowercase);
    let sign = text.chars().any(|c| "!@#$%^&*+=_~".contains(c));
    (has_digit(text) || mixed || sign) && !is_reference(text)
}

/// Figures and letters, or a sign within: what no word of prose has behind "password" without a verb.
pub(super) fn is_strong_password(text: &str) -> bool {
    let letters = text.chars().any(char::is_alphabetic);
    text.chars().count() >= 6 && letters && has_digit(text) && !is_reference(text)
}

/// A single word that ends the sentence "the password is …" and is no adjective.
pub(super) fn is_password_word(text: &str) -> bool {
    const ENDINGS: [&str; 14] =
        ["ed", "ing", "ly", "able", "ible", "ful", "less", "ive", "ous", "ent", "ant", "ten", "ory", "ic"];
    let low = text.to_lowercase();
    text.chars().count() >= 4
        && text.chars().all(char::is_alphabetic)
        && !is_prose(text)
        && !ENDINGS.iter().any(|ending| low.ends_with(ending))
}

/// Several words that are a phrase to remember: the first one begins no ordinary clause.
pub(super) fn is_passphrase(text: &str) -> bool {
    !text.split_whitespace().next().is_none_or(is_prose) && !is_reference(text)
}

/// In quotes a phrase may begin with any word, but "too short" is a remark.
pub(super) fn is_quoted_phrase(text: &str) -> bool {
    !text.split_whitespace().all(is_prose) && !is_reference(text)
}

/// Tokens are long and not a word: "token: ring" is none.
pub(super) fn is_token(text: &str) -> bool {
    text.len() >= 8 && text.is_ascii() && (has_digit(text) || text.len() >= 24) && !is_reference(text)
}

/// In a link many words stand behind an equals sign; a token is longer.
pub(super) fn is_token_in_a_link(text: &str) -> bool {
    text.len() >= 20 || text.len() >= 12 && has_digit(text)
}

/// A variable, a template, a type or dots instead of a value.
pub(super) fn is_reference(text: &str) -> bool {
    static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?:\$(?:[A-Z_][A-Z0-9_]*|[a-z_]+|[{(].*)|\{.*|<[A-Za-z][\w .-]*>?|%[A-Z_a-z]+%?|",
            r"&(?:'\w+ ?)?(?:mut ?)?(?:str|String)?|(?i:str|string|bool|int|char|bytes|option|none|null|undefined|any)(?:[<(].*)?|",
            r"(?:[a-z_]+|[a-z]+(?:[A-Z][a-z]+)+)(?:\.[A-Za-z_]+)+(?:[(\[].*)?|[A-Za-z_.]+\(.*|",
            r"(?i:password|passwd|pwd|pass|passphrase|token|secret|api_?key|value|input)|(?i:your|my|the|insert|enter|add|put)[_ -].*|[*•xX.…_-]{3,}|'\w+)$",
        ))
        .expect("the pattern is fixed")
    });
    REFERENCE.is_match(text)
}

/// Words that people write where a password would stand.
fn is_prose(text: &str) -> bool {
    const WORDS: &str = "a above again all already also always an and another any as ask at awful bad be because been \
        before behind below better between broken by case changed common complex confidential correct dead default \
        different due easy either empty enough even expired false fine for forgotten from full gone good great hard \
        harder hers hidden his here i if impossible in incorrect inside insecure invalid it its just kept known lame \
        later less like long longer lost maybe mine missing more my near never new no none not nothing now null obsolete \
        off ok okay old on one only optional or other ours out outdated over perfect plain poor pretty private public \
        quite rather ready really required reset right safe same saved secret secure see set short shorter simple so \
        somewhere still stored strong stronger stuck such sure taken temporary terrible that the their theirs then there \
        this to today too tomorrow tricky true under unique unknown unsafe unset until up useless valid very visible weak \
        weaker weird what when where which with within without wrong yesterday yours you your \
        abgelaufen falsch geheim gleich hier im in ist kein nicht noch richtig sehr sicher unbekannt unter zu \
        auf immer wie so obligatoire 无 没有 什么 なし incorrect dans est ne pas sur en la le una un muy no es incorrecta obligatoria \
        written wie auch schon bereits dieselbe dasselbe";
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    word.is_empty() || WORDS.split_whitespace().any(|known| known == word)
}
