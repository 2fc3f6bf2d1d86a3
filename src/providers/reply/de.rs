//! `#[serde(deserialize_with = …)]` functions for fields that small models spell in their own way.
//! Use them with `#[serde(default)]`, since a missing field never reaches them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number, also as text (`"0.8"`, `"80%"`); `null` is 0.
///
/// # Errors
/// When it is anything else.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    optional_number(deserializer).map(Option::unwrap_or_default)
}

/// A number as [`number`]; `null` and an empty text are none.
///
/// # Errors
/// When it is anything else.
pub fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if is_nothing(&value) {
        return Ok(None);
    }
    number_of(&value).map(Some).ok_or_else(|| wrong("a number", &value))
}

/// A text, also given as a number or a truth value; `null` is the empty text.
///
/// # Errors
/// When it is a list or an object.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Value::deserialize(deserializer)?;
    text_of(&value).ok_or_else(|| wrong("a text", &value))
}

/// A text as [`text`]; `null`, blank and the words "null" and "none" are none.
///
/// # Errors
/// When it is a list or an object.
pub fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = text(deserializer)?;
    let nothing = ["", "null", "none"].contains(&text.trim().to_ascii_lowercase().as_str());
    Ok((!nothing).then_some(text))
}

/// A list of texts, also given as one text; `null` and an empty text are the empty list.
///
/// # Errors
/// When an item is a list or an object.
pub fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let items = items_of(Value::deserialize(deserializer)?);
    items.iter().map(|item| text_of(item).ok_or_else(|| wrong("a text", item))).collect()
}

/// A list of counting numbers, also given as one number or as texts such as `"3"`, `"[3]"` or `"3, 4"`; `null` is
/// the empty list.
///
/// # Errors
/// When an item holds no number or is negative or broken.
pub fn indices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let mut indices = Vec::new();
    for item in items_of(Value::deserialize(deserializer)?) {
        match &item {
            Value::Number(number) => {
                let number = number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e9).contains(n));
                indices.push(number.ok_or_else(|| wrong("a counting number", &item))? as usize);
            }
            Value::String(text) => {
                let parts = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
                let numbers: Vec<usize> = parts.filter_map(|part| part.parse().ok()).collect();
                if numbers.is_empty() || text.contains(['-', '.']) {
                    return Err(wrong("a counting number", &item));
                }
                indices.extend(numbers);
            }
            _ => return Err(wrong("a counting number", &item)),
        }
    }
    Ok(indices)
}

/// A truth value, also given as a word or as 0 and 1; `null` is false.
///
/// # Errors
/// When it is anything else.
pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text = text_of(&value).ok_or_else(|| wrong("true or false", &value))?;
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" | "" | "null" | "none" => Ok(false),
        _ => Err(wrong("true or false", &value)),
    }
}

/// Any value, with `null` as its default.
///
/// # Errors
/// When it is neither.
pub fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn items_of(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        nothing if is_nothing(&nothing) => Vec::new(),
        single => vec![single],
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let text = text.trim();
            match text.strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
                None => text.parse().ok(),
            }
        }
        _ => None,
    }
    .filter(|number| number.is_finite())
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn wrong<E: serde::de::Error>(expected: &str, value: &Value) -> E {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "another number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    E::custom(format!("expected {expected}, found {kind}"))
}
