//! Validation of the schema of a version: first as a whole, then whether it is structural, then its defaults, then
//! keyword by keyword.

use serde_json::Value;
use windlass_cel::rules::{CrdRulesOptions, validate_crd_rules};
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::structural::{CompileError, Structural};

use super::internal_version;
use super::options::Options;
use super::schema::{FIELDS, Props};
use super::{defaults, open_api, render, structural};

/// Fields that are allowed at the root of a schema with a status subresource, by their internal names.
const AT_ROOT: &[&str] = &[
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Validates a `schema` field. `costs` indicates whether the cost limit of validation rules is enforced.
pub(super) fn validate(validation: &Value, has_status: bool, costs: bool, options: &Options, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(schema) = internal_version::open_api(validation) else { return errors };
    if has_status {
        errors.extend(at_root(schema, path));
    }
    if schema.flag("nullable") {
        let path = path.child("openAPIV3Schema").child("nullable");
        errors.push(FieldError::forbidden(&path, "nullable cannot be true at the root"));
    }
    let path = path.child("openAPIV3Schema");
    let mut unsupported = None;
    let mut compiled = None;
    if options.structural {
        unsupported = structural::unsupported(schema);
        if unsupported.is_none() {
            let found = structural::validate(schema, &path);
            if found.is_empty() {
                match compile(validation, &path, options.pruned_defaults) {
                    Ok(good) => compiled = Some(good),
                    Err(found) => errors.extend(found),
                }
            }
            errors.extend(found);
        }
    }
    let found = open_api::validate(schema, &path, options);
    if let Some(compiled) = compiled {
        let options = CrdRulesOptions { schema_errors: &found, allow_expensive_rules: !costs };
        let rules = validate_crd_rules(&compiled, &path, options);
        errors.extend(found);
        errors.extend(rules);
    } else {
        errors.extend(found);
    }
    // A schema without a structural form nearly always violates another rule, which has a better message.
    if let Some(message) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid(&path, &"".into(), message));
    }
    errors
}

/// Compiles a structural schema with valid defaults.
fn compile(validation: &Value, path: &Path, pruned_defaults: bool) -> Result<Structural, ErrorList> {
    // A schema with an unknown type is structural, but cannot be compiled; its errors are found without compiling.
    let compiled = match Structural::compile(&validation["openAPIV3Schema"]) {
        Ok(compiled) => compiled,
        Err(CompileError::Type(_)) => return Err(ErrorList::new()),
        Err(error) => return Err(vec![FieldError::invalid(path, &"".into(), error.to_string())]),
    };
    let errors = defaults::validate(&compiled, path, pruned_defaults);
    if errors.is_empty() { Ok(compiled) } else { Err(errors) }
}

/// With a status subresource, the schema of the status is taken from the properties, so nothing else at the root may
/// restrict it.
fn at_root(schema: Props<'_>, path: &Path) -> Option<FieldError> {
    let kind = schema.text("type");
    for field in FIELDS.iter().filter(|field| schema.has(field)) {
        if field.inner == "Type" {
            if kind != "object" {
                let path = path.child("openAPIV3Schema").child("type");
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                              subresource is enabled";
                return Some(FieldError::invalid(&path, &kind.into(), detail));
            }
        } else if !AT_ROOT.contains(&field.inner) {
            let allowed = AT_ROOT.join(" ");
            return Some(FieldError {
                kind: ErrorKind::Invalid,
                field: path.child("openAPIV3Schema").to_string(),
                value: Some(render::schema(schema)),
                detail: format!(
                    "only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
                ),
            });
        }
    }
    None
}
