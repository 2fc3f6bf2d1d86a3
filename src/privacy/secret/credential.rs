//! Secrets that are known by the place they stand in: key files, links, headers, cookies, commands, seed phrases.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::check::{always, has_digit, is_password, is_reference, is_token, is_token_in_a_link};
use super::{Kind, is_new, regex};

pub(super) fn kinds() -> Vec<Kind> {
    [key_files(), links(), headers(), phrases()].into_iter().flatten().collect()
}

/// What may stand between two lines of a key that was pasted into code, a quote, a table or a link.
const BREAK: &str = r#"(?:[\s>|"'`,;\\]|\\+[nrt]|%0[AaDd]|%20)"#;

fn key_files() -> Vec<Kind> {
    let begin = r"-----BEGIN(?:[ +]|%20)(?:[A-Z0-9]{1,20}(?:[ +]|%20)){0,3}PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-----";
    let end = r"-----END(?:[ +]|%20)(?:[A-Z0-9]{1,20}(?:[ +]|%20)){0,3}PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-----";
    let field = r"(?:Proc-Type|DEK-Info|Comment|Version|Hash): ?[^\n\\]*";
    vec![
        // Whole; or its beginning, where the text was cut, with a short last line only at the very end.
        Kind {
            name: "private key",
            pattern: format!(
                "{begin}(?:(?:{BREAK}*(?:{field}|[A-Za-z0-9+/=%]+))*{BREAK}*{end}\
                 |(?:{BREAK}*(?:{field}|[A-Za-z0-9+/=%]{{20,}}))*(?:{BREAK}+[A-Za-z0-9+/=]{{4,19}}\\s*$)?)"
            ),
            check: always,
            samples: &[
                "-----BEGIN RSA PRIV·ATE KEY-----\nMIIEpAIBAAKCAQEAabcdefghijkl\nAAAA==\n-----END RSA PRIV·ATE KEY-----",
                "-----BEGIN PRIV·ATE KEY-----\\nMIIEpAIBAAKCAQEAabcdefghijkl",
                "pem=-----BEGIN%20RSA%20PRIV·ATE%20KEY-----%0AMIIEpAIBAAKCAQEAabcdefghijkl%0A",
            ],
            spared: &["-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEAabcdefghijkl", "the PRIVATE KEY is kept"],
        },
        Kind {
            name: "end of a private key",
            pattern: format!(r"(?:[A-Za-z0-9+/=]{{32,}}{BREAK}+)*[A-Za-z0-9+/=]*{BREAK}*{end}"),
            check: always,
            samples: &["abcdefghijklmnopqrstuvwxyz0123456789\nAAAA==\n-----END PRIV·ATE KEY-----"],
            spared: &["abcdefghijklmnopqrstuvwxyz0123456789\n-----END CERTIFICATE-----"],
        },
        Kind {
            name: "PuTTY private key",
            pattern: r"Private-Lines: \d+(?P<secret>(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})+)(?:\s+Private-MAC: [a-f0-9]+)?".into(),
            check: always,
            samples: &["Private-Lines: ·2\nAAAAgQCabcdefghijklmnop0123456789\nAAAAgQCabcdefghijklmnop"],
            spared: &["Private-Lines: 2", "Public-Lines: 2\nAAAAgQCabcdefghijklmnop0123456789"],
        },
    ]
}

