//! `/healthz`, `/livez`, `/readyz` and `/version`.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use windlass_schema::field::quote;

use crate::{body::Body, query::Query, represent, server::Inner, status::ApiError, tokens::issuers};

/// The checks of all endpoints, under the names of kube-apiserver: `etcd` is the store.
const CHECKS: &[&str] = &["ping", "log", "etcd", BOOTSTRAP_ROLES];
/// The checks of `/readyz`.
const READY_CHECKS: &[&str] = &["ping", "log", "etcd", "etcd-readiness", BOOTSTRAP_ROLES];
/// Whether the roles that every cluster has exist. Always true, because the server creates them before it serves.
const BOOTSTRAP_ROLES: &str = "poststarthook/rbac/bootstrap-roles";

/// Returns whether a path is a health endpoint, which anonymous users may read.
pub(crate) fn is_health_path(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && matches!(first, "healthz" | "livez" | "readyz") && !path.starts_with("//")
}

/// Runs the checks that the path names.
pub(crate) async fn answer(server: &Arc<Inner>, path: &str, query: &Query<'_>) -> Response<Body> {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let endpoint = parts.next().unwrap_or_default();
    let checks = if endpoint == "readyz" { READY_CHECKS } else { CHECKS };
    if let Some(one) = parts.next() {
        return match checks.iter().find(|check| **check == one) {
            None => represent::text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
            Some(check) => match run(server, check).await {
                Ok(()) => represent::text(StatusCode::OK, "ok".to_owned()),
                Err(why) => {
                    represent::text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
                }
            },
        };
    }
    let excluded = query.all("exclude");
    let mut unknown: Vec<&str> = excluded.iter().copied().filter(|name| !checks.contains(name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    let mut lines = String::new();
    let mut healthy = true;
    for check in checks {
        if excluded.contains(check) {
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
        let names: Vec<String> = unknown.into_iter().map(quote).collect();
        lines += &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(", "));
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
