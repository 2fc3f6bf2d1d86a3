//! Long texts in parts: cut between markdown blocks, then between sentences, never inside a code block or a table.

use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

/// Characters of a part, where its blocks and sentences allow.
pub(super) const PART_CHARS: usize = 1200;

/// A sentence longer than this is cut between words, one without spaces anywhere.
const SENTENCE_CHARS: usize = 4 * PART_CHARS;

/// The markdown that episodes are read with.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
}

/// Byte ranges that follow each other and make up the whole text.
pub(super) fn parts(text: &str) -> Vec<Range<usize>> {
    let fits = |range: &Range<usize>| text[range.clone()].chars().take(PART_CHARS + 1).count() <= PART_CHARS;
    let whole = 0..text.len();
    if fits(&whole) {
        return vec![whole];
    }
    let mut pieces = Vec::new();
    for (block, kind) in blocks(text) {
        if kind == Kind::Whole || fits(&block) {
            pieces.push(block);
        } else {
            let mut part = Packer::new(text);
            sentences(&text[block.clone()])
                .for_each(|s| part.add(block.start + s.start..block.start + s.end));
            pieces.extend(part.finish());
        }
    }
    let mut packer = Packer::new(text);
    pieces.into_iter().for_each(|piece| packer.add(piece));
    packer.finish()
}

/// Like [`parts`], for text that is known to be one paragraph.
pub(super) fn paragraph_parts(text: &str) -> Vec<Range<usize>> {
    let mut packer = Packer::new(text);
    sentences(text).for_each(|sentence| packer.add(sentence));
    packer.finish()
}

/// Joins neighbouring ranges while they fit into one part.
struct Packer<'a> {
    text: &'a str,
    parts: Vec<Range<usize>>,
    chars: usize,
}

impl<'a> Packer<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, parts: Vec::new(), chars: 0 }
    }

    fn add(&mut self, range: Range<usize>) {
        let chars = self.text[range.clone()].chars().count();
        let blank = self.text[range.clone()].trim().is_empty();
        match self.parts.last_mut() {
            Some(last)
                if blank || self.chars + chars <= PART_CHARS || self.text[last.clone()].trim().is_empty() =>
            {
                last.end = range.end;
                self.chars += chars;
            }
            _ => {
                self.parts.push(range);
                self.chars = chars;
            }
        }
    }

    fn finish(self) -> Vec<Range<usize>> {
        self.parts
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Must not be cut.
    Whole,
    /// May be cut between sentences.
    Prose,
}

/// The blocks of a text, covering all of it: each reaches to the next one's start. Items of a list are blocks.
fn blocks(text: &str) -> Vec<(Range<usize>, Kind)> {
    let mut starts: Vec<(usize, Kind)> = vec![(0, Kind::Prose)];
    let mut depth = 0_usize;
    let mut lists = 0_usize;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                let kind = match tag {
                    Tag::CodeBlock(_) | Tag::Table(_) => Kind::Whole,
                    _ => Kind::Prose,
                };
                let is_item = matches!(tag, Tag::Item) && lists == 1 && depth == 1;
                if depth == 0 || is_item {
                    starts.push((line_start(text, range.start), kind));
                } else if kind == Kind::Whole
                    && let Some(last) = starts.last_mut()
                {
                    // An item or a quote with code or a table in it stays whole.
                    last.1 = Kind::Whole;
                }
                lists += usize::from(matches!(tag, Tag::List(_)));
                depth += 1;
            }
            Event::End(end) => {
                lists -= usize::from(matches!(end, TagEnd::List(_)));
                depth -= 1;
                // What follows a whole block may be text that gives no event, such as a link's definition.
                if depth == 0 && matches!(end, TagEnd::CodeBlock | TagEnd::Table) {
                    starts.push((range.end.min(text.len()), Kind::Prose));
                }
            }
            _ => {}
        }
    }
    let mut blocks: Vec<(Range<usize>, Kind)> = Vec::with_capacity(starts.len());
    for (index, (start, kind)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(text.len(), |next| next.0);
        if *start < end {
            blocks.push((*start..end, *kind));
        }
    }
    blocks
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The sentences of a text, covering all of it: Latin ends are followed by a space, CJK ends by anything.
fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    static END: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"[.!?…]+["'”’)\]]*\s+|[。！？；…]+["'”’」』）】]*\s*|\n+"#)
            .expect("the pattern is fixed")
    });
    let mut ranges = Vec::new();
    let mut start = 0;
    for end in END.find_iter(text) {
        cut_long(text, start..end.end(), &mut ranges);
        start = end.end();
    }
    if start < text.len() {
        cut_long(text, start..text.len(), &mut ranges);
    }
    ranges.into_iter()
}

fn cut_long(text: &str, range: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    loop {
        let rest = &text[start..range.end];
        let Some((limit, _)) = rest.char_indices().nth(SENTENCE_CHARS) else { break };
        let cut = rest[..limit]
            .rfind(char::is_whitespace)
            .map_or(limit, |space| space + rest[space..].chars().next().map_or(1, char::len_utf8));
        ranges.push(start..start + cut);
        start += cut;
    }
    if start < range.end {
        ranges.push(start..range.end);
    }
}
