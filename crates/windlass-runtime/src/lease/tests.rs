//! Test support shared by the tests of elections and memberships.

pub(crate) mod simulation;
