//! `windlass demo`: a one-minute tour.
//!
//! An in-memory plane with two simulated nodes, two operators in the same process, and a story that breaks things and
//! watches them recover. Nothing is canned: every command is sent to the server, and every claim is verified.

mod kubectl;
mod play;
mod screen;
mod story;
mod until;

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use futures_util::FutureExt as _;
use kube::CustomResourceExt as _;
use tokio::{sync::oneshot, task::JoinSet};
use windlass_plane::{NodeOptions, Plane, PlaneError, PlaneOptions, Runtime, Stages, StoreKind};
use windlass_schema::yaml;

use self::{
    play::{Operators, StoryPlayer},
    screen::{Pace, Screen, milliseconds},
};
use crate::{
    cluster::ClusterArgs,
    failure::Interrupted,
    shell::{self, Shell},
    signals::Signals,
    threads,
};

/// Maximum time for operators to finish reconciles in flight.
const DRAIN: Duration = Duration::from_secs(2);

/// Watch a one-minute tour: an in-process cluster, two operators, and failures that heal
///
/// Without a terminal, the demo exits when the story is over, with exit code 1 if a step failed. In a terminal, the
/// cluster keeps running until Ctrl-C. No data is left behind.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Wait for Enter between chapters
    #[arg(long, conflicts_with = "fast")]
    pause: bool,
    /// Play without pauses for reading
    #[arg(long)]
    fast: bool,
    /// Exit after the story instead of keeping the cluster running
    #[arg(long)]
    no_wait: bool,
}

/// Plays the story.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<()> {
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let pace = match (args.pause, args.fast || !io::stdout().is_terminal()) {
        (true, _) => Pace::Enter,
        (false, true) => Pace::Fast,
        (false, false) => Pace::Reading,
    };
    match threads::block_on_all(demo(&Screen::of_process(pace), terminal && !args.no_wait)) {
        // The reader has closed the pipe.
        Err(error) if error.root_cause().downcast_ref().is_some_and(is_closed) => Ok(()),
        result => result,
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

async fn demo(screen: &Screen, waits: bool) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let folder = tempfile::Builder::new().prefix("windlass-demo-").tempdir().context("failed to create a directory")?;
    write_files(folder.path())?;

    let started = Instant::now();
    let plane = Plane::start(options(folder.path())?).await?;
    let kubeconfig = plane.kubeconfig_path().to_owned();
    let url = plane.url().to_owned();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving: JoinSet<Result<(), PlaneError>> = JoinSet::new();
    let running = plane.run(async {
        // An error means that the sender was dropped, which is also a reason to stop.
        let _ = stopped.await;
    });
    serving.spawn(running.boxed());
    let client = ClusterArgs::of(&kubeconfig).connect().await?.client;
    let after = milliseconds(started.elapsed());
    screen
        .print(&format!("\n   Windlass serves Kubernetes {} at {url} after {after}\n\n", crate::version::KUBERNETES))?;

    // The operators keep working while the user tries things out.
    let mut operators = Operators::new(client.clone());
    let told = {
        let story = StoryPlayer::new(client, folder.path(), screen, &mut operators).play(story::CHAPTERS);
        tokio::select! {
            healed = story => healed.map(Some),
            () = signals.first() => Ok(None),
            failed = serving.join_next() => Err(ended(failed)),
        }
    };
    let result = match told {
        Ok(Some(healed)) => {
            summarise(screen, &healed)?;
            if waits {
                your_turn(screen, folder.path(), &kubeconfig)?;
                tokio::select! {
                    () = signals.first() => screen.print("\n").map_err(Into::into),
                    failed = serving.join_next() => Err(ended(failed)),
                    error = operators.failed() => Err(error),
                }
            } else {
                Ok(())
            }
        }
        Ok(None) => Err(Interrupted.into()),
        Err(error) => Err(error),
    };
    tokio::spawn(signals.abort_on_next().boxed());
    // While the server still responds.
    let _ = tokio::time::timeout(DRAIN, operators.stop()).await;
    drop(stop);
    let stopped = serving.join_next().await.transpose();
    folder.close().context("failed to remove the directory of the demo")?;
    result?;
    stopped.context("the plane failed")?.transpose()?;
    Ok(())
}

fn options(folder: &Path) -> anyhow::Result<PlaneOptions> {
    let stages = Stages::parse(include_str!("demo/files/stages.yaml")).context("failed to read the stages")?;
    let nodes = NodeOptions { count: 2, runtime: Runtime::Simulated, stages: Some(Stages::default().with(&stages)) };
    Ok(PlaneOptions { store: StoreKind::Memory, nodes, ..PlaneOptions::new(folder.join("plane")) })
}

/// Writes the files that commands of the story refer to.
fn write_files(folder: &Path) -> anyhow::Result<()> {
    let definitions =
        [network_operator::api::network::Network::crd(), guestbook_operator::api::guestbook::Guestbook::crd()];
    let mut documents = Vec::new();
    for definition in definitions {
        let definition = serde_json::to_value(definition).context("failed to serialize a CustomResourceDefinition")?;
        documents.push(yaml::to_yaml(&definition));
    }
    let definitions = documents.join("---\n");
    for (name, text) in story::FILES.iter().copied().chain([("crds.yaml", definitions.as_str())]) {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

fn ended(failed: Option<Result<Result<(), PlaneError>, tokio::task::JoinError>>) -> anyhow::Error {
    match failed {
        Some(Ok(Err(error))) => error.into(),
        Some(Err(error)) => anyhow::Error::new(error).context("the plane failed"),
        _ => anyhow::anyhow!("the control plane has stopped"),
    }
}

/// Summarizes what recovered.
fn summarise(screen: &Screen, healed: &[(&str, Duration)]) -> io::Result<()> {
    let lines = healed.iter().map(|(what, after)| format!("   {:>7}   {what}\n", milliseconds(*after)));
    screen.print(&format!("━━ Everything has recovered\n\n{}\n", lines.collect::<String>()))
}

fn your_turn(screen: &Screen, folder: &Path, kubeconfig: &Path) -> io::Result<()> {
    screen.print(&format!(
        "   Your turn: the cluster and its operators keep running until Ctrl-C. In another terminal:\n\n   {}\n   cd \
         {}\n   kubectl apply -f guestbook.yaml && kubectl get guestbooks -w\n\n",
        Shell::Sh.export("KUBECONFIG", kubeconfig),
        shell::word(folder),
    ))
}
