//! Admission webhooks, one module per kind.

pub mod guestbook;
