//! Webhooks over TLS, called as by kube-apiserver.

#![allow(clippy::disallowed_names, reason = "the kind is called Foo")]

mod admission;
pub(crate) mod caller;
mod cluster;
mod context;
mod conversion;
pub(crate) mod foo;
mod mounted;
mod self_signed;
mod serving;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::task::JoinHandle;
use windlass_runtime::{
    metrics::Metrics,
    shutdown::Shutdown,
    webhook::{CertResolver, Certificates, WebhookOptions, Webhooks},
};

pub(crate) use caller::Authority;
use caller::Caller;

/// A running server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves on a free port of this machine.
    pub(crate) async fn start(webhooks: Webhooks, mut options: WebhookOptions) -> Self {
        options.address = (Ipv4Addr::LOCALHOST, 0).into();
        let metrics = Metrics::new();
        let shutdown = Shutdown::new();
        let server = webhooks.bind(options, &metrics).await.unwrap();
        let address = server.address();
        Self { address, metrics, shutdown: shutdown.clone(), task: tokio::spawn(server.run(shutdown)) }
    }

    /// Serves with a certificate for this machine, and returns a caller that trusts it.
    pub(crate) async fn with_certificate(webhooks: Webhooks) -> (Self, Caller) {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("127.0.0.1");
        let resolver = CertResolver::new();
        resolver.set_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let served = Self::start(webhooks, WebhookOptions::new(Certificates::Given(resolver))).await;
        let caller = Caller::new(served.address, &authority.pem());
        (served, caller)
    }

    /// Stops it at once.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Waits until it has stopped.
    pub(crate) async fn ended(self) {
        self.task.await.unwrap();
    }
}
