//! SentencePiece's normaliser: a map from byte sequences to replacements, compiled into a double-array trie (the format of
//! the library darts-clone), and its rules for white space. Which pieces the result is cut into is `sentencepiece`'s.

/// What stands for a space in pieces.
pub(super) const SPACE: char = '\u{2581}';

/// How white space is treated; the defaults are SentencePiece's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spaces {
    /// A space is put before the text.
    pub(super) dummy_prefix: bool,
    /// Leading and trailing ones go, several become one.
    pub(super) remove_extra: bool,
    /// [`SPACE`] stands for a space.
    pub(super) escape: bool,
}

impl Default for Spaces {
    fn default() -> Self {
        Self { dummy_prefix: true, remove_extra: true, escape: true }
    }
}

/// The map and the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Normaliser {
    units: Vec<u32>,
    /// Replacements, each ended by a zero byte; a leaf holds where its own begins.
    replacements: Vec<u8>,
    spaces: Spaces,
}

impl Normaliser {
    /// Reads a compiled map: the trie's length in bytes, the trie, the replacements. None if it is damaged. An empty map
    /// changes nothing.
    pub(super) fn read(compiled: &[u8], spaces: Spaces) -> Option<Self> {
        if compiled.is_empty() {
            return Some(Self { spaces, ..Self::default() });
        }
        let (length, rest) = compiled.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (trie, replacements) = rest.split_at_checked(length)?;
        let units: Vec<u32> = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        (length % 4 == 0 && !units.is_empty()).then(|| Self {
            units,
            replacements: replacements.to_vec(),
            spaces,
        })
    }

    /// The text as pieces are found in it; empty where nothing but white space is left.
    pub(super) fn normalise(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 3);
        let mut rest = text;
        let mut after_space = self.spaces.remove_extra;
        while let Some((mut piece, length)) = self.prefix(rest) {
            rest = &rest[length..];
            if after_space {
                piece = piece.trim_start_matches(' ');
            }
            if piece.is_empty() {
                continue;
            }
            if out.is_empty() && self.spaces.dummy_prefix {
                self.push(' ', &mut out);
            }
            piece.chars().for_each(|c| self.push(c, &mut out));
            after_space = self.spaces.remove_extra && piece.ends_with(' ');
        }
        let space = if self.spaces.escape { SPACE } else { ' ' };
        if self.spaces.remove_extra {
            out.truncate(out.trim_end_matches(space).len());
        }
        out
    }

    fn push(&self, c: char, out: &mut String) {
        out.push(if c == ' ' && self.spaces.escape { SPACE } else { c });
    }

    /// What the longest beginning of `text` that the map knows becomes, and its length in bytes; the first character as
    /// it is where the map knows none. None at the end.
    fn prefix<'a>(&'a self, text: &'a str) -> Option<(&'a str, usize)> {
        let first = text.chars().next()?.len_utf8();
        let known = self.longest(text.as_bytes()).filter(|(length, _)| text.is_char_boundary(*length));
        let replaced = known.and_then(|(length, begin)| {
            let tail = self.replacements.get(begin..)?;
            let end = tail.iter().position(|byte| *byte == 0)?;
            Some((std::str::from_utf8(&tail[..end]).ok()?, length))
        });
        Some(replaced.unwrap_or((&text[..first], first)))
    }

    /// Walks the trie: a unit holds its label, whether a leaf follows, and how far its children are.
    fn longest(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let offset = |unit: u32| ((unit >> 10) << ((unit & 0x200) >> 6)) as usize;
        let mut node = offset(*self.units.first()?);
        let mut longest = None;
        for (at, byte) in bytes.iter().enumerate() {
            node ^= usize::from(*byte);
            let Some(unit) = self.units.get(node).filter(|unit| **unit & 0x8000_00ff == u32::from(*byte))
            else {
                break;
            };
            node ^= offset(*unit);
            if unit & 0x100 != 0 {
                let Some(leaf) = self.units.get(node) else { break };
                longest = Some((at + 1, (leaf & 0x7fff_ffff) as usize));
            }
        }
        longest
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    /// A compiled map of single bytes to texts: each key is a child of the root and has a leaf.
    pub(crate) fn compiled(map: &[(u8, &str)]) -> Vec<u8> {
        let mut units = vec![0_u32; 1024];
        units[0] = 256 << 10;
        let mut replacements = Vec::new();
        for (nth, (key, text)) in map.iter().enumerate() {
            // The root's children lie at 256 ^ key, the leaf of the nth key at 512 + nth.
            let (node, leaf) = (256 ^ usize::from(*key), 512 + nth);
            units[node] = u32::from(*key) | 0x100 | (((node ^ leaf) as u32) << 10);
            units[leaf] = 0x8000_0000 | replacements.len() as u32;
            replacements.extend(text.bytes().chain([0]));
        }
        let trie: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        [&(trie.len() as u32).to_le_bytes()[..], &trie, &replacements].concat()
    }

    #[test]
    fn spaces_are_put_before_joined_and_taken_from_the_end() {
        let normaliser = Normaliser::read(&[], Spaces::default()).unwrap();
        for (text, normal) in
            [("a b", "▁a▁b"), ("  a   b  ", "▁a▁b"), ("", ""), ("   ", ""), ("猫，狗", "▁猫，狗")]
        {
            assert_eq!(normaliser.normalise(text), normal, "{text:?}");
        }
        let as_it_is = Spaces { dummy_prefix: false, remove_extra: false, escape: false };
        assert_eq!(Normaliser::read(&[], as_it_is).unwrap().normalise(" a  b "), " a  b ");
    }

    #[test]
    fn what_the_map_knows_is_replaced_by_more_less_or_nothing() {
        let map = compiled(&[(b'\t', " "), (b'x', "yz"), (b'-', ""), (b'A', "a")]);
        let normaliser = Normaliser::read(&map, Spaces::default()).unwrap();
        for (text, normal) in [("x", "▁yz"), ("\tA\t\tx-x-", "▁a▁yzyz"), ("--", ""), ("bé", "▁bé")]
        {
            assert_eq!(normaliser.normalise(text), normal, "{text:?}");
        }
    }

    #[test]
    fn a_damaged_map_is_none_or_changes_nothing_and_never_panics() {
        assert!(Normaliser::read(&[1, 2], Spaces::default()).is_none());
        assert!(Normaliser::read(&[8, 0, 0, 0, 1, 2, 3, 4], Spaces::default()).is_none());
        let whole = compiled(&[(b'x', "y")]);
        let cut = Normaliser::read(&whole[..whole.len() - 2], Spaces::default()).unwrap();
        assert_eq!(cut.normalise("x"), "▁x");
    }
}
