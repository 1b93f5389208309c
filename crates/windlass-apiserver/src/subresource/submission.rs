//! Admission of reviews, which are created without being stored. Webhooks and plugins see them as creates.

use serde_json::Value;

use crate::{
    admission::Operation,
    call::Call,
    options::{WriteKind, WriteOptions},
    status::Result,
    webhooks::{Options, Subject, name_of},
    write::{self, decode::decode_body, managed_fields, preconditions, validating_admission},
};

/// A review that a client has submitted, as mutating admission leaves it.
pub(super) struct Submission {
    pub(super) review: Value,
    options: WriteOptions,
    /// The name before mutating admission.
    name: String,
}

impl Submission {
    /// Decodes a review and runs mutating admission.
    pub(super) async fn receive(call: &Call<'_>) -> Result<Self> {
        let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
        let mut review = decode_body(call, options.field_validation)?;
        write::remove_system_fields(&mut review);
        preconditions::match_namespace(call, &mut review)?;
        managed_fields::track(call, &options, None, &mut review);
        let name = name_of(call, &review).to_owned();
        let subject = Subject { operation: Operation::Create, name: &name, options: Options::Write(&options) };
        write::mutate(call, &subject, &mut review, None).await?;
        Ok(Self { review, options, name })
    }

    /// Runs validating admission, which sees valid reviews only.
    pub(super) async fn admit(&self, call: &Call<'_>) -> Result<()> {
        let options = Options::Write(&self.options);
        let subject = Subject { operation: Operation::Create, name: &self.name, options };
        validating_admission::validate(call, &subject, &self.review, None).await
    }
}
