//! The resources.

pub mod cron_tab;
