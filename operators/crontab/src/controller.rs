//! Controllers, one module per kind.

pub mod cron_tab;
