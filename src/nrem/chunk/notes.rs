//! Free-form markdown in pieces: paragraphs, list items, whole code blocks and tables, quotes, each under its headings.
//!
//! Works on whole lines. The parser says where blocks are; lines that it gives no event for (link definitions, stray
//! markers) become pieces of their own, so that nothing a person wrote is lost.

use std::sync::LazyLock;

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use regex::Regex;

use super::{Standing, split, tag};
use crate::openclaw::noise;

/// A piece of a note.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    /// First and last line, counted from 1.
    pub lines: (usize, usize),
    /// The headings above, outermost first.
    pub headings: Vec<String>,
    /// The words; empty for noise.
    pub text: String,
    /// Evidence, noise or excluded.
    pub standing: Standing,
}

/// An item with its nested items up to this many characters is one piece.
const ITEM_CHARS: usize = 300;

/// A longer heading, or one that ends like a sentence, is prose that somebody underlined with `---`.
const HEADING_CHARS: usize = 80;

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Heading {
        level: HeadingLevel,
        text: String,
    },
    Rule,
    Paragraph,
    Item,
    Quote,
    /// Code or a table: never cut, introduced by the paragraph above it.
    Whole,
    /// A block of the gateway's own dreaming.
    Dreaming,
}

/// A block of whole lines, counted from 0, the last one included.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    first: usize,
    last: usize,
    kind: Kind,
}

/// Cuts a note into pieces, in order.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let lines = Lines::of(text);
    let dreaming = dreaming(&lines);
    let blocks = with_gaps(blocks(&without(&lines, &dreaming)), dreaming, &lines);
    let mut pieces = Vec::new();
    let mut path: Vec<(HeadingLevel, String, bool)> = Vec::new();
    for block in introduced(blocks, &lines) {
        match &block.kind {
            Kind::Heading { level, text } => {
                path.retain(|(above, _, _)| above < level);
                path.push((*level, text.clone(), tag::is_excluded(text)));
            }
            Kind::Rule => {}
            Kind::Dreaming => {
                pieces.push(piece(&block, &path, String::new(), Standing::Noise(noise::DREAMING)))
            }
            _ => cut(&block, &lines, &path, &mut pieces),
        }
    }
    if pieces.is_empty() {
        let headings = path.iter().any(|(_, text, _)| !text.is_empty());
        let block = Block { first: 0, last: lines.count().saturating_sub(1), kind: Kind::Paragraph };
        if headings {
            cut(&block, &lines, &[], &mut pieces);
        }
    }
    pieces
}

/// A text by lines.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    fn get(&self, line: usize) -> &'a str {
        self.span(line, line).trim_end_matches('\n')
    }

    fn span(&self, first: usize, last: usize) -> &'a str {
        let end = self.starts.get(last + 1).copied().unwrap_or(self.text.len());
        &self.text[self.starts[first]..end]
    }

    fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) - 1
    }

    fn is_blank(&self, line: usize) -> bool {
        self.get(line).trim().is_empty()
    }
}

fn cut(block: &Block, lines: &Lines, path: &[(HeadingLevel, String, bool)], pieces: &mut Vec<Piece>) {
    let source = lines.span(block.first, block.last);
    let under_tag = path.iter().any(|(_, _, excluded)| *excluded);
    let standing =
        if under_tag || tag::is_excluded(source) { Standing::Excluded } else { Standing::Evidence };
    let ranges = match block.kind {
        Kind::Whole => vec![0..source.len()],
        Kind::Paragraph if source.chars().count() > split::PART_CHARS => split::paragraph_parts(source),
        _ => split::parts(source),
    };
    for range in ranges {
        let part = &source[range.clone()];
        let lead = part.len() - part.trim_start().len();
        let offset = lines.starts[block.first] + range.start;
        let first = lines.at(offset + lead);
        let last = lines.at(offset + part.trim_end().len().max(1) - 1).max(first);
        let text = plain(part, &block.kind);
        if !text.is_empty() {
            let part = Block { first, last, kind: block.kind.clone() };
            pieces.push(piece(&part, path, text, standing));
        }
    }
}

fn piece(block: &Block, path: &[(HeadingLevel, String, bool)], text: String, standing: Standing) -> Piece {
    let headings = path.iter().map(|(_, text, _)| text.clone()).filter(|text| !text.is_empty()).collect();
    Piece { lines: (block.first + 1, block.last + 1), headings, text, standing }
}

