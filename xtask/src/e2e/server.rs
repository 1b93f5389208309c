//! The server that the suites connect to.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use crate::cargo;

const READY_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A server. One that was started here stops when this value is dropped.
pub(crate) struct Server {
    kubeconfig: PathBuf,
    process: Option<Child>,
}

impl Server {
    /// Starts Windlass without loops and nodes (building it if no program is given) or Kubernetes, or uses the server of a
    /// kubeconfig.
    pub(crate) fn start(against: &str, windlass: Option<&Path>, peers: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(against, windlass, &["--controllers", "", "--nodes", "0"], peers, folder)
    }

    /// Like [`start`](Self::start), with these flags of `windlass up`. The port is a free one unless they name one.
    pub(crate) fn start_with(
        against: &str,
        windlass: Option<&Path>,
        flags: &[&str],
        peers: &Path,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let data = folder.join("server");
        let kubeconfig = data.join("kubeconfig");
        let (mut command, ready) = match against {
            "windlass" => {
                let ready = data.with_extension("ready");
                let mut command = Command::new(windlass.map_or_else(cargo::windlass, |file| Ok(file.to_owned()))?);
                command.arg("up").args(flags);
                if !flags.contains(&"--port") {
                    command.args(["--port", "0"]);
                }
                command.arg("--data-dir").arg(&data);
                command.arg("--ready-file").arg(&ready);
                (command, ready)
            }
            "kubernetes" => {
                let mut command = Command::new(cargo::build("windlass-bench", "windlass-bench")?);
                command.arg("pair").arg("--peers").arg(peers).arg("--kubeconfig").arg(&kubeconfig);
                (command, kubeconfig.clone())
            }
            file => {
                let kubeconfig = std::path::absolute(file)?;
                ensure!(kubeconfig.is_file(), "kubeconfig {file} does not exist");
                return Ok(Self { kubeconfig, process: None });
            }
        };
        for stale in [&data, &ready] {
            let _ = if stale.is_dir() { fs::remove_dir_all(stale) } else { fs::remove_file(stale) };
        }
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        let log = folder.join("server.log");
        let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let process = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn();
        let process = process.with_context(|| format!("cannot start {against}"))?;
        let mut server = Self { kubeconfig, process: Some(process) };
        server.wait_for(&ready, &log)?;
        println!("{against} is ready; its log is {}", log.display());
        Ok(server)
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the id of the process that was started here.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Fails if a server that was started here has ended.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        match self.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
            Some(status) => bail!("the server ended unexpectedly with {status}"),
            None => Ok(()),
        }
    }

    /// Stops the server with SIGTERM; it must exit successfully.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.check_running()?;
        let Some(process) = &mut self.process else { return Ok(()) };
        let status = terminate(process)?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    fn wait_for(&mut self, ready: &Path, log: &Path) -> anyhow::Result<()> {
        let start = Instant::now();
        while !ready.is_file() {
            if let Some(status) = self.process.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("the server ended with {status}: {}", fs::read_to_string(log).unwrap_or_default());
            }
            ensure!(start.elapsed() < READY_WITHIN, "the server did not become ready; see {}", log.display());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After an error: kube-apiserver and etcd end only if the program that started them is stopped.
        if let Some(process) = &mut self.process
            && terminate(process).is_err()
        {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Sends SIGTERM to the process and waits for it, unless it has already ended.
fn terminate(process: &mut Child) -> anyhow::Result<ExitStatus> {
    if process.try_wait()?.is_none() {
        Command::new("kill").arg(process.id().to_string()).status().context("cannot run kill")?;
    }
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        ensure!(start.elapsed() < ENDS_WITHIN, "the server did not stop after SIGTERM");
        thread::sleep(Duration::from_millis(10));
    }
}
