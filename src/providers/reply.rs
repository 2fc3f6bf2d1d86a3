//! Reading a model's reply: the JSON in it, whatever small models wrap around it or get wrong in it.
//! A reply that is not whole is an error, never half of the data. What the values mean is for `nrem/` and `rem/`.

pub mod de;
mod mend;

use serde::de::DeserializeOwned;
use serde_json::Value;

use mend::Found;

/// Reads the last JSON value in `text` that is a `T`: through fences, `<think>` blocks, surrounding text, comments,
/// trailing commas, single and typographic quotes, bare keys and raw line ends in strings.
///
/// # Errors
/// When there is none, or the reply breaks off inside a value. The text says why.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut values = values(text)?;
    let mut first_error = None;
    while let Some(value) = values.pop() {
        match serde_json::from_value(value.value) {
            Ok(parsed) => return Ok(parsed),
            Err(e) => first_error.get_or_insert_with(|| why(&e)),
        };
    }
    Err(first_error.unwrap_or_else(|| "no JSON in the reply".to_owned()))
}

/// Reads the list under `key`, as [`parse`] does. Also taken: the list itself, one item instead of a list, items one
/// after the other, the list under another name if it is the object's only one, `null` as the empty list.
///
/// # Errors
/// As [`parse`]; also when a single item is not a `T`, since a list without it would be half of the data.
pub fn parse_list<T: DeserializeOwned>(text: &str, key: &str) -> Result<Vec<T>, String> {
    let values = values(text)?;
    let mut first_error = None;
    for (last, found) in values.iter().enumerate().rev() {
        let items = match &found.value {
            // Every field of a `T` may be optional; an empty object must not become one.
            Value::Object(object) if object.is_empty() => return Err(format!("the reply has no {key}")),
            Value::Object(object) if !object.contains_key(key) => match only_list(&found.value) {
                Some(list) if object.len() == 1 || read_item::<T>(0, found.value.clone()).is_err() => {
                    list.clone()
                }
                _ => row_of_items(&values, last),
            },
            value => items_of(value, key),
        };
        match items.into_iter().enumerate().map(|(n, item)| read_item(n, item)).collect() {
            Ok(list) => return Ok(list),
            Err(e) => first_error.get_or_insert(e),
        };
    }
    Err(first_error.unwrap_or_else(|| "no JSON in the reply".to_owned()))
}

fn read_item<T: DeserializeOwned>(n: usize, item: Value) -> Result<T, String> {
    serde_json::from_value(item).map_err(|e| format!("item {n}: {}", why(&e)))
}

/// An error's text, which may quote the reply at length, cut to what fits a log.
fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The items of a value that holds `key`, is the list itself, or is a list around an object that holds it.
fn items_of(value: &Value, key: &str) -> Vec<Value> {
    match value {
        Value::Object(object) => match object.get(key) {
            Some(Value::Array(items)) => items.clone(),
            Some(Value::Null) => Vec::new(),
            Some(single) => vec![single.clone()],
            None => vec![value.clone()],
        },
        Value::Array(items) => match items.as_slice() {
            [only @ Value::Object(object)] if object.contains_key(key) => items_of(only, key),
            _ => items.clone(),
        },
        other => vec![other.clone()],
    }
}

/// The only list of objects in an object, such as `results` where `memories` was asked for.
fn only_list(value: &Value) -> Option<&Vec<Value>> {
    let mut lists = value.as_object()?.values().filter_map(Value::as_array);
    let list = lists.next().filter(|_| lists.next().is_none())?;
    list.iter().all(Value::is_object).then_some(list)
}

/// The objects up to `last` with nothing but spaces and commas between them: a list without brackets.
fn row_of_items(values: &[Found], last: usize) -> Vec<Value> {
    let mut first = last;
    while first > 0 && values[first].follows && values[first - 1].value.is_object() {
        first -= 1;
    }
    values[first..=last].iter().map(|found| found.value.clone()).collect()
}

/// The complete top-level values of a reply, in order.
fn values(text: &str) -> Result<Vec<Found>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    // A well-formed reply is taken as it is: its strings may hold fences and `<think>`.
    match serde_json::from_str::<Value>(text) {
        Ok(Value::String(encoded)) => mend::find(&encoded),
        Ok(value) => Ok(vec![Found { value, follows: false }]),
        Err(_) => mend::find(mend::after_thinking(text)),
    }
}

#[cfg(test)]
mod tests;
