//! The nesting depth of JSON.

/// Maximum nesting depth of objects and lists. Go allows ten thousand; real bodies have fewer than a hundred levels.
pub const MAX_DEPTH: usize = 1000;

/// Returns whether JSON nests deeper than can be parsed again.
pub fn nests_too_deep(json: &[u8]) -> bool {
    // Every level has an opening and a closing bracket. Nearly all objects are too short or have too few brackets for
    // that many levels, and counting is faster than following strings.
    json.len() > 2 * MAX_DEPTH && opening_brackets(json) > MAX_DEPTH && depth(json) > MAX_DEPTH
}

/// Returns the number of `{` and `[`.
fn opening_brackets(json: &[u8]) -> usize {
    // The two differ in one bit. Sums of a byte are computed for many bytes at a time.
    let in_chunk = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(byte & !0x20 == b'[')).sum::<u8>();
    json.chunks(usize::from(u8::MAX)).map(|chunk| usize::from(in_chunk(chunk))).sum()
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
            assert_eq!(crate::parse(&json).is_err(), too_deep, "{levels}");
        }
        let flat = format!("[{}1]", "[],".repeat(MAX_DEPTH));
        assert!(!nests_too_deep(flat.as_bytes()));
    }
}
