//! Decisions of the authorizer itself, in this process and without requests.

use std::{hint::black_box, sync::Arc, time::Instant};

use anyhow::ensure;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::{
    Server,
    authorization::{Action, Attributes, ResourceAction},
    user::User,
};
use windlass_bench::table::render;
use windlass_store::MemoryStore;

use super::policy::{Policy, USER};
use crate::kind::NAMESPACE;

/// Number of decisions per sample, and of samples.
const DECISIONS: u32 = 20_000;
const SAMPLES: usize = 21;

/// A kind of request, and the median time of a decision about it.
pub(super) type Decided = (&'static str, f64);

/// Measures decisions about requests of several users.
pub(super) async fn measure(policy: Policy) -> anyhow::Result<Vec<Decided>> {
    let server = Server::builder(Arc::new(MemoryStore::new())).build().await?;
    for name in Policy::namespaces() {
        create(&server, "/api/v1/namespaces".to_owned(), json!({"metadata": {"name": name}})).await?;
    }
    for number in 0..policy.roles + policy.bindings {
        let (path, object) = policy.object(number);
        create(&server, path, object).await?;
    }
    let groups = vec!["developers".to_owned(), "system:authenticated".to_owned()];
    let user = |name: &str| User { name: name.to_owned(), groups: groups.clone(), ..User::default() };
    let get = |resource| {
        let action =
            ResourceAction { verb: "get", version: "v1", resource, namespace: NAMESPACE, ..Default::default() };
        Action::Resource(ResourceAction { name: "measured", ..action })
    };
    let mut decided = Vec::new();
    for (what, user, action, allowed) in [
        ("allowed to a user by a RoleBinding", user(USER), get("configmaps"), true),
        ("denied to a user with RoleBindings", user(USER), get("secrets"), false),
        ("denied to a user without RoleBindings", user("nobody"), get("configmaps"), false),
        ("allowed to every user", user(USER), Action::Path { verb: "get", path: "/api" }, true),
        ("allowed to the administrator", User::admin(), get("configmaps"), true),
    ] {
        let request = Attributes { user: &user, action };
        ensure!(server.authorize(&request).await.is_allowed() == allowed, "the decision is wrong: {what}");
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            let begin = Instant::now();
            for _ in 0..DECISIONS {
                black_box(server.authorize(black_box(&request)).await);
            }
            samples.push(begin.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS));
        }
        samples.sort_by(f64::total_cmp);
        decided.push((what, samples[SAMPLES / 2]));
    }
    Ok(decided)
}

async fn create(server: &Server, path: String, object: Value) -> anyhow::Result<()> {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let mut request = request.body(Full::new(Bytes::from(object.to_string())))?;
    request.extensions_mut().insert(Arc::new(User::admin()));
    let response = match server.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status();
    ensure!(status.is_success() || status == http::StatusCode::CONFLICT, "{status}: {object}");
    Ok(())
}

pub(super) fn table(decided: &[Decided]) -> String {
    let header = vec!["decision (target: at most 2 µs)".to_owned(), "ns".to_owned()];
    let rows = decided.iter().map(|(what, nanoseconds)| vec![(*what).to_owned(), format!("{nanoseconds:.0}")]);
    render(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

pub(super) fn to_json(decided: &[Decided]) -> Value {
    decided
        .iter()
        .map(|(what, nanoseconds)| ((*what).to_owned(), json!(nanoseconds)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
