//! A version of a custom resource: what its definition says, compiled when it is first needed.
//!
//! Objects are stored complete: defaulted and pruned by the schema they were written under, in the storage version. As
//! long as that is what the endpoint serves, its reads are the stored bytes. After a change of the definition the objects
//! from before are read through the new schema, until all of them are known to fit it.

pub(crate) mod scale;
mod strategy;
mod validation;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;
use windlass_builtins::{
    kinds::custom_resource_definition::{Conversion, Definition, PrinterColumn, Scale, Version},
    resource::{Resource, Subresource, Table},
    table::object_meta,
};
use windlass_cel::rules::{self, Rules};
use windlass_merge::apply::{path::Path, reset_fields::ResetFields};
use windlass_schema::{
    printer::{Column, SelectableField},
    structural::{NormalizeOptions, Structural},
    types::{Str, StructId},
};
use windlass_store::Revision;

use self::strategy::CustomStrategy;
use crate::{
    endpoint::{Endpoint, Form},
    heavy,
    storage::{ResourceCache, Storage, StoredObject},
    verb::Verb,
    webhooks::{ConversionCache, Converter},
};

/// The verbs of every custom resource, as discovery lists them.
const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];
/// The verbs of its subresources.
const SUBRESOURCE_VERBS: [Verb; 3] = [Verb::Get, Verb::Patch, Verb::Update];

/// What a definition says about one of its versions.
pub(crate) struct Custom {
    /// The definition, from which the rest is read when it is needed.
    source: Arc<StoredObject>,
    version: String,
    /// The apiVersion that is served.
    api_version: String,
    /// The apiVersion that is stored.
    pub(crate) stored_api_version: String,
    /// The kind of lists.
    pub(crate) list_kind: String,
    /// What users of a deprecated version are told.
    pub(crate) warning: Option<String>,
    /// Where the scale is found.
    pub(crate) scale: Option<Scale>,
    /// The webhook that knows how to get from a version to another; without it only `apiVersion` changes.
    pub(crate) converter: Option<Arc<Converter>>,
    /// What it has converted to this version.
    pub(crate) conversions: ConversionCache,
    /// Whether the definition is being deleted: no more objects then.
    terminating: AtomicBool,
    served_as_stored_after: AtomicU64,
    compiled: OnceLock<Compiled>,
    /// The schemas of all versions, for objects whose fields were set in another one.
    schemas: Schemas,
    retired: watch::Sender<bool>,
}

/// The parts of a version that take work to make.
pub(crate) struct Compiled {
    /// The schema.
    pub(crate) schema: Arc<Structural>,
    /// The rules within it; `None` if it has none.
    pub(crate) rules: Option<Rules>,
    /// The columns after the name.
    pub(crate) columns: Vec<Column>,
    /// The fields that selectors may name.
    pub(crate) selectable: Vec<SelectableField>,
    /// What a write of the object cannot change.
    pub(crate) reset: ResetFields,
    /// What a write of the status cannot change.
    pub(crate) reset_status: ResetFields,
    /// Where the versions of the definition keep their replicas.
    pub(crate) replicas_paths: Vec<(String, Option<Path>)>,
}

impl Compiled {
    fn new(definition: &Definition, version: &Version, schema: Arc<Structural>) -> Self {
        let rules = rules::compile(&schema, true);
        let columns = version.columns.iter().map_while(|column| {
            let PrinterColumn { name, kind, format, description, priority, json_path } = column;
            Column::compile(name, kind, format, description, *priority, json_path).ok()
        });
        let columns: Vec<Column> = columns.collect();
        let api_version = |version: &Version| format!("{}/{}", definition.group, version.name);
        let with_status: Vec<String> = definition.versions.iter().filter(|v| v.status).map(api_version).collect();
        let replicas = |scale: &Scale| Path::fields(scale::segments(&scale.spec_replicas_path));
        let replicas_path = |version: &Version| (api_version(version), version.scale.as_ref().map(replicas));
        Self {
            rules,
            replicas_paths: definition.versions.iter().map(replicas_path).collect(),
            columns: if version.columns.is_empty() { Column::of_definition(None) } else { columns },
            selectable: version
                .selectable_fields
                .iter()
                .filter_map(|path| SelectableField::compile(path).ok())
                .collect(),
            reset: ResetFields::of_custom_resource(&api_version(version), version.status),
            reset_status: ResetFields::of_custom_resource_status(with_status.iter().map(String::as_str)),
            schema,
        }
    }
}

