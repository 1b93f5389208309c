//! Pod templates: equality and hashes.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::json_text;

/// The label that distinguishes the pods of replica sets.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Alphabet of generated name parts: no vowels, so that no words appear.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maximum length of a replica set's name.
const LONGEST_NAME: usize = 253;

/// Returns whether two templates create the same pods, ignoring their hash labels. An empty list or map equals a
/// missing one.
pub(super) fn same(first: &PodTemplateSpec, second: &PodTemplateSpec) -> bool {
    // Most are identical except for the label.
    if first.spec == second.spec && meaning_of_metadata(first) == meaning_of_metadata(second) {
        return true;
    }
    meaning(first) == meaning(second)
}

/// A short hash of a template. The collision count changes the hash after a collision with another template.
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut bytes = meaning(template).to_string().into_bytes();
    if let Some(collisions) = collisions {
        bytes.extend(collisions.to_le_bytes());
    }
    let digits = fnv(&bytes).to_string().into_bytes();
    digits.into_iter().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The name of the replica set with this hash.
pub(super) fn set_name(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    let stem = deployment.get(..room).unwrap_or(deployment);
    format!("{stem}-{hash}")
}

/// 32-bit FNV-1a.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A template without the hash label and without empty values, in canonical order.
fn meaning(template: &PodTemplateSpec) -> Value {
    let mut value = json_text::to_value(template).unwrap_or_default();
    if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    prune(&mut value);
    value
}

fn meaning_of_metadata(template: &PodTemplateSpec) -> Option<Value> {
    let metadata = template.metadata.clone()?;
    Some(meaning(&PodTemplateSpec { metadata: Some(metadata), spec: None }))
}

/// Removes empty lists and maps from maps. Elements of lists are kept, even empty ones.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| !is_empty(value));
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(value: Value) -> PodTemplateSpec {
        serde_json::from_value(value).unwrap()
    }

    fn web(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    #[test]
    fn the_hash_label_and_empty_values_make_no_difference() {
        let plain = template(web("one"));
        let mut labeled = web("one");
        labeled["metadata"]["labels"][HASH_LABEL] = json!("abc");
        labeled["metadata"]["annotations"] = json!({});
        labeled["spec"]["volumes"] = json!([]);
        let labeled = template(labeled);
        assert!(same(&plain, &labeled));
        assert_eq!(hash(&plain, None), hash(&labeled, None));
        assert!(!same(&plain, &template(web("two"))));
    }

    #[test]
    fn another_template_and_each_collision_have_another_hash() {
        let one = template(web("one"));
        let hashes = [hash(&one, None), hash(&one, Some(0)), hash(&one, Some(1)), hash(&template(web("two")), None)];
        for (at, hash) in hashes.iter().enumerate() {
            assert!(hash.bytes().all(|letter| ALPHABET.contains(&letter)), "{hash}");
            assert!((1..=10).contains(&hash.len()), "{hash}");
            assert!(!hashes[..at].contains(hash), "{hash}");
        }
    }

    #[test]
    fn the_name_of_a_set_is_never_too_long() {
        assert_eq!(set_name("web", "abc"), "web-abc");
        let long = set_name(&"w".repeat(253), "abcdefghij");
        assert_eq!(long.len(), 253);
        assert!(long.ends_with("w-abcdefghij"));
    }
}
