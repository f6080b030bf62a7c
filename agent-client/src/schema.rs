//! JSON Schemas of tools, reduced to what every agent's parser knows: boolean, string, number, array and object.

use serde_json::{Map, Value, json};

/// Types that are kept, or stand for one that is.
const KNOWN: [(&str, &str); 6] = [
    ("object", "object"),
    ("array", "array"),
    ("string", "string"),
    ("number", "number"),
    ("integer", "number"),
    ("boolean", "boolean"),
];

/// What a schema without a type has by its keywords.
const BY_KEYWORD: [(&str, &[&str]); 4] = [
    ("object", &["properties", "required", "additionalProperties"]),
    ("array", &["items", "prefixItems"]),
    ("string", &["enum", "const", "format"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Keywords whose value is one schema.
const ONE: [&str; 7] = ["items", "additionalProperties", "not", "if", "then", "else", "contains"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Gives every schema within `schema` one plain type, in place. Combiners are walked and stay; `integer` becomes `number`; of
/// a list of types the first known one counts; a schema that is a boolean becomes a string. An object gets a map of
/// properties, an array gets items, which are strings where nothing says what they are.
pub fn reduce(schema: &mut Value) {
    let Value::Object(object) = schema else {
        *schema = json!({"type": "string"});
        return;
    };
    for key in ONE {
        // `additionalProperties: false` is no schema, but a choice.
        if let Some(value) =
            object.get_mut(key).filter(|value| key != "additionalProperties" || value.is_object())
        {
            reduce(value);
        }
    }
    for key in LISTS {
        if let Some(Value::Array(items)) = object.get_mut(key) {
            items.iter_mut().for_each(reduce);
        }
    }
    for key in MAPS {
        if let Some(Value::Object(members)) = object.get_mut(key) {
            members.values_mut().for_each(reduce);
        }
    }
    let kind = kind(object);
    object.insert("type".to_owned(), json!(kind));
    match kind {
        "object" if !object.get("properties").is_some_and(Value::is_object) => {
            object.insert("properties".to_owned(), json!({}));
        }
        "array" if !object.get("items").is_some_and(Value::is_object) => {
            object.insert("items".to_owned(), json!({"type": "string"}));
        }
        _ => {}
    }
}

fn kind(object: &Map<String, Value>) -> &'static str {
    let known = |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, plain)| *plain);
    let named = match object.get("type") {
        Some(Value::String(name)) => known(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find_map(known),
        _ => None,
    };
    let by_keyword = || BY_KEYWORD.iter().find(|(_, keys)| keys.iter().any(|key| object.contains_key(*key)));
    named.or_else(|| by_keyword().map(|(kind, _)| *kind)).unwrap_or("string")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reduced(mut schema: Value) -> Value {
        reduce(&mut schema);
        schema
    }

    #[test]
    fn types_are_found() {
        for (schema, kind) in [
            (json!({"properties": {}}), "object"),
            (json!({"required": []}), "object"),
            (json!({"additionalProperties": false}), "object"),
            (json!({"items": {}}), "array"),
            (json!({"prefixItems": []}), "array"),
            (json!({"enum": ["a"]}), "string"),
            (json!({"const": 1}), "string"),
            (json!({"format": "date"}), "string"),
            (json!({"minimum": 1}), "number"),
            (json!({"type": "integer"}), "number"),
            (json!({"type": ["null", "integer", "string"]}), "number"),
            (json!({"type": "null"}), "string"),
            (json!({"description": "?"}), "string"),
            (json!(true), "string"),
            (json!({"type": "boolean"}), "boolean"),
        ] {
            assert_eq!(reduced(schema.clone())["type"], kind, "{schema}");
        }
    }

    #[test]
    fn what_is_within_is_reduced_too() {
        let schema = json!({
            "properties": {"list": {"type": "array"}, "any": true, "either": {"anyOf": [{"type": "integer"}, {"items": {"minimum": 1}}]}},
            "additionalProperties": {"type": "integer"}
        });
        assert_eq!(
            reduced(schema),
            json!({
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": {"type": "string"}},
                    "any": {"type": "string"},
                    "either": {"type": "string", "anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number", "minimum": 1}}]}
                },
                "additionalProperties": {"type": "number"}
            })
        );
        assert_eq!(reduced(json!({"type": "object"})), json!({"type": "object", "properties": {}}));
    }

    /// Any JSON, with the keywords of schemas in it.
    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!(null)),
            Just(json!(1)),
            Just(json!("integer")),
            Just(json!(["null", "array"]))
        ];
        let keys = [
            "type",
            "properties",
            "items",
            "anyOf",
            "allOf",
            "enum",
            "additionalProperties",
            "minimum",
            "$defs",
            "x",
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                proptest::collection::vec((proptest::sample::select(keys.to_vec()), inner), 0..4).prop_map(
                    |members| Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_becomes_plain_and_stays_so(schema in any_schema()) {
            let once = reduced(schema);
            prop_assert!(KNOWN.iter().any(|(_, plain)| once["type"] == *plain), "{}", once);
            prop_assert_eq!(reduced(once.clone()), once);
        }
    }
}