fn links() -> Vec<Kind> {
    vec![
        Kind {
            name: "user and password in a link",
            pattern: r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[^\s/@:]*:[^\s/@]+)@".into(),
            check: |text| text.split_once(':').is_some_and(|(_, password)| !is_reference(password)),
            samples: &["https://anna:·pa55@example.org/x.git", "redis://:·pa55@example.org"],
            spared: &["https://example.org:8080/a@b", "ssh://git@example.org:22/x", "postgres://app:${PASSWORD}@db/x"],
        },
        Kind {
            name: "database password with signs of a link",
            pattern: r"(?i)\b(?:postgres(?:ql)?|mysqlx?|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql)://(?P<secret>[^\s/@:]*:[^\s\x22'`]+)@[\w.-]+".into(),
            check: |text| text.split_once(':').is_some_and(|(_, password)| !is_reference(password)),
            samples: &["postgres://app:p@ss·/word@db.example.org/x"],
            spared: &["postgres://db.example.org/x", "redis://localhost:6379/0"],
        },
        Kind {
            name: "token before the host of a link",
            pattern: r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[A-Za-z0-9_.~%-]{16,})@".into(),
            check: has_digit,
            samples: &["https://0123456789abcdef·0123456789abcdef@sentry.example.org/4"],
            spared: &["ssh://git@example.org/x", "sftp://a-rather-long-user-name@example.org"],
        },
        Kind {
            name: "password in a link",
            pattern: r"(?i)[?&;](?:amp;)?[\w.-]*(?:password|passwd|passphrase|pwd|pass)=(?P<secret>[^&\s#\x22'<>)\]}|，。；]+)".into(),
            check: is_password,
            samples: &["https://example.org/?user=a&password=·hunter2&x=1"],
            spared: &["https://example.org/?password=$PASSWORD", "https://example.org/?bypass", "https://example.org/?password=required"],
        },
        Kind {
            name: "key or signature in a link",
            pattern: concat!(
                r"(?i)[?&;](?:amp;)?(?:x-(?:amz|goog|oss|cos)-(?:signature|credential|security-token)|[\w.-]*(?:token|secret|api_?key|",
                r"apikey|access_?key|auth|signature|hmac|session(?:_?id)?|jwt|ticket|credentials?)|sig|sign|sid|key|code)",
                r"=(?P<secret>[^&\s#\x22'<>)\]}|，。；]+)",
            ).into(),
            check: |text| is_token_in_a_link(text) && !is_reference(text) && !text.contains('/') || text.len() >= 40,
            samples: &[
                "https://b.example.org/a.pdf?X-Amz-Signature=·0123456789abcdef0123456789abcdef0123456789abcdef",
                "https://b.example.org/?sv=2024-11-04&sig=·aB3dE5gH7jK9mN1pQ3sT5vW7",
                "https://b.example.org/?key=·aB3dE5gH7jK9mN1p",
            ],
            spared: &["https://b.example.org/?key=name&token=short", "https://b.example.org/?code=DE-2026", "https://b.example.org/?q=cats"],
        },
    ]
}

fn headers() -> Vec<Kind> {
    vec![
        Kind {
            name: "bearer token",
            pattern: r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{12,})".into(),
            check: has_digit,
            samples: &["Bearer ·abc.def-123456789"],
            spared: &["the bearer of news", "bearer authentication-scheme", "Bearer $TOKEN"],
        },
        Kind {
            name: "authorization header",
            pattern: r"(?i)\bauthorization\x22?\s*[:=]\s*\x22?(?:basic|bearer|token|digest|apikey)\s+(?P<secret>[A-Za-z0-9._~+/=-]{6,})".into(),
            check: |text| !is_reference(text),
            samples: &["Authorization: Basic ·dXNlcjpwYXNz", "\"authorization\": \"token ·abcdefgh\""],
            spared: &["Authorization: Basic", "Authorization: Bearer $TOKEN", "Authorization: Bearer <token>"],
        },
        Kind {
            name: "cookie header",
            pattern: r#"(?i)\b(?:set-)?cookie\x22?: ?\x22?(?P<secret>[\w.%-]+=[^\s;,"']+(?:; ?[\w.%-]+=[^\s;,"']*)*)"#.into(),
            check: always,
            samples: &["Cookie: ·sid=0123456789abcdef; theme=dark", "Set-Cookie: ·id=a3fWa; Path=/"],
            spared: &["cookie: chocolate chip", "the cookie is set"],
        },
        Kind {
            name: "session cookie",
            pattern: r"(?i)\b[\w.-]*(?:sess(?:ion)?(?:_?id)?|sid|remember_(?:user_)?token|auth)[\w.-]*=(?P<secret>[A-Za-z0-9%._~+/=-]{16,})".into(),
            check: |text| has_digit(text) && !is_reference(text),
            samples: &["_gitlab_session=·0123456789abcdef0123456789abcdef", "PHPSESSID=·0123456789abcdef"],
            spared: &["session=morning", "session_length=3600", "sid=short"],
        },
        Kind {
            name: "user and password of a command",
            pattern: r#"\bcurl\b[^\n]*?\s(?:-u|--user)[ =]?["']?(?P<secret>[^\s"':]*:[^\s"']+)"#.into(),
            check: |text| text.split_once(':').is_some_and(|(_, password)| !is_reference(password)),
            samples: &["curl -u anna:·pa55 https://example.org", "curl -s --user 'anna:·pa55' https://example.org"],
            spared: &["curl -u anna https://example.org", "curl -u anna:$PASSWORD https://example.org"],
        },
        Kind {
            name: "password of a command",
            pattern: r"\b(?:mysql|mysqldump|mariadb|redis-cli|sshpass|docker login|podman login)\b[^\n]*?\s(?:-p ?|-a |--pass(?:word)?[ =])['\x22]?(?P<secret>[^\s'\x22-][^\s'\x22]*)".into(),
            check: |text| !is_reference(text) && !text.chars().all(|c| c.is_ascii_lowercase()),
            samples: &["mysql -u root -p·Pa55word shop", "redis-cli -h db -a ·Pa55word ping", "sshpass -p '·Rose!2026' ssh root@host"],
            spared: &["mysql -u root -p shop", "mysql -u root --password shop"],
        },
    ]
}

