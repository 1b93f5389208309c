//! Imported CRDs in a project.

use windlass_schema::sorting;

use super::Definition;
use crate::{ApiOptions, Origin, Project, ScaffoldError, Version, names};

/// Options of `import crd`.
#[derive(Clone, Debug)]
pub struct ImportOptions<'a> {
    /// The CustomResourceDefinition.
    pub definition: &'a Definition,
    /// Versions to generate types for.
    pub versions: Vec<String>,
    /// Whether to scaffold a controller.
    pub controller: bool,
}

impl Project {
    /// Adds a foreign resource with imported types, or updates it from a newer CRD.
    pub fn import(&mut self, options: ImportOptions<'_>) -> Result<(), ScaffoldError> {
        let ImportOptions { definition, mut versions, controller } = options;
        sorting::sort_by_key(&mut versions, |version| names::version_order(version));
        let stored = definition.storage_version();
        let storage = versions.iter().find(|version| *version == stored).or(versions.last()).cloned();
        let Some(storage) = storage else {
            let what = format!("version of {} to import", definition.name());
            return Err(ScaffoldError::Missing { what, hint: "choose versions with --version".to_owned() });
        };
        let found = |one: &&mut crate::Resource| one.group == definition.group && one.kind == definition.kind;
        let versions =
            versions.into_iter().map(|name| Version { name, fields: Vec::new(), status_fields: Vec::new() }).collect();
        if let Some(resource) = self.resources.iter_mut().find(found) {
            if resource.origin != Origin::Imported {
                let hint = "remove it with `windlass delete api` first".to_owned();
                return Err(ScaffoldError::Exists { what: format!("{} of {}", resource.kind, resource.group), hint });
            }
            resource.storage_version = storage;
            resource.versions = versions;
            resource.plural.clone_from(&definition.plural);
            resource.namespaced = definition.namespaced;
            resource.controller |= controller;
            return Ok(());
        }
        let api = ApiOptions {
            plural: Some(definition.plural.clone()),
            namespaced: definition.namespaced,
            controller,
            ..ApiOptions::new("", storage, definition.kind.as_str())
        };
        self.add(definition.group.clone(), api, Origin::Imported)?;
        if let Some(resource) = self.resources.last_mut() {
            resource.versions = versions;
        }
        Ok(())
    }
}
