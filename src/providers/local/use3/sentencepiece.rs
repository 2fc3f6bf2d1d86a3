//! SentencePiece's unigram model: the cut of a text into known pieces whose scores add up to most.
//! What happens to the text before is `normaliser`'s.

use std::cmp::Ordering;

use super::normaliser::{Normaliser, Spaces};
use super::protobuf::{Damaged, Value, fields};

/// What an unknown character costs below the lowest score of all pieces, as in SentencePiece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Why a file is no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It is no message, or ends too early.
    #[error("read the SentencePiece model: damaged at byte {at}")]
    Damaged {
        /// Where.
        at: usize,
    },
    /// A part of it cannot be used.
    #[error("use the SentencePiece model: {what}")]
    Unusable {
        /// What is wrong.
        what: &'static str,
    },
}

impl From<Damaged> for ModelError {
    fn from(Damaged { at }: Damaged) -> Self {
        Self::Damaged { at }
    }
}

/// What kind of piece it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    /// Set by programs, never found in a text.
    Control,
    /// Preferred to any cut of it.
    UserDefined,
}

#[derive(Debug, Clone)]
struct Piece {
    text: Box<str>,
    score: f32,
    kind: Kind,
}

/// The model, ready to cut texts.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    normaliser: Normaliser,
    /// The pieces found in texts, by their bytes.
    sorted: Vec<(Box<str>, u32, f32)>,
    /// Where in `sorted` those with a given first byte begin; 257 of them.
    by_first: Vec<usize>,
    unknown: u32,
    unknown_score: f32,
}

impl Tokenizer {
    /// Reads a model file.
    ///
    /// # Errors
    /// When it is damaged or lacks pieces.
    pub fn read(model: &[u8]) -> Result<Self, ModelError> {
        let mut pieces = Vec::new();
        let mut normaliser = Normaliser::default();
        for field in fields(model) {
            match field? {
                (1, Value::Bytes(bytes)) => pieces.push(piece(bytes)?),
                (3, Value::Bytes(bytes)) => normaliser = read_normaliser(bytes)?,
                _ => {}
            }
        }
        Self::of(&pieces, normaliser)
    }

    fn of(pieces: &[Piece], normaliser: Normaliser) -> Result<Self, ModelError> {
        let unknown = pieces.iter().position(|piece| piece.kind == Kind::Unknown);
        let unknown = unknown.ok_or(ModelError::Unusable { what: "it has no piece for what is unknown" })?;
        let scores = || pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score);
        let (lowest, highest) = (scores().fold(0.0, f32::min), scores().fold(f32::MIN, f32::max));
        let mut sorted: Vec<(Box<str>, u32, f32)> = Vec::with_capacity(pieces.len());
        for (id, piece) in (0_u32..).zip(pieces) {
            let score = match piece.kind {
                Kind::Unknown | Kind::Control => continue,
                Kind::Normal => piece.score,
                Kind::UserDefined => piece.text.len() as f32 * highest - 0.1,
            };
            sorted.push((piece.text.clone(), id, score));
        }
        sorted.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        let begins = |byte: usize| {
            sorted.partition_point(|(text, ..)| usize::from(*text.as_bytes().first().unwrap_or(&0)) < byte)
        };
        Ok(Self {
            by_first: (0..=256).map(begins).collect(),
            normaliser,
            unknown: unknown as u32,
            unknown_score: lowest - UNKNOWN_PENALTY,
            sorted,
        })
    }

    /// The ids of the pieces of a text. Unknown characters in a row are one unknown piece, and so is a text without
    /// anything in it.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let text = self.normaliser.normalise(text);
        let mut ids = self.best_cut(&text);
        ids.dedup_by(|a, b| *a == self.unknown && a == b);
        if ids.is_empty() {
            ids.push(self.unknown);
        }
        ids
    }

    /// The cut with the highest sum of scores, found from left to right: of two that are equal the first stays.
    fn best_cut(&self, text: &str) -> Vec<u32> {
        #[derive(Clone, Copy)]
        struct Best {
            score: f32,
            begin: usize,
            id: u32,
        }
        let none = Best { score: f32::NEG_INFINITY, begin: 0, id: self.unknown };
        let mut best = vec![none; text.len() + 1];
        best[0].score = 0.0;
        for (begin, c) in text.char_indices() {
            let so_far = best[begin].score;
            let single = begin + c.len_utf8();
            let mut has_single = false;
            self.pieces_at(text.as_bytes(), begin, |end, id, score| {
                has_single |= end == single;
                if so_far + score > best[end].score {
                    best[end] = Best { score: so_far + score, begin, id };
                }
            });
            if !has_single && so_far + self.unknown_score > best[single].score {
                best[single] = Best { score: so_far + self.unknown_score, begin, id: self.unknown };
            }
        }
        let mut ids = Vec::new();
        let mut end = text.len();
        while end > 0 {
            ids.push(best[end].id);
            end = best[end].begin;
        }
        ids.reverse();
        ids
    }

    /// Tells every piece that `text` has at `begin`, the shorter ones first. Of the sorted pieces those that begin alike
    /// lie together, so each further byte narrows a range.
    fn pieces_at(&self, text: &[u8], begin: usize, mut tell: impl FnMut(usize, u32, f32)) {
        let first = usize::from(text[begin]);
        let mut range = &self.sorted[self.by_first[first]..self.by_first[first + 1]];
        let mut depth = 1;
        loop {
            // The piece that ends here is shorter than all others of the range, and so the first.
            while let Some((piece, id, score)) = range.first().filter(|(piece, ..)| piece.len() == depth) {
                tell(begin + piece.len(), *id, *score);
                range = &range[1..];
            }
            let Some(next) = text.get(begin + depth) else { return };
            let at = |piece: &str| piece.as_bytes().get(depth).map_or(Ordering::Less, |byte| byte.cmp(next));
            range = &range[range.partition_point(|(piece, ..)| at(piece) == Ordering::Less)..];
            range = &range[..range.partition_point(|(piece, ..)| at(piece) == Ordering::Equal)];
            if range.is_empty() {
                return;
            }
            depth += 1;
        }
    }
}

