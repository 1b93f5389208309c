//! Tasks of a server that has its bootstrap objects.

use futures_util::FutureExt as _;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::Server;
use crate::{aggregation, bootstrap, flow_control, replicas, write::claims};

/// Starts the tasks, which end with the server. With a shared store, addresses are claims, and endpoints have leases.
pub(super) fn start(server: &Server, listening: Option<SocketAddr>, advertised: Option<IpAddr>) {
    let is_shared = server.inner.storage.store().is_shared();
    let flow_control = server.inner.flow_control.clone();
    let leases = listening.map(|listening| {
        let peer = bootstrap::peer_address(listening, advertised);
        bootstrap::identity_lease::run(Arc::downgrade(&server.inner), peer)
    });
    server.inner.tasks.lock().extend(leases.map(|leases| tokio::spawn(leases.boxed()).abort_handle()));
    let addresses = match is_shared {
        true => tokio::spawn(claims::repair::run(Arc::downgrade(&server.inner)).boxed()),
        false => tokio::spawn(bootstrap::service_addresses::run(Arc::downgrade(&server.inner)).boxed()),
    };
    if is_shared {
        server.inner.tasks.lock().extend([
            tokio::spawn(bootstrap::endpoint_lease::run(Arc::downgrade(&server.inner)).boxed()).abort_handle(),
            tokio::spawn(replicas::run(Arc::downgrade(&server.inner)).boxed()).abort_handle(),
        ]);
    }
    let restored = bootstrap::restore::run(Arc::downgrade(&server.inner), listening, advertised);
    server.inner.tasks.lock().extend([
        addresses.abort_handle(),
        tokio::spawn(restored.boxed()).abort_handle(),
        tokio::spawn(aggregation::follow_definitions(Arc::downgrade(&server.inner)).boxed()).abort_handle(),
        tokio::spawn(aggregation::keep_available(Arc::downgrade(&server.inner)).boxed()).abort_handle(),
        tokio::spawn(flow_control::run(Arc::downgrade(&server.inner)).boxed()).abort_handle(),
        tokio::spawn(async move { flow_control.redistribution().await }.boxed()).abort_handle(),
    ]);
}
