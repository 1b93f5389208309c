//! The compared runtimes, with each scenario in a process of its own.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use serde::de::DeserializeOwned;

use crate::{
    server::Server,
    subject::{Latencies, Queued, Reconciled, Synced},
};

/// A runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Contender {
    /// The runtime of this project
    Windlass,
    /// The runtime of kube, in Rust
    KubeRuntime,
    /// The runtime of kubebuilder, in Go
    ControllerRuntime,
    /// No runtime: a watch whose lines are discarded
    Floor,
}

impl Contender {
    pub(crate) const ALL: [Self; 4] = [Self::Floor, Self::KubeRuntime, Self::ControllerRuntime, Self::Windlass];

    /// Returns the display name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Windlass => "Windlass",
            Self::KubeRuntime => "kube-runtime",
            Self::ControllerRuntime => "controller-runtime",
            Self::Floor => "floor",
        }
    }
}

/// The programs that the contenders run in.
pub(crate) struct Programs {
    rust: PathBuf,
    go: PathBuf,
}

impl Programs {
    /// Builds programs that are not built yet.
    pub(crate) fn build(contenders: &[Contender]) -> anyhow::Result<Self> {
        let rust = env::current_exe().context("failed to find the path of this program")?;
        let go = rust.with_file_name("controller-runtime");
        if contenders.contains(&Contender::ControllerRuntime) {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
            let status = Command::new("go").arg("build").arg("-o").arg(&go).arg(".").current_dir(source).status();
            let status = status.context("cannot run go, which controller-runtime needs")?;
            ensure!(status.success(), "go build: {status}");
        }
        Ok(Self { rust, go })
    }

    /// Returns this program as a measured subject.
    fn subject(&self, name: &str) -> Command {
        let mut command = Command::new(&self.rust);
        command.args(["subject", name]);
        command
    }
}

/// A contender on a server.
pub(crate) struct Run<'a> {
    pub(crate) contender: Contender,
    pub(crate) programs: &'a Programs,
    pub(crate) server: &'a Server,
    pub(crate) concurrency: u16,
}

impl Run<'_> {
    /// Fills a cache.
    pub(crate) fn sync(&self, objects: usize) -> anyhow::Result<Synced> {
        self.start("sync", objects)?.result()
    }

    /// Reconciles all objects once more.
    pub(crate) fn reconcile(&self, objects: usize) -> anyhow::Result<Reconciled> {
        self.start("reconcile", objects)?.result()
    }

    /// Times writes at a steady rate. The first second is not measured, so that server and runtime are warm.
    pub(crate) async fn latency(&self, objects: usize, rate: u32, writes: usize) -> anyhow::Result<Latencies> {
        let mut process = self.start("latency", objects)?;
        let ready = process.line()?;
        ensure!(ready == "ready", "{} said {ready:?}", self.contender.title());
        let warm_up = rate as usize;
        self.server.write_steadily(objects, rate, warm_up + writes).await?;
        // The last events are still on their way.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        process.child.stdin.take().context("standard input must be piped")?.write_all(b"stop\n")?;
        let mut latencies: Latencies = process.result()?;
        for micros in [&mut latencies.writes, &mut latencies.events] {
            micros.drain(..warm_up.min(micros.len()));
        }
        Ok(latencies)
    }

    /// Sends keys through a queue.
    pub(crate) fn queue(&self, keys: usize) -> anyhow::Result<Queued> {
        self.start("queue", keys)?.result()
    }

    fn start(&self, scenario: &str, objects: usize) -> anyhow::Result<Process> {
        let mut command = match self.contender {
            Contender::ControllerRuntime => Command::new(&self.programs.go),
            Contender::Windlass => self.programs.subject("windlass"),
            Contender::KubeRuntime => self.programs.subject("kube-runtime"),
            Contender::Floor => self.programs.subject("floor"),
        };
        let mut child = command
            .args(["--scenario", scenario, "--kubeconfig"])
            .arg(self.server.kubeconfig())
            .args(["--objects", &objects.to_string(), "--concurrency", &self.concurrency.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.contender.title()))?;
        let output = BufReader::new(child.stdout.take().context("standard output must be piped")?);
        Ok(Process { child, output })
    }
}

/// A running contender, killed when dropped.
struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the subject ended without a result: {}", self.child.wait()?);
        }
        Ok(line.trim().to_owned())
    }

    fn result<T: DeserializeOwned>(mut self) -> anyhow::Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("invalid result: {line}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
