//! The entry `kube-apiserver`: a control plane with the flags of kube-apiserver, which stores objects where its etcd says.

mod flags;
mod gates;
mod options;
mod serving;
mod table;
mod values;

use std::{io::Write as _, process::ExitCode};

use anyhow::Context as _;
use futures_util::FutureExt as _;
use windlass_plane::{PlaneError, Standalone};

use self::{
    flags::{Flags, Parsed},
    options::ServerOptions,
};
use super::{handover, io_errors};
use crate::{failure, logging, signals::Signals, threads, up::limits::raise_open_files, version};

/// Replacement of a deprecated flag, in kube-apiserver's words.
const ADMISSION_CONTROL: &str = "Use --enable-admission-plugins or --disable-admission-plugins instead. Will be removed in \
                                 a future version.";

/// Acts as kube-apiserver.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let flags = match flags::parse(arguments) {
        Ok(Parsed::Flags(flags)) => flags,
        Ok(Parsed::Help) => return print(&flags::help()),
        Ok(Parsed::Version) => return print(&format!("Kubernetes {}\n", version::KUBERNETES_RELEASE)),
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if flags.last("admission-control").is_some() {
        eprintln!("Flag --admission-control has been deprecated, {ADMISSION_CONTROL}");
    }
    logging::start(verbosity(&flags));
    match ServerOptions::of(&flags, &|name| std::env::var(name).ok()) {
        Ok(options) => match serve(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let code = fail(&message(&error));
                if let Some(hint) = failure::hint(&error) {
                    eprintln!("hint: {hint}");
                }
                code
            }
        },
        Err(error) => fail(&error),
    }
}

fn print(text: &str) -> ExitCode {
    // The reader has closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(error: &str) -> ExitCode {
    log('E', &format!("\"command failed\" err={error:?}"));
    ExitCode::FAILURE
}

/// Logs a line in the format of klog.
fn log(severity: char, message: &str) {
    let time = windlass_clock::now().strftime("%m%d %H:%M:%S%.6f");
    eprintln!("{severity}{time} {:>7} windlass] {message}", std::process::id());
}

/// The verbosity of `windlass -v` that a level of kube-apiserver corresponds to.
fn verbosity(flags: &Flags) -> u8 {
    match flags.last("v").and_then(|level| level.parse().ok()).unwrap_or(0i64) {
        ..=1 => 0,
        2..=3 => 1,
        4..=5 => 2,
        _ => 3,
    }
}

fn serve(options: ServerOptions) -> anyhow::Result<()> {
    if !options.ignored.is_empty() {
        log('W', &format!("these flags have no effect in windlass: {}", options.ignored.join(", ")));
    }
    raise_open_files();
    threads::block_on_all(async {
        let mut signals = Signals::catch().context("failed to install signal handlers")?;
        let starting = async {
            let storage = handover::find(&options.etcd).await?;
            let (plane, given) = options.stored_in(storage);
            Ok::<_, anyhow::Error>(Standalone::start(plane, given).await?)
        };
        let plane = tokio::select! {
            plane = starting => plane?,
            () = signals.first() => return Ok(()),
        };
        log('I', &format!("Serving securely on {}", plane.url().trim_start_matches("https://")));
        let stopping = async {
            signals.first().await;
            tokio::spawn(signals.abort_on_next().boxed());
        };
        Ok(plane.run(stopping).await?)
    })
}

/// Returns the message of an error, worded as in kube-apiserver if it has such an error.
fn message(error: &anyhow::Error) -> String {
    match error.downcast_ref::<PlaneError>() {
        Some(PlaneError::Listen { address, source }) => {
            let problem = io_errors::listen(*address, source);
            format!("failed to create listener: failed to listen on {address}: {problem}")
        }
        _ => format!("{error:#}"),
    }
}
