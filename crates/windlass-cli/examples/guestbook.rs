//! The program of the golden project of windlass-scaffold, for tests of what is made from what a program says about
//! itself.

use std::process::ExitCode;

// It has a style of its own, and is the code of a user.
#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub)]
#[path = "../../windlass-scaffold/testdata/guestbook/src"]
mod code {
    pub mod api;
    pub mod controller;
    pub mod operator;
    pub mod webhook;
}
use code::{api, controller, operator, webhook};

#[tokio::main]
async fn main() -> ExitCode {
    operator::operator().main().await
}
