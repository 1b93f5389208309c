//! The request in an AdmissionReview, except for the objects.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use super::super::review::user_info;
use crate::{
    admission::Operation,
    call::Call,
    endpoint::Endpoint,
    options::{DeleteOptions, WriteOptions},
};

/// A request that webhooks are called for.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) operation: Operation,
    /// The name in the request; empty if there is none yet.
    pub(crate) name: &'a str,
    pub(crate) options: Options<'a>,
}

/// The options of a request.
#[derive(Clone, Copy)]
pub(crate) enum Options<'a> {
    /// The options of a create or update; a patch is one of the two.
    Write(&'a WriteOptions),
    /// The options of a delete.
    Delete(&'a DeleteOptions),
    /// A connection has no options.
    Connect,
}

impl Subject<'_> {
    /// Returns whether this is a dry run, which stores nothing.
    pub(crate) fn is_dry_run(&self) -> bool {
        match self.options {
            Options::Write(options) => options.dry_run,
            Options::Delete(options) => options.dry_run,
            Options::Connect => false,
        }
    }
}

/// Returns the request for a webhook that is called in the version of `endpoint`, without the objects.
pub(crate) fn request(call: &Call<'_>, subject: &Subject<'_>, endpoint: &Endpoint) -> Value {
    let (api_version, kind) = call.body_kind();
    let own = call.is_own_kind();
    let kind_in = |endpoint: &Endpoint| match own {
        true => group_version(&endpoint.resource.api_version(), "kind", kind),
        false => group_version(&api_version, "kind", kind),
    };
    let resource_in =
        |endpoint: &Endpoint| group_version(&endpoint.resource.api_version(), "resource", &endpoint.resource.plural);
    let mut request = json!({
        "kind": kind_in(endpoint), "resource": resource_in(endpoint),
        "requestKind": kind_in(call.endpoint), "requestResource": resource_in(call.endpoint),
        "operation": subject.operation.name(), "userInfo": user_info(call.user),
        "dryRun": subject.is_dry_run(), "options": options(call, subject),
    });
    let subresource = call.target.subresource;
    let optional = [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", subject.name),
        ("namespace", call.target.namespace),
    ];
    for (field, text) in optional.into_iter().filter(|(_, text)| !text.is_empty()) {
        request[field] = text.into();
    }
    request
}

fn options(call: &Call<'_>, subject: &Subject<'_>) -> Value {
    let mut options = Map::new();
    let mut set = |field: &str, value: Value| options.insert(field.to_owned(), value);
    set("apiVersion", "meta.k8s.io/v1".into());
    if subject.is_dry_run() {
        set("dryRun", json!(["All"]));
    }
    match subject.options {
        Options::Connect => return Value::Null,
        Options::Write(given) => {
            let create = subject.operation == Operation::Create;
            set("kind", if create { "CreateOptions" } else { "UpdateOptions" }.into());
            for (field, text) in
                [("fieldManager", &*given.field_manager), ("fieldValidation", call.query.text("fieldValidation"))]
            {
                if !text.is_empty() {
                    set(field, text.into());
                }
            }
        }
        Options::Delete(given) => {
            set("kind", "DeleteOptions".into());
            let optional = [
                ("gracePeriodSeconds", given.grace_period.map(Value::from)),
                ("orphanDependents", given.orphan_dependents.map(Value::from)),
                ("propagationPolicy", given.propagation.clone().map(Value::from)),
            ];
            for (field, value) in optional {
                value.map(|value| set(field, value));
            }
            let wanted = [("uid", &given.uid), ("resourceVersion", &given.resource_version)];
            let wanted =
                wanted.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value.clone()?.into())));
            let wanted: Map<String, Value> = wanted.gather();
            if !wanted.is_empty() {
                set("preconditions", wanted.into());
            }
        }
    }
    options.into()
}

/// `{"group": ..., "version": ..., "kind": ...}`
fn group_version(api_version: &str, field: &str, value: &str) -> Value {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    json!({"group": group, "version": version, field: value})
}
