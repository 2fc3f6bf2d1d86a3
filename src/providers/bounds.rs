//! A schema's bounds: how long its texts and lists may be, and between what its numbers lie. A grammar made of them keeps
//! a small model from counting until its tokens end. Not every server takes them; who gets them is the providers' business.

use serde_json::Value;

/// The keywords that bound something.
const BOUNDS: [&str; 6] = ["minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"];

/// The schema without its bounds: what servers take that know only a part of JSON Schema.
pub(crate) fn without_bounds(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => keywords
            .iter()
            .filter(|(keyword, _)| !BOUNDS.contains(&keyword.as_str()))
            .map(|(keyword, value)| {
                let value = match (keyword.as_str(), value) {
                    // The keys in here are names of fields, not keywords.
                    ("properties", Value::Object(fields)) => {
                        fields.iter().map(|(name, field)| (name.clone(), without_bounds(field))).collect()
                    }
                    ("enum" | "const" | "required", value) => value.clone(),
                    (_, value) => without_bounds(value),
                };
                (keyword.clone(), value)
            })
            .collect(),
        Value::Array(schemas) => schemas.iter().map(without_bounds).collect(),
        other => other.clone(),
    }
}

/// Whether the schema has bounds at all.
pub(crate) fn has_bounds(schema: &Value) -> bool {
    without_bounds(schema) != *schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_go_and_everything_else_stays() {
        let bounded = json!({
            "type": "object", "required": ["maximum", "list"], "additionalProperties": false,
            "properties": {
                "maximum": { "type": "integer", "minimum": 1, "maximum": 9 },
                "list": { "type": "array", "minItems": 1, "maxItems": 3,
                    "items": { "type": "string", "maxLength": 40, "enum": ["maxItems", "b"] } },
                "either": { "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "null" }] },
            },
        });
        let plain = json!({
            "type": "object", "required": ["maximum", "list"], "additionalProperties": false,
            "properties": {
                "maximum": { "type": "integer" },
                "list": { "type": "array", "items": { "type": "string", "enum": ["maxItems", "b"] } },
                "either": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            },
        });
        assert_eq!(without_bounds(&bounded), plain);
        assert!(has_bounds(&bounded) && !has_bounds(&plain));
    }
}
