//! Secrets: keys, tokens, passwords. They are removed for good, from what is kept as well as from what is sent.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A text without secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The text, each secret replaced by `[secret removed]`.
    pub text: String,
    /// How many were.
    pub removed: usize,
}

const REMOVED: &str = "[secret removed]";

/// How a match is judged.
enum Rule {
    /// All of it is the secret.
    Whole(Regex),
    /// Only the group `secret` is, if the check agrees.
    Part(Regex, fn(&str) -> bool),
}

/// Removes what looks like a secret. Doing it twice changes nothing.
pub fn without_secrets(text: &str) -> Cleaned {
    let mut cleaned = Cleaned { text: text.to_owned(), removed: 0 };
    // A removal may bring two pieces together that are one more secret. Each round removes at least one, and a
    // second round is rare.
    loop {
        let removed = cleaned.removed;
        for rule in RULES.iter() {
            if let Cow::Owned(text) = apply(rule, &cleaned.text, &mut cleaned.removed) {
                cleaned.text = text;
            }
        }
        if cleaned.removed == removed {
            return cleaned;
        }
    }
}

fn apply<'a>(rule: &Rule, text: &'a str, removed: &mut usize) -> Cow<'a, str> {
    let before = *removed;
    let replaced = match rule {
        Rule::Whole(pattern) => pattern.replace_all(text, |_: &Captures| {
            *removed += 1;
            REMOVED
        }),
        Rule::Part(pattern, is_secret) => pattern.replace_all(text, |found: &Captures| {
            let whole = found.get(0).map_or(0, |whole| whole.start());
            match found
                .name("secret")
                .filter(|secret| !secret.as_str().starts_with("[secret") && is_secret(secret.as_str()))
            {
                None => found[0].to_owned(),
                Some(secret) => {
                    *removed += 1;
                    let (start, end) = (secret.start() - whole, secret.end() - whole);
                    format!("{}{REMOVED}{}", &found[0][..start], &found[0][end..])
                }
            }
        }),
    };
    if *removed == before { Cow::Borrowed(text) } else { replaced }
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let whole = |text: &str| Rule::Whole(pattern(text));
    let part = |text: &str, check| Rule::Part(pattern(text), check);
    vec![
        // A private key, whole; or its beginning or end, where the text was cut.
        whole(concat!(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:",
            r"(?:(?:\s|\\[nr])*(?:(?:Proc-Type|DEK-Info|Comment|Version): ?[^\n\\]*|[A-Za-z0-9+/=]+))*(?:\s|\\[nr])*",
            r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
            r"|(?:(?:\s|\\[nr])*(?:(?:Proc-Type|DEK-Info): ?[^\n\\]*|[A-Za-z0-9+/=]{20,}))*)",
        )),
        whole(
            r"(?:[A-Za-z0-9+/=]{32,}(?:\s|\\[nr])+)*[A-Za-z0-9+/=]*(?:\s|\\[nr])*-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
        ),
        part(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[^\s/@:]*:[^\s/@]+)@", |_| true),
        whole(concat!(
            r"\b(?:(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|",
            r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{30,}|",
            r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?|\d{8,10}:[A-Za-z0-9_-]{35}\b|hf_[A-Za-z0-9]{30,}|",
            r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|",
            r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|AGE-SECRET-KEY-[A-Z0-9]{20,}|",
            r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{10,}|",
            r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[A-Za-z0-9/_-]{10,})",
        )),
        part(r"\b(?P<secret>sk-[A-Za-z0-9_-]{16,})", has_digit),
        part(r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{12,})", has_digit),
        part(
            r"(?i)\bauthorization\s*[:=]\s*(?:basic|bearer|token)\s+(?P<secret>[A-Za-z0-9._~+/=-]{6,})",
            |_| true,
        ),
        // key = "value" and key: value, in prose, in a shell, in JSON, in a URL.
        part(
            &assignment(
                r"(?:[\w-]*(?:password|passwd|passphrase|passwort|contraseña|pwd)|pass|pw|密码|密碼|口令|暗号|パスワード)",
                r"\S",
            ),
            is_password,
        ),
        part(
            &assignment(
                concat!(
                    r"(?:[\w-]*(?:api[ _-]?key|secret[ _-]?key|access[ _-]?key|private[ _-]?key|client[ _-]?secret|secret|token|",
                    r"credential)|密钥|密鑰|令牌)",
                ),
                r"[^&\s]",
            ),
            is_token,
        ),
        // "my password is hunter2", "密码是123456".
        part(
            concat!(
                r"(?i)\b(?:password|passphrase|passcode|passwort|contraseña)(?: (?:for|of|to|on) [^.:;\n]{1,40}?)?",
                r#" (?:is|was|ist|es)(?: now)?:? ["'`“‘]?(?P<secret>[^\s"'`”’]+[^\s"'`”’.,;:!?])["'`”’]?(?:[.,;!?]|\s|$)"#,
            ),
            is_spoken_password,
        ),
        part(
            r#"(?:密码|密碼|口令|密钥|暗号)(?:都|还)?(?:是|为|為|改成了?|换成了?)\s*[“"'「`]?(?P<secret>[!-~]{3,})"#,
            |_| true,
        ),
        part(r"\bPIN(?:[ -]?(?:code|Code))?(?: is| was|:| =|=)? ?(?P<secret>\d{4,8})\b", |_| true),
    ]
});

fn assignment(keyword: &str, character: &str) -> String {
    let quoted = r#"(?:\\?["'`“「]?)"#;
    let value = format!(r#"(?P<secret>(?:{character}){{1,400}}?)"#);
    let end = r#"(?:\\?["'`”」]|[,;，。；、)\]}>]|\s|&|$)"#;
    format!(r#"(?i)(?:^|[^\pL\pN]|[_-]|\b){keyword}{quoted}[ \t]*(?:=>|:=|=|:|：)[ \t]*{quoted}{value}{end}"#)
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Words that people write where a password would stand.
fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 44] = [
        "a",
        "an",
        "and",
        "ask",
        "be",
        "below",
        "changed",
        "correct",
        "empty",
        "expired",
        "for",
        "forgotten",
        "gone",
        "hidden",
        "in",
        "incorrect",
        "invalid",
        "it",
        "known",
        "missing",
        "my",
        "no",
        "none",
        "not",
        "null",
        "on",
        "optional",
        "required",
        "reset",
        "safe",
        "same",
        "saved",
        "see",
        "set",
        "stored",
        "strong",
        "the",
        "to",
        "unknown",
        "unset",
        "weak",
        "written",
        "wrong",
        "your",
    ];
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    word.is_empty() || WORDS.contains(&word.as_str())
}

fn is_password(text: &str) -> bool {
    !is_placeholder(text)
}

/// A spoken password is told from an adjective: it has a digit, a sign or mixed case.
fn is_spoken_password(text: &str) -> bool {
    let mixed = text.chars().skip(1).any(char::is_uppercase);
    let sign = text.chars().any(|c| "!@#$%^&*+=_~".contains(c));
    has_digit(text) || mixed || sign
}

/// Tokens are long and not a word: "token: ring" is none.
fn is_token(text: &str) -> bool {
    text.len() >= 8 && text.is_ascii() && (has_digit(text) || text.len() >= 24) && !text.starts_with('$')
}
