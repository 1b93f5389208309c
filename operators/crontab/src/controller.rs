//! What is done about objects, a module a kind.

pub mod cron_tab;
