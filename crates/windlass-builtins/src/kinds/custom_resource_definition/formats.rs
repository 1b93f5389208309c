//! Formats that validation does not support; they are ignored, with a warning.

use windlass_schema::formats::is_supported;

use super::internal_version::Spec;
use super::schema::Props;

/// Returns the unsupported formats in the schemas of a CRD, in the order of the schemas.
pub(super) fn unrecognized<'a>(spec: &Spec<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    spec.has_schema(|schema| {
        found.extend(Some(schema.text("format")).filter(|format| !format.is_empty() && !is_known(schema, format)));
        false
    });
    found
}

fn is_known(schema: Props<'_>, format: &str) -> bool {
    match schema.text("type") {
        "" | "string" => is_supported(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
