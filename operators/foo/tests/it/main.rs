//! Integration tests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::disallowed_names, reason = "the resource is called Foo")]

mod foo;
mod program;
