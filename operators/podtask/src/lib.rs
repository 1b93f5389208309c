//! Does things to pods once, when a `PodTask` asks for it.
//!
//! A task begins by writing down which pod it is about, by uid: whatever happens then, it is done to that pod or to none.
//! What is done can be done again without harm, so an operator that is stopped in the middle goes on where it was.

pub mod actions;
pub mod api;
pub mod controller;
pub mod operator;
