//! The book, as what checks read: its pages, what is typed in them, and what becomes of their code.
//!
//! It is also the documentation of this crate, so the code in it is tested: `build.rs` makes a module of each page.

pub mod edit;
pub mod page;
pub mod shell;

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
