//! Defaulting, validation and conversion over HTTPS.
//!
//! A [`Webhook`] holds typed handlers of one kind, a [`Conversion`] the versions of one; [`Webhooks`] are all of a
//! process. [`Webhooks::bind`] makes a [`WebhookServer`] of them, which answers `AdmissionReview` and
//! `ConversionReview` (v1 and v1beta1) at the paths that controller-runtime uses: `/mutate-<group>-<version>-<kind>`,
//! `/validate-…` and `/convert`.
//!
//! Promises:
//!
//! - A defaulting handler's answer is a patch of what it changed, never of what its Rust type does not know.
//! - Nothing that is sent panics the server: what is no review gets 400. A handler that panics refuses its request.
//! - Certificates are exchanged without dropping a connection, and a broken one never replaces a good one.
//! - Private keys are neither logged nor written to disk.
//!
//! There is no macro for versions of a type: a version is a struct and a conversion two `From`s, which a macro could
//! only hide as long as versions differ by renamed fields.

mod admission;
mod certificates;
mod conversion;
mod denied;
mod describe;
mod go_duration;
mod http;
mod memory;
mod metrics;
mod patch;
mod registry;
mod request;
mod review;
mod server;

pub use admission::{Defaulter, Validator, Webhook};
pub use certificates::{CertResolver, CertificateError, CertificateFiles, Certificates, SelfSigned, SelfSignedError};
pub(crate) use certificates::{Target, permissions, secret_of};
pub use conversion::Conversion;
pub use denied::{Answer, Denied, Warnings};
pub use describe::{Description, Endpoint, FailurePolicy, MatchCondition, SideEffects};
pub use registry::Webhooks;
pub use request::{Operation, Request};
pub use server::{ServeError, WebhookOptions, WebhookServer};
