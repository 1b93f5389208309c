//! Errors of an operator.

use std::{io, time::Duration};

use super::{BindAddress, HttpsError, LogError};
use crate::{client::ClientError, controller::ControllerError, manifests::ManifestError, webhook::ServeError};

/// Error that kept an operator from starting, or stopped it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The client could not be created.
    #[error("failed to connect to a cluster")]
    Client(#[from] ClientError),
    /// Logging could not be set up.
    #[error("failed to set up logging")]
    Logs(#[from] LogError),
    /// Signal handlers could not be installed.
    #[error("failed to install signal handlers")]
    Signals(#[source] io::Error),
    /// A server could not listen.
    #[error("failed to listen on {address} for {what}")]
    Listen {
        /// The server: `metrics` or `probes`.
        what: &'static str,
        /// The address.
        address: BindAddress,
        /// The cause.
        source: io::Error,
    },
    /// Metrics could not be served over HTTPS.
    #[error("failed to serve metrics over HTTPS")]
    Https(#[source] HttpsError),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// A CRD could not be applied.
    #[error("failed to install CustomResourceDefinition {name}")]
    Install {
        /// Name of the CRD.
        name: String,
        /// The response of the API server.
        source: Box<kube::Error>,
    },
    /// The webhook server could not start.
    #[error("failed to serve webhooks")]
    Webhooks(#[source] ServeError),
    /// A controller failed.
    #[error("the controller {name} failed")]
    Controller {
        /// Name of the controller.
        name: String,
        /// The cause.
        source: ControllerError,
    },
    /// A task failed.
    #[error("the task {name} failed")]
    Task {
        /// Name of the task.
        name: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An informer panicked, so its cache is no longer current.
    #[error("the informer of {resource} panicked")]
    Informer {
        /// The resource that it watched.
        resource: String,
    },
    /// A task panicked.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// Name of the task.
        name: String,
        /// The panic message.
        message: String,
    },
    /// A task ended that should have kept running.
    #[error("{name} ended unexpectedly")]
    EndedEarly {
        /// Name of the task.
        name: String,
    },
    /// Another process leads now, or the lease could not be renewed in time.
    #[error("leader election lost")]
    LeaderElectionLost,
    /// Reconciles in flight did not finish in time.
    #[error("{} did not finish within {grace:?}", names.join(", "))]
    GraceExceeded {
        /// The controllers and tasks that were still running.
        names: Vec<String>,
        /// The grace period.
        grace: Duration,
    },
    /// A second signal dropped the work in flight.
    #[error("stopped at once and dropped the work in flight")]
    Aborted,
    /// The manifests could not be generated.
    #[error("failed to generate the manifests")]
    Manifests(#[from] ManifestError),
    /// Output could not be written.
    #[error("failed to write the output")]
    Write(#[source] io::Error),
}

impl OperatorError {
    /// Returns advice for the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Client(error) => error.hint().to_owned(),
            Self::Logs(LogError::Level(..)) => "use error, warn, info, debug, trace or off".to_owned(),
            Self::Listen { what: "metrics", .. } => {
                "choose another --metrics-bind-address, or 0 to disable metrics".to_owned()
            }
            Self::Listen { what: "probes", .. } => {
                "choose another --health-probe-bind-address, or 0 to disable probes".to_owned()
            }
            Self::Https(HttpsError::Files(_)) => {
                "check that --metrics-cert-dir contains tls.crt and tls.key, or omit it".to_owned()
            }
            Self::Webhooks(ServeError::Listen { .. }) => "choose another --webhook-port".to_owned(),
            Self::Webhooks(ServeError::Files(_)) => {
                "check that --webhook-cert-dir contains tls.crt and tls.key, or omit it".to_owned()
            }
            Self::Webhooks(ServeError::SelfSigned(_)) => {
                "outside of a cluster, set --webhook-cert-dir; inside, allow the operator to write Secrets in \
                 its namespace"
                    .to_owned()
            }
            Self::Install { .. } => {
                "apply the CRDs yourself (the subcommand `crds` prints them) and omit --install-crds, \
                 or allow the operator to write customresourcedefinitions"
                    .to_owned()
            }
            Self::LeaderElectionLost => {
                "restart the process, as a Deployment does; if this happens often, the API server is \
                 slow or the process has too little CPU"
                    .to_owned()
            }
            Self::GraceExceeded { .. } => {
                "increase --graceful-timeout, and the pod's terminationGracePeriodSeconds".to_owned()
            }
            _ => return None,
        };
        Some(hint)
    }

    /// Returns the message with all causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let next = error.to_string();
            // Some errors already include their source.
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        text
    }

    /// Returns the exit code of the program: 3 if it could not start (cluster, addresses, settings), 4 if it lost the
    /// lease, 5 if work in flight was cut off, and 1 for everything else. 2 is for invalid flags.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Client(_) | Self::Logs(_) | Self::Signals(_) | Self::Listen { .. } | Self::Setting(_) => 3,
            Self::Https(_) | Self::Install { .. } | Self::Webhooks(_) => 3,
            Self::LeaderElectionLost => 4,
            Self::GraceExceeded { .. } | Self::Aborted => 5,
            _ => 1,
        }
    }
}
