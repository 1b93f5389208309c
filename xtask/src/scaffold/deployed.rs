//! Deploys a project with the commands of its CI workflow to a plane that runs pods as processes, and runs its tests of the
//! deployed operator.

use std::{env, fs, path::Path, process::Command};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Workshop, execute, servers};
use crate::e2e::server::Server;

const AS_POD: &str = include_str!("../../../crates/windlass-cli/tests/it/as_pod.sh");

/// Deploys the operator, whose program has been built, and waits until its samples are ready.
pub(super) fn check(workshop: &Workshop, servers: &servers::Options, project: &Path) -> anyhow::Result<()> {
    let name = project.file_name().and_then(|name| name.to_str()).context("the project must have a name")?;
    let workflow = fs::read_to_string(project.join(".github/workflows/ci.yml"))?;
    let workflow = windlass_schema::yaml::to_json_value(&workflow).context("cannot parse the workflow")?;
    let job = &workflow["jobs"]["e2e"];
    let text = |value: &Value| value.as_str().map(str::to_owned).context("the workflow has no such text");
    let image = text(&job["env"]["IMAGE"]).context("env.IMAGE")?;
    let steps = job["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let deploy = steps.iter().find(|step| step["name"] == "Deploy").context("the workflow has no step Deploy")?;

    let folder = project.with_extension("deployed");
    fs::create_dir_all(&folder)?;
    let images = folder.join("images.yaml");
    let program = workshop.target.join("debug").join(name);
    let entry = json!({ "images": [{ "image": name, "command": ["sh", "-c", AS_POD, program] }] });
    fs::write(&images, entry.to_string())?;
    let images = images.to_str().context("the path of the project is not UTF-8")?;
    let flags = ["--runtime", "process", "--nodes", "1", "--images", images];
    let server = Server::start_with("windlass", Some(&workshop.windlass), &flags, &servers.peers, &folder)?;
    let kubectl = workshop.kubectl.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(kubectl.into_iter().chain(env::split_paths(&path)))?;
    let run = |command: &mut Command| {
        execute(command.env("KUBECONFIG", server.kubeconfig()).env("IMAGE", &image).env("PATH", &path))
    };
    let mut shell = workshop.command(Path::new("bash"), project);
    run(shell.args(["-e", "-o", "pipefail", "-c", &text(&deploy["run"])?])).context("step Deploy of the workflow")?;
    let last = text(&steps.last().context("the workflow has no steps")?["run"])?;
    run(workshop.command(Path::new("bash"), project).args(["-e", "-c", &last])).context("last step of the workflow")?;
    server.stop()
}