/// A schema that was validated when its definition was written. One that cannot be compiled nevertheless, because it was
/// stored by somebody else, keeps everything and demands nothing.
fn compile(schema: &Value) -> Structural {
    let mut compiled = Structural::compile(schema).unwrap_or_else(|error| {
        warn!(%error, "a stored definition has a schema that cannot be used");
        Structural { preserve_unknown_fields: true, ..Structural::default() }
    });
    if let Err(error) = compiled.prune_defaults(object_meta()) {
        warn!(%error, "a stored definition has defaults that cannot be used");
    }
    compiled
}

/// The endpoints of a definition, one for each served version.
///
/// Objects up to revision `known` may have been written under another schema.
pub(crate) fn endpoints(
    definition: &Definition,
    source: &Arc<StoredObject>,
    table: &'static Table,
    storage: &Storage,
    known: Revision,
) -> Vec<Arc<Endpoint>> {
    let Some(maker) = Maker::new(definition, source, table, storage, known) else { return Vec::new() };
    definition.versions.iter().filter(|version| version.served).map(|version| maker.endpoint(version)).collect()
}

/// The endpoint of a definition's storage version, served or not, for the server's own use.
pub(crate) fn storage_endpoint(
    definition: &Definition,
    source: &Arc<StoredObject>,
    table: &'static Table,
    storage: &Storage,
) -> Option<Arc<Endpoint>> {
    let mut maker = Maker::new(definition, source, table, storage, storage.applied())?;
    // It deletes what is left of a definition, whoever could have converted that.
    maker.converter = None;
    Some(maker.endpoint(maker.stored))
}

/// What the endpoints of a definition have in common.
struct Maker<'a> {
    definition: &'a Definition,
    source: &'a Arc<StoredObject>,
    table: &'static Table,
    cache: Arc<ResourceCache>,
    stored: &'a Version,
    stored_resource: Arc<Resource>,
    /// The revision after which objects of the storage version are as this definition has them.
    served_as_stored_after: u64,
    schemas: Schemas,
    converter: Option<Arc<Converter>>,
}

/// The schemas of all versions of a definition by name, each compiled once, when it is first wanted.
type Schemas = Arc<[(String, OnceLock<Arc<Structural>>)]>;

impl<'a> Maker<'a> {
    fn new(
        definition: &'a Definition,
        source: &'a Arc<StoredObject>,
        table: &'static Table,
        storage: &Storage,
        known: Revision,
    ) -> Option<Self> {
        let stored = definition.storage_version()?;
        // The objects of a built-in kind are not a definition's to serve, and not to remove with it.
        let is_builtin = |have: &Resource| have.group == definition.group && have.plural == definition.names.plural;
        if table.resources.iter().any(is_builtin) {
            return None;
        }
        let cache = storage.cache(&format!("/{}/{}/", definition.group, definition.names.plural));
        let empty = cache.snapshot().objects().next().is_none();
        let stored_resource = Arc::new(resource(definition, stored, stored, table));
        let served_as_stored_after = if empty { 0 } else { known.0 };
        let schemas = definition.versions.iter().map(|version| (version.name.clone(), OnceLock::new())).collect();
        let webhook = || Arc::new(Converter::new(&source.to_value()["spec"]["conversion"]["webhook"]));
        let converter = (definition.conversion != Conversion::None).then(webhook);
        Some(Self {
            definition,
            source,
            table,
            cache,
            stored,
            stored_resource,
            served_as_stored_after,
            schemas,
            converter,
        })
    }

