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
    process::{Plan, Process, ending},
};
use crate::project::{Artifact, artifact, cargo};

/// What is built, and how.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) root: PathBuf,
    /// Name of the program.
    pub(crate) name: String,
    pub(crate) release: bool,
    pub(crate) colour: bool,
}

/// A program that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) program: PathBuf,
    /// There was nothing to compile.
    pub(crate) fresh: bool,
    pub(crate) took: Duration,
}

/// A build that is under way; ended when dropped.
pub(crate) struct Building {
    process: Process,
    found: Arc<Mutex<Option<Artifact>>>,
    name: String,
    since: Instant,
}

impl Recipe {
    /// Starts cargo. Its output is reported.
    pub(crate) fn start(&self, reporter: &Reporter) -> anyhow::Result<Building> {
        let cargo = cargo();
        let plan =
            Plan { program: cargo.clone(), arguments: self.arguments(), variables: Vec::new(), source: Source::Cargo };
        let found: Arc<Mutex<Option<Artifact>>> = Arc::default();
        let (lines, name) = (found.clone(), self.name.clone());
        let take = move |line: String| {
            if let Some(artifact) = artifact(&line, &name) {
                *lines.lock() = Some(artifact);
            }
        };
        let process = Process::start(plan, &self.root, reporter, Some(take));
        let process = process.with_context(|| format!("cannot run {}", Path::new(&cargo).display()))?;
        Ok(Building { process, found, name: self.name.clone(), since: Instant::now() })
    }

    fn arguments(&self) -> Vec<OsString> {
        // Messages for programs, with what is for people on standard error.
        let mut words = vec!["build", "--bin", &self.name, "--message-format", "json-render-diagnostics"];
        words.extend(self.release.then_some("--release"));
        words.extend(["--color", if self.colour { "always" } else { "never" }]);
        words.into_iter().map(OsString::from).collect()
    }
}

impl Building {
    /// The program; an error says why there is none. What the compiler had to say has been reported.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Built> {
        let status = self.process.wait().await;
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            anyhow::bail!("the build {}", ending(status));
        }
        let found = self.found.lock().take();
        let Artifact { executable: program, fresh, .. } =
            found.with_context(|| format!("cargo has built no program {}", self.name))?;
        Ok(Built { program, fresh, took: self.since.elapsed() })
    }
}
