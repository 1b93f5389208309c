//! The OpenAPI documents of other servers: of version 3 by their addresses, of version 2 as parts of one document.

mod convert;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all, ready};
use http::{Response, StatusCode, header};
use serde_json::Value;
use tokio::time::Instant;
use windlass_builtins::openapi::{custom::Parts, group_version_path};
use windlass_schema::sorting::Gather as _;

use super::{Aggregation, Entry, availability::aggregator, link::Link, proxy::Forwarded};
use crate::{blocking, body::Body, represent, server::Inner, user::User};

/// The time limit of a request for an index or a document.
const LIMIT: Duration = Duration::from_secs(5);
/// Time for which a document of version 2 is kept.
const KEPT: Duration = Duration::from_secs(60);
/// The schemas that all servers have in common.
const SHARED: [&str; 2] = ["io.k8s.apimachinery.", "io.k8s.api."];
const REFERENCE: &str = "#/definitions/";

/// The document of version 3 about a group version.
pub(super) struct GroupVersionDocument {
    /// Its address.
    address: String,
    /// The document, if it was converted because the other server has none of version 3.
    converted: Option<Bytes>,
}

/// Finds the document of version 3 of the other server, or converts that of version 2; `None` if it has neither.
pub(super) async fn find(server: &Arc<Inner>, entry: &Entry, link: &Link) -> Option<GroupVersionDocument> {
    let get = |path| {
        let accept = [(header::ACCEPT, "application/json")];
        async move { link.get(&server.aggregation, path, &aggregator(), &accept, LIMIT).await.ok() }
    };
    let index = get("/openapi/v3").await?;
    let path = group_version_path(&entry.group, &entry.version);
    if index.status != StatusCode::NOT_FOUND {
        let index: Value = serde_json::from_slice(&index.body).ok().filter(|_| index.status.is_success())?;
        let address = index["paths"][path]["serverRelativeURL"].as_str()?.to_owned();
        return Some(GroupVersionDocument { address, converted: None });
    }
    let old = get("/openapi/v2").await?;
    let document: Value = serde_json::from_slice(&old.body).ok().filter(|_| old.status.is_success())?;
    let mut hasher = DefaultHasher::new();
    old.body.hash(&mut hasher);
    let address = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
    let converted = blocking::run(|| convert::to_v3(&document).to_string());
    Some(GroupVersionDocument { address, converted: Some(converted.into()) })
}

impl Entry {
    /// Handles a request for the document of version 3: with the converted one, or by forwarding the request.
    pub(crate) fn document<'a>(
        &'a self,
        server: &'a Arc<Inner>,
        request: Forwarded<'a>,
    ) -> BoxFuture<'a, Response<Body>> {
        let found = self.link.as_ref().and_then(|link| link.openapi.load_full());
        let Some(converted) = found.and_then(|document| document.converted.clone()) else {
            return Box::pin(self.forward(server, request));
        };
        let response = represent::bytes(StatusCode::OK, "application/json", converted);
        Box::pin(ready(represent::compressed(&request.parts.headers, response)))
    }
}

/// The part of a server's document of version 2 that describes its group version.
#[derive(Default)]
pub(super) struct KeptParts {
    read: Option<Instant>,
    fingerprint: u64,
    parts: Arc<Parts>,
}

/// The documents of other servers.
#[derive(Default)]
pub(crate) struct RemoteDocuments {
    /// The documents of version 3: their places in the index, and their addresses.
    addresses: Vec<(String, String)>,
    /// The parts of the document of version 2, with a fingerprint.
    parts: Vec<Arc<Parts>>,
    pub(crate) fingerprint: u64,
}

impl RemoteDocuments {
    /// Returns the addresses of the documents of version 3.
    pub(crate) fn indexed(aggregation: &Aggregation) -> Self {
        let routes = aggregation.routes();
        let documents = routes.remotes().filter_map(|entry| {
            let document = entry.link.as_ref()?.openapi.load_full()?;
            Some((group_version_path(&entry.group, &entry.version), document.address.clone()))
        });
        Self { addresses: documents.collect(), ..Self::default() }
    }

    /// Reads the documents of version 2 of the servers that are available.
    pub(crate) async fn read(server: &Arc<Inner>) -> Self {
        let routes = server.aggregation.routes();
        let available = routes.remotes().filter(|entry| entry.available);
        let kept =
            join_all(available.map(|entry| async move { read(server, entry, entry.link.as_ref()?).await })).await;
        let mut hasher = DefaultHasher::new();
        let mut parts = Vec::new();
        for (fingerprint, part) in kept.into_iter().flatten() {
            fingerprint.hash(&mut hasher);
            parts.push(part);
        }
        let fingerprint = if parts.is_empty() { 0 } else { hasher.finish() };
        Self { parts, fingerprint, ..Self::default() }
    }

    /// Returns the OpenAPI v3 documents: their positions in the index, and their URLs.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.addresses.iter().map(|(path, address)| (path.as_str(), address.as_str()))
    }

    /// Adds the parts of the documents of version 2.
    pub(crate) fn add_to(&self, own: &mut Parts) {
        for parts in &self.parts {
            merge(own, parts);
        }
    }
}

