use std::{io, sync::Arc};

use parking_lot::Mutex;

use super::*;

/// Lines that were logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap()
    }
}

#[test]
fn a_new_level_takes_effect_immediately() {
    let lines = Lines::default();
    let (filter, level) = LogLevel::reloadable("info").unwrap();
    let written = lines.clone();
    let layer = fmt::layer().with_ansi(false).without_time().with_writer(move || written.clone()).with_filter(filter);
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let speak = || {
        tracing::info!("loud");
        tracing::debug!("quiet");
        lines.take()
    };
    let both = |text: &str| (text.contains("loud"), text.contains("quiet"));
    assert_eq!(both(&speak()), (true, false));

    assert_eq!(level.set("warn,windlass_runtime=debug").unwrap(), "windlass_runtime=debug,warn");
    assert!(lines.take().contains("log level changed former=\"info\""));
    assert_eq!(both(&speak()), (true, true));

    assert!(level.set("info,windlass_runtime=loud").is_err());
    assert_eq!(level.shown().unwrap(), "windlass_runtime=debug,warn", "nothing changes");
    level.set("off").unwrap();
    assert_eq!(speak(), "");
    assert_eq!(level.shown().unwrap(), "off");
}
