//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, controller, webhook};

/// The operator. Its flags, probes, metrics and manifests come with it: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("guestbook")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::guestbook::v1::Guestbook>()
        .controller(controller::guestbook::controller())
        .webhook(webhook::guestbook::webhook())
}
