//! A number in JSON that comes back bit for bit: as a string, since this build's JSON reader may miss the last bit of a
//! number. Numbers that older plans hold are read as well.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // The shortest digits that lead back to the same bits.
    serializer.serialize_str(&format!("{value:?}"))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(Number)
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, or a string that holds one")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        text.parse().map_err(|_| E::custom(format!("{text:?} is no number")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    #[allow(clippy::cast_precision_loss)]
    fn visit_u64<E>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    #[allow(clippy::cast_precision_loss)]
    fn visit_i64<E>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::ImportanceChange;

    #[test]
    fn every_bit_of_an_importance_comes_back() {
        let mut value = 0.7_f64;
        for _ in 0..10_000 {
            value = (value * 0.95 + 0.012_345_678_9).fract();
            let change = ImportanceChange { id: "a".into(), text: "t".into(), from: value, to: value.sqrt() };
            let json = serde_json::to_string(&change).unwrap();
            let read: ImportanceChange = serde_json::from_str(&json).unwrap();
            assert_eq!(read.from.to_bits(), value.to_bits(), "{json}");
            assert_eq!(read.to.to_bits(), value.sqrt().to_bits(), "{json}");
        }
    }

    #[test]
    fn numbers_of_older_plans_are_read_and_words_are_not() {
        let read = |from: &str| {
            let json = format!(r#"{{"id":"a","text":"t","from":{from},"to":1}}"#);
            serde_json::from_str::<ImportanceChange>(&json)
        };
        assert_eq!((read("0.75").unwrap().from, read("0.75").unwrap().to), (0.75, 1.0));
        assert_eq!((read("\"0.1\"").unwrap().from, read("-1").unwrap().from), (0.1, -1.0));
        assert!(read("\"much\"").unwrap_err().to_string().contains("no number"));
    }
}
