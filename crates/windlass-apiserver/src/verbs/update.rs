//! PUT of an object.

use http::StatusCode;
use serde_json::Value;

use crate::{
    call::{Answer, Call},
    meta,
    options::{WriteKind, WriteOptions},
    status::Result,
    write::{
        ManagedFieldsMode, OnConflict, create_object,
        decode::decode_body,
        preconditions::{check_uid, match_name, match_namespace},
        update_object,
    },
};

/// Replaces an object, or the part of it that a subresource such as `status` is a view of.
pub(crate) async fn update(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Update)?;
    let mut object = decode_body(call, options.field_validation)?;
    match_namespace(call, &mut object)?;
    match_name(call, &object)?;
    if call.current().await?.is_none() && call.endpoint.facts.creates_on_update && call.subresource.is_none() {
        check_uid(call, &object, &Value::Null)?;
        // The version of an object that no longer exists.
        meta::metadata_mut(&mut object).remove("resourceVersion");
        let written = create_object(call, object, &options, ManagedFieldsMode::Track).await?;
        return Ok(written.answer(StatusCode::CREATED));
    }
    let stated = !matches!(meta::text(&object, "resourceVersion"), "" | "0");
    let on_conflict = if stated { OnConflict::Fail } else { OnConflict::Retry };
    let written = update_object(call, &options, on_conflict, ManagedFieldsMode::Track, |old| {
        check_uid(call, &object, old)?;
        Ok(object.clone())
    });
    Ok(written.await?.answer(StatusCode::OK))
}