    fn endpoint(&self, version: &Version) -> Arc<Endpoint> {
        let definition = self.definition;
        let api_version = |version: &Version| format!("{}/{}", definition.group, version.name);
        let custom = Custom {
            source: self.source.clone(),
            version: version.name.clone(),
            api_version: api_version(version),
            stored_api_version: api_version(self.stored),
            list_kind: definition.accepted_names.list_kind.clone(),
            warning: definition.deprecation_warning(version),
            scale: version.scale.clone(),
            converter: self.converter.clone(),
            conversions: ConversionCache::default(),
            terminating: AtomicBool::new(definition.terminating),
            served_as_stored_after: AtomicU64::new(if version.storage {
                self.served_as_stored_after
            } else {
                u64::MAX
            }),
            compiled: OnceLock::new(),
            schemas: self.schemas.clone(),
            retired: watch::Sender::new(false),
        };
        let resource = match version.storage {
            true => self.stored_resource.clone(),
            false => Arc::new(resource(definition, version, self.stored, self.table)),
        };
        Arc::new(Endpoint {
            resource,
            table: self.table,
            strategy: &CustomStrategy,
            facts: &strategy::FACTS,
            stored: self.stored_resource.clone(),
            cache: self.cache.clone(),
            form: Form::Custom(Box::new(custom)),
            returns_deleted: false,
            empty: OnceLock::new(),
        })
    }
}

/// A version of a definition as discovery describes it.
fn resource(definition: &Definition, version: &Version, stored: &Version, table: &Table) -> Resource {
    let names = &definition.accepted_names;
    let texts = |list: &[String]| -> Vec<Str> { list.iter().map(|text| text.clone().into()).collect() };
    let verbs = |list: &[Verb]| -> Vec<Str> { list.iter().map(|verb| Str::Borrowed(verb.as_str())).collect() };
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(Subresource {
            name: "status".into(),
            group: Str::Borrowed(""),
            version: Str::Borrowed(""),
            kind: names.kind.clone().into(),
            verbs: verbs(&SUBRESOURCE_VERBS),
            ty: None,
        });
    }
    if version.scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(&SUBRESOURCE_VERBS),
            ty: table.kind("autoscaling/v1", "Scale"),
        });
    }
    Resource {
        group: definition.group.clone().into(),
        version: version.name.clone().into(),
        plural: definition.names.plural.clone().into(),
        singular: names.singular.clone().into(),
        kind: names.kind.clone().into(),
        short_names: texts(&names.short_names),
        categories: texts(&names.categories),
        namespaced: definition.namespaced,
        verbs: verbs(&VERBS),
        storage_version_hash: storage_version_hash(&definition.group, &stored.name, &names.kind).into(),
        deletion_returns_object: false,
        ty: object_type(table),
        subresources,
    }
}

/// The struct of what all objects have.
fn object_type(table: &Table) -> StructId {
    table.kind("meta.k8s.io/v1", "PartialObjectMetadata").unwrap_or(StructId(0))
}

/// What discovery publishes so that clients notice a change of the storage version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    STANDARD.encode(&digest.as_ref()[..8])
}

