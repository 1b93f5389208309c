//! Write Kubernetes aggregated API servers in Rust: types go in, a complete API server comes out.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass_extension::Extension;
//!
//! /// Desired state of a Flunder.
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "wardle.example.com", version = "v1alpha1", kind = "Flunder", namespaced)]
//! struct FlunderSpec {
//!     /// Name of another Flunder.
//!     reference: Option<String>,
//! }
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     Extension::new("wardle").kind::<Flunder>().main().await
//! }
//! ```
//!
//! A kind is everything that its CustomResourceDefinition says: schema, defaults, validation rules, subresources,
//! columns. The server validates, defaults, stores and watches its objects like the API server of Windlass does with
//! custom resources, because it is the same engine, and serves only the groups of its kinds. Objects are in memory, in
//! a file ([`Extension::store`]), or wherever an implementation of [`Store`](windlass_store::Store) keeps them. Objects
//! of a [computed kind](Extension::computed_kind) are stored nowhere: they are computed when they are read.
//!
//! Users are authenticated by the API server that forwards their requests, or by a TokenReview there; every request is
//! authorized by a SubjectAccessReview ([`delegated`]). [`manifests`] are the objects that register the server.

mod authorities;
pub mod certificates;
pub mod delegated;
mod extension;
pub mod kind;
pub mod manifests;
pub mod prelude;
mod program;
mod rule;

pub use self::{
    extension::{Extension, ExtensionError, RunningExtension},
    kind::Kind,
};
pub use windlass::webhook::Conversion;
pub use windlass_apiserver::{
    admission::{Admission, Attributes, ErrorList, FieldError, Objects, Operation, Path},
    computed::{ComputedKind, ComputedObjects, ComputedTable},
    status::{ApiError, Result},
};
