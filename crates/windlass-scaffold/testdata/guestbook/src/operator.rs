//! The operator: its CRDs, controllers and webhooks.

use windlass::prelude::*;

use crate::{api, controller, webhook};

/// Builds the operator. Flags, probes, metrics and manifests are included: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("guestbook")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::guestbook::v1::Guestbook>()
        .controller(controller::guestbook::controller())
        .webhook(webhook::guestbook::webhook())
}
