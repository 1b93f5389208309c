//! The operator of windlass-scaffold's golden project, for tests of files generated from an operator's manifests.

use std::process::ExitCode;

// User code with its own style.
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
