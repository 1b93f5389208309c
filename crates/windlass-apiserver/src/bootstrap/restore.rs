//! Restores essential objects of a cluster as soon as they are deleted.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::select_all;
use windlass_store::Revision;

use super::{NAMESPACES, create_namespaces, create_own_service, kubernetes_service, token_tracking};
use crate::{
    server::{BuildError, Inner, Server},
    storage::{ResourceCache, Storage},
};

/// Initial and maximum delay before a failed attempt is retried.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(1000));

/// The state of the objects: their revisions, and `None` for missing ones.
type Revisions = Vec<Option<Revision>>;

/// The caches of the objects, with their keys there.
struct Kept(Vec<(Arc<ResourceCache>, &'static [&'static str])>);

impl Kept {
    fn of(storage: &Storage, listens: bool) -> Self {
        const OWN: &[&str] = &["default/kubernetes"];
        let mut kept = vec![
            (storage.cache("/core/namespaces/"), NAMESPACES),
            (storage.cache("/core/services/"), OWN),
            (storage.cache("/networking.k8s.io/servicecidrs/"), &["kubernetes"][..]),
        ];
        if listens {
            kept.push((storage.cache("/core/configmaps/"), &[token_tracking::KEY]));
            kept.push((storage.cache("/core/endpoints/"), OWN));
            kept.push((storage.cache("/discovery.k8s.io/endpointslices/"), OWN));
        }
        Self(kept)
    }

    fn revisions(&self) -> Revisions {
        let keys = self.0.iter().flat_map(|(cache, keys)| keys.iter().map(move |key| (cache, *key)));
        keys.map(|(cache, key)| cache.get(key).map(|object| object.revision)).collect()
    }
}

/// Restores the objects whenever one of them is deleted or changed, until the server is dropped. Namespaces, the
/// Service and the ServiceCIDR, whose condition is set, are only created; the endpoints and the ConfigMap are also
/// corrected.
pub(crate) async fn run(server: Weak<Inner>, listening: Option<SocketAddr>, advertised: Option<IpAddr>) {
    let Some(kept) = server.upgrade().map(|server| Kept::of(&server.storage, listening.is_some())) else { return };
    let (mut checked, mut delay) = (Revisions::new(), RETRY.0);
    loop {
        let changed = select_all(kept.0.iter().map(|(cache, _)| Box::pin(cache.changed())));
        let revisions = kept.revisions();
        if revisions != checked {
            let Some(inner) = server.upgrade() else { return };
            match restore(&Server { inner }, listening, advertised).await {
                Ok(()) => (checked, delay) = (revisions, RETRY.0),
                Err(error) => {
                    tracing::warn!(%error, "failed to restore an object that every cluster has");
                    tokio::time::sleep(delay).await;
                    delay = RETRY.1.min(delay * 2);
                    continue;
                }
            }
        }
        changed.await;
    }
}

async fn restore(server: &Server, listening: Option<SocketAddr>, advertised: Option<IpAddr>) -> Result<(), BuildError> {
    create_namespaces(server).await?;
    kubernetes_service::create_service_cidr(server).await?;
    kubernetes_service::mark_service_cidr_ready(server).await?;
    create_own_service(server, listening, advertised).await?;
    if listening.is_none() {
        return Ok(());
    }
    let tracking = token_tracking::write(&server.inner).await;
    tracking.map_err(|error| super::failed("the ConfigMap about service account tokens", &error))
}
