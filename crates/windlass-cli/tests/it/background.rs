//! A plane in the background: started, inspected and stopped by commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::Value;

use crate::process::{Up, output, windlass};

/// A data directory whose plane is stopped at the end.
struct Folder {
    _parent: tempfile::TempDir,
    path: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data dir");
        Self { _parent: parent, path }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        output(windlass().env_remove("KUBECONFIG").args(arguments).arg("--data-dir").arg(&self.path))
    }

    /// Runs a command that must succeed, and returns its standard output and standard error.
    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {out}{err}");
        (out, err)
    }

    /// Runs a command that must fail, and returns its standard error.
    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {out}{err}");
        err
    }

    fn start(&self) -> (String, String) {
        self.succeeds(&["up", "--background", "--port", "0"])
    }

    fn status(&self) -> (Option<i32>, Value) {
        let output = self.run(&["status", "-o", "json"]);
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
    }

    fn pid(&self) -> Pid {
        let (_, status) = self.status();
        Pid::from_raw(i32::try_from(status["pid"].as_i64().unwrap()).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.run(&["down", "--force", "--wait", "5"]);
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

#[test]
fn a_plane_is_started_inspected_and_stopped() {
    let folder = Folder::new();
    let kubeconfig = folder.path.join("kubeconfig");
    let (code, status) = folder.status();
    assert_eq!((code, status["state"].as_str()), (Some(1), Some("Stopped")));
    let said = folder.fails(&["kubectl-env"]);
    assert!(
        said.starts_with("error: no control plane is running in ") && said.contains("hint: start it with `windlass up"),
        "{said}"
    );

    let (exported, said) = folder.start();
    assert_eq!(exported, format!("export KUBECONFIG={}\n", quoted(&kubeconfig)));
    assert!(said.contains("Windlass serves Kubernetes v1.36 at https://127.0.0.1:"), "{said}");
    let (code, status) = folder.status();
    assert_eq!((code, status["state"].as_str()), (Some(0), Some("Running")), "{status}");
    assert_eq!(status["kubeconfig"].as_str(), kubeconfig.to_str());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["objects"]["namespaces"].as_u64() >= Some(1), "{status}");
    assert!(status["dataBytes"].as_u64() > Some(0), "{status}");
    let pid = folder.pid();
    assert_eq!(getsid(Some(pid)).unwrap(), pid, "it has a session of its own");

    for (shell, expected) in [
        ("bash", format!("export KUBECONFIG={}\n", quoted(&kubeconfig))),
        ("fish", format!("set -gx KUBECONFIG {}\n", quoted(&kubeconfig))),
        ("powershell", format!("$Env:KUBECONFIG = {}\n", quoted(&kubeconfig))),
    ] {
        assert_eq!(folder.succeeds(&["kubectl-env", "--shell", shell]).0, expected);
    }
    let (table, _) = folder.succeeds(&["status"]);
    assert!(table.starts_with("plane        running\nurl          https://127.0.0.1:"), "{table}");
    assert!(folder.succeeds(&["status", "-o", "yaml"]).0.contains("\nstate: Running\n"));

    let (exported, said) = folder.start();
    assert_eq!(exported, format!("export KUBECONFIG={}\n", quoted(&kubeconfig)));
    assert!(said.contains("already") && said.contains(&format!("(process {pid})")), "{said}");
    assert_eq!(folder.pid(), pid);
    let said = folder.fails(&["up", "--port", "0"]);
    assert!(said.contains(&format!(": {} (process {pid})", status["url"].as_str().unwrap())), "{said}");

    let (out, said) = folder.succeeds(&["down"]);
    assert_eq!(out, "");
    assert!(said.starts_with("stopping https://") && said.contains("\nstopped in "), "{said}");
    let (code, status) = folder.status();
    assert_eq!((code, status["state"].as_str()), (Some(1), Some("Stopped")));
    let (_, said) = folder.succeeds(&["down"]);
    assert_eq!(said, format!("no control plane is running in {}\n", folder.path.display()));
}

#[test]
fn leftovers_of_a_killed_plane_are_not_mistaken_for_a_plane() {
    let folder = Folder::new();
    folder.start();
    let pid = folder.pid();
    kill_process(pid, Signal::KILL).unwrap();
    // The lock is released with the process, which takes a moment to exit.
    while folder.status().1["state"] != "Stopped" {
        std::thread::yield_now();
    }
    assert!(folder.path.join("plane.json").exists());
    assert!(folder.succeeds(&["down"]).1.starts_with("no control plane is running in "));
    // The process with this id is not the plane.
    fs::write(folder.path.join("lock"), format!("{}\n", std::process::id())).unwrap();
    assert!(folder.succeeds(&["down"]).1.starts_with("no control plane is running in "));
    folder.start();
    assert_ne!(folder.pid(), pid);
}

#[test]
fn a_failed_start_shows_the_reason_and_a_hint() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path.join("pki")).unwrap();
    fs::write(folder.path.join("pki/ca.crt"), "damaged").unwrap();
    fs::write(folder.path.join("pki/ca.key"), "damaged").unwrap();
    let said = folder.fails(&["up", "-d", "--port", "0"]);
    assert!(said.starts_with("error: the control plane exited before it was serving (exit status: 1)\n  "), "{said}");
    assert!(said.contains("/pki/ca.crt is not a certificate in PEM"), "{said}");
    assert!(said.contains("\nhint: restore the file"), "{said}");
    assert_eq!(folder.status().1["state"], "Stopped");
}

#[test]
fn a_plane_in_the_foreground_is_found_and_stopped() {
    let parent = tempfile::tempdir().unwrap();
    let folder = Folder { path: parent.path().join("data"), _parent: parent };
    let up = Up::start(&folder.path, &["--store", "memory"]);
    let (code, status) = folder.status();
    assert_eq!((code, status["pid"].as_u64()), (Some(0), Some(up.pid().into())));
    assert_eq!(status["url"].as_str(), Some(up.url()));
    folder.succeeds(&["down"]);
    assert_eq!(folder.status().0, Some(1));
}

#[test]
fn data_is_only_deleted_with_confirmation() {
    let folder = Folder::new();
    folder.start();
    let said = folder.fails(&["down", "--delete-data"]);
    assert!(said.ends_with("hint: use --force to delete it without asking\n"), "{said}");
    assert_eq!(folder.status().0, Some(0), "nothing was stopped");
    fs::write(folder.path.join("images.yaml"), "mine").unwrap();
    folder.succeeds(&["down", "--delete-data", "--force"]);
    let left: Vec<_> = fs::read_dir(&folder.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["images.yaml"]);
}
