//! Decodes the options of a delete.

use http::header::CONTENT_TYPE;
use serde_json::Value;
use windlass_builtins::protobuf;
use windlass_schema::{decode, go_format::json_type, json, yaml};

use super::{given, legacy_scheme};
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
    decode::type_meta(&body).map_err(|error| bad(format!("couldn't get version/kind; json parse error: {error}")))?;
    let (kind, version) = (given(&body, "kind"), given(&body, "apiVersion").unwrap_or_default());
    if let Some(kind) = kind.filter(|kind| *kind != "DeleteOptions") {
        let scheme = match call.endpoint.custom() {
            Some(_) => "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27",
            None => legacy_scheme(call),
        };
        return Err(bad(format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\"")));
    }
    check_types(&body).map_err(bad)?;
    if let Some(audit) = call.audit {
        // The apiVersion is the one that kube-apiserver records.
        let mut recorded = body.clone();
        recorded["kind"] = "DeleteOptions".into();
        recorded["apiVersion"] = "meta.k8s.io/__internal".into();
        audit.request_object(&recorded);
    }
    DeleteOptions::from_body(&body)
}

/// A field of `DeleteOptions`: its path, its type in Go, and the check of a value.
type Field = (&'static str, &'static str, fn(&Value) -> bool);

/// Rejects fields of other types than those of `DeleteOptions`, so that no option is lost.
fn check_types(body: &Value) -> Result<(), String> {
    let fields: [Field; 8] = [
        ("gracePeriodSeconds", "int64", Value::is_i64),
        ("preconditions", "v1.Preconditions", Value::is_object),
        ("preconditions.uid", "types.UID", Value::is_string),
        ("preconditions.resourceVersion", "string", Value::is_string),
        ("orphanDependents", "bool", Value::is_boolean),
        ("propagationPolicy", "v1.DeletionPropagation", Value::is_string),
        ("dryRun", "[]string", Value::is_array),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "bool", Value::is_boolean),
    ];
    for (field, go_type, fits) in fields {
        let Some(value) = body.pointer(&format!("/{}", field.replace('.', "/"))) else { continue };
        if value.is_null() || fits(value) {
            continue;
        }
        let given = go_name(value, go_type);
        let owner = if field.contains('.') { "Preconditions" } else { "DeleteOptions" };
        return Err(format!("json: cannot unmarshal {given} into Go struct field {owner}.{field} of type {go_type}"));
    }
    let mut values = body["dryRun"].as_array().into_iter().flatten();
    match values.find(|value| !value.is_string() && !value.is_null()) {
        None => Ok(()),
        Some(value) => {
            let given = go_name(value, "string");
            Err(format!("json: cannot unmarshal {given} into Go struct field DeleteOptions.dryRun of type string"))
        }
    }
}

/// Returns the name of a value's JSON type as in the errors of Go's decoder.
fn go_name(value: &Value, expected: &str) -> String {
    match value {
        Value::Number(number) if expected == "int64" => format!("number {number}"),
        value => json_type(value).to_owned(),
    }
}
