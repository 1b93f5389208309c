//! Stored values that are not objects: written by an older version, or changed on the disk.
//!
//! A damaged value is never served. It is omitted from lists and watches, which name it in a warning; a GET reports it;
//! a DELETE removes it.

use std::collections::BTreeMap;

use tracing::error;
use windlass_schema::json::MAX_DEPTH;
use windlass_store::Revision;

/// Reason why bytes are not an object as the server stores it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    /// The bytes are not text.
    #[error("it is not UTF-8")]
    NotText,
    /// The string is not an object with metadata.
    #[error("it is not an object with metadata: {0}")]
    NotAnObject(String),
    /// The object has another name than its key.
    #[error("it contains an object named {0:?}")]
    OtherName(String),
    /// The object nests too deep to be parsed.
    #[error("it nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The object is too long to be addressed.
    #[error("it is longer than 4 GiB")]
    TooLong,
}

/// A damaged value at a revision.
#[derive(Debug, Clone)]
pub(crate) struct DamagedObject {
    /// The revision of the write.
    pub(crate) revision: Revision,
    /// The reason.
    pub(crate) damage: Damage,
}

/// The damaged values of a resource, by `namespace/name` (or `name`).
#[derive(Debug, Default)]
pub(super) struct DamagedObjects(BTreeMap<Box<str>, DamagedObject>);

impl DamagedObjects {
    /// Records a value and reports it in the log.
    pub(super) fn insert(&mut self, prefix: &str, key: &str, revision: Revision, damage: Damage) {
        error!(key = format!("{prefix}{key}"), %revision, %damage, "a stored object is damaged and is not served");
        self.0.insert(key.into(), DamagedObject { revision, damage });
    }

    /// Adds the damaged values of another part of the resource.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn remove(&mut self, key: &str) {
        // Almost always empty, so this costs nothing per write.
        self.0.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&DamagedObject> {
        self.0.get(key)
    }

    /// Returns the keys that begin with a prefix.
    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        self.0.keys().filter(|key| key.starts_with(prefix)).map(|key| key.to_string()).collect()
    }
}

/// Returns whether JSON nests deeper than can be parsed again.
pub(crate) fn nests_too_deep(json: &[u8]) -> bool {
    // Every level has an opening and a closing bracket. Nearly all objects are too short or have too few brackets for
    // that many levels, and counting is faster than following strings.
    json.len() > 2 * MAX_DEPTH && opening_brackets(json) > MAX_DEPTH && depth(json) > MAX_DEPTH
}

/// Returns the number of `{` and `[`.
fn opening_brackets(json: &[u8]) -> usize {
    // The two differ in one bit. Eight bytes are compared at a time: bytes that are equal to a bracket become zero.
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let mut words = json.chunks_exact(8);
    let in_word = |word: &[u8]| {
        let word = word.try_into().map_or(0, u64::from_ne_bytes);
        let rest = (word & u64::from_ne_bytes([!0x20; 8])) ^ u64::from_ne_bytes([b'['; 8]);
        let is_zero = !(((rest & LOW) + LOW) | rest | LOW);
        is_zero.count_ones() as usize
    };
    let in_words: usize = words.by_ref().map(in_word).sum();
    in_words + words.remainder().iter().filter(|byte| **byte & !0x20 == b'[').count()
}

/// Returns the nesting depth of valid JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ignores_brackets_in_strings() {
        assert_eq!(depth(br#"{"a":[1,{"b":"[[[{\"[\\"}],"c":{}}"#), 3);
        assert_eq!(depth(b"1"), 0);
    }

    #[test]
    fn opening_brackets_are_counted_in_long_texts() {
        for count in [0, 1, 254, 255, 256, 100_000] {
            assert_eq!(opening_brackets("[{".repeat(count).as_bytes()), 2 * count);
            assert_eq!(opening_brackets(r#"]}"; "#.repeat(count).as_bytes()), 0);
        }
    }

    #[test]
    fn the_limit_is_that_of_the_parser() {
        for (levels, too_deep) in [(MAX_DEPTH - 1, false), (MAX_DEPTH, false), (MAX_DEPTH + 1, true)] {
            let json = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            assert_eq!(nests_too_deep(json.as_bytes()), too_deep, "{levels}");
            assert_eq!(windlass_schema::json::parse(json.as_bytes()).is_err(), too_deep, "{levels}");
        }
        let flat = format!("[{}1]", "[],".repeat(MAX_DEPTH));
        assert!(!nests_too_deep(flat.as_bytes()));
    }
}
