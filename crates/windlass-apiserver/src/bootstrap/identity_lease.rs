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
/// How long the lease is valid, in seconds.
const VALID: u32 = 3600;
/// How often it is renewed.
const PERIOD: Duration = Duration::from_secs(10);

/// Renews the lease for as long as the server exists.
pub(crate) async fn run(server: Weak<Inner>) {
    let host = hostname();
    let name = lease_name(&host);
    let holder = format!("{name}_{}", meta::new_uid());
    loop {
        {
            let Some(server) = server.upgrade() else { return };
            if let Err(error) = renew(&server, &name, &host, &holder).await {
                warn!(%error, "failed to renew the lease of this API server");
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn renew(server: &Arc<Inner>, name: &str, host: &str, holder: &str) -> Result<(), ApiError> {
    let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let present = server.storage.cache("/coordination.k8s.io/leases/").get(&format!("{NAMESPACE}/{name}"));
    let now = server.now();
    let written = match present.map(|lease| lease.to_value()) {
        None => {
            let lease = lease(name, host, holder, &meta::format_micro_time(now));
            request(server, Method::POST, &collection, &lease).await
        }
        Some(mut lease) => {
            lease["spec"]["holderIdentity"] = holder.into();
            lease["spec"]["leaseDurationSeconds"] = VALID.into();
            lease["spec"]["renewTime"] = meta::format_micro_time(now).into();
            request(server, Method::PUT, &format!("{collection}/{name}"), &lease).await
        }
    };
    match written {
        // It was changed or deleted in the meantime: the next renewal sees it.
        Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        written => written,
    }
}

fn lease(name: &str, host: &str, holder: &str, now: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host},
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": VALID, "renewTime": now},
    })
}

/// Returns the name that kube-apiserver has on this machine.
fn lease_name(host: &str) -> String {
    let hash = digest::digest(&digest::SHA256, host.as_bytes());
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
        let name = lease_name("control-plane");
        assert_eq!((name.len(), name.starts_with("apiserver-")), ("apiserver-".len() + 26, true));
        assert_ne!(name, lease_name("other"));
    }
}
