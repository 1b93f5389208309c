//! Entry point of the operator.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    pod2_operator::operator::operator().main().await
}
