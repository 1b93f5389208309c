//! Defaults of a schema: validating them, and pruning their unknown fields.

use serde_json::Value;

use super::coerce::{CoerceOptions, ObjectMetaType};
use super::prune_and_default::{PruneOptions, Steps, is_meta};
use super::validate::{Mode, check};
use super::{Additional, Structural};
use crate::field::{ErrorKind, ErrorList, FieldError, Path, show};
use crate::sorting::Gather as _;

/// PruneOptions for validating defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DefaultOptions {
    /// Whether the schema describes a whole object.
    pub resource_root: bool,
    /// Whether unknown fields in a default are an error.
    pub require_pruned: bool,
}

/// A default that has passed all other checks and must be validated by the rules of its schema.
#[derive(Debug)]
pub struct DefaultCandidate<'a> {
    /// Path of the default.
    pub path: &'a Path,
    /// The schema that the default belongs to.
    pub schema: &'a Structural,
    /// The default.
    pub value: &'a Value,
    /// Whether the schema describes a whole object or an embedded one.
    pub resource_root: bool,
}

/// Validates all defaults of a schema at a path of a CustomResourceDefinition. Defaults that are valid so far are
/// passed to `rules`, whose errors are added in place.
pub fn validate(
    path: &Path,
    schema: &Structural,
    meta: ObjectMetaType<'_>,
    options: DefaultOptions,
    rules: &mut dyn FnMut(DefaultCandidate<'_>) -> ErrorList,
) -> ErrorList {
    let mut walk = Walk { meta, options, rules, errors: Vec::new(), steps: Vec::new() };
    walk.schema(path, schema, schema, false, options.resource_root);
    walk.errors
}

/// One level from a resource down to a default.
#[derive(Clone, Debug)]
enum Step {
    Child(String),
    Index,
}

struct Walk<'a, 't> {
    meta: ObjectMetaType<'t>,
    options: DefaultOptions,
    rules: &'a mut dyn FnMut(DefaultCandidate<'_>) -> ErrorList,
    errors: ErrorList,
    /// Path from the enclosing resource.
    steps: Vec<Step>,
}

impl Walk<'_, '_> {
    /// Validates a schema. `inside_meta`: whether it describes a field of the type or metadata. `whole`: whether values
    /// are resources although the schema does not say so.
    fn schema(&mut self, path: &Path, schema: &Structural, resource: &Structural, inside_meta: bool, whole: bool) {
        let embedded = schema.embedded_resource || whole;
        let (resource, inside_meta) = if embedded { (schema, false) } else { (resource, inside_meta) };
        let outside = if embedded { std::mem::take(&mut self.steps) } else { Vec::new() };
        if let Some(default) = &schema.default {
            let place = path.child("default");
            if inside_meta {
                self.inside(&place, default, schema, resource);
            } else {
                self.outside(&place, default, schema, embedded, std::ptr::eq(schema, resource));
            }
        }
        if let Some(items) = &schema.items {
            self.steps.push(Step::Index);
            self.schema(&path.child("items"), items, resource, inside_meta, false);
            self.steps.pop();
        }
        for (name, property) in &schema.properties {
            let inside_meta = inside_meta || (embedded && is_meta(name));
            self.steps.push(Step::Child(name.clone()));
            self.schema(&path.child("properties").key(name), property, resource, inside_meta, false);
            self.steps.pop();
        }
        if embedded {
            self.steps = outside;
        }
    }

    /// A default within the type or metadata must produce valid metadata.
    fn inside(&mut self, place: &Path, default: &Value, schema: &Structural, resource: &Structural) {
        let mut object = self.surround(default.clone());
        let invalid = |detail: String| FieldError {
            kind: ErrorKind::Invalid,
            field: place.to_string(),
            value: Some(show(default)),
            detail: format!("must result in valid metadata: {detail}"),
        };
        let root = Path::root();
        if let Err(error) = resource.coerce(&root, &mut object, true, self.meta, CoerceOptions::default()) {
            self.errors.push(invalid(error.to_string()));
            return;
        }
        let found = resource.validate_embedded(&root, &object, true);
        if !found.is_empty() {
            self.errors.push(invalid(aggregate(&found)));
            return;
        }
        self.fits(place, default, schema, std::ptr::eq(schema, resource));
    }

