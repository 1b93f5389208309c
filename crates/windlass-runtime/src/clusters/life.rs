//! The life of one cluster: connect, run its operator, start again after failures.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::sync::oneshot;

use super::{Build, Cluster, ClusterAccess, ClusterSet, ClusterState, provider::Access, run::Home};
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
/// Time after which credentials are reported as missing.
const SLOW: Duration = Duration::from_secs(30);

/// One cluster.
pub(super) struct Life {
    pub(super) name: Arc<str>,
    pub(super) set_name: Option<Arc<str>>,
    pub(super) access: ClusterAccess,
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
        let shown = self.shown_name();
        let mut delay = FIRST_DELAY;
        loop {
            let began = tokio::time::Instant::now();
            let outcome = AssertUnwindSafe(self.attempt(&shown))
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Err(format!("panicked: {}", crate::panic::message(panic.as_ref()))));
            self.home.metrics.detach(&shown);
            self.set.set_operator(&self.name, None);
            if self.shutdown.is_draining() {
                if let Err(error) = outcome {
                    tracing::warn!(cluster = &*self.name, error, "failed while the cluster was left");
                }
                return;
            }
            let error = outcome.err().unwrap_or_else(|| "its operator ended".to_owned());
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

    /// Returns the name in metrics.
    fn shown_name(&self) -> Arc<str> {
        match &self.set_name {
            Some(set) => format!("{set}/{}", self.name).into(),
            None => self.name.clone(),
        }
    }

    async fn attempt(&self, shown: &Arc<str>) -> Result<(), String> {
        let Some(client) = self.connect().await? else { return Ok(()) };
        let cluster = Cluster { name: self.name.clone(), client: client.clone(), home: self.home.client.clone() };
        let operator = (self.build)(&cluster).into_member();
        self.home.metrics.attach("cluster", shown, operator.metrics());
        self.set.set_operator(&self.name, Some(operator.state().clone()));
        self.set.set_state(&self.name, Some(ClusterState::Running));
        tracing::info!(cluster = &*self.name, "working in the cluster");
        let outcome = operator.run_with(client, self.options(), self.shutdown.clone()).await;
        outcome.map_err(|error| error.chain())
    }

    /// Returns the client of the cluster; `None` if the cluster is left meanwhile.
    async fn connect(&self) -> Result<Option<Client>, String> {
        let (text, is_local) = match &self.access.0 {
            Access::Client { client, .. } => return Ok(Some(client.clone())),
            Access::Kubeconfig { text, is_local } => (text, *is_local),
        };
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| format!("invalid kubeconfig: {error}"))?;
        if !is_local && uses_machine(&kubeconfig) {
            return Err("the kubeconfig of a Secret must not run commands or name files".to_owned());
        }
        // Credential plugins block the thread, for as long as they like: one of the runtime's must not wait for them, not even
        // when the process ends.
        let (options, runtime) = (ClientOptions::new(&*self.home.user_agent), tokio::runtime::Handle::current());
        let (tell, told) = oneshot::channel();
        let connecting = move || {
            let connected = runtime.block_on(connect(kubeconfig, options));
            // The cluster may have been left.
            let _ = tell.send(connected);
        };
        let thread = std::thread::Builder::new().name("cluster-credentials".to_owned()).spawn(connecting);
        thread.map_err(|error| format!("failed to start a thread: {error}"))?;
        let slow = async {
            tokio::time::sleep(SLOW).await;
            tracing::warn!(cluster = &*self.name, "still waiting for the credentials of the cluster");
            let problem = format!("its credential plugin has not responded within {SLOW:?}");
            self.set.set_state(&self.name, Some(ClusterState::Failed(problem)));
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = self.shutdown.draining() => Ok(None),
            connected = told => connected.unwrap_or_else(|_| Err("connecting panicked".to_owned())).map(Some),
            never = slow => never,
        }
    }

    fn options(&self) -> Options {
        let mut replicas = self.home.replicas.clone();
        if let (Replicas::Leader(lease) | Replicas::Shards(lease), Some(namespace)) =
            (&mut replicas, &self.lease_namespace)
        {
            lease.namespace.clone_from(namespace);
        }
        // Operators of several sets may work in one cluster.
        if let (Replicas::Leader(lease) | Replicas::Shards(lease), Some(set)) = (&mut replicas, &self.set_name) {
            lease.name = format!("{}-{set}", lease.name);
        }
        let off = || Listener::Address(crate::operator::BindAddress::Off);
        Options {
            instance: self.home.instance.clone(),
            namespaces: self.home.namespaces.clone(),
            replicas,
            metrics: off(),
            probes: off(),
            debug_state: self.home.debug_state,
            grace: self.home.grace,
            ..Options::default()
        }
    }
}

async fn connect(kubeconfig: Kubeconfig, options: ClientOptions) -> Result<Client, String> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| format!("invalid kubeconfig: {error}"))?;
    client::connect(&config, options).map_err(|error| crate::Error::from(error).to_string())
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
        self.set.set_operator(&self.name, None);
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
