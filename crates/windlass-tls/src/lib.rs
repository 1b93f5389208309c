//! Accept loop and certificate parameters that the Windlass servers share: the webhook server of the runtime, the
//! API server, and the recording proxy of the CLI.
//!
//! An internal crate, without a stable API.

mod accept;
mod certificate;

pub use self::{
    accept::{Handshake, accept, accept_tcp},
    certificate::{CLOCK_SKEW, ca_params, leaf_params},
};
