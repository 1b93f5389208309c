//! The programs that envtest starts. `windlass assets` links their names to this binary, which acts according to the
//! name it is called by.
//!
//! `etcd` stores nothing itself: it owns a directory, and tells `kube-apiserver` where it is (`handover`). The API server
//! stores its objects there, so that they outlive it, as long as its etcd keeps its data.

mod etcd;
mod handover;
mod io_errors;
mod kube_apiserver;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

/// A program that this binary can act as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    KubeApiserver,
    Etcd,
}

impl Entry {
    /// All entries.
    pub(crate) const ALL: [Self; 2] = [Self::KubeApiserver, Self::Etcd];

    /// Name of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
        }
    }

    /// Returns the entry that a program was called as, if any.
    pub(crate) fn called_as(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?;
        Self::ALL.into_iter().find(|entry| name == entry.name())
    }

    /// Acts as the program until it ends.
    pub(crate) fn run(self, arguments: impl Iterator<Item = OsString>) -> ExitCode {
        // Flags are text, and so are the paths that envtest and similar programs pass.
        let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
        match self {
            Self::KubeApiserver => kube_apiserver::run(&arguments),
            Self::Etcd => etcd::run(&arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_the_path_decides() {
        for (program, expected) in [
            ("/tmp/assets/kube-apiserver", Some(Entry::KubeApiserver)),
            ("etcd", Some(Entry::Etcd)),
            ("./etcd", Some(Entry::Etcd)),
            ("/usr/bin/windlass", None),
            ("/etcd/windlass", None),
            ("kube-apiserver-1.36", None),
            ("", None),
        ] {
            assert_eq!(Entry::called_as(OsStr::new(program)), expected, "{program}");
        }
    }
}
