//! The operator: its CRDs, controllers and webhooks.

use windlass::prelude::*;

use crate::{api, controller};

/// Builds the operator. Flags, probes, metrics and manifests are included: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("pod2-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::pod2::v1alpha1::Pod2>()
        .controller(controller::pod2::controller())
}
