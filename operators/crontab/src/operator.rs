//! The operator: its CRDs, controllers and webhooks.

use windlass::prelude::*;

use crate::{api, controller};

/// Builds the operator. Flags, probes, metrics and manifests are included: see `cargo run -- --help`.
pub fn operator() -> Operator {
    Operator::new("crontab-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .define::<api::cron_tab::v1::CronTab>()
        .controller(controller::cron_tab::controller())
}
