//! Entry point of the API server.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    wardle_apiserver::extension::extension().main().await
}