/// Returns the part of a server's document of version 2, and its fingerprint.
async fn read(server: &Arc<Inner>, entry: &Entry, link: &Link) -> Option<(u64, Arc<Parts>)> {
    let now = Instant::now();
    {
        let kept = link.document.lock();
        if kept.read.is_some_and(|read| now < read + KEPT) {
            return Some((kept.fingerprint, kept.parts.clone()));
        }
    }
    let accept = [(header::ACCEPT, "application/json")];
    let document = link.get(&server.aggregation, "/openapi/v2", &User::aggregator(), &accept, LIMIT).await.ok()?;
    let parsed: Value = serde_json::from_slice(&document.body).ok().filter(|_| document.status.is_success())?;
    let mut hasher = DefaultHasher::new();
    document.body.hash(&mut hasher);
    let fresh =
        KeptParts { read: Some(now), fingerprint: hasher.finish(), parts: Arc::new(own_part(&parsed, &entry.path())) };
    let answer = (fresh.fingerprint, fresh.parts.clone());
    *link.document.lock() = fresh;
    Some(answer)
}

/// Returns the paths below a group version, and the schemas that they use.
fn own_part(document: &Value, group_version: &str) -> Parts {
    let empty = serde_json::Map::new();
    let field = |name: &str| document[name].as_object().unwrap_or(&empty);
    let below = |path: &str| {
        let rest = path.strip_prefix(group_version);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let paths = field("paths").iter().filter(|(path, _)| below(path));
    let mut parts =
        Parts { paths: paths.map(|(path, item)| (path.clone(), item.clone())).gather(), ..Parts::default() };
    let mut wanted = BTreeSet::new();
    parts.paths.values().for_each(|item| references(item, &mut wanted));
    while let Some(name) = wanted.pop_first() {
        let is_shared = SHARED.iter().any(|prefix| name.starts_with(prefix));
        if is_shared || parts.definitions.contains_key(&name) {
            continue;
        }
        if let Some(schema) = field("definitions").get(&name) {
            references(schema, &mut wanted);
            parts.definitions.insert(name, schema.clone());
        }
    }
    parts
}

/// Collects the names of the schemas that a value refers to.
fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(REFERENCE))
            {
                into.insert(name.to_owned());
            }
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// Merges parts. A schema that differs from another one with the same name is renamed.
fn merge(own: &mut Parts, other: &Parts) {
    let taken = |name: &str, schema: &Value| own.definitions.get(name).is_some_and(|known| known != schema);
    let mut renamed = Vec::new();
    for (name, schema) in other.definitions.iter().filter(|(name, schema)| taken(name, schema)) {
        let free = (2..).map(|number| format!("{name}_v{number}")).find(|free| !taken(free, schema));
        renamed.extend(free.map(|free| (name.as_str(), free)));
    }
    let new_name = |name: &str| renamed.iter().find(|(old, _)| *old == name).map(|(_, new)| new.clone());
    for (path, item) in &other.paths {
        let mut item = item.clone();
        rename(&mut item, &new_name);
        own.paths.insert(path.clone(), item);
    }
    for (name, schema) in &other.definitions {
        let mut schema = schema.clone();
        rename(&mut schema, &new_name);
        own.definitions.insert(new_name(name).unwrap_or_else(|| name.clone()), schema);
    }
}

/// Changes references to renamed schemas.
fn rename(value: &mut Value, new_name: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let referred = value.as_str().filter(|_| key == "$ref").and_then(|text| text.strip_prefix(REFERENCE));
                match referred.map(new_name) {
                    Some(Some(name)) => *value = format!("{REFERENCE}{name}").into(),
                    Some(None) => {}
                    None => rename(value, new_name),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, new_name)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(schema: &str) -> Value {
        json!({"get": {"responses": {"200": {"schema": {"$ref": format!("{REFERENCE}{schema}")}}}}})
    }

    #[test]
    fn only_the_paths_of_the_group_version_and_their_schemas_are_taken() {
        let document = json!({
            "paths": {"/apis/a.com/v1/things": item("Thing"), "/apis/a.com/v1beta1/things": item("Old"), "/version/": item("Info")},
            "definitions": {
                "Thing": {"properties": {"part": {"$ref": "#/definitions/Part"}, "meta": {"$ref": "#/definitions/io.k8s.apimachinery.Meta"}}},
                "Part": {"properties": {"thing": {"$ref": "#/definitions/Thing"}}},
                "Old": {}, "Info": {}, "io.k8s.apimachinery.Meta": {},
            },
        });
        let parts = own_part(&document, "/apis/a.com/v1");
        assert_eq!(parts.paths.keys().collect::<Vec<_>>(), ["/apis/a.com/v1/things"]);
        assert_eq!(parts.definitions.keys().collect::<Vec<_>>(), ["Part", "Thing"]);
    }

    #[test]
    fn conflicting_schemas_are_renamed_with_their_references() {
        let parts = |path: &str, schema: Value| Parts {
            paths: [(path.to_owned(), item("Thing"))].into_iter().collect(),
            definitions: [("Thing".to_owned(), schema)].into_iter().collect(),
        };
        let mut own = parts("/a", json!({"type": "object"}));
        merge(&mut own, &parts("/b", json!({"type": "object"})));
        assert_eq!(own.definitions.len(), 1, "equal schemas are one");
        merge(&mut own, &parts("/c", json!({"type": "string"})));
        merge(&mut own, &parts("/d", json!({"type": "number"})));
        let names: Vec<_> = own.definitions.keys().collect();
        assert_eq!(names, ["Thing", "Thing_v2", "Thing_v3"]);
        assert_eq!(
            (&own.paths["/b"], &own.paths["/c"], &own.paths["/d"]),
            (&item("Thing"), &item("Thing_v2"), &item("Thing_v3"))
        );
    }
}
