//! The operator: everything it watches and serves.

use windlass::prelude::*;

use crate::{api, controller};

/// The operator. Its flags, probes, metrics and manifests come with it: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("crontab-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::cron_tab::v1::CronTab>()
        .controller(controller::cron_tab::controller())
}
