//! Signals that wait: files are not left half-written by a Ctrl-C.

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

/// What the handlers look at.
#[derive(Default)]
struct Flags {
    /// Whether a signal ends the process, as it usually does.
    free: Arc<AtomicBool>,
    /// Whether one came.
    came: Arc<AtomicBool>,
}

static FLAGS: LazyLock<io::Result<Flags>> = LazyLock::new(|| {
    let flags = Flags::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, flags.came.clone())?;
        flag::register_conditional_default(signal, flags.free.clone())?;
    }
    Ok(flags)
});

/// Does something as a whole: a signal that comes meanwhile is answered afterwards.
pub(super) fn uninterrupted(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let held = Held::signals().context("cannot catch signals")?;
    work()?;
    if held.came() { Err(Interrupted.into()) } else { Ok(()) }
}

/// While it is there, signals do not end the process.
struct Held(&'static Flags);

impl Held {
    fn signals() -> io::Result<Self> {
        let flags = FLAGS.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        flags.free.store(false, Ordering::SeqCst);
        Ok(Self(flags))
    }

    /// Whether one came meanwhile.
    fn came(&self) -> bool {
        self.0.came.load(Ordering::SeqCst)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.free.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::{env, os::unix::process::ExitStatusExt as _, process::Command};

    use signal_hook::low_level::raise;

    use super::*;

    const AS_PROGRAM: &str = "WINDLASS_TEST_AS_PROGRAM";

    /// Not a test, but a process of its own, as it ends by a signal.
    #[test]
    fn as_a_program() {
        if env::var_os(AS_PROGRAM).is_none() {
            return;
        }
        let outcome = uninterrupted(|| {
            raise(SIGINT)?;
            raise(SIGTERM)?;
            eprintln!("all is written");
            Ok(())
        });
        assert!(outcome.unwrap_err().is::<Interrupted>());
        raise(SIGINT).unwrap();
        eprintln!("it goes on");
    }

    #[test]
    fn a_signal_waits_until_all_is_written_and_ends_the_process_otherwise() {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "project::held::tests::as_a_program", "--nocapture"]).env(AS_PROGRAM, "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("all is written") && !said.contains("it goes on"), "{said}");
        assert_eq!(output.status.signal(), Some(SIGINT), "{said}");
    }
}
