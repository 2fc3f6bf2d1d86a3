//! Finding JSON values in text and mending their spelling: quotes, comments, raw line ends, Python's words.
//! Trailing commas, bare keys and odd numbers are left to `json5`.

use serde_json::Value;

/// Deeper nesting than any schema of ours; parsing it could exhaust the stack.
const DEPTH: usize = 64;

/// A value in a reply.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) value: Value,
    /// Only spaces and commas stand between it and the value before it.
    pub(super) follows: bool,
}

/// How models mark what they only think: where it begins, where it ends.
const THOUGHTS: [(&str, &str); 7] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    // The channels of gpt-oss, where a server leaves them in.
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
];

/// What a reply says after thinking aloud. An opening tag without a closing one is left out, what follows it stays:
/// the answer may be there.
pub(super) fn after_thinking(text: &str) -> &str {
    let mut rest = text.trim_start();
    // A thought that the reply begins with is none of the answer, even if no answer follows.
    while let Some((open, close)) = THOUGHTS.iter().find(|(open, _)| rest.starts_with(open)) {
        let inside = &rest[open.len()..];
        match inside.find(close) {
            Some(end) => rest = inside[end + close.len()..].trim_start(),
            None => rest = inside.trim_start(),
        }
    }
    for (_, close) in THOUGHTS {
        if let Some(at) = rest.rfind(close) {
            let after = &rest[at + close.len()..];
            // A tag after the answer, or inside one of its strings, does not end any thinking before it.
            if after.contains(['{', '[']) {
                rest = after;
            }
        }
    }
    rest
}

/// All complete top-level objects and lists.
///
/// # Errors
/// When one breaks off, or cannot be read even after mending although it looks like JSON and is the last.
pub(super) fn find(text: &str) -> Result<Vec<Found>, String> {
    let (mut found, mut at, mut error) = (Vec::new(), 0, None);
    let mut end_of_last = None;
    while let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) {
        let mut mender = Mender::new(&text[start..]);
        match mender.run() {
            End::Complete => {
                let end = start + mender.at;
                match read(&mender.out) {
                    Ok(value) => {
                        let between = end_of_last.map(|last: usize| &text[last..start]);
                        let follows =
                            between.is_some_and(|b| b.chars().all(|c| c.is_whitespace() || c == ','));
                        found.push(Found { value, follows });
                        (end_of_last, error) = (Some(end), None);
                        at = end;
                    }
                    Err(e) if looks_like_json(&text[start..]) => {
                        error = Some(e);
                        at = end;
                    }
                    // Brackets in prose; there may be a value inside.
                    Err(_) => at = start + 1,
                }
            }
            End::TooDeep => return Err("the reply is nested too deep".to_owned()),
            End::CutOff if looks_like_json(&text[start..]) => {
                return Err("the reply breaks off inside a JSON value".to_owned());
            }
            End::CutOff => at = start + 1,
        }
    }
    match error {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

fn read(mended: &str) -> Result<Value, String> {
    serde_json::from_str(mended)
        .or_else(|_| json5::from_str(mended))
        .map_err(|e| format!("the JSON of the reply cannot be read: {e}"))
}

/// Whether a bracket opens JSON and is not one in prose such as "[1]" or "{sic}".
fn looks_like_json(text: &str) -> bool {
    let mut chars = text.chars();
    let opened = chars.next();
    let rest = chars.as_str().trim_start();
    match opened {
        Some('[') => rest.starts_with(['{', '[', '"']),
        _ => {
            let key = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            rest.is_empty()
                || rest.starts_with(['"', '\'', '“', '‘', '}', '/'])
                || key.len() < rest.len() && key.trim_start().starts_with(':')
        }
    }
}

enum End {
    Complete,
    CutOff,
    TooDeep,
}

/// Walks one value and writes it again with its spelling mended.
struct Mender<'a> {
    text: &'a str,
    /// Bytes read.
    at: usize,
    depth: Vec<char>,
    out: String,
}

impl<'a> Mender<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: Vec::new(), out: String::new() }
    }

    fn run(&mut self) -> End {
        while let Some(c) = self.next() {
            match c {
                '{' | '[' => {
                    self.depth.push(if c == '{' { '}' } else { ']' });
                    self.out.push(c);
                    if self.depth.len() > DEPTH {
                        return End::TooDeep;
                    }
                }
                '}' | ']' => {
                    self.out.push(c);
                    // A bracket of the wrong kind: `read` will refuse it.
                    self.depth.pop();
                    if self.depth.is_empty() {
                        return End::Complete;
                    }
                }
                '"' => self.string('"'),
                '“' | '”' => self.string('”'),
                '\'' if self.opens_value() => self.string('\''),
                '‘' | '’' if self.opens_value() => self.string('’'),
                '/' if self.rest().starts_with('/') => self.skip_past("\n"),
                '/' if self.rest().starts_with('*') => self.skip_past("*/"),
                c if c.is_alphabetic() || c == '_' => self.word(c),
                c => self.out.push(c),
            }
        }
        End::CutOff
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Whether a string may begin here: after a bracket, comma or colon.
    fn opens_value(&self) -> bool {
        self.out.trim_end().ends_with(['{', '[', ',', ':'])
    }

    /// Copies a string up to its closing quote as a JSON string. Without one it runs to the end of the text.
    fn string(&mut self, close: char) {
        self.out.push('"');
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\'') => self.out.push('\''),
                    Some(escaped) => self.out.extend(['\\', escaped]),
                    None => {}
                },
                // An apostrophe inside 'it's' closes nothing, and “smart” strings may hold their own quotes.
                c if c == close && (close == '"' || self.closes_value()) => {
                    self.out.push('"');
                    return;
                }
                // “key" closed with the plain quote.
                '"' if close == '”' && self.closes_value() => {
                    self.out.push('"');
                    return;
                }
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                '\t' => self.out.push_str("\\t"),
                c if c.is_control() => {}
                c => self.out.push(c),
            }
        }
    }

    /// Whether what follows a quote may follow a value.
    fn closes_value(&self) -> bool {
        let rest = self.rest().trim_start();
        rest.is_empty() || rest.starts_with([',', ':', '}', ']'])
    }

    fn word(&mut self, first: char) {
        let start = self.at - first.len_utf8();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        self.out.push_str(match &self.text[start..self.at] {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            word => word,
        });
    }

    fn skip_past(&mut self, mark: &str) {
        self.at = self.rest().find(mark).map_or(self.text.len(), |at| self.at + at + mark.len());
        self.out.push(' ');
    }
}
