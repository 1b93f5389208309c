//! Entry point of the operator.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    imoocpod_operator::operator::operator().main().await
}
