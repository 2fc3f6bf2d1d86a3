//! Secrets that people tell in a sentence: "my password is …", „das Kennwort lautet …“, 密码是…, パスワードは….

use super::Kind;
use super::check::{
    always, has_digit, is_passphrase, is_password, is_password_word, is_quoted_phrase, is_spoken_password,
    is_strong_password, is_token,
};
use super::labelled::TOKEN;

/// What a password is called where letters have spaces between words.
const PASSWORD: &str = concat!(
    r"(?:\b(?:password|pass ?phrase|passcode|passwd|passwort|kennwort|losung|wlan-schlüssel|wi-?fi key|network key|mot de passe|phrase secrète|",
    r"contrase(?:ñ|n)a|(?:la|mi|tu|su|nuestra) clave|pwd?|parola d'ordine|senha|palavra[- ]passe|wachtwoord|lösenord|hasło|parola)|пароль|şifre)",
);
/// Whose password it is: some words without a sign between them.
const WHOSE: &str = r"(?: [^\s.:;,|!?]{1,24}){0,6}?";
/// The words that lead to it.
const IS: &str = r"(?: (?:is|was|are|will be|ist|war|lautet|heißt|c'est|est|es|è|é|jest|är|это|to|als|reads)(?: now| still| jetzt| maintenant| ahora)?:?| ?[:：=]| [—–-]) ";
const OPEN: &str = r#"["'`“„«‘‚「『]"#;
const CLOSE: &str = r#"["'`”“»’‘」』]"#;
const END: &str = r"[.,;!?)。，]*(?:\s|$)";

/// The same where they have none.
const PASSWORD_CJK: &str =
    r"(?:密码|密碼|口令|暗号|パスワード|パスコード|暗証番号|合言葉|비밀번호|비번|패스워드|암호)";
const CODE_CJK: &str =
    r"(?:验证码|驗證碼|校验码|认证码|安全码|动态码|認証コード|確認コード|인증번호|인증코드)";
const IS_CJK: &str = r"(?:都|还|現在|现在|仍然)?(?:是|为|為|改成了?|换成了?|換成了?|改为|设为|設為|设成了?|用的是|は|を|が|는|은|이|가|:|：|=)";

pub(super) fn kinds() -> Vec<Kind> {
    [phrases(), sentences(), numbers(), chinese_japanese_korean()].into_iter().flatten().collect()
}

