//! A version of a custom resource: the rules of its CustomResourceDefinition, compiled when they are first needed.
//!
//! Objects are stored in the storage version, pruned and defaulted by the schema under which they were written. As long
//! as the endpoint serves them unchanged, reads return the stored bytes. After a change of the CRD, older objects are
//! read through the new schema, until all of them are known to fit it.

pub(crate) mod scale;
mod stored;
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
    blocking,
    computed::ComputedObjects,
    endpoint::{Endpoint, Form},
    metrics::UsualSeries,
    storage::{ResourceCache, Storage, StoredObject},
    verb::Verb,
    webhooks::{ConversionCache, ConversionFunction, ConversionWebhook, Converter},
};

/// Stands for all revisions, while other servers may write objects by an older CRD.
const EXPECTS_OLDER: u64 = u64::MAX - 1;

/// The verbs of every custom resource, as discovery lists them.
const VERBS: [Verb; 8] =
    [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Patch, Verb::Create, Verb::Update, Verb::Watch];
/// The verbs of a resource whose objects are computed.
const COMPUTED_VERBS: [Verb; 2] = [Verb::Get, Verb::List];
/// The verbs of its subresources.
const SUBRESOURCE_VERBS: [Verb; 3] = [Verb::Get, Verb::Patch, Verb::Update];

/// The rules of a CustomResourceDefinition for one of its versions.
pub(crate) struct Custom {
    /// The CRD, which is parsed when it is needed.
    source: Arc<StoredObject>,
    version: String,
    /// The apiVersion that is served.
    api_version: String,
    /// The apiVersion that is stored.
    pub(crate) stored_api_version: String,
    /// The kind of its lists.
    pub(crate) list_kind: String,
    /// The warning for users of a deprecated version.
    pub(crate) warning: Option<String>,
    /// The paths of the scale subresource.
    pub(crate) scale: Option<Scale>,
    /// The conversion webhook or function; without one, conversions change `apiVersion` only.
    pub(crate) converter: Option<Arc<dyn Converter>>,
    /// The objects that it has converted to this version.
    pub(crate) conversions: ConversionCache,
    /// Whether the CRD is being deleted, so that no more objects are created.
    terminating: AtomicBool,
    served_as_stored_after: AtomicU64,
    compiled: OnceLock<Compiled>,
    /// The schemas of all versions, to track fields that were set in another one.
    schemas: Schemas,
    retired: watch::Sender<bool>,
    /// The source of its objects, if they are not stored.
    pub(crate) computed: Option<Arc<dyn ComputedObjects>>,
}

/// The parts of a version that are expensive to compile.
pub(crate) struct Compiled {
    /// The schema.
    pub(crate) schema: Arc<Structural>,
    /// The validation rules of the schema; `None` if it has none.
    pub(crate) rules: Option<Rules>,
    /// The printer columns after the name.
    pub(crate) columns: Vec<Column>,
    /// The fields that field selectors may use.
    pub(crate) selectable: Vec<SelectableField>,
    /// The fields that a write of the object cannot change.
    pub(crate) reset: ResetFields,
    /// The fields that a write of the status cannot change.
    pub(crate) reset_status: ResetFields,
    /// The path of the replicas in each version.
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

/// Compiles a schema that was validated when its CRD was written. If it cannot be compiled, because another program has
/// stored it, everything is preserved and nothing is validated.
fn compile(schema: &Value) -> Structural {
    let mut compiled = Structural::compile(schema).unwrap_or_else(|error| {
        warn!(%error, "failed to compile the schema of a stored CustomResourceDefinition");
        Structural { preserve_unknown_fields: true, ..Structural::default() }
    });
    if let Err(error) = compiled.prune_defaults(object_meta()) {
        warn!(%error, "failed to prune the defaults of a stored CustomResourceDefinition");
    }
    compiled
}

/// Returns the endpoints of a CRD, one per served version.
///
/// Objects up to revision `known` may have been written under another schema. A conversion function replaces the
/// webhook.
pub(crate) fn endpoints(
    definition: &Definition,
    source: &Arc<StoredObject>,
    table: &'static Table,
    storage: &Storage,
    known: Revision,
    conversion: Option<&ConversionFunction>,
) -> Vec<Arc<Endpoint>> {
    let Some(mut builder) = EndpointBuilder::new(definition, source, table, storage, known) else { return Vec::new() };
    if let Some(function) = conversion {
        builder.converter = Some(Arc::new(function.clone()));
    }
    definition.versions.iter().filter(|version| version.served).map(|version| builder.endpoint(version)).collect()
}

/// Returns the endpoints of a kind whose objects are computed, one per served version.
pub(crate) fn computed_endpoints(
    definition: &Definition,
    source: &Arc<StoredObject>,
    table: &'static Table,
    storage: &Storage,
    objects: &Arc<dyn ComputedObjects>,
) -> Vec<Arc<Endpoint>> {
    let Some(mut builder) = EndpointBuilder::new(definition, source, table, storage, Revision(0)) else {
        return Vec::new();
    };
    builder.computed = Some(objects.clone());
    definition.versions.iter().filter(|version| version.served).map(|version| builder.endpoint(version)).collect()
}

/// Returns the endpoint of a CRD's storage version, served or not, for the server's own use.
pub(crate) fn storage_endpoint(
    definition: &Definition,
    source: &Arc<StoredObject>,
    table: &'static Table,
    storage: &Storage,
) -> Option<Arc<Endpoint>> {
    let mut builder = EndpointBuilder::new(definition, source, table, storage, storage.applied())?;
    // This endpoint deletes the remaining objects of a CRD, which must not depend on a conversion webhook.
    builder.converter = None;
    Some(builder.endpoint(builder.stored))
}

/// The common parts of a CRD's endpoints.
struct EndpointBuilder<'a> {
    definition: &'a Definition,
    source: &'a Arc<StoredObject>,
    table: &'static Table,
    cache: Arc<ResourceCache>,
    stored: &'a Version,
    stored_resource: Arc<Resource>,
    /// The revision after which objects are stored as the storage version serves them.
    served_as_stored_after: u64,
    schemas: Schemas,
    converter: Option<Arc<dyn Converter>>,
    computed: Option<Arc<dyn ComputedObjects>>,
}

