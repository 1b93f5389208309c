//! Tests against a server whose responses each test controls.

mod calls;
mod fake;
mod watches;
