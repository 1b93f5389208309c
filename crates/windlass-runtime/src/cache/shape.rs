//! Shapes of received objects: which fields they have, and of which sort their values are.
//!
//! Whether a type serializes everything that it reads depends on the fields of a text, hardly on their values. So most texts
//! need not be compared with what the type serializes: all of their fields have been seen. A shape is found in one pass
//! over the bytes, in about a microsecond per kilobyte.

use hashbrown::HashSet;

/// Number of fields that are remembered. Keys of maps are fields, too.
const REMEMBERED: usize = 1 << 16;

/// Fields that were seen, by the hash of their path and the sort of their value. Items of a list share their path.
#[derive(Default)]
pub(super) struct Shapes {
    fields: HashSet<u64>,
}

impl Shapes {
    /// Returns the fields of an object that were not seen before; `None` if the text is not an object.
    pub(super) fn unknown(&self, text: &[u8], with_managed_fields: bool) -> Option<Vec<u64>> {
        let mut unknown = Vec::new();
        let scan = Scan { text, at: 0, with_managed_fields };
        scan.fields(|field| {
            if !self.fields.contains(&field) {
                unknown.push(field);
            }
        })
        .then_some(unknown)
    }

    /// Remembers fields.
    pub(super) fn learn(&mut self, fields: Vec<u64>) {
        if self.fields.len() + fields.len() > REMEMBERED {
            self.fields.clear();
        }
        self.fields.extend(fields);
    }
}

/// Sort of a value. Empty values may be skipped by a type that serializes others.
#[derive(Clone, Copy)]
enum Sort {
    Null = 1,
    True,
    False,
    Zero,
    Integer,
    Fraction,
    EmptyText,
    Text,
    EmptyList,
    List,
    EmptyObject,
    Object,
}

/// An object or a list that has not ended.
struct Open {
    path: u64,
    is_object: bool,
}

/// A pass over a text, which a parser has accepted.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    with_managed_fields: bool,
}

const ITEM: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(path: u64, with: u64) -> u64 {
    let mixed = (path ^ with).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 32)
}

fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

