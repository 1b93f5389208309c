//! The operator: its CRDs, controllers and webhooks.

use windlass::prelude::*;

use crate::{api, backend::Backend, controller};

/// Builds the operator. Flags, probes, metrics and manifests are included: see `cargo run -- --help`.
pub fn operator(backend: impl Backend) -> Operator {
    Operator::new("network-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::network::v1::Network>()
        .controller(controller::network::controller(backend))
}
