//! The book as data for checks: its pages, their shell commands, and the edits that their code makes to a project.
//!
//! The book is also the documentation of this crate, so that its code is tested: `build.rs` generates a module for each
//! page.

pub mod edit;
pub mod page;
pub mod shell;

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
