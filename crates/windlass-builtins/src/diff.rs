//! Comparison of two specs: whether they are semantically equal, and where they differ.

use std::fmt::Write;

use serde_json::Value;

use super::resource_list::quantity;

/// Number of unchanged lines shown around a difference.
const CONTEXT: usize = 3;
/// Largest alignment table that is computed to find a minimal difference; beyond it, all lines are shown as replaced.
const SEARCH_LIMIT: usize = 4_000_000;

/// Returns whether two values are semantically equal: null, an empty list and an absent field are equal, and so are
/// quantities of the same value.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.all(|name| {
                let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                same(a, b) || matches!(name.as_str(), "limits" | "requests" | "overhead") && same_quantities(a, b)
            })
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Null, Value::Array(items)) | (Value::Array(items), Value::Null) => items.is_empty(),
        (a, b) => a == b,
    }
}

/// Compares lists of quantities by name. Fields of these names can be something else, such as the requests of a claim.
fn same_quantities(a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        let is_empty = |value: &Value| value.as_object().map_or(value.is_null(), serde_json::Map::is_empty);
        return is_empty(a) && is_empty(b);
    };
    a.len() == b.len()
        && a.iter().all(|(name, a)| match (quantity(a), b.get(name).and_then(quantity)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        })
}

/// Returns the differences of two values as a unified diff of their JSON.
pub(crate) fn diff(a: &Value, b: &Value) -> String {
    let (a, b) = (pretty(a), pretty(b));
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    unified(&edits(&a, &b))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A line and the side it belongs to: `' '` for both, `'-'` for the first, `'+'` for the second.
type Edit<'a> = (char, &'a str);

fn edits<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Edit<'a>> {
    let before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let after = a[before..].iter().rev().zip(b[before..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (mid_a, mid_b) = (&a[before..a.len() - after], &b[before..b.len() - after]);
    let mut out: Vec<Edit<'_>> = a[..before].iter().map(|line| (' ', *line)).collect();
    if mid_a.len().saturating_mul(mid_b.len()) > SEARCH_LIMIT {
        out.extend(mid_a.iter().map(|line| ('-', *line)));
        out.extend(mid_b.iter().map(|line| ('+', *line)));
    } else {
        align(mid_a, mid_b, &mut out);
    }
    out.extend(a[a.len() - after..].iter().map(|line| (' ', *line)));
    out
}

/// Aligns lines along their longest common subsequence.
fn align<'a>(a: &[&'a str], b: &[&'a str], out: &mut Vec<Edit<'a>>) {
    let width = b.len() + 1;
    let mut longest = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i] == b[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            out.push(('-', a[i]));
            i += 1;
        } else {
            out.push(('+', b[j]));
            j += 1;
        }
    }
}

fn unified(edits: &[Edit<'_>]) -> String {
    let mut out = String::new();
    let mut next = 0;
    while let Some(first) = (next..edits.len()).find(|index| edits[*index].0 != ' ') {
        let start = first.saturating_sub(CONTEXT).max(next);
        // A hunk continues while the next change is within the context of the last one.
        let (mut last, mut index) = (first, first + 1);
        while index < edits.len() && index <= last + 2 * CONTEXT {
            if edits[index].0 != ' ' {
                last = index;
            }
            index += 1;
        }
        let end = (last + CONTEXT + 1).min(edits.len());
        let count = |range: &[Edit<'_>], not: char| range.iter().filter(|(side, _)| *side != not).count();
        let (skipped, hunk) = (&edits[..start], &edits[start..end]);
        let place = |not: char| {
            let length = count(hunk, not);
            let begin = count(skipped, not) + usize::from(length > 0);
            if length == 1 { begin.to_string() } else { format!("{begin},{length}") }
        };
        let _ = writeln!(out, "@@ -{} +{} @@", place('+'), place('-'));
        for (side, line) in hunk {
            let _ = writeln!(out, "{side}{line}");
        }
        next = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_is_shown_with_the_lines_around_it() {
        let old = json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": {"g": 6}, "h": 7, "i": 8, "j": 9, "k": 10});
        let mut new = old.clone();
        new["e"] = json!(50);
        let expected = "@@ -3,7 +3,7 @@\n   \"b\": 2,\n   \"c\": 3,\n   \"d\": 4,\n-  \"e\": 5,\n+  \"e\": 50,\n   \"f\": {\n     \"g\": 6\n   },\n";
        assert_eq!(diff(&old, &new), expected);
        assert_eq!(diff(&old, &old), "");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: Vec<_> = (0..30).collect();
        let mut new = old.clone();
        new[2] = 100;
        new.remove(25);
        let text = diff(&json!(old), &json!(new));
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
    }

    #[test]
    fn quantities_of_one_value_are_the_same() {
        let a = json!({"resources": {"limits": {"memory": "1Gi"}}, "list": []});
        let b = json!({"resources": {"limits": {"memory": "1073741824"}}});
        assert!(same(&a, &b));
        assert!(!same(&a, &json!({"resources": {"limits": {"memory": "2Gi"}}})));
        assert!(!same(&json!({"name": "1"}), &json!({"name": "1000m"})), "only resources are quantities");
    }
}
