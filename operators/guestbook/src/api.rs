//! Resource types.

pub mod guestbook;
