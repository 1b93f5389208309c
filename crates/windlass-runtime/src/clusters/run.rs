//! Starts and leaves clusters as they come and go.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use kube::Client;
use tokio::task::{Id, JoinSet};
use tracing::Instrument as _;

use super::{ClusterState, Clusters, ProvidedClusters, life::Life};
use crate::{
    cache::Caches,
    metrics::Metrics,
    operator::{DebugState, Replicas},
    shutdown::Shutdown,
};

/// Settings that clusters take from the operator of the home cluster.
pub(crate) struct Home {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) metrics: Metrics,
    pub(crate) state: DebugState,
    pub(crate) replicas: Replicas,
    pub(crate) instance: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) debug_state: bool,
    pub(crate) grace: Duration,
    pub(crate) user_agent: String,
}

/// A cluster that runs or is being left.
struct Running {
    version: u64,
    shutdown: Shutdown,
    task: Id,
}

/// Runs the operators of all clusters until drained. Boxed, as these operators may have clusters, too.
pub(crate) fn run(clusters: Clusters, home: Home, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(follow(clusters, home, shutdown))
}

async fn follow(clusters: Clusters, home: Home, shutdown: Shutdown) {
    let Clusters { name: set_name, set, build, providers, lease_namespace } = clusters;
    let home = Arc::new(home);
    let shown = set.clone();
    let view = set_name.as_ref().map_or_else(|| "clusters".to_owned(), |name| format!("clusters/{name}"));
    home.state.add(view, move || shown.view());
    let mut provided = JoinSet::new();
    for (number, provider) in providers.into_iter().enumerate() {
        let (client, caches) = (home.client.clone(), home.caches.clone());
        let clusters = ProvidedClusters { set: set.clone(), number, client, caches };
        provided.spawn(provider.run(clusters).in_current_span().boxed());
    }
    let (mut tasks, mut running) = (JoinSet::new(), HashMap::<Arc<str>, Running>::new());
    let mut wanted = set.wanted.subscribe();
    loop {
        let members = wanted.borrow_and_update().members.clone();
        for (name, one) in &running {
            if members.get(name).is_none_or(|member| member.version != one.version) && !one.shutdown.is_draining() {
                tracing::info!(cluster = &**name, "leaving the cluster");
                set.set_state(name, Some(ClusterState::Leaving));
                one.shutdown.drain();
            }
        }
        for (name, member) in members {
            // A cluster of the same name is left first.
            if running.contains_key(&name) {
                continue;
            }
            let stop = shutdown.later();
            let life = Life {
                name: name.clone(),
                set_name: set_name.clone(),
                access: member.access,
                build: build.clone(),
                set: set.clone(),
                home: home.clone(),
                lease_namespace: lease_namespace.clone(),
                shutdown: stop.clone(),
            };
            let span = tracing::info_span!("cluster", cluster = &*name);
            let task = tasks.spawn(life.live().instrument(span).boxed()).id();
            running.insert(name, Running { version: member.version, shutdown: stop, task });
        }
        tokio::select! {
            biased;
            () = shutdown.draining() => break,
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                running.retain(|_, one| one.task != id);
            }
            Some(ended) = provided.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a cluster provider failed; its clusters are left unchanged");
                }
            }
            // The set holds the sender.
            _ = wanted.changed() => {}
        }
    }
    running.values().for_each(|one| one.shutdown.drain());
    while tasks.join_next().await.is_some() {}
}
