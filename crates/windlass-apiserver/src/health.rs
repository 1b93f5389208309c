//! `/healthz`, `/livez`, `/readyz` and `/version`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use windlass_schema::{go_format, sorting::Gather as _};

use crate::{body::Body, query::Query, represent, server::Inner, status::ApiError, tokens::issuers};

/// The endpoints.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];
/// The first checks of `/healthz` and `/livez`. All checks have the names and the order of kube-apiserver v1.36; `etcd` is the
/// store.
const LIVE_CHECKS: [&str; 4] = ["ping", "log", "loopback-serving-certificate", "etcd"];
/// The first checks of `/readyz`.
const READY_CHECKS: [&str; 5] = ["ping", "log", "etcd", "etcd-readiness", "informer-sync"];
/// The steps of a start, which are checks of all endpoints. They always succeed, because the server does not serve before
/// it has started.
const STARTED: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Returns the checks of an endpoint in order.
fn checks(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let is_ready = endpoint == "readyz";
    let first: &[&str] = if is_ready { &READY_CHECKS } else { &LIVE_CHECKS };
    first.iter().copied().chain(STARTED).chain(is_ready.then_some("shutdown"))
}

/// Returns the paths of all endpoints and checks.
pub(crate) fn paths() -> impl Iterator<Item = String> {
    ENDPOINTS.into_iter().flat_map(|endpoint| {
        let checks = checks(endpoint).map(move |check| format!("/{endpoint}/{check}"));
        std::iter::once(format!("/{endpoint}")).chain(checks)
    })
}

/// Returns whether a path is a health endpoint, which anonymous users may read.
pub(crate) fn is_health_path(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && ENDPOINTS.contains(&first) && !path.starts_with("//")
}

/// Runs the checks that the path names.
pub(crate) async fn answer(server: &Arc<Inner>, path: &str, query: &Query<'_>) -> Response<Body> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let endpoint = parts.next().unwrap_or_default();
    if let Some(one) = parts.next() {
        return match checks(endpoint).find(|check| *check == one) {
            None => represent::text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
            Some(check) => match run(server, check).await {
                Ok(()) => represent::bytes(StatusCode::OK, "text/plain; charset=utf-8", "ok".into()),
                Err(why) => {
                    represent::text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
                }
            },
        };
    }
    let excluded: BTreeSet<&str> = query.all("exclude").into_iter().gather();
    let mut unknown = excluded.clone();
    let mut lines = String::new();
    let mut healthy = true;
    for check in checks(endpoint) {
        if excluded.contains(check) {
            unknown.remove(check);
            lines += &format!("[+]{check} excluded: ok\n");
            continue;
        }
        match run(server, check).await {
            Ok(()) => lines += &format!("[+]{check} ok\n"),
            Err(_) => {
                healthy = false;
                lines += &format!("[-]{check} failed: reason withheld\n");
            }
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().map(go_format::quote).collect();
        let names = names.join(",");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    if !healthy {
        return represent::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"));
    }
    if query.get("verbose").is_some() {
        return represent::text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"));
    }
    represent::text(StatusCode::OK, "ok".to_owned())
}

async fn run(server: &Arc<Inner>, check: &str) -> Result<(), String> {
    if !check.starts_with("etcd") {
        // The others say that the server has started, and that it answers.
        return Ok(());
    }
    server.storage.store().health().map_err(|error| error.to_string())?;
    let fresh = tokio::time::timeout(Duration::from_secs(2), server.storage.fresh()).await;
    match fresh {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the store does not respond".to_owned()),
    }
}

/// Returns the Kubernetes version that is served, as JSON to clients that accept it.
pub(crate) fn version_answer(headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    if !issuers::accepts(headers, "application/json") {
        return Err(issuers::not_acceptable("application/json"));
    }
    Ok(represent::json(StatusCode::OK, &version()))
}

/// Returns the Kubernetes version that is served.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.4+windlass", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    })
}
