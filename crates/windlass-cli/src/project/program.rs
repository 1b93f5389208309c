//! The operator of a project, built and queried for its manifests.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::cargo::{Artifact, artifact, cargo};
use crate::{cluster::documents, failure::ErrorWithHint};

/// A binary that was built.
#[derive(Debug)]
pub(crate) struct Program(Artifact);

/// Cluster and namespace of a deployed operator.
#[derive(Clone, Debug)]
pub(crate) struct DeployTarget<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
}

impl Program {
    /// Builds the operator of a project. Compiler output goes to standard error.
    pub(crate) fn build(root: &Path, name: &str) -> anyhow::Result<Self> {
        Self::build_binary(root, name, name)
    }

    /// Builds a program of a package.
    pub(crate) fn build_binary(root: &Path, package: &str, name: &str) -> anyhow::Result<Self> {
        let cargo = cargo();
        let mut command = Command::new(&cargo);
        command.args(["build", "--message-format=json-render-diagnostics", "--package", package, "--bin", name]);
        command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| ErrorWithHint {
            message: format!("cannot run {}: {error}", cargo.display()),
            hint: "install Rust from https://rustup.rs".into(),
        })?;
        let output = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut built = None;
        for line in output.lines() {
            built = artifact(&line.context("failed to read the output of cargo")?, name).or(built);
        }
        if !child.wait().context("failed to wait for cargo")?.success() {
            let message = format!("failed to build {name}");
            return Err(ErrorWithHint { message, hint: "fix the compiler errors above".into() }.into());
        }
        built.map(Self).ok_or_else(|| {
            let message = format!("the project has no binary {name}");
            ErrorWithHint { message, hint: "keep src/main.rs, and the package name from PROJECT".into() }.into()
        })
    }

    /// Version of its package.
    pub(crate) fn version(&self) -> &str {
        &self.0.version
    }

    /// Runs it in the foreground, and returns its exit code.
    pub(crate) fn run(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let status = Command::new(&self.0.executable).args(arguments).status();
        let status = status.with_context(|| format!("cannot run {}", self.0.executable.display()))?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }

    /// Returns its manifests, or those of some parts.
    pub(crate) fn manifests(&self, place: &DeployTarget<'_>, flags: &[&str]) -> anyhow::Result<Vec<Value>> {
        documents::read(&self.manifests_text(place, &[flags, &["--output", "json"]].concat())?)
            .context("failed to read the manifests of the operator")
    }

    /// Returns its manifests as text.
    pub(crate) fn manifests_text(&self, place: &DeployTarget<'_>, flags: &[&str]) -> anyhow::Result<String> {
        self.printed(&["manifests"], place, flags)
    }

    /// Returns the manifests of an API server as text.
    pub(crate) fn extension_text(&self, place: &DeployTarget<'_>) -> anyhow::Result<String> {
        self.printed(&["--manifests"], place, &[])
    }

    fn printed(&self, command_line: &[&str], place: &DeployTarget<'_>, flags: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.0.executable);
        command.args(command_line).args(["--namespace", place.namespace, "--image", place.image]).args(flags);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {}", self.0.executable.display()))?;
        ensure!(
            output.status.success(),
            "{} failed to print its manifests: {}",
            self.0.executable.display(),
            output.status
        );
        String::from_utf8(output.stdout).context("the manifests of the operator are not UTF-8")
    }
}
