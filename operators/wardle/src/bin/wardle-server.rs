//! Entry point of the server.

#[tokio::main]
async fn main() -> std::process::ExitCode {
    wardle_server::extension::extension().main().await
}
