//! YAML output.

use serde::Serialize;

/// Writes a document with a trailing line break.
pub(super) fn write(value: &impl Serialize) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 120 };
    let mut text = serde_saphyr::to_string_with_options(value, options).expect("a JSON value must have a YAML form");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
