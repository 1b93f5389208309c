//! The operator: its CRDs, controllers and webhooks.

use windlass::prelude::*;

use crate::{api, controller};

/// Builds the operator. Flags, probes, metrics and manifests are included: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("vpc-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::vpc::v1::Vpc>()
        .controller(controller::vpc::controller())
}
