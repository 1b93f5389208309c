//! Types that are imported, compiled: the definition that kube-derive makes of them is the one that was imported.

#![allow(clippy::unwrap_used, reason = "a test may end so")]
#![allow(unreachable_pub, reason = "imported types are those of a library")]

mod import;
