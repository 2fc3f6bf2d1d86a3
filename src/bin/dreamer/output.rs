//! How things are laid out for people: columns, widths, dates. Pure, but for the one line of complaint on stderr.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use dreamer::setup::Report;

/// Says on stderr why a command stopped.
pub(crate) fn complain(told: &str) {
    // Nothing can be said about a stderr that does not take it.
    let level = crate::logging::level_prefix(3);
    let _ = writeln!(std::io::stderr(), "{level}dreamer: {told}");
}

/// What setup did and what comes next.
pub(crate) fn setup(report: &Report) -> String {
    let mut text = report.lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    });
    for note in &report.notes {
        let _ = writeln!(text, "note     {note}");
    }
    if let Some((path, snippet)) = &report.snippet {
        let _ = writeln!(
            text,
            "paste    into {} what it lacks, then restart the gateway:\n{snippet}",
            path.display()
        );
    }
    let mut command = "dreamer".to_string();
    if report.must_name_home {
        let _ = write!(command, " --home {}", shell_word(&report.home));
    }
    if let Some(file) = &report.env_file {
        let _ = write!(command, " --env-file {}", shell_word(file));
    }
    match &report.open {
        None if report.lacks_table => {
            let _ = writeln!(text, "next     talk to the agent, then: {command} setup --openclaw");
        }
        None => {
            let _ = writeln!(text, "next     {command} --verbose");
        }
        Some(open) => {
            let settings = report.env_file.clone().unwrap_or_else(|| report.home.join(".env"));
            let then = match (report.lacks_table, report.is_for_openclaw) {
                (true, true) => "setup --openclaw",
                (true, false) => "setup",
                (false, _) => "--verbose",
            };
            let _ = writeln!(text, "open     {open}");
            let _ = writeln!(text, "next     edit {}, then: {command} {then}", shell_word(&settings));
        }
    }
    text
}

/// A path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    if path.chars().all(|c| c.is_alphanumeric() || "-_./~".contains(c)) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// A place in an episode: `episode:line` or `episode:first-last`.
pub(crate) fn place(episode: &str, (first, last): (usize, usize)) -> String {
    if first == last { format!("{episode}:{first}") } else { format!("{episode}:{first}-{last}") }
}

/// Columns a character takes in a terminal: two for CJK and other wide scripts.
fn width_of(c: char) -> usize {
    let wide = matches!(c as u32,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    if c.is_control() { 0 } else { 1 + usize::from(wide) }
}

/// Columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The text on one line in at most `columns`, with `…` where something is left out.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    // Control characters in somebody's memory must not reach the terminal.
    let line: String =
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).collect();
    if width(&line) <= columns {
        return line;
    }
    let mut short = String::new();
    let mut used = 1;
    for c in line.chars() {
        used += width_of(c);
        if used > columns {
            break;
        }
        short.push(c);
    }
    short + "…"
}

/// Rows as aligned columns; the last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                text.push_str(&" ".repeat(widths[column] - width(cell) + 2));
            }
        }
        text.push('\n');
    }
    text
}

/// The width to fit a line into: what the terminal says, else a usual one; no limit where no terminal reads it.
pub(crate) fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|c| *c >= 40);
    let usual = if std::io::stdout().is_terminal() { 120 } else { 1_000_000 };
    told.unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_by_columns_not_by_characters() {
        assert_eq!(shorten("short", 10), "short");
        assert_eq!(shorten("a line\nand another", 12), "a line and …");
        assert_eq!(shorten("我对花生过敏，点餐的时候请提醒我。", 11), "我对花生过…");
        assert_eq!(shorten("esc\u{1b}[31m", 20), "esc[31m");
    }

    #[test]
    fn columns_are_aligned_for_wide_characters_too() {
        let row = |cells: [&str; 2]| cells.map(str::to_string).to_vec();
        assert_eq!(table(&[row(["猫", "x"]), row(["cat", "y"])]), "猫   x\ncat  y\n");
    }

    #[test]
    fn the_next_command_can_be_pasted() {
        assert_eq!(shell_word(Path::new("/srv/my home")), "'/srv/my home'");
        assert_eq!(shell_word(Path::new("/srv/it's")), r"'/srv/it'\''s'");
        assert_eq!(shell_word(Path::new("/srv/dreamer")), "/srv/dreamer");
    }
}
