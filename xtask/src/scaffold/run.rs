//! Runs a generated operator as its author would: `windlass run --samples` until all samples are applied and one is ready,
//! or `windlass run` until the operator is, then Ctrl-C. The operator converts samples of several versions.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use super::Workshop;

/// Includes the build: everything but the binary itself was already built for the tests.
const READY_WITHIN: Duration = Duration::from_secs(600);
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A process; killed when dropped.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the operator of a project until it is ready, with `--samples` until one of its objects is ready.
pub(super) fn until_ready(workshop: &Workshop, project: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let mut command = workshop.command(&workshop.windlass, &project.join("src"));
    command.args(["run", "--plain", "--no-watch"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Run(command.spawn().with_context(|| format!("cannot run {}", workshop.windlass.display()))?);
    let said = run.0.stderr.take().context("standard error is piped")?;
    let (sender, lines) = mpsc::sync_channel(64);
    thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut all = Vec::new();
    let end = Instant::now() + READY_WITHIN;
    let without_samples = !arguments.iter().any(|argument| argument == "--samples");
    let (mut ready, mut samples) = (false, without_samples);
    while !(ready && samples) {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                ready |= line.contains(": Ready=True") || without_samples && line.ends_with("the operator is ready");
                samples |= line.ends_with("samples applied");
                let rejected = line.contains("cannot apply");
                all.push(line);
                ensure!(!rejected, "windlass run failed to apply an object:\n{}", all.join("\n"));
            }
            Err(_) => bail!("nothing became ready:\n{}", all.join("\n")),
        }
    }
    // Keep draining the pipe, so that the process can still write.
    thread::spawn(move || lines.into_iter().for_each(drop));
    let told = Command::new("kill").args(["-s", "INT", &run.0.id().to_string()]).status();
    ensure!(told.context("cannot run kill")?.success(), "failed to interrupt windlass run");
    let end = Instant::now() + ENDS_WITHIN;
    loop {
        if let Some(status) = run.0.try_wait()? {
            ensure!(status.success(), "windlass run exited with {status}");
            return Ok(());
        }
        ensure!(Instant::now() < end, "windlass run did not stop");
        thread::sleep(Duration::from_millis(20));
    }
}
