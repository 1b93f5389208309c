//! Runs guestbooks.

pub mod api;
pub mod controller;
pub mod operator;
pub mod webhook;
