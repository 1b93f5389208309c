//! Values with placeholders.
//!
//! `$(now)`, `$(podIP)`, `$(hostIP)` and `$(nodeName)` are predefined; `$(.metadata.name)` is a path in the object or
//! its facts. A string that consists of one placeholder becomes its value, or is omitted with its field if there is no
//! value; a placeholder within a longer text becomes text.

use serde_json::{Map, Value};
use windlass_schema::sorting::Gather as _;

use super::{
    selector::{Path, text},
    transition::Environment,
};

const NAMES: [&str; 4] = ["now", "podIP", "hostIP", "nodeName"];

/// Checks that all placeholders are valid.
pub(super) fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::String(template) => {
            for part in parts(template) {
                match part {
                    Part::Placeholder(path) if path.starts_with('.') => drop(Path::parse(path)?),
                    Part::Placeholder(name) if !NAMES.contains(&name) => {
                        return Err(format!("$({name}): unknown placeholder, expected {} or a path", NAMES.join(", ")));
                    }
                    _ => {}
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(fields) => fields.values().try_for_each(check),
        _ => Ok(()),
    }
}

/// The value without the parts that contain placeholders.
pub(super) fn constants(value: &Value) -> Value {
    transform(value, &|template| {
        let constant = parts(template).all(|part| matches!(part, Part::Text(_)));
        constant.then(|| template.into())
    })
    .unwrap_or_default()
}

/// Fills in all placeholders.
pub(super) fn fill(value: &Value, object: &Value, environment: &Environment<'_>) -> Value {
    transform(value, &|template| {
        let find = |place: &str| -> Option<Value> {
            if place.starts_with('.') {
                let path = Path::parse(place).ok()?;
                return path.find(object).first().map(|value| (*value).clone());
            }
            environment.value(place, object)
        };
        let mut parts = parts(template);
        match (parts.next(), parts.next()) {
            (Some(Part::Placeholder(place)), None) => find(place),
            (first, second) => {
                let all = first.into_iter().chain(second).chain(parts);
                let texts = all.map(|part| match part {
                    Part::Text(text) => text.to_owned(),
                    Part::Placeholder(place) => find(place).as_ref().map(text).unwrap_or_default(),
                });
                Some(texts.collect::<String>().into())
            }
        }
    })
    .unwrap_or_default()
}

/// Replaces strings; those without a replacement are omitted.
fn transform(value: &Value, replace: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    match value {
        Value::String(text) => replace(text),
        Value::Array(items) => Some(items.iter().filter_map(|item| transform(item, replace)).collect()),
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, value)| Some((name.clone(), transform(value, replace)?)));
            Some(Value::Object(fields.gather::<Map<_, _>>()))
        }
        other => Some(other.clone()),
    }
}

enum Part<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Splits a string into literals and placeholders. An unclosed placeholder is literal text.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(place) = rest.strip_prefix("$(")
            && let Some(end) = closing(place)
        {
            rest = &place[end + 1..];
            return Some(Part::Placeholder(&place[..end]));
        }
        // Consume at least the first character, which may start an unclosed placeholder.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find("$(").map_or(rest.len(), |end| first + end);
        let (plain, after) = rest.split_at(end);
        rest = after;
        Some(Part::Text(plain))
    })
}

/// The end of a placeholder: its path may contain parentheses.
fn closing(place: &str) -> Option<usize> {
    let mut depth = 0_usize;
    place.char_indices().find_map(|(at, letter)| match letter {
        '(' => {
            depth += 1;
            None
        }
        ')' if depth == 0 => Some(at),
        ')' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}
