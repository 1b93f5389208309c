//! The endpoints of several API servers over one store: each has a key in the store while it runs, and the endpoints of
//! the service `kubernetes` are those of all keys.
//!
//! A server writes its key every [`RENEWAL`]. A key that has not changed for [`EXPIRY`], by the clock of an observer, is
//! deleted by the observer. Times of two machines are never compared.

use std::{collections::HashMap, net::SocketAddr, pin::pin, sync::Weak, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};
use windlass_store::{Error as StoreError, Revision};

use super::{agreement::Agreement, kubernetes_service};
use crate::{
    meta,
    server::{Inner, Server},
    status::ApiError,
    storage::{Storage, encode},
};

/// The prefix of the keys.
pub(super) const PREFIX: &str = "/apiservers/endpoints/";
/// Interval at which a server writes its key, and the time for which others wait for that: as in kube-apiserver.
const RENEWAL: Duration = Duration::from_secs(10);
pub(super) const EXPIRY: Duration = Duration::from_secs(15);
/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The key of a server that has an address.
pub(crate) struct EndpointLease {
    address: SocketAddr,
    /// The options of the server, which others compare with theirs.
    agreement: Agreement,
    /// Distinguishes this server from an earlier one at the same address.
    holder: String,
    leaving: watch::Sender<bool>,
    /// Held while the key is written, so that it is not written after it was deleted.
    writing: tokio::sync::Mutex<()>,
    /// Time at which the key was last written.
    renewed: Mutex<Option<Instant>>,
}

/// Returns the addresses of all API servers.
pub(crate) fn endpoints(storage: &Storage) -> Vec<SocketAddr> {
    let leases = storage.cache(PREFIX).snapshot();
    leases.objects().filter_map(|lease| lease.header.name.parse().ok()).collect()
}

impl EndpointLease {
    pub(crate) fn new(address: SocketAddr, agreement: Agreement) -> Self {
        Self {
            address,
            agreement,
            holder: meta::new_uid(),
            leaving: watch::Sender::new(false),
            writing: tokio::sync::Mutex::default(),
            renewed: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}", self.address)
    }

    fn record(&self, server: &Inner) -> Bytes {
        encode(&mut json!({
            "apiVersion": "apiservers/v1", "kind": "Endpoint",
            "metadata": {"name": self.name(), "uid": self.holder},
            "spec": {"renewTime": meta::format_micro_time(server.now()), "options": self.agreement},
        }))
    }

