//! Eviction: a deletion that asks first whether the pod may go.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    call::{Answer, Call},
    meta,
    options::{DeleteOptions, FieldValidation},
    status::{ApiError, Result},
    verbs::delete::delete_named,
};

/// POST of an Eviction.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let eviction = call.decode_body(FieldValidation::Ignore)?;
    let name = meta::text(&eviction, "name");
    if !name.is_empty() && name != call.target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::from_body(&eviction["deleteOptions"])?;
    let dry_run = options.dry_run || !call.query.all("dryRun").is_empty();
    let options = DeleteOptions { dry_run, ..options };
    delete_named(call, call.target.namespace, call.target.name, &options).await?;
    Ok(Answer::Value { code: StatusCode::CREATED, value: success(StatusCode::CREATED) })
}

/// A Status that says that all went well.
pub(crate) fn success(code: StatusCode) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16()})
}
