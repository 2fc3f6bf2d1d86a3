//! Secrets: keys, tokens, passwords. They are removed for good, from what is kept as well as from what is sent.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::PLACEHOLDER;

/// A text without secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The text, each secret replaced by `[secret removed]`.
    pub text: String,
    /// How many were.
    pub removed: usize,
}

const REMOVED: &str = "[secret removed]";

const MAX_ROUNDS: usize = 16;

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
    // A removal may bring two pieces together that are one more secret: rare, but removing twice must change nothing.
    for _ in 0..MAX_ROUNDS {
        let removed = cleaned.removed;
        for rule in RULES.iter() {
            if let Cow::Owned(text) = apply(rule, &cleaned.text, &mut cleaned.removed) {
                cleaned.text = text;
            }
        }
        if cleaned.removed == removed {
            break;
        }
    }
    cleaned
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
            // What stands under a placeholder was judged before it was masked.
            let judged = |secret: &str| is_secret(&PLACEHOLDER.replace_all(secret, ""));
            match found
                .name("secret")
                .filter(|secret| !secret.as_str().starts_with("[secret") && judged(secret.as_str()))
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
        part(&assignment_quoted(PASSWORD), is_password),
        part(&assignment(PASSWORD, r"\S"), is_password),
        // A boarding pass is no password.
        part(&assignment("(?:pass|pw)", r"\S"), is_spoken_password),
        part(&assignment_quoted(TOKEN), is_token),
        part(&assignment(TOKEN, r"[^&\s]"), is_token),
        // "my password is hunter2", "密码是123456".
        part(
            concat!(
                r"(?i)\b(?:password|passphrase|passcode|passwort|contraseña)(?: (?:for|of|to|on) [^.:;\n]{1,40}?)?",
                r#" (?:is|was|ist|es)(?: now)?:? ["'`“‘]?(?P<secret>[^\s"'`”’]+[^\s"'`”’.,;:!?])["'`”’]?(?:[.,;!?]|\s|$)"#,
            ),
            is_spoken_password,
        ),
        part(
            concat!(
                r"(?i)\b(?:api[ _-]?key|secret[ _-]?key|access[ _-]?key|token)(?: (?:for|of|to) [^.:;\n]{1,40}?)?",
                r#" (?:is|was)(?: now)?:? ["'`“‘]?(?P<secret>[A-Za-z0-9._~+/=-]+)"#,
            ),
            is_token,
        ),
        part(
            r#"(?:密码|密碼|口令|密钥|暗号)(?:都|还)?(?:是|为|為|改成了?|换成了?)\s*[“"'「`]?(?P<secret>[!-~]{3,})"#,
            |_| true,
        ),
        part(r"\bPIN(?:[ -]?(?:code|Code))?(?: is| was|:| =|=)? ?(?P<secret>\d{4,8})\b", |_| true),
    ]
});

const PASSWORD: &str =
    r"(?:[\w-]*(?:password|passwd|passphrase|passwort|contraseña|pwd)|密码|密碼|口令|暗号|パスワード)";
const TOKEN: &str = concat!(
    r"(?:[\w-]*(?:api[ _-]?key|secret[ _-]?key|access[ _-]?key|private[ _-]?key|client[ _-]?secret|secret|token|",
    r"credential)|密钥|密鑰|令牌)",
);

/// In quotes a value may hold spaces.
fn assignment_quoted(keyword: &str) -> String {
    format!(
        r#"(?i)(?:^|[^\pL\pN]|[_-]|\b){keyword}["'`”]?[ \t]*(?:=>|:=|=|:|：)[ \t]*["“](?P<secret>[^"“”\n\\]{{1,200}})["”]"#
    )
}

