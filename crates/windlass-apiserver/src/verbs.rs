//! One file per verb.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod update;
pub(crate) mod watch;
