//! `cargo xtask decisions`: records the authorization decisions of a kube-apiserver for the tests of the API
//! server.
//!
//! The server must not have been used before; flags such as `--kubeconfig` are passed on to kubectl, through
//! which it is reached. First an access review asks for the decision of every cell of the matrix. Then every denied
//! request is sent as the user that it is denied to, and must be rejected with the message that the tests expect.

#[path = "../../crates/windlass-apiserver/tests/it/decisions/cells.rs"]
mod cells;
mod proxy;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use self::{
    cells::{Cell, Scope, Subject},
    proxy::{Connection, Proxy},
};
use crate::{peers, policy};

const OUTPUT: &str = "crates/windlass-apiserver/tests/data/decisions.txt";
const CONNECTIONS: usize = 4;
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// Maximum time for the server to notice new roles and bindings.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let (folder, flags) = match args {
        ["--peers", folder, flags @ ..] => (PathBuf::from(folder), flags),
        flags => (peers::folder(), flags),
    };
    let proxy = Proxy::start(&peers::find(&folder, "kubectl")?, flags)?;
    let mut connection = proxy.connect()?;
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let documents = ["/api", "/apis"].map(|path| connection.get(path, discovery));
    let targets = cells::targets(&documents.into_iter().collect::<anyhow::Result<Vec<_>>>()?);
    prepare(&mut connection)?;
    let cells = cells::cells(&targets);
    noticed(&mut connection, &cells)?;
    let reasons = in_parallel(&proxy, &cells, review)?;
    let answers: Vec<(Cell<'_>, Option<String>)> = cells.into_iter().zip(reasons).collect();
    let denied: Vec<Cell<'_>> = answers.iter().filter(|(_, reason)| reason.is_none()).map(|(cell, _)| *cell).collect();
    let requests: usize = in_parallel(&proxy, &denied, send)?.iter().sum();
    let text = cells::render(&targets, &answers);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask must be in the workspace")?;
    fs::write(workspace.join(OUTPUT), &text)?;
    println!("wrote {} decisions to {OUTPUT}, {requests} denied requests were rejected", answers.len());
    Ok(())
}

/// Creates the objects of the matrix, and aggregates roles in place of the control loop.
fn prepare(connection: &mut Connection) -> anyhow::Result<()> {
    let roles = connection.get(ROLES, "application/json")?;
    let mut roles = roles["items"].as_array().cloned().context("the server returned no roles")?;
    roles.iter_mut().for_each(|role| role["kind"] = "ClusterRole".into());
    for role in roles.iter().filter(|role| role.get("aggregationRule").is_some()) {
        let path = format!("{ROLES}/{}", role["metadata"]["name"].as_str().unwrap_or_default());
        let patch = json!({"rules": policy::aggregated(role, &roles)});
        let (code, body) = connection.send("PATCH", &path, &[], Some(&patch))?;
        ensure!(code == 200, "PATCH {path}: {code} {body}");
    }
    for (path, object) in cells::objects() {
        let (code, body) = connection.send("POST", &path, &[], Some(&object))?;
        ensure!(code == 201, "POST {path}: {code} {body}\nhint: use a new kube-apiserver");
    }
    Ok(())
}

/// Waits until every role takes effect: authorizers follow the objects with a delay.
fn noticed(connection: &mut Connection, cells: &[Cell<'_>]) -> anyhow::Result<()> {
    let begin = Instant::now();
    let is_granted = |cell: &&Cell<'_>| {
        let Subject::Resource(target, scope) = cell.subject else { return false };
        let bound = if cell.identity.everywhere { Scope::Cluster } else { Scope::Granted };
        cell.identity.role.is_some() && scope == bound && cell.verb == "get" && target.to_string() == "configmaps"
    };
    for cell in cells.iter().filter(is_granted) {
        while review(connection, cell)?.is_none() {
            ensure!(begin.elapsed() < NOTICED_WITHIN, "{}: the role has not taken effect", cell.section());
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Returns the reason of a permission; `None` for a denial.
fn review(connection: &mut Connection, cell: &Cell<'_>) -> anyhow::Result<Option<String>> {
    let mut spec = json!({"user": cell.identity.user, "groups": [cell.identity.group]});
    match cell.subject {
        Subject::Path(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": cell.verb}),
        Subject::Resource(target, scope) => {
            spec["resourceAttributes"] = json!({
                "verb": cell.verb, "group": target.group, "resource": target.resource,
                "subresource": target.subresource, "namespace": scope.namespace(),
            });
        }
    }
    let (code, body) = connection.send("POST", REVIEWS, &[], Some(&json!({"spec": spec})))?;
    ensure!(code == 201, "{spec}: {code} {body}");
    let status: Value = serde_json::from_str(&body).context("failed to read an access review")?;
    let status = &status["status"];
    ensure!(status.get("evaluationError").is_none(), "{spec}: {status}");
    let reason = status["reason"].as_str().unwrap_or_default();
    Ok((status["allowed"] == true).then(|| reason.to_owned()))
}

/// Sends the denied requests of a cell and returns their number.
fn send(connection: &mut Connection, cell: &Cell<'_>) -> anyhow::Result<usize> {
    let requests = cell.requests();
    for request in &requests {
        let headers = [("Impersonate-User", cell.identity.user), ("Impersonate-Group", cell.identity.group)];
        let has_body = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        let body = has_body.then(|| json!({}));
        let (code, body) = connection.send(&request.method, &request.path, &headers, body.as_ref())?;
        let message = if request.method == "HEAD" { cell.denial() } else { message(&body) };
        if code != 403 || message != cell.denial() {
            bail!("{} {} by {}: {code} {body}", request.method, request.path, cell.identity.user);
        }
    }
    Ok(requests.len())
}

fn message(body: &str) -> String {
    let status: Value = serde_json::from_str(body).unwrap_or_default();
    status["message"].as_str().unwrap_or_default().to_owned()
}

/// Does something for every cell over a few connections and returns the results in order.
fn in_parallel<T: Send>(
    proxy: &Proxy,
    cells: &[Cell<'_>],
    work: fn(&mut Connection, &Cell<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let lane = || -> anyhow::Result<Vec<(usize, T)>> {
        let mut connection = proxy.connect()?;
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(index) else { return Ok(done) };
            done.push((index, work(&mut connection, cell)?));
        }
    };
    let mut results = thread::scope(|scope| -> anyhow::Result<Vec<(usize, T)>> {
        let lanes: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(lane)).collect();
        let mut results = Vec::new();
        for lane in lanes {
            results.extend(lane.join().map_err(|_| anyhow::anyhow!("a connection panicked"))??);
        }
        Ok(results)
    })?;
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
