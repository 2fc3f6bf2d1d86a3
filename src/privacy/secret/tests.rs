//! Each kind of the tables against its own samples, and whole sentences.

use super::{RULES, without_secrets};

/// The `·` in a sample keeps scanners of source code from taking it for a leak.
fn joined(sample: &str) -> String {
    sample.replace('·', "")
}

#[test]
fn every_kind_finds_its_samples_and_spares_what_it_must() {
    assert!(RULES.len() >= 50, "{}", RULES.len());
    let mut wrong = Vec::new();
    for rule in RULES.iter() {
        let name = rule.kind.name;
        assert!(!rule.kind.samples.is_empty() && !rule.kind.spared.is_empty(), "{name} has no cases");
        for text in rule.kind.samples.iter().map(|sample| joined(sample)) {
            if rule.find(&text).is_empty() || without_secrets(&text).removed == 0 {
                wrong.push(format!("{name} misses {text}"));
            }
        }
        for spared in rule.kind.spared {
            let found: Vec<_> = rule.find(spared).into_iter().map(|range| &spared[range]).collect();
            if !found.is_empty() {
                wrong.push(format!("{name} takes {found:?} of {spared}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

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
        ("my API key for the shop is abc123def456ghi".into(), "my API key for the shop is [secret removed]"),
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
        assert_eq!(without_secrets(&text).text, expected, "{text}");
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

#[test]
fn tables_hide_what_a_head_or_a_first_cell_names() {
    let cases = [
        (
            "| user | password | port |\n|---|:---:|---|\n| anna | kiwi7 | 22 |\n| bob | `lemon` | 80 |\n",
            "| user | password | port |\n|---|:---:|---|\n| anna | [secret removed] | 22 |\n| bob | `[secret removed]` | 80 |\n",
        ),
        ("name | 密码\n--- | ---\n路由器 | 小猫咪\n", "name | 密码\n--- | ---\n路由器 | [secret removed]\n"),
        ("| **API key** | 0123456789abcdef |", "| **API key** | [secret removed] |"),
        ("| setting | default |\n|---|---|\n| password | required |\n| tokens | 12345678 |", ""),
        ("| password | the one on the fridge |\n|---|---|\n| – | ✓ |", ""),
    ];
    for (text, expected) in cases {
        let expected = if expected.is_empty() { text } else { expected };
        assert_eq!(without_secrets(text).text, expected);
    }
}

#[test]
fn a_secret_goes_with_the_characters_that_nobody_sees() {
    let cases = [
        ("use sk-proj-abc\u{200b}DEF123\u{ad}456ghiJKL now", "use [secret removed] now"),
        ("pass\u{200b}word: hun\u{2060}ter2", "pass\u{200b}word: [secret removed]"),
        ("密码是ａｂｃ１２３", "密码是[secret removed]"),
        ("AK\u{feff}IAIOSFODNN7EXAMPLE", "[secret removed]"),
        ("a soft\u{ad}hyphen stays", "a soft\u{ad}hyphen stays"),
    ];
    for (text, expected) in cases {
        assert_eq!(without_secrets(text).text, expected);
    }
}
