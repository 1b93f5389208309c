//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, controller};

/// Returns the operator. It brings its flags, probes, metrics and manifests: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("foo-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::foo::v1alpha1::Foo>()
        .controller(controller::foo::controller())
}
