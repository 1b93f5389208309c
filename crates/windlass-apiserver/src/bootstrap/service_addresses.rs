//! IPAddresses of services: an object for each cluster IP, created and deleted after the service.
//!
//! The allocator knows the addresses of all stored services, so these objects only show them to clients. IPAddresses of
//! other creators occupy their addresses ([`allocate`](crate::write::allocate)).

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Weak},
};

use futures_util::FutureExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tracing::warn;
use windlass_schema::sorting::Gather as _;

use crate::{server::Inner, status::ApiError, write::allocate};

const COLLECTION: &str = "/apis/networking.k8s.io/v1/ipaddresses";
pub(crate) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub(crate) const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
pub(crate) const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Returns whether an IPAddress belongs to a service.
pub(crate) fn is_managed(address: &Value) -> bool {
    address["metadata"]["labels"][MANAGED_BY] == ALLOCATOR
}

/// Follows the services until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let Some((services, addresses)) = server
        .upgrade()
        .map(|server| (server.storage.cache(allocate::SERVICES), server.storage.cache(allocate::ADDRESSES)))
    else {
        return;
    };
    loop {
        let (mut services_changed, mut addresses_changed) = (pin!(services.changed()), pin!(addresses.changed()));
        services_changed.as_mut().enable();
        addresses_changed.as_mut().enable();
        {
            let Some(server) = server.upgrade() else { return };
            if let Err(error) = sync(&server).await {
                warn!(%error, "failed to write the IPAddresses of services");
            }
        }
        tokio::select! {
            () = services_changed => {}
            () = addresses_changed => {}
        }
    }
}

/// Creates missing IPAddresses and deletes those without a service.
pub(super) async fn sync(server: &Arc<Inner>) -> Result<(), ApiError> {
    let wanted: BTreeMap<String, String> = {
        let allocator = server.services.lock();
        allocator.addresses().map(|(address, service)| (address.to_string(), service.to_owned())).gather()
    };
    let present = server.storage.cache(allocate::ADDRESSES).snapshot();
    let unused = present.objects().filter(|address| !wanted.contains_key(&*address.header.name));
    let unused = unused.filter(|address| is_managed(&address.to_value()));
    let deletions = unused.map(async |address| {
        let path = format!("{COLLECTION}/{}", address.header.name);
        let uid = json!({"preconditions": {"uid": &*address.header.uid}});
        ignore_races(super::request(server, Method::DELETE, &path, &uid).await)
    });
    let missing = wanted.iter().filter(|(address, _)| present.get(address).is_none());
    let creations = missing.map(async |(address, service)| {
        ignore_races(super::request(server, Method::POST, COLLECTION, &object(address, service)).await)
    });
    let deletions = futures_util::future::try_join_all(deletions.map(FutureExt::boxed));
    futures_util::future::try_join(deletions, futures_util::future::try_join_all(creations.map(FutureExt::boxed)))
        .await?;
    Ok(())
}

/// The caches show changes of others in a moment.
fn ignore_races(result: Result<(), ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        result => result,
    }
}

fn object(address: &str, service: &str) -> Value {
    let (namespace, name) = service.split_once('/').unwrap_or(("", service));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": address, "labels": {FAMILY: "IPv4", MANAGED_BY: ALLOCATOR}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    })
}
