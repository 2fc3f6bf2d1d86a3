//! The reply of `/v1/embeddings` as servers write it. What is in order is decided in `embeddings.rs`.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A reply: an object, or the bare list that older servers of llama.cpp give.
pub(crate) struct Embeddings {
    pub(super) data: Vec<Item>,
    /// Missing, null and half of it are all taken.
    pub(super) usage: Value,
}

#[derive(Deserialize)]
struct Object {
    data: Vec<Item>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
pub(super) struct Item {
    pub(super) index: Option<usize>,
    pub(super) embedding: Numbers,
}

/// A vector as servers write it: numbers, base64 of little-endian floats (some give that whatever was asked for), or one
/// row of numbers.
pub(super) struct Numbers(pub(super) Vec<f32>);

// By hand, because an untagged enum would hold every number of a large reply in memory once more, several times its size.
impl<'de> Deserialize<'de> for Embeddings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = Embeddings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `data`, or a list of embeddings")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Embeddings, A::Error> {
                let Object { data, usage } = Object::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Embeddings { data, usage })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Embeddings, A::Error> {
                let data = Vec::deserialize(SeqAccessDeserializer::new(items))?;
                Ok(Embeddings { data, usage: Value::Null })
            }
        }
        deserializer.deserialize_any(Whole)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Numbers, E> {
                let wrong = || E::custom("a vector is neither numbers nor base64 of numbers");
                floats(text).map(Numbers).ok_or_else(wrong)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut cells: A) -> Result<Numbers, A::Error> {
                let mut vector = Vec::with_capacity(cells.size_hint().unwrap_or(0).min(65_536));
                let mut rows = 0;
                while let Some(cell) = cells.next_element()? {
                    match cell {
                        Cell::Number(number) => vector.push(number),
                        Cell::Row(row) => {
                            rows += 1;
                            vector = row;
                        }
                    }
                }
                match rows {
                    0 | 1 => Ok(Numbers(vector)),
                    _ => Err(de::Error::custom(format!(
                        "a text has {rows} vectors: the server must pool them into one (llama.cpp: --pooling mean)"
                    ))),
                }
            }
        }
        deserializer.deserialize_any(Whole)
    }
}

/// What stands in a vector's list.
enum Cell {
    Number(f32),
    Row(Vec<f32>),
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Cell;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Cell, E> {
                Ok(Cell::Number(number as f32))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Cell, E> {
                Ok(Cell::Number(number as f32))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Cell, E> {
                Ok(Cell::Number(number as f32))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, row: A) -> Result<Cell, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(row)).map(Cell::Row)
            }
        }
        deserializer.deserialize_any(One)
    }
}

/// The floats in base64 of their bytes.
fn floats(text: &str) -> Option<Vec<f32>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    let whole = !bytes.is_empty() && bytes.len() % 4 == 0;
    whole.then(|| bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