    /// Writes the key, and waits until the caches have it.
    pub(crate) async fn renew(&self, server: &Inner) -> Result<(), ApiError> {
        let _writing = self.writing.lock().await;
        if *self.leaving.borrow() {
            return Ok(());
        }
        let (storage, key, record) = (&server.storage, self.key(), self.record(server));
        let start = Instant::now();
        let written = match storage.cache(PREFIX).get(&self.name()) {
            Some(present) => storage.store().update(&key, present.revision, record).await,
            None => storage.store().create(&key, record).await,
        };
        match written {
            Ok(revision) => storage.reached(revision).await,
            // The caches are behind, or it was deleted as expired: the next attempt sees it.
            Err(StoreError::Conflict { .. } | StoreError::Exists { .. } | StoreError::NotFound { .. }) => {
                storage.fresh().await?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        *self.renewed.lock() = Some(start);
        Ok(())
    }

    /// Deletes the key. It is not written again.
    pub(crate) async fn leave(&self, server: &Server) {
        self.leaving.send_replace(true);
        let _writing = self.writing.lock().await;
        let storage = &server.inner.storage;
        let Some(present) = storage.cache(PREFIX).get(&self.name()) else { return };
        if *present.header.uid != *self.holder {
            return;
        }
        match storage.store().delete(&self.key(), present.revision).await {
            Ok(revision) => storage.reached(revision).await,
            Err(error) => warn!(%error, "failed to remove the endpoint of this API server"),
        }
        write_endpoints(server).await;
    }

    /// Returns the time at which the key is written next.
    fn renewal(&self, storage: &Storage) -> Instant {
        let is_present = storage.cache(PREFIX).get(&self.name()).is_some();
        match *self.renewed.lock() {
            Some(at) if is_present => at + RENEWAL,
            _ => Instant::now(),
        }
    }
}

/// Keeps the key of this server, deletes expired keys, and writes the endpoints, until the server leaves or is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let Some(cache) = server.upgrade().map(|server| server.storage.cache(PREFIX)) else { return };
    let mut seen = Seen::default();
    loop {
        let mut changed = pin!(cache.changed());
        changed.as_mut().enable();
        let (next, leaving) = {
            let Some(inner) = server.upgrade() else { return };
            let own = inner.endpoint_lease.as_ref();
            let mut next = Instant::now() + RENEWAL;
            if let Some(own) = own {
                if own.renewal(&inner.storage) <= Instant::now()
                    && let Err(error) = own.renew(&inner).await
                {
                    warn!(%error, "failed to renew the endpoint of this API server");
                    // Others cannot write either.
                    seen = Seen::default();
                    next = Instant::now() + RETRY;
                } else {
                    next = own.renewal(&inner.storage).max(Instant::now() + RETRY);
                }
            }
            let others = cache.snapshot();
            let others = others.objects().filter(|lease| own.is_none_or(|own| *lease.header.name != own.name()));
            let others = others.map(|lease| (lease.header.name.to_string(), lease.revision));
            for (name, revision) in seen.observe(others, Instant::now()) {
                match inner.storage.store().delete(&format!("{PREFIX}{name}"), revision).await {
                    Ok(revision) => {
                        info!(address = name, "removed the endpoint of an API server that no longer runs");
                        inner.storage.reached(revision).await;
                    }
                    Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
                    Err(error) => warn!(address = name, %error, "failed to remove the endpoint of an API server"),
                }
            }
            let next = seen.expiry().map_or(next, |expiry| next.min(expiry));
            let leaving = own.map(|own| own.leaving.subscribe());
            if leaving.as_ref().is_some_and(|leaving| *leaving.borrow()) {
                return;
            }
            write_endpoints(&Server { inner }).await;
            (next, leaving)
        };
        let left = async move {
            match leaving {
                Some(mut leaving) => drop(leaving.wait_for(|leaving| *leaving).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(next) => {}
            () = left => return,
        }
    }
}

async fn write_endpoints(server: &Server) {
    let endpoints = endpoints(&server.inner.storage);
    if let Err(error) = kubernetes_service::write_endpoints(server, &endpoints).await {
        warn!(%error, "failed to write the endpoints of the service kubernetes");
    }
}

/// The keys of other servers, and the time since which they have not changed.
#[derive(Default)]
struct Seen(HashMap<String, (Revision, Instant)>);

impl Seen {
    /// Records the current keys; returns those that have expired.
    fn observe(&mut self, current: impl Iterator<Item = (String, Revision)>, now: Instant) -> Vec<(String, Revision)> {
        let mut before = std::mem::take(&mut self.0);
        let mut expired = Vec::new();
        for (name, revision) in current {
            let since = before.remove(&name).filter(|(known, _)| *known == revision).map_or(now, |(_, since)| since);
            if now - since >= EXPIRY {
                expired.push((name.clone(), revision));
            }
            self.0.insert(name, (revision, since));
        }
        expired
    }

    /// Returns the time at which the next key expires, or at which its deletion is retried.
    fn expiry(&self) -> Option<Instant> {
        self.0.values().map(|(_, since)| (*since + EXPIRY).max(Instant::now() + RETRY)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_expires_when_it_has_not_changed_for_its_whole_time() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut seen = Seen::default();
        let at = |revision| [("a".to_owned(), Revision(revision))].into_iter();
        assert!(seen.observe(at(1), start).is_empty());
        assert!(seen.observe(at(1), start + EXPIRY - second).is_empty());
        assert!(seen.observe(at(2), start + EXPIRY).is_empty(), "it was renewed");
        assert!(seen.observe(at(2), start + 2 * EXPIRY - second).is_empty());
        assert_eq!(seen.observe(at(2), start + 2 * EXPIRY), [("a".to_owned(), Revision(2))]);
        assert!(seen.observe([].into_iter(), start + 2 * EXPIRY).is_empty());
        assert!(seen.observe(at(2), start + 2 * EXPIRY).is_empty(), "it is new");
    }
}
