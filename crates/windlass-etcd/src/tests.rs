//! Tests against a server that answers as each test wants.

mod calls;
mod fake;
mod watches;
