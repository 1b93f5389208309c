//! Reasons why a store in etcd cannot be opened, with advice.

use std::{io, path::PathBuf};

use crate::status::CallError;

/// An error while opening a store in etcd.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No server was named.
    #[error("no etcd server is given")]
    NoServers,
    /// A URL cannot be used.
    #[error("cannot use etcd server {server:?}: {problem}")]
    Server {
        /// The URL.
        server: String,
        /// The problem.
        problem: &'static str,
    },
    /// Certificates were given for a server that is reached without TLS.
    #[error("certificates have no effect on {server}")]
    NotEncrypted {
        /// The URL.
        server: String,
    },
    /// A client certificate without its key, or a key without certificate.
    #[error("a client certificate of etcd and its key belong together")]
    HalfAPair,
    /// The prefix cannot be used.
    #[error("cannot use {prefix:?} as a prefix of keys")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// A file could not be read.
    #[error("failed to read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file has no certificate or key, or they do not match.
    #[error("cannot use {}: {problem}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// etcd does not trust this client, or the other way around.
    #[error("the TLS handshake with etcd failed: {cause}")]
    Tls {
        /// The error of every server.
        cause: String,
    },
    /// No server responds, or there is no leader.
    #[error("etcd cannot be reached: {cause}")]
    Unreachable {
        /// The error of every server.
        cause: String,
    },
    /// The program of a server is too old.
    #[error("etcd {version} is too old")]
    Version {
        /// Its version.
        version: String,
    },
    /// Objects of kube-apiserver are stored under the prefix.
    #[error("the keys under {prefix} in etcd are those of kube-apiserver: {key}")]
    Kubernetes {
        /// The prefix.
        prefix: String,
        /// One of the keys.
        key: String,
    },
    /// A migration of objects to the prefix has not been completed.
    #[error("the objects under {prefix} in etcd are incomplete: a migration was interrupted or has not ended yet")]
    Incomplete {
        /// The prefix.
        prefix: String,
    },
    /// The key that equals the prefix has an unknown value.
    #[error("the key {prefix} in etcd has an unknown format")]
    Format {
        /// The prefix.
        prefix: String,
    },
    /// etcd responds with an error.
    #[error("etcd cannot be used: {cause}")]
    Refused {
        /// The error.
        cause: String,
    },
}

impl EtcdError {
    /// The error of a read while the store is opened.
    pub(crate) fn of_read(error: CallError) -> Self {
        let cause = error.to_string();
        match error.is_transient() {
            true => Self::Unreachable { cause },
            false => Self::Refused { cause },
        }
    }

    /// Returns whether another attempt may succeed without any change to the options.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Returns advice on how to resolve the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoServers => "name the members of the cluster with --etcd-servers",
            Self::Server { .. } => "write https://HOST:PORT, several separated by commas",
            Self::NotEncrypted { .. } => "use https:// in --etcd-servers, or leave out the certificates",
            Self::HalfAPair => "give both --etcd-certfile and --etcd-keyfile",
            Self::Prefix { .. } => "choose an --etcd-prefix such as /windlass",
            Self::File { .. } | Self::Certificate { .. } => {
                "check --etcd-cafile, --etcd-certfile and --etcd-keyfile: they are files in PEM"
            }
            Self::Tls { .. } => {
                "--etcd-cafile must be the authority of the servers' certificates, which must be valid for their hosts; if etcd \
                 has --client-cert-auth, --etcd-certfile must be signed by its --trusted-ca-file; a server without TLS needs \
                 http://"
            }
            Self::Unreachable { .. } => {
                "check that etcd is running and has a leader, that --etcd-servers are its client URLs, and that http and https \
                 are not confused"
            }
            Self::Version { .. } => {
                "update etcd to 3.5.13, 3.4.31 or later: older versions report the progress of watches wrongly"
            }
            Self::Kubernetes { .. } => "choose another --etcd-prefix: Windlass stores objects in its own format",
            Self::Incomplete { .. } => {
                "run the same `windlass store migrate` again, which starts over; or delete the keys with `etcdctl del --prefix`"
            }
            Self::Format { .. } => {
                "use the version of windlass that has written it, or a later one; or choose another --etcd-prefix"
            }
            Self::Refused { .. } => "check the permissions of the client certificate in etcd, and its alarms",
        }
    }
}