/// The words without the marks that only lay them out.
fn plain(source: &str, kind: &Kind) -> String {
    static BULLET: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+"));
    static QUOTE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^[ \t]*(?:>[ \t]?)+"));
    let text = match kind {
        Kind::Whole => return source.trim_matches('\n').trim_end().to_owned(),
        Kind::Item => BULLET.replace(source, ""),
        Kind::Quote => QUOTE.replace_all(source, ""),
        _ => source.into(),
    };
    // A piece of marks alone ("-", ">") must still be told: it is what the person wrote.
    let text = text.trim();
    if text.is_empty() { source.trim().to_owned() } else { text.to_owned() }
}

/// Lines of the gateway's own dreaming: from a start to its end marker, and single markers.
fn dreaming(lines: &Lines) -> Vec<Block> {
    static MARK: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^\s*<!--\s*openclaw:dreaming:(?P<name>[A-Za-z0-9-]+)(?::(?P<edge>start|end))?\b")
    });
    let mut marks = Vec::new();
    if lines.text.contains("openclaw:dreaming:") {
        marks = (0..lines.count()).filter_map(|line| Some((line, MARK.captures(lines.get(line))?))).collect();
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (index, (line, mark)) in marks.iter().enumerate() {
        if blocks.last().is_some_and(|block| block.last >= *line) {
            continue;
        }
        let edge =
            |mark: &regex::Captures, edge| mark.name("edge").is_some_and(|found| found.as_str() == edge);
        // Without an end only the marker itself is the gateway's.
        let last = marks[index + 1..]
            .iter()
            .take_while(|_| edge(mark, "start"))
            .take_while(|(_, next)| !edge(next, "start"))
            .find(|(_, next)| edge(next, "end") && next["name"] == mark["name"])
            .map_or(*line, |(end, _)| *end);
        blocks.push(Block { first: *line, last, kind: Kind::Dreaming });
    }
    blocks
}

/// The text with those lines blanked out.
fn without(lines: &Lines, blocks: &[Block]) -> String {
    if blocks.is_empty() {
        return lines.text.to_owned();
    }
    let mut text = String::with_capacity(lines.text.len());
    let mut next = blocks.iter().peekable();
    for line in 0..lines.count() {
        while next.peek().is_some_and(|block| block.last < line) {
            next.next();
        }
        let source = lines.span(line, line);
        let blanked = next.peek().is_some_and(|block| block.first <= line);
        // Spaces keep the byte offsets.
        text.extend(source.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).filter(|_| blanked));
        text.push_str(if blanked { "" } else { source });
    }
    text
}

/// The blocks the parser finds, in order, not overlapping.
fn blocks(text: &str) -> Vec<Block> {
    let lines = Lines::of(text);
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    // The items that are open, each with its line span and the blocks there were before it.
    let mut items: Vec<(usize, usize, usize)> = Vec::new();
    let mut heading = String::new();
    for (event, range) in Parser::new_ext(text, split::options()).into_offset_iter() {
        let first = lines.at(range.start);
        let last = last_line(&lines, &range, first);
        match event {
            Event::Start(Tag::Item) if items.len() == depth / 2 && depth % 2 == 1 => {
                items.push((first, last, blocks.len()));
                depth += 1;
            }
            Event::Start(tag) => {
                if depth == 0 && !matches!(tag, Tag::List(_)) {
                    blocks.push(Block { first, last, kind: kind_of(&tag) });
                    heading.clear();
                }
                depth += 1;
            }
            Event::End(end) => {
                depth -= 1;
                if matches!(end, TagEnd::Item) && items.len() == depth.div_ceil(2) && depth % 2 == 1 {
                    close_item(&mut items, &mut blocks, &lines);
                }
                if let (TagEnd::Heading(_), 0, Some(block)) = (end, depth, blocks.last_mut()) {
                    block.kind = heading_or_prose(&block.kind, heading.trim(), block.first != block.last);
                }
            }
            Event::Text(words) | Event::Code(words) | Event::InlineHtml(words) => heading.push_str(&words),
            Event::SoftBreak | Event::HardBreak => heading.push(' '),
            Event::Rule if depth == 0 => blocks.push(Block { first, last, kind: Kind::Rule }),
            Event::Html(_) if depth == 0 => blocks.push(Block { first, last, kind: Kind::Paragraph }),
            _ => {}
        }
    }
    blocks
}

