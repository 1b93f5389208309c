//! The program of a project, built and asked what it needs.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::cargo::{Artifact, artifact, cargo};
use crate::{cluster::documents, failure::Advised};

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Program(Artifact);

/// Where a program is to run.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
}

impl Program {
    /// Builds the program of a project. What the compiler says goes to standard error.
    pub(crate) fn build(root: &Path, name: &str) -> anyhow::Result<Self> {
        let cargo = cargo();
        let mut command = Command::new(&cargo);
        command.args(["build", "--message-format=json-render-diagnostics", "--package", name, "--bin", name]);
        command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Advised {
            message: format!("cannot run {}: {error}", cargo.display()),
            hint: "install Rust from https://rustup.rs".into(),
        })?;
        let output = BufReader::new(child.stdout.take().context("the output must be piped")?);
        let mut built = None;
        for line in output.lines() {
            built = artifact(&line.context("cannot read what cargo says")?, name).or(built);
        }
        if !child.wait().context("cannot wait for cargo")?.success() {
            let message = format!("{name} does not build");
            return Err(Advised { message, hint: "correct what the compiler says above".into() }.into());
        }
        built.map(Self).ok_or_else(|| {
            let message = format!("the project has no program {name}");
            Advised { message, hint: "keep src/main.rs, and the name of the package as PROJECT has it".into() }.into()
        })
    }

    /// The version of its package.
    pub(crate) fn version(&self) -> &str {
        &self.0.version
    }

    /// All of its manifests, or those of some parts.
    pub(crate) fn manifests(&self, place: &Place<'_>, flags: &[&str]) -> anyhow::Result<Vec<Value>> {
        documents::read(&self.manifests_text(place, &[flags, &["--output", "json"]].concat())?)
            .context("cannot read the manifests of the program")
    }

    /// The same as text.
    pub(crate) fn manifests_text(&self, place: &Place<'_>, flags: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.0.executable);
        command.args(["manifests", "--namespace", place.namespace, "--image", place.image]).args(flags);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {}", self.0.executable.display()))?;
        ensure!(
            output.status.success(),
            "{} cannot tell its manifests: {}",
            self.0.executable.display(),
            output.status
        );
        String::from_utf8(output.stdout).context("the manifests of the program are not UTF-8")
    }
}
