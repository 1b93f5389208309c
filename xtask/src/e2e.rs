//! `cargo xtask e2e`: runs real clients against a server that is started for them.
//!
//! Every suite in `e2e/` is a program that gets `$KUBECONFIG` and prints a line per check: `ok ...` or `FAILED ...`, or
//! the output of `cargo test`. The dependencies of a suite are installed under `target/e2e`; a missing tool is an
//! error, never a skip.

pub(crate) mod server;
mod suites;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use self::{
    server::Server,
    suites::{Count, SUITES, Suite},
};
use crate::peers;

const USAGE: &str = "usage: cargo xtask e2e [--peers DIR] [--against windlass|kubernetes|KUBECONFIG] [--only SUITE,...]
suites: kubectl, pods, wardle, sample-apiserver, python, javascript, go, go-operator, envtest, controller-runtime, kopf, sdk, examples-go, examples-python, examples-java";

struct Options {
    peers: PathBuf,
    against: String,
    suites: Vec<&'static Suite>,
}

/// Runs the suites, prints how many checks passed and failed, and fails if any failed.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let options = parse(args)?;
    let folder = peers::target().join("e2e");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut commands = Vec::new();
    for suite in &options.suites {
        // Before anything runs, so that a missing program is reported at once.
        let command = (suite.prepare)(&folder, &options.peers).with_context(|| suite.name)?;
        commands.push((suite.name, command));
    }
    let mut server = Server::start(&options.against, None, &options.peers, &folder)?;
    let mut total = Count::default();
    for (name, mut command) in commands {
        server.check_running()?;
        println!("\n{name}");
        command.env("KUBECONFIG", server.kubeconfig()).env("E2E_AGAINST", &options.against);
        command.envs(server.process_id().map(|id| ("E2E_SERVER", id.to_string())));
        total += suites::run(command).with_context(|| name)?;
    }
    let skipped = if total.skipped == 0 { String::new() } else { format!(", {} skipped", total.skipped) };
    println!("\n{} passed, {} failed{skipped}", total.passed, total.failed);
    server.stop()?;
    ensure!(total.failed == 0, "some end-to-end checks failed");
    ensure!(total.passed > 0, "no checks ran");
    Ok(())
}

fn parse(args: &[&str]) -> anyhow::Result<Options> {
    let mut options =
        Options { peers: peers::folder(), against: "windlass".to_owned(), suites: SUITES.iter().collect() };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| USAGE)?;
        match *flag {
            "--peers" => options.peers = value.into(),
            "--against" => options.against = (*value).to_owned(),
            "--only" => {
                let find = |name| SUITES.iter().find(|suite| suite.name == name).with_context(|| USAGE);
                options.suites = value.split(',').map(find).collect::<Result<_, _>>()?;
            }
            _ => bail!("{USAGE}"),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_can_be_chosen_and_unknown_ones_are_rejected() {
        let names = |args: &[&str]| {
            parse(args).map(|options| options.suites.iter().map(|suite| suite.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), SUITES.len());
        assert!(SUITES.iter().all(|suite| USAGE.contains(suite.name)));
        assert_eq!(names(&["--only", "go,kubectl"]).unwrap(), ["go", "kubectl"]);
        assert!(names(&["--only", "ruby"]).is_err());
        assert!(names(&["--only"]).is_err());
        assert!(names(&["--fast", "yes"]).is_err());
    }
}
