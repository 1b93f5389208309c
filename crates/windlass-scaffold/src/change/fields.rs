//! Changes of the fields of a resource.

use crate::{Field, Origin, Project, ScaffoldError};

/// Changes of the fields of a resource.
#[derive(Clone, Debug, Default)]
pub struct FieldEdits {
    /// Fields of the spec to add or replace.
    pub add: Vec<Field>,
    /// Names of fields of the spec to remove.
    pub remove: Vec<String>,
    /// Fields of the status to add or replace.
    pub add_status: Vec<Field>,
    /// Names of fields of the status to remove.
    pub remove_status: Vec<String>,
}

impl Project {
    /// Adds fields to a version of a resource, replacing fields of the same name, and removes others.
    pub fn edit_fields(
        &mut self,
        group: Option<&str>,
        kind: &str,
        version: Option<&str>,
        edits: FieldEdits,
    ) -> Result<(), ScaffoldError> {
        let position = self.position(group, kind)?;
        let resource = &mut self.resources[position];
        let whose = match resource.origin {
            Origin::Builtin => Some(("a built-in kind", "its fields cannot be changed")),
            Origin::Imported => Some(("imported", "edit its types directly, or import a newer CRD")),
            Origin::Foreign if !edits.add_status.is_empty() => {
                Some(("defined by another project", "omit --status-field"))
            }
            Origin::Own | Origin::Served | Origin::Foreign => None,
        };
        if let Some((what, hint)) = whose {
            let why = format!("{kind} is {what}");
            return Err(ScaffoldError::Contradiction { why, hint: hint.to_owned() });
        }
        let version = version.unwrap_or(&resource.storage_version).to_owned();
        let Some(version) = resource.versions.iter_mut().find(|one| one.name == version) else {
            let what = format!("{kind} {version}");
            return Err(ScaffoldError::Missing { what, hint: "see the PROJECT file".to_owned() });
        };
        edit(kind, &mut version.fields, edits.add, &edits.remove)?;
        edit(&format!("the status of {kind}"), &mut version.status_fields, edits.add_status, &edits.remove_status)?;
        resource.versions.iter().try_for_each(|version| resource.check_fields(version))
    }
}

/// Removes fields, each with those below it, and adds others. Fields that are given twice are rejected.
fn edit(whose: &str, fields: &mut Vec<Field>, add: Vec<Field>, remove: &[String]) -> Result<(), ScaffoldError> {
    for name in remove {
        if !fields.iter().any(|field| field.name == *name) {
            let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let hint = format!("known fields: {}", known.join(", "));
            return Err(ScaffoldError::Missing { what: format!("field {name} of {whose}"), hint });
        }
        let below = format!("{name}.");
        fields.retain(|field| field.name != *name && !field.name.starts_with(&below));
    }
    let mut given: Vec<String> = Vec::new();
    for field in add {
        if given.contains(&field.name) {
            let hint = "specify each field once".to_owned();
            return Err(ScaffoldError::Exists { what: format!("the field {}", field.name), hint });
        }
        given.push(field.name.clone());
        match fields.iter_mut().find(|one| one.name == field.name) {
            Some(there) => *there = field,
            None => fields.push(field),
        }
    }
    Ok(())
}