impl Custom {
    /// The schema and what else takes work to make.
    pub(crate) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let compile = || {
                let definition = Definition::parse(&self.source.to_value());
                let version = definition.version(&self.version).expect("a served version must be in its definition");
                let schema = self.schema_in(version);
                Compiled::new(&definition, version, schema)
            };
            if self.source.size() < heavy::LARGE { compile() } else { heavy::heavy(compile) }
        })
    }

    /// The definition.
    pub(crate) fn source(&self) -> &Arc<StoredObject> {
        &self.source
    }

    /// The apiVersion that is served.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// An object that was stored under another version or schema, as it is served now.
    ///
    /// Defaults are those of the version it is stored in.
    pub(crate) fn to_served_version(&self, object: Value) -> Value {
        let mut object = self.prune_and_default_stored(object);
        if object["apiVersion"] != *self.api_version {
            object["apiVersion"] = self.api_version.as_str().into();
            let options = NormalizeOptions { drop_invalid_metadata: true, unknown_fields: false, default: false };
            let _ = self.compiled().schema.normalize(&mut object, object_meta(), options);
        }
        object
    }

    /// An object made complete by the schema of the version that it says it is in.
    pub(crate) fn prune_and_default_stored(&self, mut object: Value) -> Value {
        // What is dropped here was stored by somebody with other rules: nobody is left to be told.
        let options = NormalizeOptions { drop_invalid_metadata: true, unknown_fields: false, default: true };
        let version = object["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()).unwrap_or_default();
        if let Some(schema) = self.schema_of(version) {
            let _ = schema.normalize(&mut object, object_meta(), options);
        }
        object
    }

    /// Makes an object fit the schema as far as that goes; gives what a strict decoder complains about. One of another
    /// kind gets its metadata in shape only.
    pub(crate) fn prune_and_default(&self, object: &mut Value, own_kind: bool) -> Result<Vec<String>, String> {
        let meta = object_meta();
        let options = NormalizeOptions { drop_invalid_metadata: false, unknown_fields: true, default: true };
        let unknown = if own_kind {
            self.compiled().schema.normalize(object, meta, options)?
        } else {
            let anything = Structural { preserve_unknown_fields: true, ..Structural::default() };
            anything.normalize(object, meta, options)?
        };
        Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
    }

    /// An object of this version as it is stored: in the storage version, and complete by its schema.
    pub(crate) fn to_storage_version(&self, mut object: Value) -> Value {
        if self.api_version == self.stored_api_version {
            return object;
        }
        object["apiVersion"] = self.stored_api_version.as_str().into();
        self.prune_and_default_stored(object)
    }

    /// The schema of a version of the definition.
    pub(crate) fn schema_of(&self, version: &str) -> Option<&Structural> {
        let (_, schema) = self.schemas.iter().find(|(name, _)| name == version)?;
        if schema.get().is_none() {
            let definition = Definition::parse(&self.source.to_value());
            self.schema_in(definition.version(version)?);
        }
        schema.get().map(|schema| &**schema)
    }

    /// The schema of a version of the definition, which was just read.
    fn schema_in(&self, version: &Version) -> Arc<Structural> {
        let known = self.schemas.iter().find(|(name, _)| *name == version.name).map(|(_, schema)| schema);
        let make = || Arc::new(compile(&version.schema));
        known.map_or_else(make, |schema| schema.get_or_init(make).clone())
    }

    /// Everything written after this revision is stored as it is served.
    pub(crate) fn served_as_stored_after(&self) -> Revision {
        Revision(self.served_as_stored_after.load(Ordering::Acquire))
    }

    /// An object was written under another schema, just as this one took its place.
    pub(crate) fn overtaken_by(&self, revision: Revision) {
        self.served_as_stored_after.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Looks at the objects from before: if all of them are stored as they are served, reads need not look any more.
    pub(crate) fn recheck_stored(&self, cache: &ResourceCache) {
        let after = self.served_as_stored_after();
        if after.0 == u64::MAX || after.0 == 0 {
            return;
        }
        let snapshot = cache.snapshot();
        let mut old = snapshot.objects().filter(|object| object.written <= after);
        let fits = |object: &Arc<StoredObject>| {
            let value = object.to_value();
            self.to_served_version(value.clone()) == value
        };
        if old.all(fits) {
            // Unless somebody has written meanwhile.
            let _ = self.served_as_stored_after.compare_exchange(after.0, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Whether the definition is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Relaxed)
    }

    /// The definition is being deleted.
    pub(crate) fn terminate(&self) {
        self.terminating.store(true, Ordering::Relaxed);
    }

    /// Ends the watches on this endpoint: another has taken its place, or none.
    pub(crate) fn retire(&self) {
        self.retired.send_replace(true);
    }

    /// Resolves when the endpoint is no longer served.
    pub(crate) async fn retired(&self) {
        let mut retired = self.retired.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = retired.wait_for(|retired| *retired).await;
    }
}
