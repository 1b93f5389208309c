//! What was found on a machine, not yet judged.

use std::path::PathBuf;

/// Everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) tools: Tools,
    pub(super) machine: Machine,
    pub(super) folder: Folder,
    pub(super) cluster: Cluster,
    /// Nothing outside of projects.
    pub(super) project: Option<ProjectFacts>,
    pub(super) terminal: Terminal,
}

/// Programs, by what they say of their version.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    pub(super) rustc: Option<String>,
    pub(super) cargo: Option<String>,
    pub(super) rustfmt: Option<String>,
    pub(super) clippy: Option<String>,
    pub(super) git: Option<String>,
    /// The version of the client alone, as `v1.36.1`.
    pub(super) kubectl: Option<String>,
    /// Docker or podman.
    pub(super) engine: Option<String>,
    /// The target of static programs, and whether it is installed.
    pub(super) musl: Option<(String, bool)>,
}

/// The machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Bytes on the disk of the data folder.
    pub(super) free: Option<u64>,
    pub(super) inotify_watches: Option<u64>,
    pub(super) inotify_instances: Option<u64>,
    /// Seconds since 1970.
    pub(super) now: i64,
    pub(super) port: Port,
}

/// The port that a plane listens on by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Port {
    #[default]
    Free,
    /// The plane of the data folder listens there.
    Ours,
    /// Somebody else does.
    Taken,
    /// It cannot be listened on for another reason.
    Unusable(String),
}

/// The data folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Its mode, if it is there.
    pub(super) mode: Option<u32>,
    /// Why nothing can be written to it, or made of it.
    pub(super) problem: Option<String>,
    /// Files with keys that others may read.
    pub(super) open_secrets: Vec<PathBuf>,
    /// Where a plane serves from it.
    pub(super) serves: Option<String>,
}

/// The cluster that kubectl would talk to.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    /// The file that says so, if there is one.
    pub(super) kubeconfig: Option<PathBuf>,
    /// What it answered: its version, as `v1.36.0`, and by how many seconds its clock is ahead of ours.
    pub(super) answer: Option<Result<(String, Option<i64>), String>>,
}

/// The project that the working directory is in.
#[derive(Clone, Debug, Default)]
pub(super) struct ProjectFacts {
    pub(super) root: PathBuf,
    /// Why its file cannot be read or is of another scaffold, and what to do.
    pub(super) problem: Option<(String, String)>,
    /// The version of Windlass that is locked.
    pub(super) dependency: Option<String>,
    /// Whether types were changed after the manifests that are made from them.
    pub(super) stale: bool,
}

/// Where this is printed.
#[derive(Clone, Debug, Default)]
pub(super) struct Terminal {
    pub(super) is_terminal: bool,
    pub(super) columns: Option<u16>,
    pub(super) colour: bool,
    pub(super) utf8: bool,
}