/// The last line of a range that holds anything; the parser's ranges may end with blank lines.
fn last_line(lines: &Lines, range: &std::ops::Range<usize>, first: usize) -> usize {
    let words = lines.text[range.clone()].trim_end();
    lines.at((range.start + words.len()).saturating_sub(1).max(range.start)).max(first)
}

fn kind_of(tag: &Tag) -> Kind {
    match tag {
        Tag::Heading { level, .. } => Kind::Heading { level: *level, text: String::new() },
        Tag::CodeBlock(_) | Tag::Table(_) => Kind::Whole,
        Tag::BlockQuote(_) => Kind::Quote,
        _ => Kind::Paragraph,
    }
}

/// Prose over `---` is a heading to the parser; to the person it was a sentence over a rule.
fn heading_or_prose(kind: &Kind, text: &str, underlined: bool) -> Kind {
    let Kind::Heading { level, .. } = kind else { return kind.clone() };
    let sentence = text.ends_with(['.', '!', '?', '。', '！', '？', ';', '；', ',', '，']);
    if underlined && (sentence || text.chars().count() > HEADING_CHARS) {
        return Kind::Paragraph;
    }
    Kind::Heading { level: *level, text: text.to_owned() }
}

/// An item ends: a short one swallows its nested items, a long one leaves them as they are.
fn close_item(items: &mut Vec<(usize, usize, usize)>, blocks: &mut Vec<Block>, lines: &Lines) {
    let Some((first, last, before)) = items.pop() else { return };
    let nested = blocks.len() > before;
    let short = lines.span(first, last).chars().take(ITEM_CHARS + 1).count() <= ITEM_CHARS;
    if !nested || short {
        blocks.truncate(before);
        blocks.push(Block { first, last, kind: Kind::Item });
        return;
    }
    // The item's own lines are those its nested items leave: before the first, and between or after them.
    let mut own = Vec::new();
    let mut next = first;
    for block in blocks.drain(before..) {
        if block.first > next {
            own.push(Block { first: next, last: block.first - 1, kind: Kind::Item });
        }
        next = block.last + 1;
        own.push(block);
    }
    if next <= last {
        own.push(Block { first: next, last, kind: Kind::Paragraph });
    }
    blocks.extend(own);
}

/// All blocks in order, without overlap, and the lines between them that the parser passed over.
fn with_gaps(parsed: Vec<Block>, dreaming: Vec<Block>, lines: &Lines) -> Vec<Block> {
    let mut all: Vec<Block> = parsed.into_iter().chain(dreaming).collect();
    all.sort_by_key(|block| (block.first, block.last));
    let mut blocks: Vec<Block> = Vec::with_capacity(all.len());
    let mut next = 0;
    let fill = |blocks: &mut Vec<Block>, first: usize, end: usize| {
        let mut open = None;
        for line in first..end {
            match (lines.is_blank(line), open) {
                (false, None) => open = Some(line),
                (true, Some(first)) => {
                    blocks.push(Block { first, last: line - 1, kind: Kind::Paragraph });
                    open = None;
                }
                _ => {}
            }
        }
        if let Some(first) = open {
            blocks.push(Block { first, last: end - 1, kind: Kind::Paragraph });
        }
    };
    for mut block in all {
        block.first = block.first.max(next);
        if block.first > block.last {
            continue;
        }
        fill(&mut blocks, next, block.first);
        next = block.last + 1;
        blocks.push(block);
    }
    fill(&mut blocks, next, lines.count());
    blocks
}

/// Joins a paragraph that ends with a colon to the code or table it introduces.
fn introduced(blocks: Vec<Block>, lines: &Lines) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::with_capacity(blocks.len());
    for block in blocks {
        if block.kind == Kind::Whole
            && let Some(last) = joined.last_mut()
            && last.kind == Kind::Paragraph
            && lines.get(last.last).trim_end().ends_with([':', '：'])
            && last.last + 2 >= block.first
        {
            last.last = block.last;
            last.kind = Kind::Whole;
            continue;
        }
        joined.push(block);
    }
    joined
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is fixed")
}
