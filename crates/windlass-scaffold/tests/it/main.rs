//! Types that are imported, compiled: the definition that kube-derive makes of them is the one that was imported.

#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod import;
