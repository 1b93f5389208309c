//! Aggregated API servers: two programs that serve the same kinds, of Windlass and of Kubernetes, with the same checks.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;

use super::{kubectl_script, peers};
use crate::cargo;

pub(super) fn wardle(folder: &Path, peers: &Path) -> anyhow::Result<Command> {
    let program = cargo::build("wardle-apiserver", "wardle-apiserver")?;
    checks("wardle", &program, folder, peers)
}

pub(super) fn sample_apiserver(folder: &Path, peers: &Path) -> anyhow::Result<Command> {
    let program = peers::find(peers, "sample-apiserver")?;
    let etcd = peers::find(peers, "etcd")?;
    let mut command = checks("sample-apiserver", &program, folder, peers)?;
    command.env("ETCD", etcd);
    Ok(command)
}

fn checks(name: &str, program: &Path, folder: &Path, peers: &Path) -> anyhow::Result<Command> {
    let folder = std::path::absolute(folder.join(name))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = kubectl_script("aggregation.py", peers)?;
    command.env("PROGRAM", program).env("FOLDER", folder);
    Ok(command)
}
