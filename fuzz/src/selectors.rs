//! Label and field selectors.

use windlass_schema::{
    label_selector::{LabelSelectorOptions, validate_label_selector},
    selector::{FieldSelector, LabelSelector},
};

/// Parses selectors as text and as objects; equal requirements select the same.
pub fn selectors(data: &[u8]) {
    let Some(text) = super::text(data) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        for label in [None, Some(""), Some("a")] {
            selector.matches(|_| label);
        }
        for requirement in selector.requirements() {
            selector.requires_exact_match(requirement.key());
        }
        assert_eq!(selector.is_empty(), selector.requirements().is_empty());
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        selector.matches(|_| Some("a"));
        for field in selector.fields() {
            selector.requires_exact_match(field);
        }
    }
    if let Some(value) = super::parse(data) {
        let errors = validate_label_selector(Some(&value), LabelSelectorOptions::default(), &Default::default());
        let parsed = LabelSelector::from_object(&value);
        assert!(!errors.is_empty() || parsed.is_ok(), "a valid selector must parse: {parsed:?}");
        if let Some(labels) = value.as_object() {
            LabelSelector::from_map(labels).matches(|_| Some("a"));
        }
    }
}
