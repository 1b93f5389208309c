//! Entry point of the operator.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    guestbook::operator::operator().main().await
}
