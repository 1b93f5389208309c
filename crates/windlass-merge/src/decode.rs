//! Decoding of patch bodies, including the checks of strict field validation.

use serde_json::Value;
use windlass_schema::json;

use crate::{MAX_DEPTH, depth};

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value; for a duplicate field, the last one.
    pub value: Value,
    /// `duplicate field "a.b"` for each duplicate field, in the order found.
    pub duplicates: Vec<String>,
}

/// Decodes JSON with a nesting depth of at most [`MAX_DEPTH`]. Errors are those of Go's decoder.
pub fn decode(bytes: &[u8]) -> Result<Decoded, String> {
    let document = json::parse(bytes).map_err(|error| error.to_string())?;
    if depth::exceeds(&document.value, MAX_DEPTH) {
        return Err("exceeded max depth".to_owned());
    }
    let duplicates = document.duplicates();
    Ok(Decoded { value: document.value, duplicates })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_fields_are_named_with_their_path() {
        let decoded = decode(br#"{"a":1,"b":[{"c":1,"c":2,"c":3}],"a":2}"#).expect("the body must be JSON");
        assert_eq!(decoded.value, json!({"a": 2, "b": [{"c": 3}]}));
        assert_eq!(decoded.duplicates, ["duplicate field \"b[0].c\"", "duplicate field \"a\""]);
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        assert!(decode(&nested(MAX_DEPTH)).is_ok());
        for depth in [MAX_DEPTH + 1, 1_000_000] {
            let error = decode(&nested(depth)).expect_err("the body must be nested too deeply");
            assert!(error.ends_with("exceeded max depth"), "{error}");
        }
    }

    #[test]
    fn long_keys_with_many_duplicates_take_linear_time() {
        let many = "\"a\":1,".repeat(100_000);
        let distinct: String = (0..100_000).map(|index| format!("\"{index}\":1,")).collect();
        let body = format!("{{\"{}\":{{{many}{distinct}\"a\":1}}}}", "k".repeat(500_000));
        let start = Instant::now();
        assert_eq!(decode(body.as_bytes()).expect("the body must be JSON").duplicates.len(), 1);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
