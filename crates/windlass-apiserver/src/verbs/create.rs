//! POST to a collection.

use http::StatusCode;

use crate::{
    call::{Answer, Call},
    options::{WriteKind, WriteOptions},
    status::Result,
    write::{ManagedFieldsMode, create_object, decode::decode_body},
};

/// Creates an object.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let object = call.run_blocking(|| decode_body(call, options.field_validation))?;
    let written = create_object(call, object, &options, ManagedFieldsMode::Track).await?;
    Ok(written.answer(StatusCode::CREATED))
}
