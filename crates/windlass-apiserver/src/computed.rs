//! Kinds whose objects are computed when they are read, and stored nowhere.
//!
//! Such a kind has the verbs `get` and `list`. It is described like a custom resource, but without a
//! CustomResourceDefinition that clients could see: its names and schema come from a [`ComputedKind`], and its objects
//! from [`ComputedObjects`].

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_builtins::{kinds::custom_resource_definition::Definition, resource::Table};
use windlass_store::Revision;

use crate::{
    call::{Answer, Call},
    custom,
    endpoint::Endpoint,
    represent,
    selection::Selection,
    server::BuildError,
    status::{ApiError, Result},
    storage::{Storage, StoredObject},
    verb::Verb,
};

/// The objects of a kind, computed for each request.
#[async_trait]
pub trait ComputedObjects: Send + Sync {
    /// Returns the objects of a namespace, or of all namespaces if it is empty, in the order of the list. Each has the
    /// apiVersion, kind and metadata of an object. The server applies the selectors of the request.
    async fn list(&self, namespace: &str) -> Result<Vec<Value>>;

    /// Returns an object, or `None` if it does not exist.
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>> {
        Ok(self.list(namespace).await?.into_iter().find(|object| object["metadata"]["name"] == name))
    }

    /// Returns objects as a table. By default it has the columns of the kind.
    fn table(&self, objects: &[Value]) -> Option<ComputedTable> {
        let _ = objects;
        None
    }
}

/// A table of computed objects, as `kubectl get` prints it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComputedTable {
    /// The columns, as `columnDefinitions` of a Table.
    pub columns: Vec<Value>,
    /// The cells of each object.
    pub rows: Vec<Vec<Value>>,
}

/// A kind whose objects are computed.
#[derive(Clone)]
pub struct ComputedKind {
    definition: Value,
    objects: Arc<dyn ComputedObjects>,
}

impl ComputedKind {
    /// A kind with the names, versions, schemas and columns of a CustomResourceDefinition, and with these objects.
    pub fn new(mut definition: Value, objects: Arc<dyn ComputedObjects>) -> Self {
        let names = &mut definition["spec"]["names"];
        if names["listKind"].is_null() {
            names["listKind"] = format!("{}List", names["kind"].as_str().unwrap_or_default()).into();
        }
        let accepted = names.clone();
        definition["status"]["acceptedNames"] = accepted;
        Self { definition, objects }
    }

    /// Returns the group and the served versions.
    pub fn group_versions(&self) -> Vec<(String, String)> {
        let definition = Definition::parse(&self.definition);
        let served = definition.versions.iter().filter(|version| version.served);
        served.map(|version| (definition.group.clone(), version.name.clone())).collect()
    }

    /// Returns the endpoints of the served versions, with the group and the plural name.
    pub(crate) fn endpoints(
        &self,
        table: &'static Table,
        storage: &Storage,
    ) -> Result<(String, String, Vec<Arc<Endpoint>>), BuildError> {
        let definition = Definition::parse(&self.definition);
        let text = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": definition.name}, "spec": self.definition["spec"], "status": self.definition["status"]});
        // The schema decides about the document of OpenAPI, by this revision and the uid.
        let source = StoredObject::parse(text.to_string().as_bytes(), Revision(0))
            .map_err(|damage| BuildError::Computed { name: definition.name.clone(), why: damage.to_string() })?;
        let endpoints = custom::computed_endpoints(&definition, &Arc::new(source), table, storage, &self.objects);
        if endpoints.is_empty() {
            let why = "it has no served version, or the name of a built-in resource".to_owned();
            return Err(BuildError::Computed { name: definition.name, why });
        }
        Ok((definition.group, definition.names.plural, endpoints))
    }
}

/// Handles a request for computed objects.
pub(crate) async fn answer(call: &Call<'_>, verb: Verb, objects: &dyn ComputedObjects) -> Result<Answer> {
    match verb {
        Verb::Get => {
            let object = objects.get(call.target.namespace, call.target.name).await?;
            let object = object.ok_or_else(|| call.not_found())?;
            represent::computed(call, objects, vec![object], false)
        }
        Verb::List => {
            let selection = Selection::of(call)?;
            let mut selected = objects.list(call.target.namespace).await?;
            selected.retain(|object| selection.matches_value(call.endpoint, object));
            represent::computed(call, objects, selected, true)
        }
        _ => Err(ApiError::verb_not_supported(verb, &call.endpoint.resource.plural, &call.endpoint.resource.group)),
    }
    .map(|response| Answer::Response(Box::new(response)))
}