/// The schemas of all versions of a CRD by name, each compiled when it is first needed.
type Schemas = Arc<[(String, OnceLock<Arc<Structural>>)]>;

impl<'a> EndpointBuilder<'a> {
    fn new(
        definition: &'a Definition,
        source: &'a Arc<StoredObject>,
        table: &'static Table,
        storage: &Storage,
        known: Revision,
    ) -> Option<Self> {
        let stored = definition.storage_version()?;
        // A CRD must not serve the objects of a built-in kind, nor remove them when it is deleted.
        let is_builtin = |have: &Resource| have.group == definition.group && have.plural == definition.names.plural;
        if table.resources.iter().any(is_builtin) {
            return None;
        }
        let cache = storage.cache(&format!("/{}/{}/", definition.group, definition.names.plural));
        let empty = cache.is_empty();
        let stored_resource = Arc::new(resource(definition, stored, stored, table));
        let served_as_stored_after = if empty { 0 } else { known.0 };
        let schemas = definition.versions.iter().map(|version| (version.name.clone(), OnceLock::new())).collect();
        let webhook = || ConversionWebhook::new(&source.to_value()["spec"]["conversion"]["webhook"]);
        let converter = (definition.conversion != Conversion::None).then(|| Arc::new(webhook()) as Arc<dyn Converter>);
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
            computed: None,
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
            computed: self.computed.clone(),
        };
        let resource = match (version.storage, &self.computed) {
            (true, None) => self.stored_resource.clone(),
            (false, None) => Arc::new(resource(definition, version, self.stored, self.table)),
            (_, Some(_)) => Arc::new(Resource {
                verbs: COMPUTED_VERBS.to_vec(),
                storage_version_hash: Str::Borrowed(""),
                subresources: Vec::new(),
                ..resource(definition, version, self.stored, self.table)
            }),
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
            usual: UsualSeries::default(),
        })
    }
}

/// Returns the discovery entry of a version of a CRD.
fn resource(definition: &Definition, version: &Version, stored: &Version, table: &Table) -> Resource {
    let names = &definition.accepted_names;
    let texts = |list: &[String]| -> Vec<Str> { list.iter().map(|text| text.clone().into()).collect() };
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(Subresource {
            name: "status".into(),
            group: Str::Borrowed(""),
            version: Str::Borrowed(""),
            kind: names.kind.clone().into(),
            verbs: SUBRESOURCE_VERBS.to_vec(),
            ty: None,
        });
    }
    if version.scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: SUBRESOURCE_VERBS.to_vec(),
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
        verbs: VERBS.to_vec(),
        storage_version_hash: storage_version_hash(&definition.group, &stored.name, &names.kind).into(),
        deletion_returns_object: false,
        ty: object_type(table),
        subresources,
    }
}

