//! The two editions of the README: the same headings, commands, tables and links in the same order.
//! Whether they say what the programs do is `cli.rs`'s work, which reads the English one.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use regex::Regex;

/// What a reader of either language finds, without the words.
#[derive(Debug, Default, PartialEq)]
struct Outline {
    /// Levels, in order.
    headings: Vec<usize>,
    /// Lines of the `sh` blocks, without comments.
    commands: Vec<String>,
    /// Lines of all other blocks.
    others: Vec<String>,
    /// Of each table row the number of cells and what stands as code in the first two of them: what a variable is and what
    /// its default is, what a code is and what is said with it.
    rows: Vec<(usize, Vec<String>)>,
    /// Of each table row all that stands as code, sorted, since languages order their sentences differently.
    codes: Vec<Vec<String>>,
    /// Relative targets of links, without those of the edition itself and of the other one.
    links: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn outline(text: &str) -> Outline {
    let code = Regex::new("``.+?``|`[^`]+`").unwrap();
    let codes =
        |text: &str| -> Vec<String> { code.find_iter(text).map(|m| m.as_str().to_string()).collect() };
    let mut outline = Outline { links: links(text), ..Outline::default() };
    outline.links.retain(|link| !link.starts_with('#') && !link.starts_with("README"));
    let mut block: Option<String> = None;
    for line in text.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(kind.to_string()) };
            if block.is_some() {
                outline.others.push(format!("a block of {kind}"));
            }
        } else if let Some(kind) = &block {
            match kind.as_str() {
                "sh" => outline.commands.extend(command(line)),
                _ => outline.others.push(line.to_string()),
            }
        } else if line.starts_with('#') {
            outline.headings.push(line.chars().take_while(|c| *c == '#').count());
        } else if line.starts_with('|') {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let first: Vec<&str> = cells.iter().take(2).copied().collect();
            let mut all = codes(line);
            all.sort();
            outline.rows.push((cells.len(), first.into_iter().flat_map(codes).collect()));
            outline.codes.push(all);
        }
    }
    assert_eq!(block, None, "a block is not closed");
    outline
}

/// A command without its comment.
fn command(line: &str) -> Option<String> {
    let line = line.split(" #").next().unwrap().trim();
    (!line.is_empty() && !line.starts_with('#')).then(|| line.to_string())
}

/// Targets within the repository.
fn links(text: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let targets = link.captures_iter(text).map(|found| found[1].to_string());
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchors that a heading gets on the pages that show it: small letters, hyphens, no punctuation.
fn anchors(text: &str) -> Vec<String> {
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
        })
        .collect()
}

#[test]
fn both_editions_have_the_same_headings_commands_and_tables() {
    let (english, chinese) = (outline(&read("README.md")), outline(&read("README.zh-CN.md")));
    assert_eq!(english.headings, chinese.headings);
    assert_eq!(english.commands, chinese.commands);
    assert_eq!(english.others, chinese.others);
    assert_eq!(english.rows, chinese.rows);
    assert_eq!(english.codes, chinese.codes);
    assert_eq!(english.links, chinese.links);
    assert!(
        english.headings.len() > 10 && english.commands.len() > 10 && english.rows.len() > 80,
        "{english:?}"
    );
}

#[test]
fn every_relative_link_of_both_editions_leads_somewhere() {
    for name in ["README.md", "README.zh-CN.md"] {
        let text = read(name);
        for target in links(&text) {
            match target.strip_prefix('#') {
                Some(anchor) => assert!(anchors(&text).iter().any(|a| a == anchor), "{name}: {target}"),
                None => assert!(root().join(&target).exists(), "{name}: {target}"),
            }
        }
    }
}

#[test]
fn each_edition_links_to_the_other_at_its_top() {
    for (name, other) in [("README.md", "README.zh-CN.md"), ("README.zh-CN.md", "README.md")] {
        let text = read(name);
        let top: Vec<&str> = text.lines().take(4).collect();
        assert!(top.join("\n").contains(&format!("]({other})")), "{name}: {top:?}");
    }
}

#[test]
fn an_edition_that_lacks_something_is_noticed() {
    let text = read("README.md");
    let whole = outline(&text);
    for lost in [
        "dreamer setup\n",
        "session-flush --dry-run  # looks whether there is something to flush\n",
        "## Tuning\n",
        "| `DREAMER_FLUSH_WAIT` | `30` | seconds to wait for the agent, and for the episode |\n",
        "| `2` | usage |\n",
        "[examples/crontab](examples/crontab)",
    ] {
        assert!(text.contains(lost), "{lost}");
        assert_ne!(outline(&text.replacen(lost, "", 1)), whole, "{lost}");
    }
    let retold = text.replace("# runs all tests", "# 运行全部测试");
    assert_eq!(outline(&retold), whole, "a comment may be translated");
}
