//! AlwaysPullImages: images are pulled for every pod, so that their credentials are checked.

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;

use super::{Admission, Attributes, Operation};
use crate::status::{ApiError, Result};

pub(crate) struct AlwaysPullImages;

#[async_trait]
impl Admission for AlwaysPullImages {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if concerns(write, object) {
            admission::always_pull(object);
        }
        Ok(())
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if !concerns(write, object) {
            return Ok(());
        }
        let errors = admission::other_pull_policies(object);
        let errors: Vec<_> = errors.iter().map(|error| write.forbidden(object, &error.to_string()).message).collect();
        match errors.as_slice() {
            [] => Ok(()),
            // kube-apiserver does not expect these errors either.
            [one] => Err(ApiError::unexpected(one)),
            all => Err(ApiError::unexpected(format!("[{}]", all.join(", ")))),
        }
    }
}

fn concerns(write: &Attributes<'_>, object: &Value) -> bool {
    let has_new_image = match write.operation {
        Operation::Create => true,
        Operation::Update => write.old.is_none_or(|old| admission::has_new_image(object, old)),
        Operation::Delete | Operation::Connect => false,
    };
    write.is_pod() && has_new_image
}
