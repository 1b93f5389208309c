//! Merge patch (RFC 7386), with the behavior of kube-apiserver.
//!
//! The only deviation from the RFC: if the document has no object to merge into, nulls are also dropped from objects
//! inside the lists of the patch.

use serde_json::{Map, Value};

use crate::{
    decode::{self, Decoded},
    go_format::json_type,
    json_patch::Checks,
};

/// Reason why a merge patch body was rejected: 400 with this message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Decodes a merge patch body, which must be an object.
pub fn decode(bytes: &[u8], checks: Checks) -> Result<Decoded, Error> {
    let mut decoded = decode::decode(bytes).map_err(|text| match checks {
        Checks::Strict => Error(format!("error decoding patch: {text}")),
        Checks::Lenient => Error("Invalid JSON Patch".to_owned()),
    })?;
    if checks == Checks::Lenient {
        decoded.duplicates.clear();
    }
    match &decoded.value {
        Value::Object(_) => Ok(decoded),
        Value::Null => Err(Error("Invalid JSON Patch".to_owned())),
        other if checks == Checks::Strict => {
            let text = format!("json: cannot unmarshal {} into Go value", json_type(other));
            Err(Error(format!("error decoding patch: {text} of type map[string]interface {{}}")))
        }
        _ => Err(Error("Invalid JSON Patch".to_owned())),
    }
}

/// Merges a patch into a document in place; a patch that is not an object replaces it.
pub fn apply(doc: &mut Value, patch: Value) {
    match (doc, patch) {
        (Value::Object(doc), Value::Object(patch)) => merge(doc, patch),
        // An object is replaced by any non-object value unchanged; all other replacements lose their nulls.
        (doc @ Value::Object(_), patch) => *doc = patch,
        (doc, mut patch) => {
            prune(&mut patch);
            *doc = patch;
        }
    }
}

fn merge(doc: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, mut value) in patch {
        if value.is_null() {
            doc.remove(&key);
        } else if let Some(current) = doc.get_mut(&key) {
            apply(current, value);
        } else {
            prune(&mut value);
            doc.insert(key, value);
        }
    }
}

/// Drops nulls from objects at every level; nulls in lists are kept.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, item| {
            prune(item);
            !item.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_merge_as_in_kube_apiserver() {
        for (doc, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": "b"}), json!({"x": null}), json!({"a": "b"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [1, 2]}), json!({"a": ["only"]}), json!({"a": ["only"]})),
            (json!({"a": [1]}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]})),
            (json!({"a": {"b": 1}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
            (json!({"a": null}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {}}})),
            (json!({"a": "x"}), json!({"a": {"b": null}}), json!({"a": {}})),
            (json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2})),
        ] {
            let mut merged = doc.clone();
            apply(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{doc} + {patch}");
        }
    }

    #[test]
    fn bodies_that_are_not_objects_are_rejected() {
        for (body, checks, expected) in [
            (
                "[1]",
                Checks::Strict,
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            ("{\"spec\":", Checks::Strict, "error decoding patch: unexpected end of JSON input"),
            ("null", Checks::Strict, "Invalid JSON Patch"),
            ("{\"spec\":", Checks::Lenient, "Invalid JSON Patch"),
        ] {
            assert_eq!(decode(body.as_bytes(), checks), Err(Error(expected.to_owned())), "{body}");
        }
    }

    #[test]
    fn duplicate_fields_are_listed() {
        let decoded = decode(br#"{"a":{"b":1,"b":2}}"#, Checks::Strict).expect("the body must be an object");
        assert_eq!(decoded.duplicates, ["duplicate field \"a.b\""]);
        assert_eq!(decoded.value, json!({"a": {"b": 2}}));
    }
}
