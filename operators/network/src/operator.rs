//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, backend::Backend, controller};

/// Returns the operator. It brings its flags, probes, metrics and manifests: see `cargo run -- --help`.
pub fn operator(backend: impl Backend) -> Operator {
    Operator::new("network-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::network::v1::Network>()
        .controller(controller::network::controller(backend))
}
