//! The book, as documentation of this crate: so the code in it is tested.
//!
//! `build.rs` makes a module of each page. Nothing else is in here.

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
