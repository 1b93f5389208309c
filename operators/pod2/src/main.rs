//! Runs the operator.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    pod2_operator::controller::operator().main().await
}