fn piece(bytes: &[u8]) -> Result<Piece, ModelError> {
    let mut piece = Piece { text: "".into(), score: 0.0, kind: Kind::Normal };
    for field in fields(bytes) {
        match field? {
            (1, Value::Bytes(text)) => {
                let text = std::str::from_utf8(text);
                piece.text = text.map_err(|_| ModelError::Unusable { what: "a piece is not UTF-8" })?.into();
            }
            (2, Value::Fixed32(score)) => piece.score = f32::from_le_bytes(score),
            (3, Value::Varint(kind)) => {
                piece.kind = match kind {
                    2 => Kind::Unknown,
                    4 => Kind::UserDefined,
                    // Bytes and unused pieces are found in no text either.
                    3 | 5 | 6 => Kind::Control,
                    _ => Kind::Normal,
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() {
        return Err(ModelError::Unusable { what: "a piece is empty" });
    }
    Ok(piece)
}

fn read_normaliser(bytes: &[u8]) -> Result<Normaliser, ModelError> {
    let (mut map, mut spaces) = (&[][..], Spaces::default());
    for field in fields(bytes) {
        match field? {
            (2, Value::Bytes(compiled)) => map = compiled,
            (3, Value::Varint(set)) => spaces.dummy_prefix = set != 0,
            (4, Value::Varint(set)) => spaces.remove_extra = set != 0,
            (5, Value::Varint(set)) => spaces.escape = set != 0,
            _ => {}
        }
    }
    Normaliser::read(map, spaces).ok_or(ModelError::Unusable { what: "its normaliser map is damaged" })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::normaliser::tests::compiled;
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut length = bytes.len();
        let mut out = vec![number << 3 | 2];
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        [&out[..], bytes].concat()
    }

    /// A model file: unknown, two control pieces, then these.
    fn model(pieces: &[(&str, f32, u8)], normaliser: &[u8]) -> Vec<u8> {
        let all = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)];
        let mut out = Vec::new();
        for (text, score, kind) in all.iter().chain(pieces) {
            let score: &[u8] = &f32::to_le_bytes(*score);
            let piece = [&field(1, text.as_bytes())[..], &[0x15], score, &[0x18, *kind]].concat();
            out.extend(field(1, &piece));
        }
        out.extend(field(3, normaliser));
        out
    }

    fn small() -> Tokenizer {
        let pieces = [
            ("▁", -3.0, 1),
            ("a", -4.0, 1),
            ("b", -4.0, 1),
            ("ab", -5.0, 1),
            ("▁a", -4.5, 1),
            ("▁ab", -9.5, 1),
            ("猫", -6.0, 1),
            ("[x]", -1.0, 4),
            ("[", -3.5, 1),
            ("<", -5.0, 1),
            ("s", -5.0, 1),
            (">", -5.0, 1),
        ];
        Tokenizer::read(&model(&pieces, &field(2, &compiled(&[(b'\t', " "), (b'A', "a")])))).unwrap()
    }

    #[test]
    fn the_cut_with_the_highest_sum_wins() {
        let tokenizer = small();
        for (text, ids, why) in [
            ("ab", &[3, 6][..], "▁ + ab is -8.0, ▁a + b -8.5, ▁ab -9.5"),
            ("a b", &[7, 3, 5], "▁a + ▁ + b"),
            ("A\tb", &[7, 3, 5], "the map comes first"),
            ("猫猫", &[3, 9, 9], "characters of several bytes"),
            ("犬犬a犬", &[3, 0, 4, 0], "unknown characters in a row are one piece"),
            ("[x]", &[3, 10], "a piece of the user's own stays whole"),
            ("<s>", &[3, 12, 13, 14], "a text cannot hold a control piece"),
            ("", &[0], "nothing is unknown"),
            (" \t ", &[0], "and so is white space"),
        ] {
            assert_eq!(tokenizer.encode(text), ids, "{text:?}: {why}");
        }
    }

    #[test]
    fn of_two_equal_cuts_the_first_found_stays() {
        let pieces = [("▁", 0.0, 1), ("a", -1.0, 1), ("aa", -2.0, 1)];
        let tokenizer = Tokenizer::read(&model(&pieces, &[])).unwrap();
        assert_eq!(tokenizer.encode("aa"), [3, 5]);
    }

    #[test]
    fn a_damaged_model_says_what_is_wrong_with_it() {
        let whole = model(&[("a", -1.0, 1)], &[]);
        assert!(Tokenizer::read(&whole).is_ok());
        assert!(matches!(Tokenizer::read(&whole[..whole.len() - 3]), Err(ModelError::Damaged { .. })));
        let told = |model: &[u8]| Tokenizer::read(model).unwrap_err().to_string();
        assert!(told(&[]).contains("no piece for what is unknown"));
        assert!(told(&field(1, &field(1, &[0xff]))).contains("UTF-8"));
        assert!(told(&model(&[("a", -1.0, 1)], &field(2, &[1]))).contains("normaliser"));
    }

    proptest! {
        #[test]
        fn any_text_has_a_cut(text in ".{0,40}") {
            prop_assert!(!small().encode(&text).is_empty());
        }
    }
}
