//! Child processes that are killed with the benchmark, and their memory and processor time from `/proc`.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

/// `/proc` counts processor time in hundredths of a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Maximum time for a server to shut down.
const ENDS_WITHIN: Duration = Duration::from_secs(90);

/// A running server, killed when dropped. Its output goes to a file.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a command without standard input. Its output goes to `log`.
    pub fn spawn(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Fails with the last lines of the output if the process has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let output = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        bail!("the server ended with {status}:\n{}", lines[lines.len().saturating_sub(10)..].join("\n"))
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.signal("TERM")?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(start.elapsed() < ENDS_WITHIN, "the server did not end {} s after SIGTERM", ENDS_WITHIN.as_secs());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().context("cannot run kill")?;
        ensure!(sent.success(), "kill -{name} {pid}: {sent}");
        Ok(())
    }

    /// Number of open file descriptors.
    pub fn open_files(&self) -> anyhow::Result<usize> {
        let path = format!("/proc/{}/fd", self.child.id());
        Ok(fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?.count())
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> anyhow::Result<u64> {
        self.status("VmRSS")
    }

    /// Largest resident memory so far in bytes.
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        self.status("VmHWM")
    }

    fn status(&self, name: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        memory_of(&status, name).with_context(|| format!("{path} has no {name}"))
    }

    /// Processor time used so far, in all threads.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        ticks(&stat, OWN).map(|ticks| TICK * ticks).with_context(|| format!("{path} has no processor time"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that was free a moment ago, for servers that cannot pick one themselves.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns a line of `/proc/PID/status` in bytes: `VmRSS` is the resident memory now, `VmHWM` its peak.
pub fn memory_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the processor time of all child processes that were waited for, including their own children.
pub fn processor_time_of_children() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    ticks(&stat, CHILDREN).map(|ticks| TICK * ticks).context("/proc/self/stat has no processor time")
}

/// Index of the user time in `/proc/PID/stat`, of the process itself and of its children; the system time follows.
const OWN: usize = 11;
const CHILDREN: usize = 13;

/// Returns user plus system time. Fields are counted after the name, which may contain anything, spaces included.
fn ticks(stat: &str, whose: usize) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(whose);
    Some(fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_from_what_linux_writes() {
        let status = "Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t   12 kB\nThreads:\t1\n";
        assert_eq!((memory_of(status, "VmRSS"), memory_of(status, "VmHWM")), (Some(12 * 1024), Some(20 * 1024)));
        assert_eq!((memory_of("Name:\tx\n", "VmRSS"), memory_of(status, "Vm")), (None, None));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 5 2 20 0 1 0 5 100 20 18446744073709551615";
        assert_eq!((ticks(stat, OWN), ticks(stat, CHILDREN)), (Some(42), Some(7)));
    }

    #[test]
    fn a_server_can_shut_down_gracefully() {
        let folder = tempfile::tempdir().unwrap();
        let (log, script) =
            (folder.path().join("log"), "trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.01; done");
        let server = Server::spawn(Command::new("sh").args(["-c", script]), &log).unwrap();
        while fs::read_to_string(&log).unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        server.end().unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "up\nbye\n");
    }

    #[test]
    fn a_server_that_ends_is_reported_with_its_last_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let mut server =
            Server::spawn(command.args(["-c", "echo no port left >&2; exit 3"]), &folder.path().join("log")).unwrap();
        server.child.wait().unwrap();
        let error = server.check().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no port left"), "{error}");
    }
}
