//! Follows how the main API server authenticates: its authorities can be replaced while the extension runs.

use std::time::Duration;

use futures_util::{TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use tracing::{info, warn};
use windlass_apiserver::{Server, authentication::AuthenticationOptions};

use crate::delegated;

/// The time after which a watch is repeated at first, and the longest one.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Applies every change of the ConfigMap to the server. `known` is what the server was built with.
pub(crate) async fn follow(client: Client, server: Server, mut known: AuthenticationOptions) {
    let maps: Api<ConfigMap> = Api::namespaced(client, delegated::NAMESPACE);
    let mut delay = RETRY.0;
    loop {
        match watch(&maps, &server, &mut known).await {
            Ok(()) => delay = RETRY.0,
            Err(error) => {
                warn!(%error, "failed to watch how the main API server authenticates");
                delay = RETRY.1.min(delay * 2);
            }
        }
        tokio::time::sleep(delay).await;
    }
}

/// Reads the ConfigMap, and follows it until the watch ends.
async fn watch(maps: &Api<ConfigMap>, server: &Server, known: &mut AuthenticationOptions) -> Result<(), Error> {
    let map = maps.get(delegated::NAME).await?;
    let version = map.resource_version().unwrap_or_default();
    apply(map, server, known);
    let params = WatchParams::default().fields(&format!("metadata.name={}", delegated::NAME));
    let events = maps.watch(&params, &version).await?;
    pin_mut!(events);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => apply(map, server, known),
            // The main API server writes it again.
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(Error::Api(status)),
        }
    }
    Ok(())
}

/// Replaces the authorities of the server, unless they are the same or cannot be used.
fn apply(map: ConfigMap, server: &Server, known: &mut AuthenticationOptions) {
    let options = delegated::options_of(map);
    if options == *known {
        return;
    }
    match server.set_client_authorities(options.client_ca.as_deref(), options.request_header.as_ref()) {
        Ok(()) => {
            info!("the main API server authenticates in another way now");
            *known = options;
        }
        Err(error) => warn!(%error, "the authorities of the main API server cannot be used; keeping the earlier ones"),
    }
}