impl Scan<'_> {
    /// Calls the function with every field. Returns whether the text was understood.
    fn fields(mut self, mut each: impl FnMut(u64)) -> bool {
        let mut open: Vec<Open> = Vec::with_capacity(16);
        // Depth of the value that is skipped.
        let mut skipped = usize::MAX;
        let (metadata, managed_fields) = (mix(0, hash(b"metadata")), hash(b"managedFields"));
        let mut path = 0;
        if self.peek() != Some(b'{') {
            return false;
        }
        loop {
            // A value begins here.
            let Some(sort) = self.value() else { return false };
            if open.len() < skipped {
                each(mix(path, sort as u64));
            }
            match sort {
                Sort::Object => open.push(Open { path, is_object: true }),
                Sort::List => open.push(Open { path: mix(path, ITEM), is_object: false }),
                _ => loop {
                    // It has ended, and perhaps what it is in.
                    if open.len() <= skipped {
                        skipped = usize::MAX;
                    }
                    let Some(inner) = open.last() else { return self.peek().is_none() };
                    match self.next() {
                        Some(b',') => break,
                        Some(b'}') if inner.is_object => drop(open.pop()),
                        Some(b']') if !inner.is_object => drop(open.pop()),
                        _ => return false,
                    }
                },
            }
            let Some(inner) = open.last() else { return false };
            path = inner.path;
            if inner.is_object {
                let Some(name) = self.name() else { return false };
                let name = hash(name);
                if !self.with_managed_fields && path == metadata && open.len() == 2 && name == managed_fields {
                    skipped = open.len();
                }
                path = mix(path, name);
            }
        }
    }

    /// Skips a scalar, an empty value, or the beginning of another one.
    fn value(&mut self) -> Option<Sort> {
        Some(match self.next()? {
            b'{' if self.peek()? == b'}' => self.end(Sort::EmptyObject),
            b'{' => Sort::Object,
            b'[' if self.peek()? == b']' => self.end(Sort::EmptyList),
            b'[' => Sort::List,
            b'"' => match self.string()? {
                [] => Sort::EmptyText,
                _ => Sort::Text,
            },
            b'n' => self.skip(3, Sort::Null),
            b't' => self.skip(3, Sort::True),
            b'f' => self.skip(4, Sort::False),
            b'-' | b'0'..=b'9' => {
                let from = self.at - 1;
                while matches!(self.text.get(self.at), Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
                    self.at += 1;
                }
                let number = &self.text[from..self.at];
                match number {
                    [b'0'] => Sort::Zero,
                    _ if number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Sort::Fraction,
                    _ => Sort::Integer,
                }
            }
            _ => return None,
        })
    }

    fn end(&mut self, sort: Sort) -> Sort {
        self.next();
        sort
    }

    fn skip(&mut self, bytes: usize, sort: Sort) -> Sort {
        self.at += bytes;
        sort
    }

    /// Returns the name of a field, after which its value begins.
    fn name(&mut self) -> Option<&[u8]> {
        if self.next()? != b'"' {
            return None;
        }
        let (from, length) = (self.at, self.string()?.len());
        (self.next()? == b':').then_some(())?;
        self.text.get(from..from + length)
    }

    /// Returns the rest of a string, with its escapes.
    fn string(&mut self) -> Option<&[u8]> {
        let from = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(from..self.at - 1)
    }

    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn unknown(shapes: &Shapes, object: &Value) -> Option<usize> {
        shapes.unknown(object.to_string().as_bytes(), false).map(|unknown| unknown.len())
    }

    fn knowing(object: &Value) -> Shapes {
        let mut shapes = Shapes::default();
        let fields = shapes.unknown(object.to_string().as_bytes(), false).unwrap();
        shapes.learn(fields);
        shapes
    }

    #[test]
    fn objects_with_the_same_fields_have_the_same_shape() {
        let known = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"items": [{"n": 1}, {"n": 2, "on": true}]}});
        let shapes = knowing(&known);
        for same in [
            json!({"metadata": {"name": "a \" \\ }", "labels": {"x": "2"}}, "spec": {"items": [{"n": 7}]}}),
            json!({"metadata": {"name": "b"}, "spec": {"items": [{"on": true}, {"on": true}, {"n": -1}]}}),
        ] {
            assert_eq!(unknown(&shapes, &same), Some(0), "{same}");
        }
        for (other, fields) in [
            (json!({"metadata": {"name": ""}}), 1),
            (json!({"metadata": {"labels": {"y": "1"}}}), 1),
            (json!({"spec": {"items": [{"n": 0}, {"n": 1.5}, {"on": false}, {"n": null}]}}), 4),
            (json!({"spec": {"items": []}, "metadata": {}}), 2),
            (json!({"spec": {"items": {"n": 1}}}), 2),
            (json!({"name": "a", "n": 1}), 2),
        ] {
            assert_eq!(unknown(&shapes, &other), Some(fields), "{other}");
        }
    }

    #[test]
    fn managed_fields_are_skipped_unless_they_are_kept() {
        let shapes = knowing(&json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"x": 1}}));
        let managed = json!([{"manager": "m", "fieldsV1": {"f:spec": {"f:x": {}}}}]);
        let object = json!({"metadata": {"name": "a", "managedFields": managed, "uid": "u"}, "spec": {"x": 1}});
        assert_eq!(unknown(&shapes, &object), Some(0));
        assert!(!shapes.unknown(object.to_string().as_bytes(), true).unwrap().is_empty());
        // Only those of the object itself.
        let template = json!({"metadata": {"name": "a"}, "spec": {"metadata": {"managedFields": managed}}});
        assert_ne!(unknown(&shapes, &template), Some(0));
        let scalar = json!({"metadata": {"managedFields": null, "name": "a", "other": 1}});
        assert_eq!(unknown(&shapes, &scalar), Some(1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shapes = Shapes::default();
        for number in 0..3 * REMEMBERED as u64 {
            shapes.learn(vec![number]);
        }
        assert!(shapes.fields.len() <= REMEMBERED);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-c\"\\\\{}\\[\\],: \u{1}ü]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-b\"\\\\:{]{0,3}|metadata|managedFields", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_has_a_shape_in_any_layout(value in values()) {
            let object = json!({"metadata": value.clone(), "spec": value});
            let shapes = knowing(&object);
            prop_assert_eq!(unknown(&shapes, &object), Some(0));
            let pretty = serde_json::to_vec_pretty(&object).unwrap();
            prop_assert_eq!(shapes.unknown(&pretty, false), Some(Vec::new()));
        }

        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Shapes::default().unknown(&text, false);
            let _ = Shapes::default().unknown(&[b"{\"a\":", &*text].concat(), false);
        }
    }
}
