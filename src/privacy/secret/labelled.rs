//! Secrets that a label gives away: `key = "value"` and `key: value`, in prose, in a shell, in JSON, in YAML.

use super::Kind;
use super::check::{always, is_password, is_spoken_password, is_token};

/// What a password is called, in the languages people write. In a name of a variable anything may stand before it.
pub(super) const PASSWORD: &str = concat!(
    r"(?:[\w-]*(?:password|passwd|passphrase|passcode|passwort|kennwort|wachtwoord|contrase(?:ñ|n)a|pwd|senha|lösenord|hasło|",
    r"пароль|schlüssel)|mot de passe|palavra[- ]passe|密码|密碼|口令|暗号|パスワード|パスコード|暗証番号|비밀번호|비번|패스워드)",
);
/// What a key or a token is called.
pub(super) const TOKEN: &str = concat!(
    r"(?:[\w-]*(?:api[ _-]?key|secret[ _-]?key|access[ _-]?key|private[ _-]?key|account[ _-]?key|license[ _-]?key|encryption[ _-]?key|",
    r"client[ _-]?secret|secret|token|credential|api-schlüssel)|cl[ée] (?:d')?api|clave (?:de )?api|chave (?:da |de )?api|密钥|密鑰|令牌|トークン|토큰)",
);

const SEPARATOR: &str = r"[ \t]*(?:=>|:=|==?|[:：＝→]|->)[ \t]*";

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind {
            name: "password in quotes",
            pattern: in_quotes(PASSWORD),
            check: is_password,
            samples: &[
                "password: \"correct horse battery\"",
                "Passwort: „·drei Wörter hier“",
                "'db_password' => '·tiger 9'",
            ],
            spared: &["password: \"$PASSWORD\"", "\"password\": \"\"", "password: \"required\""],
        },
        Kind {
            name: "password behind a sign",
            pattern: behind_a_sign(PASSWORD, r"\S"),
            check: is_password,
            samples: &[
                "DB_PASSWORD=·tiger9",
                "mot de passe : ·soleil",
                "我的密码：·小猫咪",
                "Пароль: ·Beryoza",
                "비밀번호: ·hana",
            ],
            spared: &[
                "password: required",
                "password=${PASSWORD}",
                "password: &str",
                "password: form.password",
                "self.password = password",
                "密码：无",
            ],
        },
        Kind {
            name: "pass behind a sign",
            pattern: behind_a_sign("(?:pass|pw|mdp)", r"\S"),
            check: |text| text.len() >= 4 && is_spoken_password(text),
            samples: &["pw: ·hunter2", "user: anna / pass: ·mango_Tree9"],
            // A boarding pass is no password.
            spared: &["Boarding pass: Gate B", "pass: yes", "pass: 12, fail: 3"],
        },
        Kind {
            name: "token in quotes",
            pattern: in_quotes(TOKEN),
            check: is_token,
            samples: &["api_key = \"·0123456789abcdef\"", "\"client_secret\": \"·pOsxVZSo0jR2\""],
            spared: &["api_key=\"YOUR_API_KEY\"", "token: \"ring\"", "secret: \"$TOKEN\""],
        },
        Kind {
            name: "token behind a sign",
            pattern: behind_a_sign(TOKEN, r"[^&\s]"),
            check: is_token,
            samples: &[
                "export OPENAI_API_KEY=·abcdef123456",
                "token for the shop: ·abc123def456",
                "密钥：·abc123def456",
            ],
            spared: &[
                "Token: ring",
                "Secret: Anna is pregnant",
                "max_tokens=100000000",
                "token=$GITHUB_TOKEN",
                "token: Option<String>",
            ],
        },
        Kind {
            name: "security code of a card",
            pattern:
                r"(?i)\b(?:cvv2?|cvc2?)\b(?: code)?(?: is| ist| est| es|[:：=是])? ?(?P<secret>\d{3,4})\b"
                    .into(),
            check: always,
            samples: &["CVV ·123", "the cvc is ·9876"],
            spared: &["CVV is on the back", "CVCs 12"],
        },
    ]
}

/// The label, and up to a few words that say whose it is.
fn label(keyword: &str) -> String {
    format!(
        r"(?i)(?:(?:^|[^\pL\pN]|[_-]|\b){keyword}|密码|密碼|口令|密钥|令牌|パスワード|비밀번호)(?: (?:for|of|to|für|vom|von|der|des|pour|de|del|para|da|do) [^.:;|=\n]{{1,40}}?)?"
    )
}

/// In quotes a value may hold spaces.
fn in_quotes(keyword: &str) -> String {
    let label = label(keyword);
    format!(
        r#"{label}\\?["'`”]?{SEPARATOR}(?:\\?"(?P<secret>[^"\n\\]{{1,200}})\\?"|[“„«「『](?P<secret2>[^“”»」』\n\\]{{1,200}})[”“»」』]|'(?P<secret3>[^'\n\\]{{1,200}})')"#
    )
}

fn behind_a_sign(keyword: &str, character: &str) -> String {
    let label = label(keyword);
    let quoted = r#"(?:\\?["'`“„«「]?)"#;
    // A placeholder is taken whole, so that it can be told from a token.
    let value = format!(r#"(?P<secret>(?:\[[A-Za-z_]+_\d{{1,12}}\]|{character})+?)"#);
    let end = r#"(?:\\?["'`”»」]|[,;，。；、)\]}>]|\s|&|$)"#;
    format!("{label}{quoted}{SEPARATOR}{quoted}{value}{end}")
}
