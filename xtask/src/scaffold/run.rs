//! A generated operator, run as its author would: `windlass run --samples` until all samples are in place and one is ready,
//! then Ctrl-C. Samples of several versions are converted by the operator.

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

/// The build is over by then: everything but the program itself was built for the tests.
const READY_WITHIN: Duration = Duration::from_secs(600);
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Ends what it holds.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the operator of a project until an object of it is ready.
pub(super) fn until_ready(workshop: &Workshop, project: &Path) -> anyhow::Result<()> {
    let mut command = workshop.command(&workshop.windlass, &project.join("src"));
    command.args(["run", "--plain", "--samples", "--no-watch"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Run(command.spawn().with_context(|| format!("cannot run {}", workshop.windlass.display()))?);
    let said = run.0.stderr.take().context("what it says must be piped")?;
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
    let (mut ready, mut samples) = (false, false);
    while !(ready && samples) {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                ready |= line.contains(": Ready=True");
                samples |= line.ends_with("the samples are in place");
                let refused = line.contains("cannot apply");
                all.push(line);
                ensure!(!refused, "windlass run has not applied everything:\n{}", all.join("\n"));
            }
            Err(_) => bail!("windlass run has made nothing ready:\n{}", all.join("\n")),
        }
    }
    // Nobody reads any longer, but the other side must be able to write.
    thread::spawn(move || lines.into_iter().for_each(drop));
    let told = Command::new("kill").args(["-s", "INT", &run.0.id().to_string()]).status();
    ensure!(told.context("cannot run kill")?.success(), "windlass run could not be interrupted");
    let end = Instant::now() + ENDS_WITHIN;
    loop {
        if let Some(status) = run.0.try_wait()? {
            ensure!(status.success(), "windlass run ended with {status}");
            return Ok(());
        }
        ensure!(Instant::now() < end, "windlass run has not ended");
        thread::sleep(Duration::from_millis(20));
    }
}
