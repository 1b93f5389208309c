//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, controller};

/// Returns the operator. It brings its flags, probes, metrics and manifests: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("guestbook-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::guestbook::v1::Guestbook>()
        .controller(controller::guestbook::controller())
}
