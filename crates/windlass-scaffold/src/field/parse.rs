//! Parsing of fields.

use std::str::FromStr;

use super::{Field, FieldType, Number};
use crate::{ScaffoldError, names};

const TYPES: &str = "types are string, int, int32, int64, bool, number, duration, quantity, time, enum(a|b), object, \
                     map[string]TYPE (map alone means map[string]string) and []TYPE for a list; a ? makes the field optional";
/// Syntax of fields with objects.
const OBJECTS: &str =
    "declare an object and then its fields by their path: --field pod:object --field pod.image:string";
/// Names of types in other languages.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("array", "[]TYPE for a list, for example []string"),
    ("byte", "string"),
    ("date", "time"),
    ("datetime", "time"),
    ("dict", "map for strings, or map[string]TYPE"),
    ("double", "number"),
    ("float64", "number"),
    ("hashmap", "map for strings, or map[string]TYPE"),
    ("integer", "int32 or int64"),
    ("i16", "int32"),
    ("list", "[]TYPE for a list, for example []string"),
    ("long", "int64"),
    ("set", "[]TYPE for a list, for example []string"),
    ("str", "string"),
    ("struct", OBJECTS),
    ("text", "string"),
    ("timestamp", "time"),
    ("u32", "int64 with the range 0.."),
    ("u64", "int64 with the range 0.."),
    ("vec", "[]TYPE for a list, for example []string"),
];
const KEYS: [&str; 6] = ["min", "max", "default", "pattern", "example", "doc"];

impl FromStr for Field {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let wrong =
            |why: String, hint: &str| ScaffoldError::Field { text: text.to_owned(), why, hint: hint.to_owned() };
        let Some((name, rest)) = text.split_once(':') else {
            return Err(wrong("it has no type".to_owned(), "write it as name:type, for example replicas:int32"));
        };
        // `name?:type` is accepted like `name:type?`.
        let (name, optional_name) = optional(name.trim());
        name.split('.').try_for_each(names::check_field)?;
        let (kind, rest) = split_type(rest.trim()).map_err(|why| wrong(why, &type_hint(rest.trim())))?;
        let (rest, optional_type) = match rest.strip_prefix('?') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let mut field = Self {
            name: name.to_owned(),
            kind,
            optional: optional_name || optional_type,
            min: None,
            max: None,
            default: None,
            pattern: None,
            example: None,
            doc: None,
        };
        let hint = "after the type, write =MIN..MAX, ,default=..., ,pattern=..., ,example=... or ,doc=...";
        let (range, settings) = split_settings(rest).map_err(|why| wrong(why, hint))?;
        if let Some(range) = range {
            let Some((min, max)) = range.split_once("..") else {
                return Err(wrong(format!("{range:?} is not a range"), "write a range as 1..10, 1.. or ..10"));
            };
            field.min = (!min.is_empty()).then_some(min).map(number).transpose().map_err(|why| wrong(why, hint))?;
            field.max = (!max.is_empty()).then_some(max).map(number).transpose().map_err(|why| wrong(why, hint))?;
        }
        for (key, value) in settings {
            match key {
                "min" => field.min = Some(number(value).map_err(|why| wrong(why, hint))?),
                "max" => field.max = Some(number(value).map_err(|why| wrong(why, hint))?),
                "default" => field.default = Some(value.to_owned()),
                "pattern" => field.pattern = Some(value.to_owned()),
                "example" => field.example = Some(value.to_owned()),
                _ => field.doc = Some(value.to_owned()),
            }
        }
        field.check().map_err(|(why, hint)| wrong(why, &hint))?;
        Ok(field)
    }
}

fn optional(text: &str) -> (&str, bool) {
    match text.strip_suffix('?') {
        Some(text) => (text, true),
        None => (text, false),
    }
}

/// Returns a suggestion for a type that cannot be parsed.
fn type_hint(text: &str) -> String {
    let end = text.find(['?', '=', ',']).unwrap_or(text.len());
    let name = text[..end].trim().to_ascii_lowercase();
    if name.starts_with('{') || name.starts_with("object(") || name.starts_with("object{") {
        return OBJECTS.to_owned();
    }
    if let Some(item) = name.strip_suffix("[]") {
        return format!("write a list as []{item}");
    }
    if let Some(rest) = name.strip_prefix("map[").filter(|rest| !rest.starts_with("string]")) {
        return match rest.strip_suffix(']') {
            Some(value) => format!("keys of maps are strings: write map[string]{value}"),
            None => "keys of maps are strings: write map[string]TYPE".to_owned(),
        };
    }
    let base = name.split(['<', '(', '[']).next().unwrap_or_default();
    match OTHER_NAMES.iter().find(|(other, _)| *other == base) {
        Some((_, OBJECTS)) => OBJECTS.to_owned(),
        Some((_, ours)) => format!("write {ours}"),
        None => TYPES.to_owned(),
    }
}

