//! The corpus: fake secrets in the shapes of published scanner rules, each in five contexts; labelled passwords in many
//! languages; and look-alikes. What is done with them is for the tests.

use serde_json::Value;

const SECRETS: &str = include_str!("../../fixtures/privacy/secrets.json");
const PHRASES: &str = include_str!("../../fixtures/privacy/phrases.tsv");
const LOOKALIKES: &str = include_str!("../../fixtures/privacy/lookalikes.tsv");

pub const CONTEXTS: [&str; 5] = ["prose", "code", "url", "table", "chinese"];

/// A text with a secret planted in it.
pub struct Planted {
    /// The kind and the context.
    pub name: String,
    pub text: String,
    /// What must not survive.
    pub hidden: Vec<String>,
}

impl Planted {
    /// A piece of the secret that a text still holds. A piece is twelve characters in a row, or all of a shorter one: half
    /// a key is a leak too.
    pub fn survivor(&self, text: &str) -> Option<String> {
        let text: String = text.chars().filter(|c| !"\u{200b}\u{ad}\u{feff}\u{2060}".contains(*c)).collect();
        let plain = percent_decoded(&text);
        self.pieces().into_iter().find(|piece| text.contains(piece) || plain.contains(piece))
    }

    /// The same with characters that nobody sees within the secret.
    pub fn with_hidden_characters(&self) -> Self {
        const HIDDEN: [char; 4] = ['\u{200b}', '\u{ad}', '\u{feff}', '\u{2060}'];
        let mut text = self.text.clone();
        for hidden in &self.hidden {
            let mut interrupted = String::new();
            for (place, character) in hidden.chars().enumerate() {
                if place % 5 == 3 {
                    interrupted.push(HIDDEN[place % HIDDEN.len()]);
                }
                interrupted.push(character);
            }
            text = text.replace(hidden, &interrupted);
        }
        Self { name: format!("{}, interrupted", self.name), text, hidden: self.hidden.clone() }
    }

    pub fn pieces(&self) -> Vec<String> {
        let lines = self.hidden.iter().flat_map(|hidden| hidden.lines());
        let windows = lines.flat_map(|line| {
            let characters: Vec<char> = line.chars().collect();
            let size = characters.len().min(12);
            characters.windows(size).map(|window| window.iter().collect()).collect::<Vec<String>>()
        });
        windows.collect()
    }
}

/// Every kind in every context.
pub fn planted() -> Vec<Planted> {
    let corpus: Value = serde_json::from_str(SECRETS).unwrap();
    let mut planted = Vec::new();
    for kind in corpus["kinds"].as_array().unwrap() {
        let name = kind["kind"].as_str().unwrap();
        assert!(kind["source"].as_str().unwrap().len() > 10, "{name} names no rule");
        let parts: Vec<&str> =
            kind["parts"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        let secret = parts.concat();
        let hidden = match kind["hide"].as_array() {
            Some(hide) => hide.iter().map(|n| parts[n.as_u64().unwrap() as usize].to_owned()).collect(),
            None => vec![secret.clone()],
        };
        // Parts that stand together are one secret, however the fixture splits them.
        let hidden: Vec<String> =
            if secret.contains(&hidden.concat()) { vec![hidden.concat()] } else { hidden };
        for context in CONTEXTS {
            let own = kind["contexts"][context].as_str();
            let template = own.unwrap_or_else(|| corpus["templates"][context].as_str().unwrap());
            let mut text = template
                .replace("{secret:url}", &percent_encoded(&secret))
                .replace("{secret:escaped}", &secret.replace('\n', "\\n"))
                .replace("{secret}", &secret);
            for field in ["label", "zh", "variable", "parameter"] {
                text = text.replace(&format!("{{{field}}}"), kind[field].as_str().unwrap());
            }
            for (number, part) in parts.iter().enumerate() {
                text = text.replace(&format!("{{{number}}}"), part);
            }
            planted.push(Planted { name: format!("{name} in {context}"), text, hidden: hidden.clone() });
        }
    }
    planted
}

/// Passwords, codes and PINs as people tell them, in twelve languages.
pub fn phrases() -> Vec<Planted> {
    let rows = PHRASES.lines().skip(1).map(|line| {
        let [language, hidden, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        Planted {
            name: format!("{language}: {text}"),
            text: text.to_owned(),
            hidden: vec![hidden.to_owned()],
        }
    });
    rows.collect()
}

/// What looks like a secret or like personal data and is neither.
pub fn lookalikes() -> Vec<(String, String)> {
    let rows = LOOKALIKES.lines().skip(1).map(|line| line.split_once('\t').expect(line));
    rows.map(|(kind, text)| (kind.to_owned(), text.to_owned())).collect()
}

fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

fn percent_decoded(text: &str) -> String {
    [("%2B", "+"), ("%2F", "/"), ("%3D", "="), ("%0A", "\n"), ("%20", " ")]
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
