//! `/openapi/v2` and `/openapi/v3`, made when first asked for and kept as bytes.

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use parking_lot::Mutex;
use windlass_builtins::openapi::{group_version_path, hash, v2_protobuf, v2_text, v3_index, v3_text};

use crate::{
    body::Body,
    registry::Registry,
    represent,
    status::{ApiError, Result},
};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The documents made so far.
#[derive(Default)]
pub(crate) struct OpenApi {
    documents: Mutex<HashMap<String, Bytes>>,
}

impl OpenApi {
    pub(crate) fn answer(&self, registry: &Registry, path: &str, headers: &HeaderMap) -> Result<Response<Body>> {
        let response = match path {
            "/openapi/v2" if wants_protobuf(headers) => {
                let body = self.document("/openapi/v2+protobuf", || Some(v2_protobuf(registry.table)));
                represent::bytes(StatusCode::OK, V2_PROTOBUF, body.unwrap_or_default())
            }
            "/openapi/v2" => {
                let body = self.document(path, || Some(v2_text(registry.table)));
                represent::bytes(StatusCode::OK, "application/json", body.unwrap_or_default())
            }
            "/openapi/v3" => {
                let documents: Vec<(String, String)> = group_versions(registry).collect();
                let index = v3_index(documents.iter().map(|(path, hash)| (path.as_str(), hash.as_str())));
                represent::bytes(StatusCode::OK, "text/plain; charset=utf-8", index.to_string().into())
            }
            _ => {
                let (group, version) = group_version(path).ok_or_else(ApiError::page_not_found)?;
                let make = || v3_text(group, version, registry.table);
                match self.document(path, make) {
                    Some(body) => represent::bytes(StatusCode::OK, "application/json", body),
                    None => {
                        let mut response = Response::new(Body::empty());
                        *response.status_mut() = StatusCode::NOT_FOUND;
                        response
                    }
                }
            }
        };
        Ok(represent::compressed(headers, response))
    }

    fn document(&self, path: &str, make: impl FnOnce() -> Option<Vec<u8>>) -> Option<Bytes> {
        let mut documents = self.documents.lock();
        if let Some(document) = documents.get(path) {
            return Some(document.clone());
        }
        let document = Bytes::from(make()?);
        documents.insert(path.to_owned(), document.clone());
        Some(document)
    }
}

/// The group versions with the hash of their documents. The documents follow from the table alone, so its bytes stand for
/// theirs.
fn group_versions(registry: &Registry) -> impl Iterator<Item = (String, String)> {
    let hash = hash(windlass_builtins::table::file());
    registry.groups().flat_map(move |group| {
        let hash = hash.clone();
        group.versions.iter().map(move |version| (group_version_path(&group.name, version), hash.clone()))
    })
}

/// The group and version of `/openapi/v3/api/v1` or `/openapi/v3/apis/apps/v1`.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/openapi/v3/")?;
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => Some(("", version)),
        ["apis", group, version] => Some((group, version)),
        _ => None,
    }
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').next().is_some_and(|first| first.contains("proto-openapi.spec.v2"))
}