fn assignment(keyword: &str, character: &str) -> String {
    let quoted = r#"(?:\\?["'`“「]?)"#;
    // A placeholder is taken whole, so that it can be told from a token.
    let value = format!(r#"(?P<secret>(?:\[[A-Za-z]+_\d{{1,9}}\]|{character})+?)"#);
    let end = r#"(?:\\?["'`”」]|[,;，。；、)\]}>]|\s|&|$)"#;
    format!(r#"(?i)(?:^|[^\pL\pN]|[_-]|\b){keyword}{quoted}[ \t]*(?:=>|:=|=|:|：)[ \t]*{quoted}{value}{end}"#)
}

/// With borders of ASCII words: a key may stand directly behind a Chinese character, and the engine is ten times slower
/// on Chinese text with the other kind.
fn pattern(text: &str) -> Regex {
    Regex::new(&text.replace(r"\b", r"(?-u:\b)")).expect("the pattern is fixed")
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Words that people write where a password would stand.
fn is_placeholder(text: &str) -> bool {
    const WORDS: &str = "a an and ask be below changed correct empty expired for forgotten gone hidden in incorrect \
        invalid it known missing my no none not null on optional required reset safe same saved see set stored strong \
        the to unknown unset weak written wrong your";
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    word.is_empty() || WORDS.split_whitespace().any(|known| known == word)
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

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn secrets_are_removed_and_the_words_around_them_stay() {
        let key = "A".repeat(64);
        let cases: Vec<(String, &str)> = vec![
            ("use sk-proj-abcDEF123456ghiJKL please".into(), "use [secret removed] please"),
            (format!("ghp_{}", "a1".repeat(18)), "[secret removed]"),
            (format!("github_pat_{}!", "a1".repeat(20)), "[secret removed]!"),
            ("slack xoxb-1234567890-abcdef".into(), "slack [secret removed]"),
            ("AKIAIOSFODNN7EXAMPLE".into(), "[secret removed]"),
            (format!("AIza{}", "x".repeat(35)), "[secret removed]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def-1".into(), "[secret removed]"),
            ("Authorization: Bearer abc.def-123456789".into(), "Authorization: Bearer [secret removed]"),
            ("Authorization: Basic dXNlcjpwYXNz".into(), "Authorization: Basic [secret removed]"),
            (format!("bot 123456789:{}", "A".repeat(35)), "bot [secret removed]"),
            (
                "git clone https://anna:pa55@example.org/x.git".into(),
                "git clone https://[secret removed]@example.org/x.git",
            ),
            ("postgres://u:p@ss".into(), "postgres://[secret removed]@ss"),
            ("password: x, and tea".into(), "password: [secret removed], and tea"),
            ("Password = 'correct-horse'".into(), "Password = '[secret removed]'"),
            ("password: \"correct horse battery\" ok".into(), "password: \"[secret removed]\" ok"),
            ("{\"password\":\"hunter2\",\"a\":1}".into(), "{\"password\":\"[secret removed]\",\"a\":1}"),
            ("DB_PASSWORD=tiger9".into(), "DB_PASSWORD=[secret removed]"),
            ("export OPENAI_API_KEY=abcdef123456".into(), "export OPENAI_API_KEY=[secret removed]"),
            ("https://x.org/?token=abcd1234efgh&n=1".into(), "https://x.org/?token=[secret removed]&n=1"),
            ("my password is hunter2.".into(), "my password is [secret removed]."),
            ("the password for the wifi is Blue-7.".into(), "the password for the wifi is [secret removed]."),
            ("我的密码是abc12345，别忘了".into(), "我的密码是[secret removed]，别忘了"),
            ("密码：小猫咪123。".into(), "密码：[secret removed]。"),
            ("密码是 x9y 哦".into(), "密码是 [secret removed] 哦"),
            ("密钥sk-proj-abcDEF123456ghiJKL".into(), "密钥[secret removed]"),
            ("pw: hunter2".into(), "pw: [secret removed]"),
            (
                "my API key for the shop is abc123def456ghi".into(),
                "my API key for the shop is [secret removed]",
            ),
            ("PIN: 4711".into(), "PIN: [secret removed]"),
            (
                format!(
                    "key\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{key}\n{key}\nAAA=\n-----END RSA PRIVATE KEY-----\nend"
                ),
                "key\n[secret removed]\nend",
            ),
            (
                format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{key}\n{key}\nAnna visits tomorrow"),
                "[secret removed]\nAnna visits tomorrow",
            ),
            (format!("{key}\n{key}\n-----END PRIVATE KEY-----"), "[secret removed]"),
        ];
        for (text, expected) in cases {
            let cleaned = without_secrets(&text);
            assert_eq!(cleaned.text, expected, "{text}");
            assert_eq!(cleaned.removed, 1, "{text}");
        }
    }

    #[test]
    fn ordinary_words_are_no_secrets() {
        let texts = [
            "commit 226a2e60c1b5a4b4b1f3c1a9d0e5f6a7b8c9d0e1",
            "id 550e8400-e29b-41d4-a716-446655440000",
            "the token ring is old",
            "Token: ring",
            "I use a password manager",
            "The password is wrong.",
            "my password is stored in the vault",
            "password: see the vault",
            "密码是什么？",
            "the secret is out",
            "Secret: Anna is pregnant",
            "max_tokens=100000000",
            "the bearer of news",
            "https://example.org:8080/a@b",
            "sk-learn",
            "key: value",
            "pass the salt",
            "Boarding pass: Gate B",
            "the token is valid",
            "the API key is stored in the vault",
            "api_key=$OPENAI_API_KEY",
            "at 10:30:45",
        ];
        for text in texts {
            assert_eq!(without_secrets(text).text, text);
        }
    }
}
