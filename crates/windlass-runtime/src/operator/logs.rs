//! Logging to stderr, as text or JSON.

use std::{str::FromStr, sync::OnceLock};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

/// The level of the logs of this process, if they were started here.
static LEVEL: OnceLock<LogLevel> = OnceLock::new();

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
    /// The level is empty.
    #[error("no log level")]
    NoLevel,
    /// The level can no longer be changed.
    #[error("failed to change the log level")]
    Reload(#[source] reload::Error),
    /// The process already has a tracing subscriber.
    #[error("a tracing subscriber is already set")]
    Taken(#[source] tracing_subscriber::util::TryInitError),
}

/// The level of the logs, which can be changed. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Returns a filter whose level can be changed.
    pub(super) fn reloadable(level: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Self), LogError> {
        let (filter, handle) = reload::Layer::new(parse(level)?);
        Ok((filter, Self(handle)))
    }

    /// Returns the level of the logs of this process, unless the program has a subscriber of its own.
    pub(super) fn of_process() -> Option<Self> {
        LEVEL.get().cloned()
    }

    /// Returns the filter in use.
    pub(super) fn shown(&self) -> Result<String, LogError> {
        self.0.with_current(EnvFilter::to_string).map_err(LogError::Reload)
    }

    /// Replaces the filter, and returns it in normalized form. On error, nothing changes.
    pub(super) fn set(&self, level: &str) -> Result<String, LogError> {
        if level.is_empty() {
            return Err(LogError::NoLevel);
        }
        let filter = parse(level)?;
        let (former, shown) = (self.shown()?, filter.to_string());
        self.0.reload(filter).map_err(LogError::Reload)?;
        tracing::info!(former, level = shown, "log level changed");
        Ok(shown)
    }
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

    let (filter, level) = LogLevel::reloadable(level)?;
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
    tracing_subscriber::registry().with(layers).try_init().map_err(LogError::Taken)?;
    // There is only one subscriber.
    let _ = LEVEL.set(level);
    Ok(())
}

fn parse(level: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::from_str(level).map_err(|error| LogError::Level(level.to_owned(), error))
}

#[cfg(test)]
mod tests;
