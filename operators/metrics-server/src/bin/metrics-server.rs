//! Entry point of the server.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    metrics_server::extension::extension().main().await
}
