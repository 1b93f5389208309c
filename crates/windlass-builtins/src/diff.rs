//! Comparison of two specs: whether they are semantically equal, and where they differ.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use serde_json::Value;

use super::resource_list::quantity;

/// Number of unchanged lines shown around a difference.
const CONTEXT: usize = 3;
/// Largest number of pairs of lines that are compared; beyond it, all lines but the first ones are shown as replaced.
const SEARCH_LIMIT: usize = 4_000_000;
/// Number of lines from which on a line is too frequent to begin a block if it is more than a hundredth of them.
const LONG: usize = 200;

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

/// Returns the differences of two values as a unified diff of their compact JSON, whose fields keep their order.
pub(crate) fn diff(a: &str, b: &str) -> String {
    let (a, b) = (indented(a), indented(b));
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    unified(&edits(&a, &b))
}

/// Breaks compact JSON into lines that are indented by one space per level.
fn indented(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let mut characters = compact.chars().peekable();
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                while let Some(character) = characters.next() {
                    out.push(character);
                    match character {
                        '\\' => out.extend(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(character);
                if characters.next_if(|next| matches!(next, '}' | ']')).is_some_and(|close| {
                    out.push(close);
                    true
                }) {
                    continue;
                }
                depth += 1;
                break_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push(character),
        }
    }
    out
}

/// A line and the side it belongs to: `' '` for both, `'-'` for the first, `'+'` for the second.
type Edit<'a> = (char, &'a str);

fn edits<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Edit<'a>> {
    let mut matcher = Matcher::new(a, b);
    matcher.align(0..a.len(), 0..b.len());
    matcher.edits
}

/// Aligns lines as kube-apiserver does: around the longest common block, then before and after it.
struct Matcher<'a, 'l> {
    a: &'l [&'a str],
    b: &'l [&'a str],
    /// Positions of lines in `b`, except for lines that are too frequent to begin a block.
    places: HashMap<&'a str, Vec<usize>>,
    edits: Vec<Edit<'a>>,
}

impl<'a, 'l> Matcher<'a, 'l> {
    fn new(a: &'l [&'a str], b: &'l [&'a str]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, line) in b.iter().enumerate() {
            places.entry(line).or_default().push(place);
        }
        if b.len() >= LONG {
            places.retain(|_, places| places.len() <= b.len() / 100 + 1);
        }
        Self { a, b, places, edits: Vec::with_capacity(a.len().max(b.len())) }
    }

    fn align(&mut self, left: Range<usize>, right: Range<usize>) {
        let (begin_a, begin_b, length) = self.longest(&left, &right);
        if length == 0 {
            self.edits.extend(self.a[left].iter().map(|line| ('-', *line)));
            self.edits.extend(self.b[right].iter().map(|line| ('+', *line)));
            return;
        }
        let (end_a, end_b) = (begin_a + length, begin_b + length);
        self.align(left.start..begin_a, right.start..begin_b);
        self.edits.extend(self.a[begin_a..end_a].iter().map(|line| (' ', *line)));
        self.align(end_a..left.end, end_b..right.end);
    }

    /// Returns the places and the length of the longest common block.
    fn longest(&self, left: &Range<usize>, right: &Range<usize>) -> (usize, usize, usize) {
        let mut best = (left.start, right.start, 0);
        let (a, b) = (self.a, self.b);
        if left.len().saturating_mul(right.len()) <= SEARCH_LIMIT {
            // The lengths of the blocks that end at a line of `b` and the previous line of `a`.
            let mut lengths: HashMap<usize, usize> = HashMap::new();
            for i in left.clone() {
                let mut next = HashMap::new();
                for &j in self.places.get(a[i]).into_iter().flatten().filter(|place| right.contains(place)) {
                    let before = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or_default();
                    next.insert(j, before + 1);
                    if before + 1 > best.2 {
                        best = (i - before, j - before, before + 1);
                    }
                }
                lengths = next;
            }
        }
        // Frequent lines belong to blocks that others begin.
        while best.0 > left.start && best.1 > right.start && a[best.0 - 1] == b[best.1 - 1] {
            best = (best.0 - 1, best.1 - 1, best.2 + 1);
        }
        while best.0 + best.2 < left.end && best.1 + best.2 < right.end && a[best.0 + best.2] == b[best.1 + best.2] {
            best.2 += 1;
        }
        best
    }
}

fn unified(edits: &[Edit<'_>]) -> String {
    let mut out = String::new();
    let mut next = 0;
    while let Some(first) = (next..edits.len()).find(|index| edits[*index].0 != ' ') {
        let start = first.saturating_sub(CONTEXT).max(next);
        // A hunk continues while the next change is within the context of the last one.
        let (mut last, mut index) = (first, first + 1);
        while index < edits.len() && index <= last + 2 * CONTEXT + 1 {
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
        let expected = "@@ -3,7 +3,7 @@\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n- \"e\": 5,\n+ \"e\": 50,\n  \"f\": {\n   \"g\": 6\n  },\n";
        let diff = |a: &Value, b: &Value| diff(&a.to_string(), &b.to_string());
        assert_eq!(diff(&old, &new), expected);
        assert_eq!(diff(&old, &old), "");
    }

    #[test]
    fn text_and_empty_values_stay_in_one_line() {
        let compact = r#"{"z":[],"a":{},"t":"{\"x\": [1,2]}\\","n":[{"b":null}]}"#;
        let lines = [
            "{",
            r#" "z": [],"#,
            r#" "a": {},"#,
            r#" "t": "{\"x\": [1,2]}\\","#,
            r#" "n": ["#,
            "  {",
            r#"   "b": null"#,
            "  }",
            " ]",
            "}",
        ];
        assert_eq!(indented(compact), lines.join("\n"));
    }

    #[test]
    fn an_inserted_block_begins_where_its_lines_begin() {
        let (old, new) = (r#"{"l":[{"n":"b"}]}"#, r#"{"l":[{"n":"a"},{"n":"b"}]}"#);
        let expected = "@@ -1,5 +1,8 @@\n {\n  \"l\": [\n+  {\n+   \"n\": \"a\"\n+  },\n   {\n    \"n\": \"b\"\n   }\n";
        assert_eq!(diff(old, new), expected);
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: Vec<_> = (0..30).collect();
        let mut new = old.clone();
        new[2] = 100;
        new.remove(25);
        let text = diff(&json!(old).to_string(), &json!(new).to_string());
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
