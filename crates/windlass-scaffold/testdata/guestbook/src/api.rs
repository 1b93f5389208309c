//! Resource types, one module per kind.

pub mod guestbook;
