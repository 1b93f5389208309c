//! Logs, on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging: warnings, and more of Windlass's own for every `-v`. `RUST_LOG` decides where it is set.
pub(crate) fn start(verbose: u8) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::new(directives),
        _ => EnvFilter::new(match verbose {
            0 => "warn",
            1 => "warn,windlass=info",
            2 => "info,windlass=debug",
            _ => "debug,windlass=trace",
        }),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}
