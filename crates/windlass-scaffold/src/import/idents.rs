//! Rust identifiers for names in CRDs, which can be any string.

use std::collections::BTreeSet;

use windlass_schema::sorting::Gather as _;

use crate::names;

/// Type names that the module imports or that are in the prelude.
const TAKEN: &[&str] = &[
    "BTreeMap",
    "Box",
    "ByteString",
    "Clone",
    "Copy",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "Eq",
    "IntOrString",
    "JsonSchema",
    "None",
    "Option",
    "PartialEq",
    "Self",
    "Serialize",
    "Some",
    "String",
    "Time",
    "Vec",
];

/// A set of unique identifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct Idents(BTreeSet<String>);

impl Idents {
    /// Identifiers for the types of a module.
    pub(super) fn of_types() -> Self {
        Self(TAKEN.iter().map(|name| (*name).to_owned()).gather())
    }

    /// Returns the name, with a number appended if it is in use.
    pub(super) fn unique(&mut self, name: &str, between: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}{between}{number}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        let free = candidates.find(|candidate| !self.0.contains(candidate)).expect("numbers must not run out");
        self.0.insert(free.clone());
        free
    }

    /// Returns the identifier of a field, without the `r#` prefix.
    pub(super) fn field(&mut self, name: &str) -> String {
        let snake = names::snake(name);
        let word = match snake.as_str() {
            "" => "field".to_owned(),
            // These cannot be raw identifiers.
            "self" | "super" | "crate" => snake + "_",
            word if word.starts_with(|letter: char| letter.is_ascii_digit()) => format!("n{word}"),
            word => word.to_owned(),
        };
        let between = if word.ends_with('_') { "" } else { "_" };
        self.unique(&word, between)
    }

    /// Returns the identifier of a variant.
    pub(super) fn variant(&mut self, value: &str) -> String {
        let camel = camel(value);
        let word = match camel.as_str() {
            "" => "Empty".to_owned(),
            "Self" => "SelfValue".to_owned(),
            word if word.starts_with(|letter: char| letter.is_ascii_digit()) => format!("N{word}"),
            word => word.to_owned(),
        };
        self.unique(&word, "Or")
    }
}

/// Converts a name for use in a type name.
pub(super) fn camel(name: &str) -> String {
    names::upper_camel(&names::snake(name))
}

/// Writes an identifier; keywords become raw identifiers.
pub(super) fn written(ident: &str) -> String {
    if names::is_keyword(ident) { format!("r#{ident}") } else { ident.to_owned() }
}

/// Returns whether serde's `rename_all = "camelCase"` maps the identifier to the name.
pub(super) fn is_found(ident: &str, name: &str) -> bool {
    names::lower_camel(ident) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gets_a_unique_identifier() {
        let mut fields = Idents::default();
        let given = ["fooBar", "foo_bar", "foo-bar", "type", "self", "", "-", "3d", "ü"].map(|name| fields.field(name));
        assert_eq!(given, ["foo_bar", "foo_bar_2", "foo_bar_3", "type", "self_", "field", "field_2", "n3d", "field_3"]);
        assert_eq!(fields.field("Self"), "self_2");
        assert_eq!(written("type"), "r#type");
        assert!(is_found("foo_bar", "fooBar") && !is_found("foo_bar_2", "foo_bar"));
    }

    #[test]
    fn variants_are_unique() {
        let mut variants = Idents::default();
        let given = ["a4", "A4", "", "self", "4", "soft-cover"].map(|value| variants.variant(value));
        assert_eq!(given, ["A4", "A4Or2", "Empty", "SelfValue", "N4", "SoftCover"]);
    }
}
