//! What is filled in and refused, a module a kind.

pub mod guestbook;
