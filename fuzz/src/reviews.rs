//! Responses of webhooks.

use std::sync::LazyLock;

use serde_json::{Value, json};
use windlass_apiserver::fuzzing::{read_admission_response, read_conversion_response};
use windlass_merge::json_patch::{Checks, Patch};

const UID: &str = "u";
const TO: &str = "example.com/v2";

static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let object = |name: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "spec": {"a": 1},
            "metadata": {
                "name": name, "namespace": "n", "uid": format!("uid-{name}"), "labels": {"a": "b"}, "generation": 1,
            },
        })
    };
    vec![object("a"), object("b")]
});

/// Reads a response: the first byte has its options, the rest is the body. A denial is a Status, and a converted object
/// has the identity of the original one.
pub fn reviews(data: &[u8]) {
    let Some((options, body)) = data.split_first() else { return };
    let (v1, mutating) = (options & 1 != 0, options & 2 != 0);
    if options & 4 == 0 { admission(v1, mutating, body) } else { conversion(v1, mutating, body) }
}

fn admission(v1: bool, mutating: bool, body: &[u8]) {
    let Ok(verdict) = read_admission_response(v1, mutating, UID, body) else { return };
    let (code, status) = &verdict.denial;
    assert!(*code >= 400, "a denial must be an error: {code}");
    super::check_status(status);
    match &verdict.patch {
        Some(patch) => {
            assert!(mutating, "a validating webhook must not patch");
            if let Ok(patch) = Patch::decode(patch, Checks::Lenient) {
                let _ = patch.apply(OBJECTS[0].clone());
            }
        }
        None => assert!(verdict.allowed || *code >= 400),
    }
}

fn conversion(v1: bool, both: bool, body: &[u8]) {
    let objects = if both { &OBJECTS[..] } else { &OBJECTS[..1] };
    let Ok(converted) = read_conversion_response(v1, UID, objects, TO, body) else { return };
    assert_eq!(converted.len(), objects.len());
    for (mut into, from) in converted.into_iter().zip(objects) {
        assert_eq!((&into["apiVersion"], &into["kind"]), (&json!(TO), &from["kind"]));
        for field in ["labels", "annotations"] {
            let texts = into["metadata"]
                .get(field)
                .is_none_or(|value| value.as_object().is_some_and(|map| map.values().all(Value::is_string)));
            assert!(texts, "{field} must be texts: {into}");
            into["metadata"][field] = from["metadata"][field].clone();
        }
        let mut expected = from["metadata"].clone();
        expected["annotations"] = Value::Null;
        assert_eq!(into["metadata"], expected, "metadata other than labels and annotations must not change");
    }
}
