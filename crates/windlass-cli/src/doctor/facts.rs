//! Facts about a machine, before evaluation.

use std::path::PathBuf;

/// All facts.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) tools: Tools,
    pub(super) machine: Machine,
    pub(super) folder: Folder,
    pub(super) cluster: Cluster,
    /// `None` outside of projects.
    pub(super) project: Option<ProjectFacts>,
    pub(super) terminal: Terminal,
}

/// Tools and the versions they report.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    pub(super) rustc: Option<String>,
    pub(super) cargo: Option<String>,
    pub(super) rustfmt: Option<String>,
    pub(super) clippy: Option<String>,
    pub(super) git: Option<String>,
    /// Client version only, for example `v1.36.1`.
    pub(super) kubectl: Option<String>,
    /// Docker or podman.
    pub(super) engine: Option<String>,
    /// Target for static binaries, and whether it is installed.
    pub(super) musl: Option<(String, bool)>,
}

/// The machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Free bytes on the disk of the data directory.
    pub(super) free: Option<u64>,
    pub(super) inotify_watches: Option<u64>,
    pub(super) inotify_instances: Option<u64>,
    /// Unix time in seconds.
    pub(super) now: i64,
    pub(super) port: Port,
}

/// Default port of a plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Port {
    #[default]
    Free,
    /// The plane of the data directory listens on it.
    Ours,
    /// Another process listens on it.
    Taken,
    /// It cannot be used for another reason.
    Unusable(String),
}

/// The data directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Its mode, if it exists.
    pub(super) mode: Option<u32>,
    /// Reason why it cannot be created or written to.
    pub(super) problem: Option<String>,
    /// Files with private keys that other users can read.
    pub(super) open_secrets: Vec<PathBuf>,
    /// Unix time in seconds at which the certificate authority expires.
    pub(super) authority_expires: Option<i64>,
    /// URL of the plane that is serving from it.
    pub(super) serves: Option<String>,
}

/// The cluster that kubectl would use.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    /// The kubeconfig that selects it, if there is one.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Its response: the version, such as `v1.36.0`, and the seconds that its clock is ahead of ours.
    pub(super) answer: Option<Result<(String, Option<i64>), String>>,
}

/// The project that contains the working directory.
#[derive(Clone, Debug, Default)]
pub(super) struct ProjectFacts {
    pub(super) root: PathBuf,
    /// Reason why its PROJECT file cannot be read or has another scaffold version, and what to do.
    pub(super) problem: Option<(String, String)>,
    /// The locked version of Windlass.
    pub(super) dependency: Option<String>,
    /// The checkout of Windlass that the project depends on, if it does not exist.
    pub(super) missing_checkout: Option<PathBuf>,
    /// Whether types have changed since the manifests were generated from them.
    pub(super) stale: bool,
}

/// The terminal of the output.
#[derive(Clone, Debug, Default)]
pub(super) struct Terminal {
    pub(super) is_terminal: bool,
    pub(super) columns: Option<u16>,
    pub(super) colour: bool,
    pub(super) utf8: bool,
}
