//! The life of one cluster: connect, run its operator, start again after failures.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{Access, Build, Cluster, ClusterSet, ClusterState, run::Home};
use crate::{
    client::{self, ClientOptions},
    operator::{Listener, Options, Replicas},
    shutdown::Shutdown,
};

/// Delay after the first failure, and the longest one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LAST_DELAY: Duration = Duration::from_secs(60);
/// Time without a failure that resets the delay.
const HEALTHY: Duration = Duration::from_secs(120);

/// One cluster.
pub(super) struct Life {
    pub(super) name: Arc<str>,
    pub(super) access: Access,
    pub(super) build: Build,
    pub(super) set: ClusterSet,
    pub(super) home: Arc<Home>,
    pub(super) lease_namespace: Option<String>,
    pub(super) shutdown: Shutdown,
}

impl Life {
    /// Runs the operator of the cluster until it is left.
    pub(super) async fn live(self) {
        // However this ends.
        let _ending = Ending { set: self.set.clone(), name: self.name.clone() };
        let mut delay = FIRST_DELAY;
        loop {
            let began = tokio::time::Instant::now();
            let outcome = AssertUnwindSafe(self.attempt())
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Err(format!("panicked: {}", crate::panic::message(panic.as_ref()))));
            self.home.metrics.detach(&self.name);
            let error = match outcome {
                Ok(()) => "its operator ended".to_owned(),
                Err(error) => error,
            };
            if self.shutdown.is_draining() {
                return;
            }
            if began.elapsed() >= HEALTHY {
                delay = FIRST_DELAY;
            }
            tracing::warn!(cluster = &*self.name, error, ?delay, "the cluster failed; retrying after a delay");
            self.set.set_state(&self.name, Some(ClusterState::Failed(error)));
            if tokio::time::timeout(delay, self.shutdown.draining()).await.is_ok() {
                return;
            }
            delay = (delay * 2).min(LAST_DELAY);
        }
    }

    async fn attempt(&self) -> Result<(), String> {
        let client = self.connect().await?;
        let cluster = Cluster { name: self.name.clone(), client: client.clone(), home: self.home.client.clone() };
        let operator = (self.build)(&cluster).without_webhooks();
        self.home.metrics.attach("cluster", &self.name, operator.metrics());
        self.set.set_state(&self.name, Some(ClusterState::Running));
        tracing::info!(cluster = &*self.name, "working in the cluster");
        let outcome = operator.run_with(client, self.options(), self.shutdown.clone()).await;
        outcome.map_err(|error| error.chain())
    }

    async fn connect(&self) -> Result<Client, String> {
        let (text, is_local) = match &self.access {
            Access::Client(client) => return Ok(client.clone()),
            Access::Kubeconfig { text, is_local } => (text, *is_local),
        };
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| format!("invalid kubeconfig: {error}"))?;
        if !is_local && uses_machine(&kubeconfig) {
            return Err("the kubeconfig of a Secret must not run commands or name files".to_owned());
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| format!("invalid kubeconfig: {error}"))?;
        client::connect(&config, ClientOptions::new(&*self.home.user_agent)).map_err(|error| error.to_string())
    }

    fn options(&self) -> Options {
        let mut replicas = self.home.replicas.clone();
        if let (Replicas::Leader(lease) | Replicas::Shards(lease), Some(namespace)) =
            (&mut replicas, &self.lease_namespace)
        {
            lease.namespace.clone_from(namespace);
        }
        let off = || Listener::Address(crate::operator::BindAddress::Off);
        Options {
            instance: self.home.instance.clone(),
            namespaces: self.home.namespaces.clone(),
            replicas,
            metrics: off(),
            probes: off(),
            grace: self.home.grace,
            ..Options::default()
        }
    }
}

/// Returns whether a kubeconfig runs commands or reads files of this machine.
fn uses_machine(kubeconfig: &Kubeconfig) -> bool {
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    let user = |user: &kube::config::AuthInfo| {
        user.exec.is_some()
            || user.auth_provider.is_some()
            || user.token_file.is_some()
            || user.client_certificate.is_some()
            || user.client_key.is_some()
    };
    users.into_iter().any(user) || clusters.into_iter().any(|cluster| cluster.certificate_authority.is_some())
}

/// Drops the state of a cluster that was left.
struct Ending {
    set: ClusterSet,
    name: Arc<str>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.set.set_state(&self.name, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfigs_that_use_the_machine_are_recognized() {
        let kubeconfig = |user: &str, cluster: &str| {
            let text = format!(
                "clusters: [{{name: c, cluster: {{server: 'https://c', {cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
            );
            Kubeconfig::from_yaml(&text).unwrap()
        };
        assert!(!uses_machine(&kubeconfig("token: abc", "certificate-authority-data: YQ==")));
        for user in ["exec: {command: sh}", "tokenFile: /etc/passwd", "client-key: /key", "client-certificate: /cert"] {
            assert!(uses_machine(&kubeconfig(user, "")), "{user}");
        }
        assert!(uses_machine(&kubeconfig("token: abc", "certificate-authority: /ca")));
    }
}
