//! The program of a project, built and asked what it needs.

use std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::{cluster::documents, failure::Advised};

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Program {
    executable: PathBuf,
    /// The version of its package.
    pub(crate) version: String,
}

/// Where a program is to run.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
}

impl Program {
    /// Builds the program of a project. What the compiler says goes to standard error.
    pub(crate) fn build(root: &Path, name: &str) -> anyhow::Result<Self> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
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
        built.ok_or_else(|| {
            let message = format!("the project has no program {name}");
            Advised { message, hint: "keep src/main.rs, and the name of the package as PROJECT has it".into() }.into()
        })
    }

    /// All of its manifests, or those of some parts.
    pub(crate) fn manifests(&self, place: &Place<'_>, flags: &[&str]) -> anyhow::Result<Vec<Value>> {
        documents::read(&self.manifests_text(place, &[flags, &["--output", "json"]].concat())?)
            .context("cannot read the manifests of the program")
    }

    /// The same as text.
    pub(crate) fn manifests_text(&self, place: &Place<'_>, flags: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.executable);
        command.args(["manifests", "--namespace", place.namespace, "--image", place.image]).args(flags);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {}", self.executable.display()))?;
        ensure!(output.status.success(), "{} cannot tell its manifests: {}", self.executable.display(), output.status);
        String::from_utf8(output.stdout).context("the manifests of the program are not UTF-8")
    }
}

/// What a line of cargo says about the program, if it does.
fn artifact(line: &str, name: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_ours = message["reason"] == "compiler-artifact" && message["target"]["name"] == *name;
    let executable = message["executable"].as_str().filter(|_| is_ours)?;
    // path+file:///home/me/shop#0.1.0, or with the name and an @ in front of the version.
    let package = message["package_id"].as_str().unwrap_or_default();
    let version = package.rsplit(['#', '@']).next().unwrap_or_default();
    Some(Program { executable: executable.into(), version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_what_cargo_says() {
        let line = |id: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","target":{{"name":"shop"}},"executable":{executable}}}"#
            )
        };
        for id in ["path+file:///home/me/shop#0.1.0", "path+file:///home/me#shop@0.1.0"] {
            let program = artifact(&line(id, "\"/t/shop\""), "shop").unwrap();
            assert_eq!((program.executable.to_str(), program.version.as_str()), (Some("/t/shop"), "0.1.0"));
        }
        assert!(artifact(&line("x", "null"), "shop").is_none());
        assert!(artifact(&line("x", "\"/t/shop\""), "other").is_none());
        assert!(artifact("not JSON", "shop").is_none());
    }
}
