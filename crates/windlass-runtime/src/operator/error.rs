//! Why an operator did not run, or stopped running.

use std::{io, time::Duration};

use super::{BindAddress, LogError};
use crate::{client::ClientError, controller::ControllerError, manifests::ManifestError, webhook::ServeError};

/// Why an operator did not run, or stopped running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// There is no client.
    #[error("cannot talk to a cluster")]
    Client(#[from] ClientError),
    /// Logs cannot be written.
    #[error("cannot write logs")]
    Logs(#[from] LogError),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// A server cannot listen.
    #[error("cannot listen on {address} for {what}")]
    Listen {
        /// What was to be served.
        what: &'static str,
        /// Where.
        address: BindAddress,
        /// Why not.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The definition of a custom resource could not be applied.
    #[error("cannot install the definition {name}")]
    Install {
        /// Name of the definition.
        name: String,
        /// What the server answered.
        source: Box<kube::Error>,
    },
    /// Webhooks cannot be served.
    #[error("cannot serve the webhooks")]
    Webhooks(#[source] ServeError),
    /// A controller ended with an error.
    #[error("the controller {name} failed")]
    Controller {
        /// Its name.
        name: String,
        /// Why.
        source: ControllerError,
    },
    /// A task ended with an error.
    #[error("the task {name} failed")]
    Task {
        /// Its name.
        name: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An informer panicked: what it holds would not be current any more.
    #[error("the informer of {resource} panicked")]
    Informer {
        /// What it watched.
        resource: String,
    },
    /// Something panicked.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// What it was.
        name: String,
        /// What it said.
        message: String,
    },
    /// Something ended that should have gone on.
    #[error("{name} ended although nobody asked it to")]
    EndedEarly {
        /// What it was.
        name: String,
    },
    /// Another process leads now, or nobody could be asked.
    #[error("leader election lost")]
    LeaderElectionLost,
    /// Work in flight did not finish in time.
    #[error("{} did not finish within {grace:?}", names.join(", "))]
    GraceExceeded {
        /// What was still running.
        names: Vec<String>,
        /// The time it had.
        grace: Duration,
    },
    /// A second signal dropped what was in flight.
    #[error("stopped at once, with work in flight")]
    Aborted,
    /// Manifests cannot be made.
    #[error("cannot make the manifests")]
    Manifests(#[from] ManifestError),
    /// Output could not be written.
    #[error("cannot write")]
    Write(#[source] io::Error),
}

impl OperatorError {
    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Client(error) => error.hint().to_owned(),
            Self::Logs(LogError::Level(..)) => "use error, warn, info, debug, trace or off".to_owned(),
            Self::Listen { what: "metrics", .. } => {
                "give another --metrics-bind-address, or 0 to serve no metrics".to_owned()
            }
            Self::Listen { what: "probes", .. } => {
                "give another --health-probe-bind-address, or 0 to answer no probes".to_owned()
            }
            Self::Webhooks(ServeError::Listen { .. }) => "give another --webhook-port".to_owned(),
            Self::Webhooks(ServeError::Files(_)) => {
                "check that --webhook-cert-dir has tls.crt and tls.key, or leave it out".to_owned()
            }
            Self::Webhooks(ServeError::SelfSigned(_)) => {
                "outside of a cluster, give --webhook-cert-dir; in one, the operator must be allowed to write Secrets of \
                 its namespace"
                    .to_owned()
            }
            Self::Install { .. } => {
                "apply the definitions yourself (the subcommand `crds` prints them) and leave --install-crds out, \
                 or give the operator the right to write customresourcedefinitions"
                    .to_owned()
            }
            Self::LeaderElectionLost => {
                "the process must be started again, which a Deployment does; if this happens often, the API server is \
                 slow or the process gets too little CPU"
                    .to_owned()
            }
            Self::GraceExceeded { .. } => "give a longer --graceful-timeout, and the pod a longer \
                                           terminationGracePeriodSeconds"
                .to_owned(),
            _ => return None,
        };
        Some(hint)
    }

    /// The message, with what caused it.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let next = error.to_string();
            // Some errors show their source themselves.
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        text
    }

    /// The exit code of the program: 3 if it could not begin (cluster, addresses, settings), 4 if it lost the lease, 5
    /// if work in flight was cut off, 1 for all else. 2 is for flags that are not understood.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Client(_) | Self::Logs(_) | Self::Signals(_) | Self::Listen { .. } | Self::Setting(_) => 3,
            Self::Install { .. } | Self::Webhooks(_) => 3,
            Self::LeaderElectionLost => 4,
            Self::GraceExceeded { .. } | Self::Aborted => 5,
            _ => 1,
        }
    }
}