fn sentences() -> Vec<Kind> {
    let value = format!("(?P<secret>[^\\s{}]+?)", r#""'`“”„«»‘’「」『』"#);
    vec![
        Kind {
            name: "spoken password",
            pattern: format!(r"(?i){PASSWORD}{WHOSE}{IS}{OPEN}?{value}{CLOSE}?{END}"),
            check: is_spoken_password,
            samples: &[
                "my password is ·hunter2.",
                "the password for the wifi is ·Blue-7.",
                "Mein Passwort ist ·Apfelkuchen!9, bitte merken.",
                "La contraseña es ·Girasol_19.",
                "I changed my password to ·Sommer2026! yesterday.",
            ],
            spared: &[
                "The password is wrong.",
                "my password is stored in the vault",
                "Das Passwort ist abgelaufen und muss erneuert werden.",
                "La clave es la paciencia.",
                "I sent the password to Maria.",
            ],
        },
        Kind {
            name: "spoken password that is a word",
            pattern: format!(
                r"(?i)\b(?:my|our|your|his|her|the|their) (?:[a-z-]+ )?{PASSWORD} is {value}(?:[.!]|,? ?$|\n)"
            ),
            check: is_password_word,
            samples: &["my password is ·banana.", "The wifi password is ·Sonnenblume"],
            spared: &[
                "The password is wrong.",
                "my password is expired.",
                "Our password is secure.",
                "the password is invalid",
            ],
        },
        Kind {
            name: "password that is told in the next clause",
            pattern: format!(
                r"(?i){PASSWORD}[^.:;|\n]{{0,30}}, (?:it's|it is|it will be|es ist|er ist|c'est|es)(?: now| jetzt| maintenant| ahora)? {OPEN}?{value}{CLOSE}?{END}"
            ),
            check: is_spoken_password,
            samples: &["Our password changed, it's now ·Purple-Rain-84"],
            spared: &["I like the password, it's good", "The password changed, it is now longer"],
        },
        Kind {
            name: "user and password in a row",
            pattern: format!(
                r"(?i)\b(?:user(?:name)?|login|benutzer|account)[: ] ?[^\s,:;/|]{{2,40}}(?: ?[,;/]| and| und) ?{PASSWORD}:? {value}{END}"
            ),
            check: is_password,
            samples: &["username bob, password ·kiwi"],
            spared: &["username and password are required", "user name, password and more"],
        },
        Kind {
            name: "login as user / password",
            pattern: format!(
                r"(?i)\b(?:login|log-in|credentials|zugangsdaten|anmeldedaten|identifiants|账号|帐号)[:：] ?[^\s,:;/|]{{2,60}} ?[/|,] ?{value}{END}"
            ),
            check: is_strong_password,
            samples: &["Login: bob / ·Kiwi-Salat9"],
            spared: &["Login: bob / admin", "Login: page 1 / page 2"],
        },
        Kind {
            name: "password that is read out",
            pattern: format!(r"(?i){PASSWORD}{WHOSE} (?:lautet|heißt|reads):? {OPEN}?{value}{CLOSE}?{END}"),
            check: is_password,
            samples: &["Das Kennwort lautet ·Sonnenblume.", "Das Passwort für das WLAN heißt ·Blaumeise."],
            spared: &["Das Passwort lautet nicht so.", "Das Passwort lautet immer noch wie zuvor auf"],
        },
        Kind {
            name: "password without a verb",
            pattern: format!(r"(?i){PASSWORD}:? {OPEN}?{value}{CLOSE}?{END}"),
            check: is_strong_password,
            samples: &["Log in as anna with the password ·Xy7-lantern."],
            spared: &[
                "password manager",
                "password 12 characters",
                "the password hash",
                "the password ends today",
            ],
        },
        Kind {
            name: "spoken token",
            pattern: format!(
                r"(?i)\b{TOKEN}(?: (?:for|of|to) [^.:;\n]{{1,40}}?)? (?:is|was|ist|est|es|—|–)(?: now)?:? {OPEN}?(?P<secret>[A-Za-z0-9._~+/=-]+)"
            ),
            check: is_token,
            samples: &["my API key for the shop is ·abc123def456ghi", "The client secret is ·pOsxVZSo0jR2"],
            spared: &[
                "the token is valid",
                "the API key is stored in the vault",
                "The API key is rotated every 90 days",
            ],
        },
    ]
}

/// Passwords of several words.
fn phrases() -> Vec<Kind> {
    vec![
        Kind {
            name: "spoken password in quotes",
            pattern: format!(
                r#"(?i){PASSWORD}{WHOSE}{IS}(?:"(?P<secret>[^"\n]{{1,80}})"|[“„](?P<secret2>[^“”\n]{{1,80}})[”“]|«\s?(?P<secret3>[^»\n]{{1,80}}?)\s?»)"#
            ),
            check: is_quoted_phrase,
            samples: &[
                "The wifi password is \"·correct horse battery staple\".",
                "Das WLAN-Passwort lautet „·Der Hund bellt“.",
                "Le mot de passe est « ·le chat noir ».",
            ],
            spared: &["The password is \"too short\", said the form.", "The password is \"required\"."],
        },
        Kind {
            name: "pass phrase of several words",
            pattern: format!(
                r"(?i)\b(?:(?:wi-?fi|wlan|wireless|hotspot|router|network)[ -](?:password|passphrase|passcode|key|passwort|kennwort|schlüssel)|pass ?phrase){WHOSE}{IS}(?P<secret>[^\s.,;:!?\x22]+(?: [^\s.,;:!?\x22]+){{1,7}})(?:[.,;!?\n]|$)"
            ),
            check: is_passphrase,
            samples: &["The wifi password is ·blue lamp over the river.", "wifi password: ·blue lamp over"],
            spared: &[
                "The wifi password is on the fridge, said the host.",
                "The wifi password is too long for the printer.",
            ],
        },
    ]
}

fn numbers() -> Vec<Kind> {
    let pin = r"(?i:pin(?:[ -]?(?:code|number|nummer|码))?|geheimzahl|code secret|código secreto)";
    let code = concat!(
        r"(?i:(?:verification|security|access|door|gate|alarm|unlock|login|one[- ]time|otp|2fa|mfa|recovery|backup|sms|authentication|lock|safe)[ -](?:code|passcode|number)|",
        r"code (?:for|of|to) [^.:;\n]{0,30}(?:door|gate|alarm|safe|lock|locker|garage|building|entrance|bike)|",
        r"(?:zugangs|bestätigungs|sicherheits|tür|freischalt|entsperr)-?code|code (?:d'accès|de vérification|de sécurité)|código de (?:acceso|verificación|seguridad)|otp)",
    );
    vec![
        Kind {
            name: "PIN",
            pattern: format!(r"\b{pin}\b{WHOSE}{IS}(?P<secret>\d{{4,8}})\b"),
            check: always,
            samples: &["The PIN of the card is ·4711.", "PIN: ·8829", "Die PIN der Karte ist ·4711.", "El PIN de la tarjeta es ·7319."],
            spared: &["Pin the message", "PIN is on the card", "the pin is 12 mm", "PIN: see the letter"],
        },
        Kind {
            name: "PIN without a verb",
            pattern: r"\b(?:PIN(?:[ -]?(?:code|Code))?|Geheimzahl) ?(?P<secret>\d{4,8})\b".into(),
            check: always,
            samples: &["PIN ·4711", "PIN code ·4711"],
            spared: &["PIN 12", "PINE 4711"],
        },
        Kind {
            name: "one-time or door code",
            pattern: format!(r"\b{code}{WHOSE}{IS}(?P<secret>[A-Za-z0-9-]{{4,12}}#*){END}"),
            check: has_digit,
            samples: &["The verification code is ·492817, it works for ten minutes.", "Der Zugangscode lautet ·55012."],
            spared: &["The security code is on the back.", "the door code is new"],
        },
        Kind {
            name: "door code without a verb",
            pattern: r"(?i)\b(?:door|gate|alarm) code (?P<secret>\d{4,8})\b|(?:zugangs|tür)-?code (?P<secret2>\d{4,8})\b".into(),
            check: always,
            samples: &["Türcode ·7788", "door code ·7788#"],
            spared: &["door code 12", "the door code of 2026"],
        },
        Kind {
            name: "backup codes",
            pattern: r"(?i)\b(?:backup|recovery|wiederherstellungs|notfall)[ -]?codes?(?: are| is| sind|:| =)+ (?P<secret>[A-Za-z0-9]{4,}(?:-[A-Za-z0-9]{4,})*(?:[, ]+[A-Za-z0-9]{4,}(?:-[A-Za-z0-9]{4,})*)*)".into(),
            check: has_digit,
            samples: &["2FA backup codes: ·8a7b-22cc, 9d8e-11ff"],
            spared: &["recovery codes: in the safe", "backup code is there"],
        },
        Kind {
            name: "combination of a lock",
            pattern: r"(?i)\b(?:combination|kombination|combinaison|combinación)[^.:;\n]{0,30}(?: is| ist| est| es|:) (?P<secret>\d{1,2}(?:-\d{1,2}){2,3})\b".into(),
            check: always,
            samples: &["combination of the safe: ·12-34-56"],
            spared: &["the combination of both is 12", "combination: red and blue"],
        },
    ]
}

fn chinese_japanese_korean() -> Vec<Kind> {
    vec![
        Kind {
            name: "密码是…",
            pattern: r#"(?:密码|密碼|口令|密钥|密鑰|暗号|令牌|凭证)(?:我|已经|被|后来|刚刚?){0,2}(?:都|还|现在|現在)?(?:是|为|為|改成了?|换成了?|換成了?|改为|设为|設為|用的是)\s*[“"'「`]?(?P<secret>[!-~]{3,})"#.into(),
            check: always,
            samples: &["我的密码是·abc12345，别忘了", "密码改成了·xiaomao520。", "登录口令为·Long!2026。"],
            spared: &["密码是什么？", "密码是 x"],
        },
        Kind {
            name: "密码是「…」",
            pattern: format!(r#"{PASSWORD_CJK}{IS_CJK}?\s*(?:“(?P<secret>[^”\n]{{1,60}})”|「(?P<secret2>[^」\n]{{1,60}})」|『(?P<secret3>[^』\n]{{1,60}})』)"#),
            check: always,
            samples: &["密码是“·小猫咪爱吃鱼”", "パスワードは「·さくら」です"],
            spared: &["密码是什么", "密码太短"],
        },
        Kind {
            name: "密码 or パスワード before a word with figures",
            pattern: format!(r"(?:{PASSWORD_CJK}|{CODE_CJK}){IS_CJK}?\s*(?P<secret>[A-Za-z0-9!@#$%^&*_.+-]{{4,}})(?:[^0-9A-Za-z年月日位个個次天字条桁文자리]|$)"),
            check: |text| has_digit(text) || is_spoken_password(text),
            samples: &["银行卡密码·628195，不要忘记", "パスワードは·Sakura#77です。", "비밀번호는 ·namu!2026 입니다.", "验证码是·301928，五分钟内有效。", "暗証番号は·5521です。"],
            spared: &["密码长度8位", "密码2026年改过", "パスワードはSNSで共有しない", "密码12345678位"],
        },
    ]
}
