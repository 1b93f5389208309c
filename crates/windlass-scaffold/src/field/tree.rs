//! Fields of objects: which fields belong together, and the Rust types that they need.

use std::collections::BTreeMap;

use super::{Field, FieldType};
use crate::{ScaffoldError, names};

/// Fields of the object with this path, or those at the top.
pub(crate) fn children<'a>(fields: &'a [Field], parent: Option<&'a str>) -> impl Iterator<Item = &'a Field> {
    fields.iter().filter(move |field| field.parent() == parent)
}

/// Rust type of an object or enum, named after its path. It must not be that of the spec or the status.
pub(crate) fn type_name(prefix: &str, field: &Field) -> String {
    let mut name = prefix.to_owned();
    for (depth, part) in field.name.split('.').enumerate() {
        let part = names::upper_camel(&names::snake(part));
        name.push_str(&part);
        if depth == 0 && matches!(part.as_str(), "Spec" | "Status") {
            name.push_str("Value");
        }
    }
    name
}

/// Rejects fields that have the same name, including after conversion to Rust identifiers, and nested fields
/// of a field that is not an object.
pub(crate) fn check_tree(fields: &[Field]) -> Result<(), ScaffoldError> {
    for (place, field) in fields.iter().enumerate() {
        let is_same = |other: &Field| other.parent() == field.parent() && other.ident() == field.ident();
        if fields[..place].iter().any(is_same) {
            let hint = "give each field another name".to_owned();
            return Err(ScaffoldError::Exists { what: format!("the field {}", field.name), hint });
        }
        let Some(parent) = field.parent() else { continue };
        match fields.iter().find(|other| other.name == parent) {
            None => {
                return Err(ScaffoldError::Missing {
                    what: format!("the object {parent}, which has the field {},", field.leaf()),
                    hint: format!(
                        "declare it before its fields: --field {parent}:object, or {parent}:[]object for a list"
                    ),
                });
            }
            Some(parent) if *parent.kind.item() != FieldType::Object => {
                return Err(ScaffoldError::Contradiction {
                    why: format!("{} cannot have the field {}: its type is {}", parent.name, field.leaf(), parent.kind),
                    hint: format!("make it an object, {}:object, or remove {}", parent.name, field.name),
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Rejects fields of a spec and a status that need two Rust types of the same name.
pub(crate) fn check_types(kind: &str, spec: &[Field], status: &[Field]) -> Result<(), ScaffoldError> {
    let status_type = format!("{kind}Status");
    let all = spec.iter().map(|field| (kind, field)).chain(status.iter().map(|field| (status_type.as_str(), field)));
    let mut known: BTreeMap<String, &Field> = BTreeMap::new();
    for (prefix, field) in all {
        if !matches!(field.kind.item(), FieldType::Object | FieldType::Enum(_)) {
            continue;
        }
        let name = type_name(prefix, field);
        if let Some(other) = known.insert(name.clone(), field) {
            let why = format!("the fields {} and {} both need a Rust type {name}", other.name, field.name);
            return Err(ScaffoldError::Contradiction { why, hint: "rename one of them".to_owned() });
        }
    }
    Ok(())
}
