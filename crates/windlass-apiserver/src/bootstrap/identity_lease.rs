//! The lease of this API server, which shows that it runs.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::{Method, StatusCode};
use ring::digest;
use serde_json::{Value, json};
use tracing::warn;

use super::request;
use crate::{meta, server::Inner, status::ApiError};

const NAMESPACE: &str = "kube-system";
const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Time for which the lease is valid, in seconds.
const VALID: u32 = 3600;
/// Interval at which it is renewed.
const PERIOD: Duration = Duration::from_secs(10);

/// Renews the lease until the server is dropped.
///
/// `peer` is the address and port at which other API servers would reach this one.
pub(crate) async fn run(server: Weak<Inner>, peer: Option<String>) {
    let host = hostname();
    let is_shared = server.upgrade().is_some_and(|server| server.storage.store().is_shared());
    let name = lease_name(&host, peer.as_deref().filter(|_| is_shared));
    let identity = Identity { holder: format!("{name}_{}", meta::new_uid()), name, host, peer };
    // The lease of an earlier server is not renewed but replaced.
    if let Some(server) = server.upgrade()
        && let Err(error) = request(&server, Method::DELETE, &identity.path(), &Value::Null).await
        && error.code != StatusCode::NOT_FOUND
    {
        warn!(%error, "failed to delete the lease of an earlier API server");
    }
    loop {
        {
            let Some(server) = server.upgrade() else { return };
            if let Err(error) = identity.renew(&server).await {
                warn!(%error, "failed to renew the lease of this API server");
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The contents of the lease.
struct Identity {
    name: String,
    holder: String,
    host: String,
    peer: Option<String>,
}

impl Identity {
    fn path(&self) -> String {
        format!("{COLLECTION}/{}", self.name)
    }

    async fn renew(&self, server: &Arc<Inner>) -> Result<(), ApiError> {
        let present = server.storage.cache("/coordination.k8s.io/leases/").get(&format!("{NAMESPACE}/{}", self.name));
        let now = server.now();
        let written = match present.map(|lease| lease.to_value()) {
            None => {
                let mut lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": self.name, "namespace": NAMESPACE},
                });
                self.write(&mut lease, &meta::format_micro_time(now));
                request(server, Method::POST, COLLECTION, &lease).await
            }
            Some(mut lease) => {
                self.write(&mut lease, &meta::format_micro_time(now));
                request(server, Method::PUT, &self.path(), &lease).await
            }
        };
        match written {
            // It was changed or deleted in the meantime: the next renewal sees it.
            Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
            written => written,
        }
    }

    fn write(&self, lease: &mut Value, now: &str) {
        lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"] = "kube-apiserver".into();
        lease["metadata"]["labels"]["kubernetes.io/hostname"] = self.host.as_str().into();
        if let Some(peer) = &self.peer {
            lease["metadata"]["annotations"]["kubernetes.io/peer-advertise-address"] = peer.as_str().into();
        }
        lease["spec"]["holderIdentity"] = self.holder.as_str().into();
        lease["spec"]["leaseDurationSeconds"] = VALID.into();
        lease["spec"]["renewTime"] = now.into();
    }
}

/// Returns the name that kube-apiserver has on this machine: a hash of the host and the component, each after its length.
/// With several API servers, of which a machine may run more than one, their address and port are hashed as well.
fn lease_name(host: &str, address: Option<&str>) -> String {
    let mut hashed = Vec::new();
    for text in [host, "kube-apiserver"].into_iter().chain(address) {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        hashed.extend(length.to_be_bytes());
        hashed.extend(text.as_bytes());
    }
    let hash = digest::digest(&digest::SHA256, &hashed);
    format!("apiserver-{}", base32(&hash.as_ref()[..16]))
}

/// Base32 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let letters = (0..bytes.len() * 8).step_by(5).map(|start| {
        let index = (start..start + 5).fold(0, |index, at| index << 1 | bit(at));
        char::from(LETTERS[usize::from(index)])
    });
    letters.collect()
}

fn hostname() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let name = kernel.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_a_hash_of_the_host_as_in_kube_apiserver() {
        // RFC 4648.
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(lease_name("control-plane", None), "apiserver-6vzvajxlkf7lcarzgdc4jnyaru");
        assert_eq!(lease_name("kind-control-plane", None), "apiserver-c7uylvfxlbqccnk6myfkwetzze");
        let on_one_host = ["10.1.1.1:6443", "10.1.1.1:6444"].map(|address| lease_name("a", Some(address)));
        assert_ne!(on_one_host[0], on_one_host[1]);
    }
}
