//! The resources.

pub mod guestbook;
