//! Removal of managed fields from the text of an object, without parsing the rest.
//!
//! The text has been parsed, so it is valid JSON. If it were not, nothing would be removed, which only takes memory:
//! managed fields are skipped when the text is parsed again.

use std::ops::Range;

/// Appends the JSON of an object without `metadata.managedFields`.
pub(super) fn append_without(text: &[u8], to: &mut Vec<u8>) {
    match find(text) {
        Some(Range { start, end }) => {
            to.extend_from_slice(&text[..start]);
            to.extend_from_slice(&text[end..]);
        }
        None => to.extend_from_slice(text),
    }
}

/// Returns the range of the managed fields, with one of the commas around them.
fn find(text: &[u8]) -> Option<Range<usize>> {
    let (_, metadata) = member(text, blanks(text, 0), b"metadata")?;
    let (key, value) = member(text, metadata.start, b"managedFields")?;
    let after = blanks(text, value.end);
    if text.get(after) == Some(&b',') {
        return Some(key..after + 1);
    }
    let before = text[..key].iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    Some(if text[before] == b',' { before } else { key }..value.end)
}

/// Returns the start of the key and the range of the value of a member of the object that begins at `at`.
fn member(text: &[u8], at: usize, name: &[u8]) -> Option<(usize, Range<usize>)> {
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = blanks(text, at);
        match text.get(at)? {
            b',' => at += 1,
            b'"' => {
                let key = at;
                let key_end = string_end(text, key)?;
                let colon = blanks(text, key_end);
                if text.get(colon) != Some(&b':') {
                    return None;
                }
                let start = blanks(text, colon + 1);
                let end = value_end(text, start)?;
                if text[key + 1..key_end - 1] == *name {
                    return Some((key, start..end));
                }
                at = end;
            }
            _ => return None,
        }
    }
}

/// Returns the position after blanks.
fn blanks(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Returns the position after the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the position after the value that begins at `at`.
fn value_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match text.get(at)? {
            b'"' => at = string_end(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' => at += 1,
            byte if byte.is_ascii_whitespace() => at += 1,
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                at += text[at..].iter().position(ends)?;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_removed_and_nothing_else() {
        for (text, expected) in [
            (r#"{"metadata":{"name":"a","managedFields":[{"x":"]}\""}]},"b":1}"#, r#"{"metadata":{"name":"a"},"b":1}"#),
            (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{}}"#),
            (
                r#"{"a":[{"b":"}"},-1.5e3,true],"metadata" : { "n" : 1 , "managedFields" : [ ] } }"#,
                r#"{"a":[{"b":"}"},-1.5e3,true],"metadata" : { "n" : 1  } }"#,
            ),
            // Elsewhere it is another field.
            (
                r#"{"spec":{"managedFields":[1]},"metadata":{"labels":{"managedFields":"x"}}}"#,
                r#"{"spec":{"managedFields":[1]},"metadata":{"labels":{"managedFields":"x"}}}"#,
            ),
            (r#"{"metadata":null}"#, r#"{"metadata":null}"#),
            (r#"{"spec":{}}"#, r#"{"spec":{}}"#),
        ] {
            let mut found = b"before".to_vec();
            append_without(text.as_bytes(), &mut found);
            assert_eq!(String::from_utf8_lossy(&found), format!("before{expected}"));
            serde_json::from_str::<serde_json::Value>(expected).expect("the result must be JSON");
        }
    }

    #[test]
    fn text_that_is_cut_off_is_kept() {
        let text = br#" {"metadata":{"name":"a\"","managedFields":[{"f":{}}],"uid":"u"},"spec":{}}"#;
        for length in 0..text.len() {
            let mut found = Vec::new();
            append_without(&text[..length], &mut found);
            assert!(found.len() <= length);
        }
    }
}