    fn outside(&mut self, place: &Path, default: &Value, schema: &Structural, embedded: bool, is_resource: bool) {
        let mut coerced = default.clone();
        let coercion = schema.coerce(place, &mut coerced, embedded, self.meta, CoerceOptions::default());
        if self.options.require_pruned {
            let mut pruned = default.clone();
            schema.prune(&mut pruned, PruneOptions { resource_root: embedded, unknown_fields: false });
            if pruned != *default {
                // kube-apiserver coerces the default in place before the error is formatted.
                self.errors.push(FieldError {
                    kind: ErrorKind::Invalid,
                    field: place.to_string(),
                    value: Some(show(&coerced)),
                    detail: "must not have unknown fields".to_owned(),
                });
            }
        }
        if let Err(error) = coercion {
            self.errors.push(error);
            return;
        }
        let found = schema.validate_embedded(place, &coerced, embedded);
        if !found.is_empty() {
            self.errors.extend(found);
            return;
        }
        self.fits(place, &coerced, schema, is_resource);
    }

    fn fits(&mut self, place: &Path, default: &Value, schema: &Structural, resource_root: bool) {
        let found = check(schema, place, default, None, Mode::Default);
        if !found.is_empty() {
            self.errors.extend(found);
            return;
        }
        let candidate = DefaultCandidate { path: place, schema, value: default, resource_root };
        self.errors.extend((self.rules)(candidate));
    }

    /// Wraps a value in an object at the current path.
    fn surround(&self, value: Value) -> Value {
        let mut object = surround(&self.steps, value);
        if let Value::Object(map) = &mut object {
            map.entry("kind").or_insert_with(|| "Validation".into());
            map.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        object
    }
}

fn surround(steps: &[Step], value: Value) -> Value {
    steps.iter().rev().fold(value, |value, step| match step {
        Step::Child(name) => Value::Object([(name.clone(), value)].into_iter().gather()),
        Step::Index => Value::Array(vec![value]),
    })
}

/// Returns the value at the end of the path.
fn pick(steps: &[Step], object: Value) -> Option<Value> {
    steps.iter().try_fold(object, |value, step| match (step, value) {
        (Step::Child(name), Value::Object(mut map)) => map.remove(name),
        (Step::Index, Value::Array(items)) => items.into_iter().next(),
        _ => None,
    })
}

/// Joins errors into one message, without duplicates.
fn aggregate(errors: &ErrorList) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if let [text] = texts.as_slice() { text.clone() } else { format!("[{}]", texts.join(", ")) }
}

impl Structural {
    /// Removes unknown fields and invalid metadata from defaults. Required for the defaults of a schema that is applied
    /// to objects.
    ///
    /// # Errors
    /// Returns an error if a default at the root is not an object.
    pub fn prune_defaults(&mut self, meta: ObjectMetaType<'_>) -> Result<(), String> {
        let root = self.clone();
        prune_below(self, &root, &mut Vec::new(), meta)
    }
}

fn prune_below(
    schema: &mut Structural,
    root: &Structural,
    steps: &mut Vec<Step>,
    meta: ObjectMetaType<'_>,
) -> Result<(), String> {
    if let Some(default) = schema.default.take() {
        schema.default = pruned(default, root, steps, meta)?;
    }
    if let Additional::Schema(additional) = &mut schema.additional {
        steps.push(Step::Child("*".to_owned()));
        prune_below(additional, root, steps, meta)?;
        steps.pop();
    }
    if let Some(items) = &mut schema.items {
        steps.push(Step::Index);
        prune_below(items, root, steps, meta)?;
        steps.pop();
    }
    for (name, property) in &mut schema.properties {
        steps.push(Step::Child(name.clone()));
        prune_below(property, root, steps, meta)?;
        steps.pop();
    }
    Ok(())
}

fn pruned(
    default: Value,
    root: &Structural,
    steps: &[Step],
    meta: ObjectMetaType<'_>,
) -> Result<Option<Value>, String> {
    let mut object = surround(steps, default);
    if !object.is_object() {
        return Err("failed to prune default value: object root default value must be of object type".to_owned());
    }
    let options = CoerceOptions { drop_invalid: true, unknown_fields: false };
    root.coerce(&Path::root(), &mut object, true, meta, options)
        .map_err(|error| format!("failed to prune default value: {error}"))?;
    let steps_done = Steps { prune: true, ..Steps::default() };
    root.prune_and_default(&mut object, steps_done, PruneOptions { resource_root: true, unknown_fields: false });
    Ok(pick(steps, object))
}
