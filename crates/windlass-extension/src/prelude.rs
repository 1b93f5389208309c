//! Types that the code of an extension usually needs: `use windlass_extension::prelude::*;`.

pub use async_trait::async_trait;
pub use kube::{CustomResource, core::GroupVersionResource};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};

pub use crate::{
    Admission, ApiError, Attributes, Conversion, ErrorList, Extension, FieldError, Kind, Operation, Path, Result,
};