/// Returns the type with the fields that all objects have.
fn object_type(table: &Table) -> StructId {
    table.kind("meta.k8s.io/v1", "PartialObjectMetadata").unwrap_or(StructId(0))
}

/// Returns the hash in discovery by which clients notice a change of the storage version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    STANDARD.encode(&digest.as_ref()[..8])
}

impl Custom {
    /// Returns the parts that are expensive to compile.
    pub(crate) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let compile = || {
                let definition = Definition::parse(&self.source.to_value());
                let version = definition.version(&self.version).expect("a served version must be in its CRD");
                let schema = self.schema_in(version);
                Compiled::new(&definition, version, schema)
            };
            if self.source.size() < blocking::LARGE { compile() } else { blocking::run(compile) }
        })
    }

    /// The CRD.
    pub(crate) fn source(&self) -> &Arc<StoredObject> {
        &self.source
    }

    /// The apiVersion that is served.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Converts a stored object, written under another version or schema, to this version.
    ///
    /// Defaults are those of the version in which the object is stored.
    pub(crate) fn to_served_version(&self, object: Value) -> Value {
        let mut object = self.prune_and_default_stored(object);
        if object["apiVersion"] != *self.api_version {
            object["apiVersion"] = self.api_version.as_str().into();
            let options = NormalizeOptions { drop_invalid_metadata: true, unknown_fields: false, default: false };
            let _ = self.compiled().schema.normalize(&mut object, object_meta(), options);
        }
        object
    }

    /// Prunes and defaults an object by the schema of the version that it claims.
    pub(crate) fn prune_and_default_stored(&self, mut object: Value) -> Value {
        // Fields that are dropped here were stored under other rules, and there is no client to warn.
        let options = NormalizeOptions { drop_invalid_metadata: true, unknown_fields: false, default: true };
        let version = object["apiVersion"].as_str().and_then(|version| version.rsplit('/').next()).unwrap_or_default();
        if let Some(schema) = self.schema_of(version) {
            let _ = schema.normalize(&mut object, object_meta(), options);
        }
        object
    }

    /// Prunes and defaults an object by the schema, and returns the complaints of a strict decoder. For an object that
    /// claims another kind, only the metadata is checked.
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

    /// Converts an object of this version to the storage version, and applies the defaults of that.
    pub(crate) fn to_storage_version(&self, mut object: Value) -> Value {
        if self.api_version == self.stored_api_version {
            return object;
        }
        object["apiVersion"] = self.stored_api_version.as_str().into();
        self.prune_and_default_stored(object)
    }

    /// Returns the schema of a version of the CRD.
    pub(crate) fn schema_of(&self, version: &str) -> Option<&Structural> {
        let (_, schema) = self.schemas.iter().find(|(name, _)| name == version)?;
        if schema.get().is_none() {
            let definition = Definition::parse(&self.source.to_value());
            self.schema_in(definition.version(version)?);
        }
        schema.get().map(|schema| &**schema)
    }

    /// Returns the schema of a version, compiled from the parsed CRD if necessary.
    fn schema_in(&self, version: &Version) -> Arc<Structural> {
        let known = self.schemas.iter().find(|(name, _)| *name == version.name).map(|(_, schema)| schema);
        let make = || Arc::new(compile(&version.schema));
        known.map_or_else(make, |schema| schema.get_or_init(make).clone())
    }

    /// The revision after which every object is stored exactly as it is served.
    pub(crate) fn served_as_stored_after(&self) -> Revision {
        Revision(self.served_as_stored_after.load(Ordering::Acquire))
    }

    /// Records that an object was written under another schema, just as this one replaced it.
    pub(crate) fn note_older_write(&self, revision: Revision) {
        self.served_as_stored_after.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Records that other servers may still write objects under another schema.
    pub(crate) fn expect_older_writes(&self) {
        self.served_as_stored_after.fetch_max(EXPECTS_OLDER, Ordering::AcqRel);
    }

    /// Records that no server writes objects under another schema after a revision.
    pub(crate) fn end_older_writes(&self, revision: Revision) {
        let after = &self.served_as_stored_after;
        let _ = after.compare_exchange(EXPECTS_OLDER, revision.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Returns whether the CRD is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Relaxed)
    }

    /// Records that the CRD is being deleted.
    pub(crate) fn terminate(&self) {
        self.terminating.store(true, Ordering::Relaxed);
    }

    /// Ends the watches on this endpoint, because it was replaced or removed.
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
