//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, controller};

/// Returns the operator. It brings its flags, probes, metrics and manifests: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("pod2-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::pod2::v1alpha1::Pod2>()
        .controller(controller::pod2::controller())
}