fn phrases() -> Vec<Kind> {
    let label = concat!(
        r"(?i:seed(?: phrase| words?)?|recovery (?:phrase|words)|backup phrase|mnemonic(?: phrase)?|wallet words|wiederherstellungsphrase|",
        r"phrase de r[ée]cup[ée]ration|frase (?:semilla|de recuperaci[óo]n)|助记词|助記詞|恢复短语|シードフレーズ|니모닉)",
    );
    vec![
        Kind {
            name: "labelled seed phrase",
            pattern: format!(r"{label}[^a-z\n]{{0,3}}[^:：\n]{{0,40}}?(?:[:：]|is|ist|est|es|是|は)[\s\x22'“「]*(?P<secret>(?:(?:\d{{1,2}}[.)] ?)?[a-z]{{3,8}}[\s,]+){{11,23}}(?:\d{{1,2}}[.)] ?)?[a-z]{{3,8}})\b"),
            check: always,
            samples: &["My seed phrase is ·abandon ability able about above absent absorb abstract absurd abuse access accident"],
            spared: &["The seed is sown in spring and the garden needs water when it gets dry in June."],
        },
        Kind {
            name: "seed phrase on a line of its own",
            pattern: r"(?m)^[ \t>`*-]*(?P<secret>(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:[ ,]+(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,23})[ \t`.]*$".into(),
            check: is_seed_phrase,
            samples: &["words:\n·legal winner thank year wave sausage worth useful legal winner thank yellow\n"],
            spared: &[
                "legal winner thank year wave",
                "she said that the garden was full when her brother came home late",
                "she went home because work ended early and nobody else stayed there",
            ],
        },
    ]
}

/// Twelve, fifteen, … words, none of which is one of the common English words that no word list for seeds has.
fn is_seed_phrase(text: &str) -> bool {
    const NO_SEEDS: &str = "and are ask been but came did for from get gets got had has her him his how its let may nor not now off one our out \
        put ran said saw say see seen she the them then there these those too two use used was were who why yes yet went would could \
        should because where while which whose came ended being those";
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_lowercase()).filter(|word| !word.is_empty()).collect();
    matches!(words.len(), 12 | 15 | 18 | 21 | 24)
        && !words.iter().any(|word| NO_SEEDS.split_whitespace().any(|known| known == *word))
}

/// How far from its access key id a secret key is looked for, in bytes.
const NEAR: usize = 300;

/// AWS secret keys have no shape of their own: a word of forty base64 characters is one if it stands near an access
/// key id. A git hash has forty characters too, but no upper case.
pub(super) fn beside_an_id(text: &str) -> Vec<Range<usize>> {
    static ID: LazyLock<Regex> =
        LazyLock::new(|| regex(r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z0-9+/=_-]{40,}"));
    let ids: Vec<usize> = ID.find_iter(text).map(|id| id.start()).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let mixed = |word: &str| {
        word.len() == 40
            && is_new(word, is_token)
            && word.bytes().any(|byte| byte.is_ascii_uppercase())
            && word.bytes().any(|byte| byte.is_ascii_lowercase())
    };
    let words = WORD.find_iter(text).filter(|word| mixed(word.as_str()));
    words
        .map(|word| word.range())
        .filter(|range| ids.iter().any(|id| id.abs_diff(range.start) <= NEAR))
        .collect()
}
