//! The CRD of a migration: what is stored, where a migration has stopped, and its end.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde_json::json;

use super::{MigrationError, within};

/// Annotation of a CRD with the position of a migration: the generation of the CRD, a space, and the token of the next page.
/// A position is valid only for the same generation: another storage version in between may have stored objects.
const POSITION: &str = "windlass.dev/storage-migration";
/// Annotation of a CRD with the objects before the position that could not be written: the generation of the CRD, a space, and
/// their keys, separated by commas.
const FAILED: &str = "windlass.dev/storage-migration-failed";
/// Token of the position after the last page. A token of the API server is longer, or at least no such word.
const END: &str = "end";
/// Largest number of objects that are remembered because they could not be written: the annotation is shorter than 32 KiB, and
/// all of them are limited to 256 KiB.
const MOST_FAILED: usize = 100;
/// Number of times that a CRD is written if it changes at the same time.
const TRIES: u32 = 5;

/// A specification of a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    uid: Option<String>,
    generation: i64,
}

impl Identity {
    pub(super) fn of(definition: &CustomResourceDefinition) -> Self {
        Self { uid: definition.uid(), generation: definition.metadata.generation.unwrap_or_default() }
    }
}

/// Progress of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) position: Position,
    /// Keys of objects before the position that could not be written; one more than can be saved if there are too many.
    pub(super) failed: BTreeSet<String>,
}

impl Saved {
    /// Adds an object that could not be written, unless there are too many already.
    pub(super) fn add_failed(&mut self, key: String) {
        if self.failed.len() <= MOST_FAILED {
            self.failed.insert(key);
        }
    }
}

/// The next page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Position {
    #[default]
    Start,
    At(String),
    End,
}

/// A CRD whose objects are migrated.
pub(super) struct Target {
    definition: CustomResourceDefinition,
    identity: Identity,
    pub(super) storage: String,
}

impl Target {
    pub(super) async fn read(api: &Api<CustomResourceDefinition>, name: &str) -> Result<Self, MigrationError> {
        let definition = within(api.get(name)).await;
        let definition = definition.map_err(|source| failed_to("get", name, source))?;
        let storage = storage_of(&definition).ok_or_else(|| MigrationError::NotServed { name: name.to_owned() })?;
        Ok(Self { identity: Identity::of(&definition), storage: storage.to_owned(), definition })
    }

    pub(super) fn name(&self) -> String {
        self.definition.name_any()
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns whether all objects are stored in the storage version.
    pub(super) fn is_migrated(&self) -> bool {
        is_migrated(&self.definition)
    }

    /// Returns for how long the specification is known to be unchanged, by the times of its managed fields.
    pub(super) fn unchanged_for(&self) -> Duration {
        let writes = self.definition.managed_fields().iter().filter(|write| {
            let fields = write.fields_v1.as_ref().map(|fields| &fields.0);
            write.subresource.is_none() && fields.is_some_and(|fields| fields.get("f:spec").is_some())
        });
        let last = writes.filter_map(|write| Some(write.time.as_ref()?.0)).max();
        last.and_then(|last| windlass_clock::now().duration_since(last).try_into().ok()).unwrap_or_default()
    }

    /// Returns the resource to write: in the storage version if it is served.
    pub(super) fn resource(&self) -> Result<ApiResource, MigrationError> {
        let spec = &self.definition.spec;
        let served = || spec.versions.iter().filter(|version| version.served);
        let version = served().find(|version| version.storage).or_else(|| served().next());
        let version = version.ok_or_else(|| MigrationError::NotServed { name: self.definition.name_any() })?;
        Ok(ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        })
    }

    /// Returns how far a migration of the same generation has come.
    pub(super) fn saved(&self) -> Saved {
        let position = match self.annotation(POSITION) {
            None => return Saved::default(),
            Some(END) => Position::End,
            Some(token) => Position::At(token.to_owned()),
        };
        let failed = self.annotation(FAILED).unwrap_or_default();
        Saved { position, failed: failed.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect() }
    }

    /// Returns the value of an annotation for the same generation.
    fn annotation(&self, name: &str) -> Option<&str> {
        let (generation, value) = self.definition.annotations().get(name)?.split_once(' ')?;
        (generation.parse() == Ok(self.identity.generation)).then_some(value)
    }

    /// Saves how far the migration has come, if the failed objects are few enough.
    pub(super) async fn save(&self, api: &Api<CustomResourceDefinition>, saved: &Saved) -> Result<(), MigrationError> {
        if saved.failed.len() > MOST_FAILED {
            return Ok(());
        }
        let generation = self.identity.generation;
        let position = match &saved.position {
            Position::Start => None,
            Position::At(token) => Some(format!("{generation} {token}")),
            Position::End => Some(format!("{generation} {END}")),
        };
        let failed = position.as_ref().filter(|_| !saved.failed.is_empty()).map(|_| {
            let keys: Vec<&str> = saved.failed.iter().map(String::as_str).collect();
            format!("{generation} {}", keys.join(","))
        });
        let patch = json!({ "metadata": { "annotations": { POSITION: position, FAILED: failed } } });
        let name = self.definition.name_any();
        let saved = within(api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch))).await;
        saved.map(drop).map_err(|source| failed_to("update", &name, source))
    }

    /// Removes all versions but the storage version from the list of stored versions, and returns them.
    pub(super) async fn finish(&self, api: &Api<CustomResourceDefinition>) -> Result<Vec<String>, MigrationError> {
        let name = self.definition.name_any();
        for tries in 1.. {
            let now = Self::read(api, &name).await?;
            // Another storage version in between may have stored objects.
            if now.identity != self.identity {
                return Err(MigrationError::DefinitionChanged { name });
            }
            let removed = others(&now.definition, &self.storage);
            let patch = json!({
                "metadata": { "resourceVersion": now.definition.resource_version() },
                "status": { "storedVersions": [self.storage] },
            });
            match within(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))).await {
                Ok(_) => {
                    if [POSITION, FAILED].iter().any(|name| now.definition.annotations().contains_key(*name)) {
                        self.save(api, &Saved::default()).await?;
                    }
                    return Ok(removed);
                }
                Err(kube::Error::Api(status)) if status.code == 409 && tries < TRIES => {}
                Err(source) => return Err(failed_to("update", &name, source)),
            }
        }
        unreachable!("the last try returns")
    }
}

/// Returns the storage version.
fn storage_of(definition: &CustomResourceDefinition) -> Option<&str> {
    let storage = definition.spec.versions.iter().find(|version| version.storage)?;
    Some(&storage.name)
}

/// Returns whether nothing can be migrated: all objects are stored in the storage version.
pub(super) fn is_migrated(definition: &CustomResourceDefinition) -> bool {
    storage_of(definition).is_none_or(|storage| others(definition, storage).is_empty())
}

/// Returns the versions other than `storage` in which objects may be stored.
fn others(definition: &CustomResourceDefinition, storage: &str) -> Vec<String> {
    let stored = definition.status.as_ref().and_then(|status| status.stored_versions.as_ref());
    stored.into_iter().flatten().filter(|version| *version != storage).cloned().collect()
}

fn failed_to(verb: &'static str, name: &str, source: kube::Error) -> MigrationError {
    MigrationError::Definition { verb, name: name.to_owned(), source: Box::new(source) }
}
