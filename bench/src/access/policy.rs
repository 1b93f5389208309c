//! The roles and bindings of the measurement.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    client::{Body, Client},
    kind::{Kind, NAMESPACE},
    phase::{self, Plan},
};

/// The user that is measured.
pub(super) const USER: &str = "user-0";
const API: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Number of namespaces of the bindings.
const NAMESPACES: usize = 100;
/// Number of bindings whose effect is timed.
const TIMED: usize = 51;

/// The size of the policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) roles: usize,
    pub(super) bindings: usize,
}

impl Policy {
    /// Returns the path and the object of a role or binding.
    pub(super) fn object(self, number: usize) -> (String, Value) {
        if number < self.roles {
            let rules = json!([
                {"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
            ]);
            return (format!("{API}/clusterroles"), role(&format!("role-{number}"), &rules));
        }
        let number = number - self.roles;
        let role = number % self.roles;
        let binding = binding(&format!("binding-{number}"), &format!("role-{role}"), &format!("user-{role}"));
        (format!("{API}/namespaces/{}/rolebindings", namespace(number)), binding)
    }

    pub(super) fn namespaces() -> impl Iterator<Item = String> {
        (0..NAMESPACES).map(namespace)
    }

    /// Writes all roles and bindings and returns how long it took.
    pub(super) async fn write(self, client: &Client, lanes: usize) -> anyhow::Result<Duration> {
        for name in Self::namespaces() {
            client.ensure("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
        }
        let mut elapsed = Duration::ZERO;
        // Roles first, so that no binding refers to a missing role.
        for (from, count) in [(0, self.roles), (self.roles, self.bindings)] {
            let client = client.clone();
            let plan = Plan { requests: count, lanes, at_least: Duration::ZERO };
            let written = phase::run(plan, move |lane, number| {
                let client = client.clone();
                async move {
                    let (path, object) = self.object(from + number);
                    client.measure(lane, Method::POST, &path, Body::json(&object)).await
                }
            });
            elapsed += written.await?.elapsed;
        }
        Ok(elapsed)
    }
}

/// The first namespace is that of the objects.
fn namespace(number: usize) -> String {
    match number % NAMESPACES {
        0 => NAMESPACE.to_owned(),
        number => format!("{NAMESPACE}-{number}"),
    }
}

fn role(name: &str, rules: &Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    })
}

/// Returns the median time from sending a binding to the first request that it allows.
pub(super) async fn in_force(admin: &Client, user: &Client) -> anyhow::Result<Duration> {
    let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let mut times = Vec::new();
    let collection = format!("{API}/clusterrolebindings");
    admin.ensure(&format!("{API}/clusterroles"), &role("timed", &rules)).await?;
    let denied = user.ask(Method::GET, "/metrics", Body::default()).await?.0;
    ensure!(denied == StatusCode::FORBIDDEN, "the user may read metrics: {denied}");
    for _ in 0..TIMED {
        let begin = Instant::now();
        admin.measure(0, Method::POST, &collection, Body::json(&binding("timed", "timed", USER))).await?;
        user.until_served(0, "/metrics").await?;
        times.push(begin.elapsed());
        admin.measure(0, Method::DELETE, &format!("{collection}/timed"), Body::default()).await?;
        let begin = Instant::now();
        while user.ask(Method::GET, "/metrics", Body::default()).await?.0.is_success() {
            ensure!(begin.elapsed() < crate::client::SERVED_WITHIN, "a deleted binding stays in effect");
        }
    }
    times.sort_unstable();
    let path = format!("{}/measured", Kind::Configmap.collection());
    user.measure(0, Method::GET, &path, Body::default()).await.context("the user must have access")?;
    Ok(times[TIMED / 2])
}
