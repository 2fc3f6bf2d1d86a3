//! The tree of a transcript: events follow each other by `parentId`, and only the current branch is the conversation.
//! An answer that was taken back, or a message that was edited, stands on another branch and was not said in the end.
//! After `config/sessions/transcript-tree` of openclaw 2026.9.6, as far as it chooses the branch.

use std::collections::{HashMap, HashSet};

use super::line::{Event, Line};

/// Positions of the lines on the current branch, in order. Lines that name no parents at all are all on it.
pub(crate) fn current(lines: &[Line]) -> Vec<usize> {
    let mut tree = Tree::default();
    for (place, line) in lines.iter().enumerate() {
        tree.add(place, line);
    }
    let said = |place: &usize| !matches!(lines[*place].event, Event::Header(_) | Event::Stray);
    if !tree.is_linked {
        return (0..lines.len()).filter(said).collect();
    }
    let mut path = Vec::new();
    let mut seen = HashSet::new();
    let mut next = tree.leaf;
    while let Some(id) = next {
        // A loop is a damaged transcript: better everything than nothing.
        if !seen.insert(id) {
            return (0..lines.len()).filter(said).collect();
        }
        let Some(node) = tree.nodes.get(id) else { break };
        if !matches!(lines[node.place].event, Event::Leaf(_)) {
            path.push(node.place);
        }
        next = node.parent;
    }
    path.reverse();
    path
}

struct Node<'a> {
    place: usize,
    parent: Option<&'a str>,
}

#[derive(Default)]
struct Tree<'a> {
    nodes: HashMap<&'a str, Node<'a>>,
    leaf: Option<&'a str>,
    /// Whether any line names what it follows.
    is_linked: bool,
    /// What came after the last reset, which nothing leads behind any more.
    after_reset: Option<HashSet<&'a str>>,
}

impl<'a> Tree<'a> {
    fn add(&mut self, place: usize, line: &'a Line) {
        let Some(id) = line.id.as_deref() else { return };
        match &line.event {
            Event::Header(_) | Event::Stray => return,
            Event::Leaf(target) => return self.turn_to(place, id, target.as_deref()),
            _ => {}
        }
        let known = |parent: &&str| self.nodes.contains_key(parent);
        let parent = match &line.parent {
            // Lines of old: each follows the one before.
            None => self.leaf,
            Some(None) => None,
            Some(Some(parent)) => Some(parent.as_str()).filter(known).or(self.leaf),
        };
        let parent = match &self.after_reset {
            Some(after) if !line.side && parent.is_none_or(|parent| !after.contains(parent)) => self.leaf,
            _ => parent,
        };
        self.is_linked |= line.parent.is_some();
        self.nodes.insert(id, Node { place, parent });
        if line.event == Event::Reset {
            self.after_reset = Some(HashSet::from([id]));
        } else if let (Some(after), Some(parent)) = (&mut self.after_reset, parent)
            && after.contains(parent)
        {
            after.insert(id);
        }
        if !line.side {
            self.leaf = Some(id);
        }
    }

    /// The current branch ends elsewhere from here on, but never behind a reset.
    fn turn_to(&mut self, place: usize, id: &'a str, target: Option<&'a str>) {
        if target.is_some_and(|target| !self.nodes.contains_key(target)) {
            return;
        }
        let behind = |after: &HashSet<&str>| target.is_none_or(|target| !after.contains(target));
        let target = if self.after_reset.as_ref().is_some_and(behind) { self.leaf } else { target };
        self.nodes.insert(id, Node { place, parent: target });
        if let (Some(after), Some(target)) = (&mut self.after_reset, target)
            && after.contains(target)
        {
            after.insert(id);
        }
        self.leaf = target;
        self.is_linked = true;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::line;
    use super::*;

    /// Lines `id parent` or `id parent kind`; a parent of `-` is a root, of `?` is not said.
    fn branch(lines: &str) -> Vec<String> {
        let parse = |(index, spec): (usize, &str)| {
            let parts: Vec<&str> = spec.split(' ').collect();
            let parent = match parts[1] {
                "-" => ",\"parentId\":null".to_owned(),
                "?" => String::new(),
                parent => format!(",\"parentId\":\"{parent}\""),
            };
            let kind = match parts.get(2) {
                Some(&"reset") => "\"type\":\"reset\"".to_owned(),
                Some(target) if target.starts_with("leaf=") => {
                    format!("\"type\":\"leaf\",\"targetId\":\"{}\"", &target[5..])
                }
                Some(&"side") => "\"type\":\"custom\",\"appendMode\":\"side\"".to_owned(),
                _ => "\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"x\"}".to_owned(),
            };
            line::read(&format!("{{\"id\":\"{}\"{parent},{kind}}}", parts[0]), index + 1).unwrap()
        };
        let lines: Vec<Line> = lines.split(", ").enumerate().map(parse).collect();
        current(&lines).into_iter().filter_map(|place| lines[place].id.clone()).collect()
    }

    #[test]
    fn only_the_current_branch_counts() {
        for (lines, expected) in [
            ("a -, b a, c b", "a b c"),
            ("a ?, b ?, c ?", "a b c"),
            ("a -, b a, c b, d a, e d", "a d e"),
            ("a -, b a, c b, x c leaf=a", "a"),
            ("a -, b a, c b, x c leaf=a, d x", "a d"),
            ("a -, b a, x b leaf=nowhere, c b", "a b c"),
            ("a -, b a, s b side, c b", "a b c"),
            ("a -, b gone, c b", "a b c"),
            ("a -, b a, r b reset, c r, d a", "a b r c d"),
            ("a -, b a, r b reset, c r, x c leaf=a, d c", "a b r c d"),
            ("a b, b a", "a b"),
        ] {
            assert_eq!(branch(lines).join(" "), expected, "{lines}");
        }
    }
}
