//! Decodes the options of a delete.

use http::header::CONTENT_TYPE;
use windlass_builtins::protobuf;
use windlass_schema::{json, yaml};

use super::given;
use crate::{
    call::Call,
    negotiate::{self, Media},
    options::DeleteOptions,
    status::{ApiError, Result},
};

/// Returns the options of a delete: from the body if there is one, else from the query.
pub(crate) fn delete_options(call: &Call<'_>) -> Result<DeleteOptions> {
    if call.body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let bad = |why: String| ApiError::bad_request(why);
    let body = match negotiate::content_type(call.headers.get(CONTENT_TYPE))? {
        Media::Json => {
            json::parse(&call.body)
                .map_err(|error| bad(format!("couldn't get version/kind; json parse error: {error}")))?
                .value
        }
        Media::Yaml => yaml::parse(&call.body).map_err(|error| bad(error.to_string()))?.value,
        Media::Protobuf => {
            protobuf::decode(&call.body, call.endpoint.table).map_err(|error| bad(error.to_string()))?.value
        }
    };
    let (kind, version) = (given(&body, "kind"), given(&body, "apiVersion").unwrap_or_default());
    if let Some(kind) = kind.filter(|kind| *kind != "DeleteOptions") {
        return Err(bad(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    if let Some(audit) = call.audit {
        // The apiVersion is the one that kube-apiserver records.
        let mut recorded = body.clone();
        recorded["kind"] = "DeleteOptions".into();
        recorded["apiVersion"] = "meta.k8s.io/__internal".into();
        audit.request_object(&recorded);
    }
    DeleteOptions::from_body(&body)
}
