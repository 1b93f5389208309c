//! `/openapi/v2` and `/openapi/v3`: built on the first request and kept as bytes until a CustomResourceDefinition
//! changes. Descriptions are inflated while a document is built.

mod document;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use jiff::{ToSpan as _, tz::TimeZone};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_builtins::openapi::{
    Descriptions, Sources,
    custom::{self, CustomSubject, Parts},
    group_version_path, v3_index, v3_text,
};

use self::document::Document;
use crate::{
    aggregation::RemoteDocuments,
    body::Body,
    entity_tag::EntityTag,
    negotiate, old_definitions,
    query::Query,
    registry::{Endpoint, Registry},
    represent,
    status::{ApiError, Result},
    storage::StoredObject,
};

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Another name of the same type.
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The size in memory above which documents are not kept but built for every request: with very many CRDs, the document
/// of version 2 would take more memory than all CRDs together.
const KEEP_BELOW: usize = 4 << 20;

/// The documents built so far, each with the fingerprint of its sources.
#[derive(Default)]
pub(crate) struct OpenApi {
    documents: Mutex<HashMap<String, (u64, Document)>>,
    /// Held while a document is built: with very many CRDs one takes much memory, several at once too much.
    making: Mutex<()>,
}

impl OpenApi {
    pub(crate) fn answer(
        &self,
        registry: &Registry,
        remote: &RemoteDocuments,
        only: Option<&[String]>,
        path: &str,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Result<Response<Body>> {
        let response = match path {
            "/openapi/v2" => match negotiate::preferred(headers, &[JSON, V2_PROTOBUF_OLD, V2_PROTOBUF]) {
                None => return Ok(not_acceptable()),
                Some(JSON) => {
                    let make = |sources: Sources<'_>| custom::v2_text(v2_parts(registry, remote, sources), sources);
                    let make = || described(registry, make);
                    let document = self.document(path, registry.generation ^ remote.fingerprint, make);
                    tagged(headers, JSON, &document.tag, &document)
                }
                Some(_) => {
                    let make = |sources: Sources<'_>| custom::v2_protobuf(v2_parts(registry, remote, sources), sources);
                    let make = || described(registry, make);
                    let fingerprint = registry.generation ^ remote.fingerprint;
                    let document = self.document("/openapi/v2+protobuf", fingerprint, make);
                    tagged(headers, V2_PROTOBUF, &document.tag, &document)
                }
            },
            "/openapi/v3" => {
                let documents: Vec<(String, String)> = group_versions(registry, only).collect();
                let mut index = v3_index(documents.iter().map(|(path, hash)| (path.as_str(), hash.as_str())));
                for (path, address) in remote.addresses() {
                    index["paths"][path] = json!({"serverRelativeURL": address});
                }
                let index = index.to_string().into();
                represent::compressed(headers, represent::bytes(StatusCode::OK, "text/plain; charset=utf-8", index))
            }
            _ => {
                let (group, version) = group_version(path).ok_or_else(ApiError::page_not_found)?;
                if !registry.has_version(group, version) {
                    self.documents.lock().remove(path);
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::NOT_FOUND;
                    return Ok(response);
                }
                if negotiate::preferred(headers, &[JSON]).is_none() {
                    return Ok(not_acceptable());
                }
                let tag = tag(registry, group, version);
                let query = Query::parse(uri.query());
                let asked = Some(query.text("hash")).filter(|hash| !hash.is_empty());
                if asked.is_some_and(|hash| hash != tag.hash()) {
                    return Ok(moved(path, &tag));
                }
                let document = if tag.is_known(headers) {
                    Document::new(Vec::new())
                } else if old_definitions::is_version(group, version) {
                    Document::new(old_definitions::openapi().to_string().into())
                } else if registry.has_builtin_version(group, version) {
                    let make = |sources: Sources<'_>| v3_text(group, version, sources).unwrap_or_default();
                    self.document(path, 0, || described(registry, make))
                } else {
                    let make = |sources: Sources<'_>| v3_custom(registry, group, version, sources);
                    self.document(path, fingerprint(registry, group, version), || described(registry, make))
                };
                let mut response = tagged(headers, JSON, &tag, &document);
                if asked.is_some() {
                    keep_for_ever(response.headers_mut());
                }
                response
            }
        };
        Ok(response)
    }

    /// Drops the documents that CustomResourceDefinitions have changed since: they are never requested again, or built
    /// again when they are.
    pub(crate) fn forget_outdated(&self, registry: &Registry) {
        self.documents.lock().retain(|path, (made_of, _)| match group_version(path) {
            Some((group, version)) if registry.has_builtin_version(group, version) => true,
            Some((group, version)) => *made_of == fingerprint(registry, group, version),
            // Version 2 describes all of them.
            None => false,
        });
    }

    /// Returns a document; it is built unless the one in memory has the same fingerprint.
    fn document(&self, path: &str, fingerprint: u64, make: impl FnOnce() -> Vec<u8>) -> Document {
        let known = || {
            let documents = self.documents.lock();
            documents.get(path).filter(|(made_of, _)| *made_of == fingerprint).map(|(_, document)| document.clone())
        };
        if let Some(document) = known() {
            return document;
        }
        let _alone = self.making.lock();
        if let Some(document) = known() {
            return document;
        }
        let document = Document::new(make());
        if document.size() < KEEP_BELOW {
            self.documents.lock().insert(path.to_owned(), (fingerprint, document.clone()));
        }
        document
    }
}

/// Returns a document, unless the client has it already.
fn tagged(headers: &HeaderMap, media_type: &'static str, tag: &EntityTag, document: &Document) -> Response<Body> {
    if tag.is_known(headers) {
        return tag.not_modified();
    }
    document.response(headers, media_type, tag)
}

/// 406, without a body.
fn not_acceptable() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Redirects a client that asks for another state of a document to the current one.
fn moved(path: &str, tag: &EntityTag) -> Response<Body> {
    let mut response = represent::bytes(StatusCode::MOVED_PERMANENTLY, JSON, Bytes::new());
    tag.add_to(response.headers_mut());
    // Group and version are those of an endpoint, so the path is a header value.
    if let Ok(location) = HeaderValue::try_from(format!("{path}?hash={}", tag.hash())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Lets clients cache a response for the requested hash.
fn keep_for_ever(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    let expires = windlass_clock::now().to_zoned(TimeZone::UTC).checked_add(1.year());
    let expires = expires.map(|time| time.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
    if let Some(expires) = expires.ok().and_then(|time| HeaderValue::try_from(time).ok()) {
        headers.insert(header::EXPIRES, expires);
    }
}

/// The descriptions of Kubernetes, inflated.
struct Described(windlass_descriptions::Descriptions);

impl Descriptions for Described {
    fn schema(&self, name: &str) -> Option<&str> {
        self.0.schema(name)
    }

    fn property(&self, schema: &str, property: &str) -> Option<&str> {
        self.0.property(schema, property)
    }
}

/// Builds a document; the descriptions are in memory only meanwhile.
fn described(registry: &Registry, make: impl FnOnce(Sources<'_>) -> Vec<u8>) -> Vec<u8> {
    let descriptions = Described(windlass_descriptions::Descriptions::inflate());
    make(Sources { table: registry.table, descriptions: &descriptions })
}

/// Returns the document of a group version of custom resources.
fn v3_custom(registry: &Registry, group: &str, version: &str, sources: Sources<'_>) -> Vec<u8> {
    let definitions = definitions(registry.custom_endpoints(group, version).map(|endpoint| &**endpoint));
    let subjects = subjects(&definitions);
    custom::v3_document(group, version, &subjects, sources).to_string().into_bytes()
}

/// Returns the parts that custom resources and other servers add to the document of version 2.
fn v2_parts(registry: &Registry, remote: &RemoteDocuments, sources: Sources<'_>) -> Parts {
    let endpoints = registry.custom_versions().flat_map(|(group, version)| registry.custom_endpoints(group, version));
    let definitions = definitions(endpoints.map(|endpoint| &**endpoint));
    let subjects = subjects(&definitions);
    let mut parts = custom::v2_parts(&subjects, sources);
    remote.add_to(&mut parts);
    parts
}

/// Returns the CRDs of endpoints with their versions. Each is parsed once, though it may have thousands of versions.
fn definitions<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Vec<PublishedDefinition<'a>> {
    let mut places: HashMap<*const StoredObject, usize> = HashMap::new();
    let mut definitions: Vec<PublishedDefinition<'a>> = Vec::new();
    for endpoint in endpoints {
        let Some(custom) = endpoint.custom() else { continue };
        let place = *places.entry(Arc::as_ptr(custom.source())).or_insert_with(|| {
            let (object, read_only) = (custom.source().to_value(), custom.computed.is_some());
            definitions.push(PublishedDefinition { object, versions: Vec::new(), read_only });
            definitions.len() - 1
        });
        definitions[place].versions.push(&endpoint.resource.version);
    }
    definitions
}

/// A CRD, and the versions of it that are published.
struct PublishedDefinition<'a> {
    object: Value,
    versions: Vec<&'a str>,
    /// Whether its objects are computed.
    read_only: bool,
}

/// Returns the published parts of CRDs.
fn subjects<'a>(definitions: &'a [PublishedDefinition<'_>]) -> Vec<CustomSubject<'a>> {
    let of = |definition: &'a PublishedDefinition<'_>| {
        let PublishedDefinition { object, versions, read_only } = definition;
        let subjects = versions.iter().filter_map(move |version| CustomSubject::of_definition(object, version));
        subjects.map(move |subject| CustomSubject { read_only: *read_only, ..subject })
    };
    definitions.iter().flat_map(of).collect()
}

/// Returns a fingerprint that changes with the sources of a group version's document.
fn fingerprint(registry: &Registry, group: &str, version: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for custom in registry.custom_endpoints(group, version).filter_map(|endpoint| endpoint.custom()) {
        let source = custom.source();
        (&*source.header.uid, source.revision.0).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the tag of a group version's document. Documents of built-in kinds depend on the tables, the descriptions
/// and which resources are served, so these are hashed instead; documents of custom resources depend on their CRDs.
fn tag(registry: &Registry, group: &str, version: &str) -> EntityTag {
    static FILES: OnceLock<EntityTag> = OnceLock::new();
    if !registry.has_builtin_version(group, version) {
        return EntityTag::of(&fingerprint(registry, group, version).to_be_bytes());
    }
    let files = FILES.get_or_init(|| {
        let tables = [windlass_builtins::table::file(), windlass_builtins::table::unstable_file()];
        EntityTag::of(&[tables[0], tables[1], windlass_descriptions::file()].concat())
    });
    let served = registry.resources(group, version).into_iter().map(|resource| &*resource.plural);
    EntityTag::of([files.hash()].into_iter().chain(served).collect::<Vec<_>>().join("/").as_bytes())
}

/// Returns the group versions with the hashes of their documents.
fn group_versions(registry: &Registry, only: Option<&[String]>) -> impl Iterator<Item = (String, String)> {
    let is_shown = move |name: &str| only.is_none_or(|only| only.iter().any(|group| group == name));
    registry.groups().filter(move |group| is_shown(&group.name)).flat_map(move |group| {
        group.versions.iter().map(move |version| {
            let tag = tag(registry, &group.name, version);
            (group_version_path(&group.name, version), tag.hash().to_owned())
        })
    })
}

/// Parses `/openapi/v3/api/v1` or `/openapi/v3/apis/apps/v1` into group and version.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/openapi/v3/")?;
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => Some(("", version)),
        ["apis", group, version] => Some((group, version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    #[tokio::test]
    async fn documents_that_definitions_have_changed_are_forgotten() {
        let storage = Storage::open(Arc::new(windlass_store::memory::MemoryStore::new())).await.unwrap();
        let registry = Registry::builtin(windlass_builtins::table(), &storage);
        let openapi = OpenApi::default();
        for path in
            ["/openapi/v2", "/openapi/v2+protobuf", "/openapi/v3/apis/gone.example.com/v1", "/openapi/v3/apis/apps/v1"]
        {
            openapi.document(path, 0, || b"{}".to_vec());
        }
        openapi.forget_outdated(&registry);
        assert_eq!(openapi.documents.lock().keys().collect::<Vec<_>>(), ["/openapi/v3/apis/apps/v1"]);
    }
}
