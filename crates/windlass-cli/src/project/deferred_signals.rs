//! Deferred signals: Ctrl-C does not leave files half-written.

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use crate::failure::Interrupted;

/// State of the signal handlers.
#[derive(Default)]
struct Flags {
    /// Whether a signal terminates the process, as by default.
    terminates: Arc<AtomicBool>,
    /// Whether a signal has arrived.
    arrived: Arc<AtomicBool>,
}

static FLAGS: LazyLock<io::Result<Flags>> = LazyLock::new(|| {
    let flags = Flags::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, flags.arrived.clone())?;
        flag::register_conditional_default(signal, flags.terminates.clone())?;
    }
    Ok(flags)
});

/// Runs work as a whole: a signal that arrives meanwhile takes effect afterwards.
pub(super) fn deferring_signals(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let deferred = DeferredSignals::start().context("failed to install signal handlers")?;
    work()?;
    if deferred.arrived() { Err(Interrupted.into()) } else { Ok(()) }
}

/// Defers signals while it exists.
struct DeferredSignals(&'static Flags);

impl DeferredSignals {
    fn start() -> io::Result<Self> {
        let flags = FLAGS.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        flags.terminates.store(false, Ordering::SeqCst);
        Ok(Self(flags))
    }

    /// Returns whether a signal arrived in the meantime.
    fn arrived(&self) -> bool {
        self.0.arrived.load(Ordering::SeqCst)
    }
}

impl Drop for DeferredSignals {
    fn drop(&mut self) {
        self.0.terminates.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::{env, os::unix::process::ExitStatusExt as _, process::Command};

    use signal_hook::low_level::raise;

    use super::*;

    const CHILD: &str = "project::deferred_signals::tests::child_that_gets_signals";

    /// Raises signals while they are deferred, and then once more, which kills this process.
    #[test]
    #[ignore = "run as a child process by the test below"]
    fn child_that_gets_signals() {
        let outcome = deferring_signals(|| {
            raise(SIGINT)?;
            raise(SIGTERM)?;
            eprintln!("work is complete");
            Ok(())
        });
        assert!(outcome.unwrap_err().is::<Interrupted>());
        raise(SIGINT).unwrap();
        panic!("a signal that is not deferred must kill the process");
    }

    #[test]
    fn a_signal_is_deferred_until_the_work_is_complete_and_kills_the_process_otherwise() {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", CHILD, "--ignored", "--nocapture"]);
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.contains("work is complete") && !err.contains("panicked"), "{err}");
        assert_eq!(output.status.signal(), Some(SIGINT), "{err}");
    }
}
