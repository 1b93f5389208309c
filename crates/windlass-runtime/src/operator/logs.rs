//! Logging to stderr, as text or JSON.

use std::str::FromStr;

use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// A subscriber layer for spans.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Error from setting up logging.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is neither a log level nor a filter.
    #[error("invalid log level {0:?}")]
    Level(String, #[source] tracing_subscriber::filter::ParseError),
    /// The process already has a tracing subscriber.
    #[error("a tracing subscriber is already set")]
    Taken(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the logs of this process to stderr. `level` is `error`, `warn`, `info`, `debug`, `trace`, `off`, or a filter
/// such as `info,windlass_runtime=debug`. Terminals get colours unless `NO_COLOR` is set.
///
/// Can be called once per process.
pub fn start(level: &str, format: LogFormat) -> Result<(), LogError> {
    start_with(level, format, Vec::new())
}

/// Like [`start`], with additional layers.
pub(super) fn start_with(level: &str, format: LogFormat, mut layers: Vec<BoxedLayer>) -> Result<(), LogError> {
    use std::io::IsTerminal as _;

    let filter = EnvFilter::from_str(level).map_err(|error| LogError::Level(level.to_owned(), error))?;
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        LogFormat::Text => {
            let coloured =
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            layer.with_ansi(coloured).boxed()
        }
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    layers.push(layer.with_filter(filter).boxed());
    tracing_subscriber::registry().with(layers).try_init().map_err(LogError::Taken)
}
