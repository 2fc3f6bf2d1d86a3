//! Secrets in markdown tables: a column whose head names a password or a key, or a row whose first cell does.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::check::{is_password, is_token};
use super::is_new;
use super::labelled::{PASSWORD, TOKEN};

type Check = fn(&str) -> bool;

/// The cells that hold a secret.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !text.contains('|') {
        return found;
    }
    let mut at = 0;
    let rows: Vec<Vec<Range<usize>>> = text
        .split_inclusive('\n')
        .map(|line| {
            at += line.len();
            cells(line, at - line.len())
        })
        .collect();
    let is_rule = |row: &[Range<usize>]| {
        let dashes =
            |cell: &Range<usize>| !cell.is_empty() && text[cell.clone()].chars().all(|c| "-: ".contains(c));
        row.len() > 1 && row.iter().all(dashes)
    };
    let mut columns: Vec<Option<Check>> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if row.len() < 2 {
            columns.clear();
        } else if is_rule(row) {
            let head = if number > 0 { rows[number - 1].as_slice() } else { &[] };
            columns = head.iter().map(|cell| named(&text[cell.clone()])).collect();
        } else {
            // The cells of a head are names, all of them: only a key is none.
            let is_head = rows.get(number + 1).is_some_and(|next| is_rule(next));
            for (place, cell) in row.iter().enumerate() {
                let by_row = if place > 0 { named(&text[row[place - 1].clone()]) } else { None };
                let by_row = by_row.map(|check| if is_head { is_token as Check } else { check });
                let check = columns.get(place).copied().flatten().or(by_row);
                let inside = value(text, cell.clone());
                if check.is_some_and(|check| is_new(&text[inside.clone()], check)) {
                    found.push(inside);
                }
            }
        }
    }
    found
}

/// What the cells beside or below this one must pass to be a secret.
fn named(cell: &str) -> Option<Check> {
    static LABELS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [format!(r"(?i)(?:{PASSWORD}|\bpass|\bPIN|暗証番号)[^\pL]*$"), format!(r"(?i){TOKEN}[^\pL]*$")]
            .map(|label| Regex::new(&label).expect("the pattern is fixed"))
    });
    let cell = cell.trim_matches(|c: char| "*`_ ".contains(c));
    // A sentence in a cell names nothing.
    if cell.chars().count() > 40 {
        return None;
    }
    let checks: [Check; 2] =
        [|text| is_password(text) && is_one_word(text), |text| is_token(text) && is_one_word(text)];
    LABELS.iter().zip(checks).find_map(|(label, check)| label.is_match(cell).then_some(check))
}

/// A cell of several words describes; the value of a secret is one, and no bare dash, tick or count of days.
fn is_one_word(text: &str) -> bool {
    let length = text.chars().count();
    let simple = text.is_ascii() || length <= 12 && text.chars().all(char::is_alphanumeric);
    simple && length >= 3 && !text.contains(char::is_whitespace) && text.chars().any(char::is_alphanumeric)
}

/// The cells of a row, trimmed; fewer than two if the line is no row.
fn cells(line: &str, at: usize) -> Vec<Range<usize>> {
    let trimmed = line.trim();
    if !trimmed.contains('|') {
        return Vec::new();
    }
    let start = at + line.len() - line.trim_start().len();
    let (inside, start) = match trimmed.strip_prefix('|') {
        Some(inside) => (inside, start + 1),
        None => (trimmed, start),
    };
    let inside = inside.strip_suffix('|').unwrap_or(inside);
    let mut place = start;
    let cells = inside.split('|').map(|cell| {
        let begin = place + cell.len() - cell.trim_start().len();
        place += cell.len() + 1;
        begin..begin + cell.trim().len()
    });
    cells.collect()
}

/// The cell without the marks around its text.
fn value(text: &str, cell: Range<usize>) -> Range<usize> {
    let inside = text[cell.clone()].trim_matches(|c: char| "*`\"'“”".contains(c));
    let start = cell.start + text[cell.clone()].find(inside).unwrap_or(0);
    start..start + inside.len()
}
