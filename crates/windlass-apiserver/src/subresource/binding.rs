//! Binds a pod to a node, as schedulers do.

use http::StatusCode;
use serde_json::Value;
use windlass_builtins::kinds::pod;

use crate::{
    admission::Operation,
    call::{Answer, Call},
    dynamic_admission, meta,
    options::{FieldValidation, WriteKind, WriteOptions},
    request_info::ResourceRequest,
    status::{ApiError, Result, aggregate},
    subresource::eviction::success,
    webhooks::{Options, Subject, name_of},
    write::{
        ManagedFieldsMode, OnConflict, decode::decode_body, preconditions::check_preconditions, run_plugins,
        update_object,
    },
};

/// Creates a Binding of a pod, or in the old collection of bindings.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let mut binding = decode_body(call, FieldValidation::Ignore)?;
    let name = name_of(call, &binding).to_owned();
    let subject = Subject { operation: Operation::Create, name: &name, options: Options::Write(&options) };
    run_plugins(call, &subject, &mut binding, None).await?;
    dynamic_admission::admit(call, &subject, &mut binding).await?;
    if call.subresource.is_some() && meta::text(&binding, "name") != call.target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let registry = call.server.registry.load_full();
    let endpoint = registry.endpoint("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
    // The binding is written to the pod, bypassing the rules for ordinary updates.
    let target = ResourceRequest { resource: "pods", name: &name, subresource: "binding", ..call.target.clone() };
    let pods = call.redirected(endpoint, target);
    let now = call.server.now();
    let written = update_object(&pods, &options, OnConflict::Retry, ManagedFieldsMode::AlreadySet, |old| {
        check_binding(&binding)?;
        check_preconditions(&pods, &binding, old)?;
        let mut object = old.clone();
        bind(&mut object, &binding, now)?;
        Ok(object)
    });
    written.await?;
    Ok(Answer::Value { code: StatusCode::CREATED, value: success(StatusCode::CREATED) })
}

fn check_binding(binding: &Value) -> Result<()> {
    let errors = pod::binding::validate(binding);
    // kube-apiserver does not expect this error either.
    if errors.is_empty() { Ok(()) } else { Err(ApiError::unexpected(aggregate(&errors))) }
}

fn bind(object: &mut Value, binding: &Value, now: jiff::Timestamp) -> Result<()> {
    let name = meta::text(object, "name").to_owned();
    pod::binding::bind(object, binding, now).map_err(|why| ApiError::conflict("pods/binding", "", &name, &why))
}
