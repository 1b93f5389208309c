//! Parameters of policies: objects of any kind that a binding selects.

mod parsed;

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::Value;

use self::parsed::Parsed;
use crate::{
    call::Call, endpoint::Endpoint, registry::Registry, server::Inner, storage::StoredObject, webhooks::Labels,
    write::convert,
};

/// Parameters for policies without parameters.
static NONE: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);

/// The kind of a policy's parameters.
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
    /// The endpoint that serves the kind, as of a generation of the registry.
    resolved: Mutex<Option<(u64, Option<Arc<Endpoint>>)>>,
    parsed: Mutex<Parsed<Endpoint>>,
}

impl ParamKind {
    /// Returns the kind; `None` if the policy has no parameters.
    pub(super) fn new(kind: &Value) -> Option<Self> {
        let api_version = kind["apiVersion"].as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind["kind"].as_str().unwrap_or_default().to_owned(),
            resolved: Mutex::default(),
            parsed: Mutex::default(),
        })
    }

    /// Returns objects in the version of the endpoint. Objects that have not changed since are not parsed again.
    async fn served(
        &self,
        server: &Inner,
        endpoint: &Arc<Endpoint>,
        found: Vec<Arc<StoredObject>>,
    ) -> Result<Vec<Arc<Value>>, String> {
        let mut served: Vec<Option<Arc<Value>>> = {
            let parsed = self.parsed.lock();
            found.iter().map(|object| parsed.find(endpoint, object.revision)).collect()
        };
        let missing = || served.iter().zip(&found).filter(|(served, _)| served.is_none());
        let missing: Vec<_> = missing().map(|(_, object)| object.clone()).collect();
        if !missing.is_empty() {
            let objects = convert::to_served_objects(server, endpoint, missing).await.map_err(|error| error.message)?;
            let places = served.iter_mut().filter(|place| place.is_none());
            for (place, object) in places.zip(objects) {
                let value = Arc::new(endpoint.to_served_value(&object));
                self.parsed.lock().insert(endpoint, object.revision, value.clone());
                *place = Some(value);
            }
        }
        Ok(served.into_iter().flatten().collect())
    }

    /// Returns the endpoint that serves the kind.
    pub(super) fn resolve(&self, registry: &Registry) -> Result<Arc<Endpoint>, String> {
        let mut resolved = self.resolved.lock();
        let endpoint = match &*resolved {
            Some((generation, endpoint)) if *generation == registry.generation => endpoint.clone(),
            _ => {
                let endpoint = endpoint_of_kind(registry, &self.group, &self.version, &self.kind).cloned();
                *resolved = Some((registry.generation, endpoint.clone()));
                endpoint
            }
        };
        let Self { group, version, kind, .. } = self;
        endpoint
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"))
    }
}

/// Returns the endpoint that serves a kind.
pub(super) fn endpoint_of_kind<'r>(
    registry: &'r Registry,
    group: &str,
    version: &str,
    kind: &str,
) -> Option<&'r Arc<Endpoint>> {
    let resources = registry.resources(group, version);
    let found = resources.iter().find(|resource| &*resource.kind == kind)?;
    registry.endpoint(group, version, &found.plural)
}

/// The parameters that a binding selects.
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Labels>,
    /// Whether requests are denied if there are no parameters.
    denies_without: bool,
}

impl ParamRef {
    /// Returns the reference; `None` if the binding has none.
    pub(super) fn new(reference: &Value) -> Option<Self> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        reference.is_object().then(|| Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: reference.get("selector").filter(|selector| selector.is_object()).map(Labels::new),
            denies_without: text("parameterNotFoundAction") == "Deny",
        })
    }
}

/// Returns the parameters for a request. The policy is evaluated once for each; null stands for none.
///
/// # Errors
/// Returns an error if the binding and the kind of the parameters do not fit each other or the request, or parameters
/// are missing.
pub(super) async fn collect(
    call: &Call<'_>,
    kind: Option<&ParamKind>,
    endpoint: Option<&Arc<Endpoint>>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Arc<Value>>, String> {
    let (Some(kind), Some(endpoint), Some(reference)) = (kind, endpoint, reference) else {
        return Ok(vec![NONE.clone()]);
    };
    let namespace = match (endpoint.resource.namespaced, reference.namespace.as_str(), call.target.namespace) {
        (true, "", "") => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", own) => own,
        (true, given, _) => given,
        (false, "", _) => "",
        (false, _, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    // Parameters take effect before their write is acknowledged, like policies.
    call.server.storage.fresh().await.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    match &reference.selector {
        None => found.extend(endpoint.cache.get(&endpoint.key(namespace, &reference.name))),
        Some(selector) => {
            let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            for (_, cached) in endpoint.cache.snapshot().range(&prefix, None) {
                if selector.selects_labels(cached.object.header.labels())? {
                    found.push(cached.object.clone());
                }
            }
        }
    }
    if found.is_empty() && reference.denies_without {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    kind.served(call.server, endpoint, found).await
}
