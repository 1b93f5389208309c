//! Logs of a program: for people or for machines, on the error output.

use std::str::FromStr;

use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Something that takes spans.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// An object of JSON on a line.
    Json,
}

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is neither a level nor a filter.
    #[error("{0:?} is no log level")]
    Level(String, #[source] tracing_subscriber::filter::ParseError),
    /// Something else in the program takes the logs already.
    #[error("logs are taken already")]
    Taken(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the logs of this process to the error output. `level` is `error`, `warn`, `info`, `debug`, `trace`, `off`, or
/// a filter as in `info,windlass_runtime=debug`. Colours are for terminals, unless `NO_COLOR` is set.
///
/// Once a process.
pub fn start(level: &str, format: LogFormat) -> Result<(), LogError> {
    start_with(level, format, Vec::new())
}

/// As [`start`], with others that take spans.
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