/// Splits the type from the text that follows it.
fn split_type(text: &str) -> Result<(FieldType, &str), String> {
    if let Some(inner) = text.strip_prefix("[]") {
        let (kind, rest) = split_item(inner, "lists")?;
        return Ok((FieldType::List(Box::new(kind)), rest));
    }
    if let Some(inner) = text.strip_prefix("map[") {
        let (key, inner) = inner.split_once(']').ok_or("map[ has no ]")?;
        if key.trim() != "string" {
            return Err(format!("a map cannot have keys of the type {key:?}"));
        }
        let (kind, rest) = split_item(inner, "maps")?;
        return Ok((FieldType::Map(Box::new(kind)), rest));
    }
    if let Some(words) = text.strip_prefix("enum(") {
        let (words, rest) = words.split_once(')').ok_or("enum( has no )")?;
        let words: Vec<String> = words.split('|').map(|word| word.trim().to_owned()).collect();
        check_words(&words)?;
        return Ok((FieldType::Enum(words), rest));
    }
    let end = text.find(['?', '=', ',']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let kind = match name.trim() {
        "string" => FieldType::String,
        "int" | "int64" | "i64" => FieldType::Int64,
        "int32" | "i32" => FieldType::Int32,
        "bool" | "boolean" => FieldType::Bool,
        "number" | "float" | "f64" => FieldType::Number,
        "duration" => FieldType::Duration,
        "quantity" => FieldType::Quantity,
        "time" => FieldType::Time,
        "object" => FieldType::Object,
        "map" => FieldType::Map(Box::new(FieldType::String)),
        other => return Err(format!("unknown type {other:?}")),
    };
    Ok((kind, rest))
}

/// Splits the type of items of a list or map. A list of objects takes the place of nested lists and maps.
fn split_item<'a>(text: &'a str, of: &str) -> Result<(FieldType, &'a str), String> {
    match split_type(text)? {
        (kind @ (FieldType::List(_) | FieldType::Map(_)), _) => {
            Err(format!("{of} of {kind} are not supported: use objects that have the field"))
        }
        split => Ok(split),
    }
}

/// The values of an enum must also differ as Rust variants.
fn check_words(words: &[String]) -> Result<(), String> {
    let variants = names::variants(words);
    for (place, word) in words.iter().enumerate() {
        if word.is_empty() {
            return Err("an enum value is empty".to_owned());
        }
        if word.chars().any(|letter| letter.is_control() || letter == '"' || letter == '\\') {
            return Err(format!("{word:?} contains a quote, a backslash or a line break"));
        }
        let before = &words[..place];
        if before.contains(word) {
            return Err(format!("{word:?} occurs twice"));
        }
        if let Some(other) = before.iter().zip(&variants).find(|(_, variant)| **variant == variants[place]) {
            return Err(format!("{word:?} is too similar to {:?}: both become {} in Rust", other.0, other.1));
        }
    }
    Ok(())
}

/// Key and value of a setting.
type Setting<'a> = (&'a str, &'a str);

/// Splits the range and the settings that follow the type. A comma starts a setting only if a key follows: patterns and
/// descriptions may contain commas.
fn split_settings(text: &str) -> Result<(Option<&str>, Vec<Setting<'_>>), String> {
    let starts: Vec<usize> =
        text.match_indices(',').map(|(place, _)| place).filter(|place| key_at(text, *place)).collect();
    let first = starts.first().copied().unwrap_or(text.len());
    let range = match text[..first].trim() {
        "" => None,
        range => Some(range.strip_prefix('=').ok_or_else(|| format!("cannot parse {range:?}"))?),
    };
    let mut settings = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(text.len());
        let setting = text[start + 1..end].trim();
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting:?} has no value"))?;
        if settings.iter().any(|(other, _)| *other == key) {
            return Err(format!("{key} is given twice"));
        }
        settings.push((key, value));
    }
    Ok((range, settings))
}

fn key_at(text: &str, comma: usize) -> bool {
    let rest = text[comma + 1..].trim_start();
    KEYS.iter().any(|key| rest.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))
}

fn number(text: &str) -> Result<Number, String> {
    let value: Option<f64> = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
    let value = value.ok_or_else(|| format!("{text:?} is not a number"))?;
    Ok(Number { text: text.trim().to_owned(), value })
}
