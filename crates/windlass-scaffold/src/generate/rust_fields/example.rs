//! Example values of fields, as Rust expressions and in manifests.

use std::collections::BTreeSet;

use super::FieldSet;
use crate::{Field, FieldType, field, names};

/// An example of a spec.
pub(in crate::generate) struct Example {
    /// Fields of the struct, one per line.
    pub(in crate::generate) members: Vec<String>,
    /// Types that it names: `Quantity`, `Time`, objects and enums.
    pub(in crate::generate) types: BTreeSet<String>,
}

impl<'a> FieldSet<'a> {
    /// An example of the whole set in Rust.
    pub(in crate::generate) fn example(self) -> Example {
        let mut types = BTreeSet::new();
        self.collect_types(None, &mut types);
        Example { members: self.example_members(None), types }
    }

    fn example_members(self, parent: Option<&'a str>) -> Vec<String> {
        self.children(parent).map(|field| format!("{}: {},", field.ident(), self.example_of(field))).collect()
    }

    fn example_of(self, field: &'a Field) -> String {
        if !field.is_in_samples() {
            return if field.is_option() { "None".to_owned() } else { "Default::default()".to_owned() };
        }
        let value = self.literal(field, &field.kind, &field.sample());
        if field.is_option() { format!("Some({value})") } else { value }
    }

    fn collect_types(self, parent: Option<&'a str>, types: &mut BTreeSet<String>) {
        for field in self.children(parent).filter(|field| field.is_in_samples()) {
            match field.kind.item() {
                FieldType::Quantity => types.insert("Quantity".to_owned()),
                FieldType::Time => types.insert("Time".to_owned()),
                FieldType::Enum(_) | FieldType::Object => types.insert(field::type_name(self.prefix, field)),
                _ => continue,
            };
            self.collect_types(Some(&field.name), types);
        }
    }

    /// A value as a Rust expression.
    pub(super) fn literal(self, field: &'a Field, of: &FieldType, value: &str) -> String {
        match of {
            FieldType::String | FieldType::Duration => format!("{value:?}.to_owned()"),
            FieldType::Int32 | FieldType::Int64 | FieldType::Bool => value.to_owned(),
            FieldType::Number if value.contains('.') => value.to_owned(),
            FieldType::Number => format!("{value}.0"),
            FieldType::Quantity => format!("Quantity({value:?}.to_owned())"),
            FieldType::Time => format!("Time({value:?}.parse().expect(\"the default must be a valid time\"))"),
            FieldType::Enum(words) => {
                format!("{}::{}", field::type_name(self.prefix, field), variant(words, value))
            }
            FieldType::Object => {
                let members = self.example_members(Some(&field.name));
                let name = field::type_name(self.prefix, field);
                match members.is_empty() {
                    true => format!("{name} {{}}"),
                    false => format!("{name} {{\n{}\n}}", indented(&members.join("\n"))),
                }
            }
            FieldType::Map(item) => {
                let value = self.literal(field, item, &field.sample_of(item));
                let entries: Vec<String> =
                    map_keys(field).map(|key| format!("(\"{key}\".to_owned(), {value})")).collect();
                format!("[{}].into()", entries.join(", "))
            }
            FieldType::List(item) => {
                let value = self.literal(field, item, &field.sample_of(item));
                format!("vec![{}]", vec![value; field.sample_count()].join(", "))
            }
        }
    }

    /// Lines of the set in a manifest.
    pub(in crate::generate) fn yaml(self) -> String {
        self.yaml_of(None).join("\n")
    }

    fn yaml_of(self, parent: Option<&'a str>) -> Vec<String> {
        let fields = self.children(parent).filter(|field| field.is_in_samples());
        fields.flat_map(|field| self.yaml_lines(field)).collect()
    }

    fn yaml_lines(self, field: &'a Field) -> Vec<String> {
        let name = field.leaf();
        let (item, object) = match field.kind.item() {
            FieldType::Object => (String::new(), self.yaml_of(Some(&field.name))),
            item => {
                (scalar(item, &if *item == field.kind { field.sample() } else { field.sample_of(item) }), Vec::new())
            }
        };
        let is_object = *field.kind.item() == FieldType::Object;
        let below = |head: String, indent: &str| -> Vec<String> {
            match (is_object, object.is_empty()) {
                (false, _) => vec![format!("{head} {item}")],
                (true, true) => vec![format!("{head} {{}}")],
                (true, false) => {
                    std::iter::once(head).chain(object.iter().map(|line| format!("{indent}{line}"))).collect()
                }
            }
        };
        match &field.kind {
            FieldType::Map(_) => std::iter::once(format!("{name}:"))
                .chain(map_keys(field).flat_map(|key| below(format!("  {key}:"), "    ")))
                .collect(),
            FieldType::List(_) => {
                let item = match is_object && !object.is_empty() {
                    true => object
                        .iter()
                        .enumerate()
                        .map(|(place, line)| format!("  {} {line}", if place == 0 { "-" } else { " " }))
                        .collect(),
                    false => below("  -".to_owned(), ""),
                };
                let items = vec![item; field.sample_count()].concat();
                std::iter::once(format!("{name}:")).chain(items).collect()
            }
            _ => below(format!("{name}:"), "  "),
        }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn variant(words: &[String], word: &str) -> String {
    let place = words.iter().position(|one| one == word).unwrap_or_default();
    names::variants(words).into_iter().nth(place).unwrap_or_default()
}

fn map_keys(field: &Field) -> impl Iterator<Item = String> {
    (1..=field.sample_count())
        .map(|number| if number == 1 { "example".to_owned() } else { format!("example-{number}") })
}

fn scalar(kind: &FieldType, value: &str) -> String {
    match kind {
        FieldType::Int32 | FieldType::Int64 | FieldType::Number | FieldType::Bool => value.to_owned(),
        // JSON strings are valid YAML.
        _ if is_plain(value) => value.to_owned(),
        _ => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Returns whether a string needs no quotes in YAML 1.1 and 1.2.
fn is_plain(value: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    value.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        && !words.contains(&value.to_ascii_lowercase().as_str())
}
