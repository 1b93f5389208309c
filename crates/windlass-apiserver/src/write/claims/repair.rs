//! Repair of claims: every API server over a shared store deletes those that have lost their service, and creates
//! missing ones, of services that were stored before claims were made.

use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;
use windlass_schema::sorting::Gather as _;
use windlass_store::{Error as StoreError, Revision};

use super::{ADDRESSES, ClaimedValue, PORTS, delete};
use crate::{bootstrap::service_addresses::is_managed, meta, server::Inner, status::Result, write::allocate::SERVICES};

/// Maximum time that a claim may have no service: much longer than the time in which its service is stored.
const ORPHANED: Duration = Duration::from_secs(60);
/// Interval at which claims without a service are checked.
const EVERY: Duration = Duration::from_secs(10);

/// Repairs the claims until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let Some(caches) = server.upgrade().map(|server| [SERVICES, ADDRESSES, PORTS].map(|of| server.storage.cache(of)))
    else {
        return;
    };
    let mut repair = Repair::default();
    loop {
        let [services, addresses, ports] = &caches;
        let (mut services, mut addresses, mut ports) =
            (pin!(services.changed()), pin!(addresses.changed()), pin!(ports.changed()));
        services.as_mut().enable();
        addresses.as_mut().enable();
        ports.as_mut().enable();
        {
            let Some(server) = server.upgrade() else { return };
            if let Err(error) = repair.check(&server).await {
                warn!(%error, "failed to repair the allocation of cluster IPs and node ports");
            }
        }
        tokio::select! {
            () = services => {}
            () = addresses => {}
            () = ports => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Observed states of the claims, by their keys.
#[derive(Default)]
pub(crate) struct Repair {
    known: HashMap<String, Known>,
}

/// A claim, with its uid.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// A service has used its value: if there is none, it was deleted or changed.
    Used(Box<str>),
    /// No service has used its value since then.
    Orphan(Box<str>, Instant),
}

impl Known {
    /// Returns the state of a claim with this uid, given the earlier one, and whether it is released.
    fn next(before: Option<Self>, uid: &str, is_used: bool, now: Instant) -> (Self, bool) {
        match before {
            _ if is_used => (Self::Used(uid.into()), false),
            Some(Self::Used(known)) if *known == *uid => (Self::Used(known), true),
            Some(Self::Orphan(known, since)) if *known == *uid => {
                let is_old = now - since >= ORPHANED;
                (Self::Orphan(known, since), is_old)
            }
            _ => (Self::Orphan(uid.into(), now), false),
        }
    }
}

/// A claim in the store.
struct Present {
    uid: Box<str>,
    revision: Revision,
    /// Whether API servers delete it.
    is_managed: bool,
}

impl Repair {
    /// Deletes claims without a service, and creates missing ones.
    pub(crate) async fn check(&mut self, server: &Arc<Inner>) -> Result<()> {
        if self.known.values().any(|known| matches!(known, Known::Orphan(..))) {
            // The service of an old claim may be stored, and only be unknown here.
            server.storage.fresh().await?;
        }
        // The claims are read first: a service is stored after its claims, so none of them seems to be missing.
        let mut present = BTreeMap::new();
        for prefix in [ADDRESSES, PORTS] {
            for record in server.storage.cache(prefix).snapshot().objects() {
                let is_managed = prefix == PORTS || is_managed(&record.to_value());
                let claim = Present { uid: record.header.uid.clone(), revision: record.revision, is_managed };
                present.insert(format!("{prefix}{}", record.header.name), claim);
            }
        }
        let used: BTreeMap<String, (ClaimedValue, String)> = {
            let allocator = server.services.lock();
            let addresses = allocator.addresses().map(|(address, service)| (ClaimedValue::Address(address), service));
            let ports = allocator.node_ports().map(|(port, service)| (ClaimedValue::Port(port), service));
            addresses.chain(ports).map(|(value, service)| (value.key(), (value, service.to_owned()))).gather()
        };
        let now = Instant::now();
        let mut known = std::mem::take(&mut self.known);
        for (key, claim) in present.iter().filter(|(_, claim)| claim.is_managed) {
            let (state, is_released) = Known::next(known.remove(key), &claim.uid, used.contains_key(key), now);
            if is_released {
                delete(&server.storage, key, claim.revision).await;
            }
            self.known.insert(key.clone(), state);
        }
        let created = meta::format_time(server.now());
        for (key, (value, service)) in used.iter().filter(|(key, _)| !present.contains_key(*key)) {
            let owner = service.split_once('/').unwrap_or(("", service));
            match server.storage.store().create(key, value.record(owner, &created)).await {
                Ok(_) | Err(StoreError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_released_after_its_service_or_when_it_never_had_one() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let (orphan, released) = Known::next(None, "a", false, start);
        assert!(!released);
        let (orphan, released) = Known::next(Some(orphan), "a", false, start + ORPHANED - second);
        assert!(!released, "its service may still be stored");
        assert!(Known::next(Some(orphan.clone()), "a", false, start + ORPHANED).1);
        assert!(!Known::next(Some(orphan.clone()), "b", false, start + ORPHANED).1, "another claim of the same value");
        let (used, released) = Known::next(Some(orphan), "a", true, start + ORPHANED);
        assert!(!released);
        assert!(Known::next(Some(used.clone()), "a", false, start + ORPHANED).1, "the service was deleted");
        assert!(!Known::next(Some(used), "b", false, start + ORPHANED).1);
    }
}
