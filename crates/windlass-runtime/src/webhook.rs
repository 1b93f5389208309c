//! Defaulting, validating and conversion webhooks.
//!
//! A [`Webhook`] holds typed handlers of one kind, a [`RawWebhook`] handlers of any kinds, a [`Conversion`] the versions of
//! one kind, and [`Webhooks`] all webhooks of a process. [`Webhooks::bind`] turns them into a [`WebhookServer`], which responds to `AdmissionReview`
//! and `ConversionReview` (v1 and v1beta1) at the paths that controller-runtime uses:
//! `/mutate-<group>-<version>-<kind>`, `/validate-…` and `/convert`.
//!
//! Guarantees:
//!
//! - A defaulting handler responds with a patch of what it changed, never of fields that its Rust type does not know.
//! - No request panics the server: anything but a review gets a 400. A handler that panics rejects its request.
//! - Certificates are replaced without dropping a connection, and an invalid one never replaces a valid one.
//! - Private keys are neither logged nor written to disk.
//!
//! There is no macro for versions of a type: a version is a struct, and a conversion is two `From` implementations. A
//! macro could hide these only while versions differ by renamed fields.

mod admission;
mod calls;
mod certificates;
mod conversion;
mod denied;
mod describe;
mod go_duration;
mod http;
mod memory;
mod metrics;
mod patch;
mod raw;
mod registry;
mod request;
mod review;
mod server;

pub use admission::{Defaulter, Validator, Webhook};
pub use calls::{
    CallOptions, FailurePolicy, MatchCondition, MatchPolicy, ReinvocationPolicy, Rule, RuleScope, SideEffects,
};
pub(crate) use certificates::{CaBundleTarget, Watcher, permissions, provider, secret_of};
pub use certificates::{CertResolver, CertificateError, CertificateFiles, Certificates, SelfSigned, SelfSignedError};
pub use conversion::Conversion;
pub use denied::{Answer, Denied, Warnings};
pub use describe::{Description, Endpoint};
pub(crate) use metrics::CertificateMetrics;
pub use raw::{RawRequest, RawWebhook};
pub use registry::Webhooks;
pub use request::{Operation, Request};
pub use server::{ServeError, WebhookOptions, WebhookServer};
