//! Building the operator with cargo.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;

use super::{
    event::{Reporter, Source},
    process::{CommandLine, Process, ending},
};
use crate::project::{Artifact, artifact, cargo};

/// Package, profile and features of a build.
#[derive(Clone, Debug)]
pub(crate) struct BuildOptions {
    pub(crate) root: PathBuf,
    /// Name of the binary.
    pub(crate) name: String,
    pub(crate) release: bool,
    pub(crate) colour: bool,
}

/// A binary that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) program: PathBuf,
    /// Whether nothing had to be compiled.
    pub(crate) fresh: bool,
    pub(crate) took: Duration,
}

/// A running build; killed when dropped.
pub(crate) struct Building {
    process: Process,
    found: Arc<Mutex<Option<Artifact>>>,
    name: String,
    since: Instant,
}

impl BuildOptions {
    /// Starts cargo and reports its output.
    pub(crate) fn start(&self, reporter: &Reporter) -> anyhow::Result<Building> {
        let cargo = cargo();
        let command_line = CommandLine {
            program: cargo.clone(),
            arguments: self.arguments(),
            variables: Vec::new(),
            source: Source::Cargo,
        };
        let found: Arc<Mutex<Option<Artifact>>> = Arc::default();
        let (lines, name) = (found.clone(), self.name.clone());
        let take = move |line: String| {
            if let Some(artifact) = artifact(&line, &name) {
                *lines.lock() = Some(artifact);
            }
        };
        let process = Process::start(command_line, &self.root, reporter, Some(take));
        let process = process.with_context(|| format!("cannot run {}", Path::new(&cargo).display()))?;
        Ok(Building { process, found, name: self.name.clone(), since: Instant::now() })
    }

    fn arguments(&self) -> Vec<OsString> {
        // JSON messages on standard output, diagnostics on standard error.
        let mut words = vec!["build", "--bin", &self.name, "--message-format", "json-render-diagnostics"];
        words.extend(self.release.then_some("--release"));
        words.extend(["--color", if self.colour { "always" } else { "never" }]);
        words.into_iter().map(OsString::from).collect()
    }
}

impl Building {
    /// Returns the binary, or why there is none. Compiler output has already been reported.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Built> {
        let status = self.process.wait().await;
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            anyhow::bail!("the build {}", ending(status));
        }
        let found = self.found.lock().take();
        let Artifact { executable: program, fresh, .. } =
            found.with_context(|| format!("cargo did not build the binary {}", self.name))?;
        Ok(Built { program, fresh, took: self.since.elapsed() })
    }
}
