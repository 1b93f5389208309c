//! Who may do what: every decision is that of kube-apiserver, and a denied request gets no data and changes nothing.
//!
//! The decisions of kube-apiserver are in `tests/data/decisions.txt`, which `cargo xtask decisions` writes.

mod cells;

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Full;
use serde_json::Value;
use tower::ServiceExt;
use windlass_apiserver::{
    Server,
    authentication::{AnonymousOptions, AuthenticationOptions},
    authorization::{Action, Attributes, ResourceAction},
    body::Body,
    user::User,
};
use windlass_builtins::verb::Verb;
use windlass_store::memory::MemoryStore;

use self::cells::{Cell, HttpRequest, Identity, NAME, Scope, Subject, Target};
use crate::{
    client::{Answer, Client},
    every_kind,
};

const RECORDED: &str = include_str!("../data/decisions.txt");

/// Starts a server with the objects of the matrix, whose API is that of kube-apiserver.
async fn prepared() -> Client {
    let client = Client::without_old_definitions().await;
    for (path, object) in cells::objects() {
        client.post(&path, &object).await.expect(201);
    }
    client
}

async fn targets(client: &Client) -> Vec<Target> {
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let mut documents = Vec::new();
    for path in ["/api", "/apis"] {
        documents.push(client.ask(Method::GET, path, &accept, "").await.expect(200));
    }
    cells::targets(&documents)
}

/// The permissions in the recorded file, as section, subject and verb.
struct Recorded(BTreeSet<(&'static str, &'static str, &'static str)>);

impl Recorded {
    fn read() -> Self {
        let mut allowed = BTreeSet::new();
        let mut section = "";
        for line in RECORDED.lines() {
            let Some(line) = line.strip_prefix("  ") else {
                section = line;
                continue;
            };
            let Some((verbs, subjects)) = line.split_once(": ").filter(|(verbs, _)| !verbs.contains(' ')) else {
                continue;
            };
            for verb in verbs.split(',') {
                allowed.extend(subjects.split(' ').map(|subject| (section, subject, verb)));
            }
        }
        Self(allowed)
    }

    fn allows(&self, cell: &Cell<'_>) -> bool {
        self.0.contains(&(cell.section().as_str(), cell.subject_name().as_str(), cell.verb))
    }
}

fn user(identity: &Identity) -> User {
    User { name: identity.user.to_owned(), groups: vec![identity.group.to_owned()], ..User::default() }
}

#[tokio::test]
async fn every_decision_is_that_of_kube_apiserver() {
    let client = prepared().await;
    let targets = targets(&client).await;
    let mut answers = Vec::new();
    for cell in cells::cells(&targets) {
        let action = match cell.subject {
            Subject::Path(path) => Action::Path { verb: cell.verb, path },
            Subject::Resource(Target { group, resource, subresource, .. }, scope) => Action::Resource(ResourceAction {
                verb: cell.verb,
                group,
                version: "*",
                resource,
                subresource,
                namespace: scope.namespace(),
                ..ResourceAction::default()
            }),
        };
        let user = user(cell.identity);
        let decision = client.server.authorize(&Attributes { user: &user, action }).await;
        assert_eq!(decision.error, None);
        answers.push((cell, decision.is_allowed().then(|| decision.reason.to_string())));
    }
    assert!(answers.len() > 45_000, "{}", answers.len());
    let ours = cells::render(&targets, &answers);
    let (here, there) = (ours.lines().collect::<BTreeSet<_>>(), RECORDED.lines().collect::<BTreeSet<_>>());
    let only = |one: &BTreeSet<&str>, other: &BTreeSet<&str>| {
        one.difference(other).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert!(ours == RECORDED, "here:\n{}kube-apiserver:\n{}", only(&here, &there), only(&there, &here));
}

/// Sends a request as a user, or without credentials as the anonymous one.
async fn send(server: &Server, identity: &Identity, request: &HttpRequest, query: &str) -> Response<Body> {
    let has_body = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    let media_type = if request.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let path = format!("{}{query}", request.path);
    let http = Request::builder().method(request.method.as_str()).uri(path).header(header::CONTENT_TYPE, media_type);
    let mut http = http.body(Full::new(Bytes::from_static(if has_body { b"{}" } else { b"" }))).unwrap();
    if identity.user != "system:anonymous" {
        http.extensions_mut().insert(Arc::new(user(identity)));
    }
    match server.clone().oneshot(http).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Creates an object of every kind, in both namespaces if it has one.
async fn fill(client: &Client) -> usize {
    let mut objects = 0;
    for resource in &windlass_builtins::table().resources {
        // The server writes the conditions of FlowSchemas at any time after they are created.
        if !resource.has_verb(Verb::Create) || !resource.has_verb(Verb::Watch) || &*resource.kind == "FlowSchema" {
            continue;
        }
        let root = match &*resource.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let scopes = if resource.namespaced { &[Scope::Granted, Scope::Other][..] } else { &[Scope::Cluster] };
        for scope in scopes {
            let prefix = match scope.namespace() {
                "" => String::new(),
                namespace => format!("/namespaces/{namespace}"),
            };
            let mut object = every_kind::object(resource);
            for reference in ["involvedObject", "regarding"] {
                if let Some(reference) = object.get_mut(reference) {
                    reference["namespace"] = scope.namespace().into();
                }
            }
            let code = client.post(&format!("{root}{prefix}/{}", resource.plural), &object).await.code;
            // Some resources have several versions, and CRDs need a name of their own.
            objects += usize::from(code == 201);
        }
    }
    objects
}

/// Returns all objects of the server.
async fn contents(client: &Client) -> Vec<Value> {
    let mut lists = Vec::new();
    for resource in windlass_builtins::table().resources.iter().filter(|resource| resource.has_verb(Verb::Watch)) {
        let root = match &*resource.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version),
        };
        lists.push(client.get(&format!("{root}/{}", resource.plural)).await.expect(200)["items"].clone());
    }
    lists
}

#[tokio::test]
async fn denied_requests_get_no_data_and_change_nothing() {
    let client = prepared().await;
    assert!(fill(&client).await > 80);
    let (targets, recorded) = (targets(&client).await, Recorded::read());
    let before = contents(&client).await;
    let mut denied = 0;
    for cell in cells::cells(&targets).iter().filter(|cell| !recorded.allows(cell)) {
        for request in cell.requests() {
            let answer = Answer::read(send(&client.server, cell.identity, &request, "").await).await;
            let label = format!("{} {} by {}", request.method, request.path, cell.identity.user);
            assert_eq!(answer.code, 403, "{label}: {}", answer.message());
            if request.method != "HEAD" {
                assert_eq!(answer.message(), cell.denial(), "{label}");
            }
            denied += 1;
        }
    }
    // As many as kube-apiserver was sent.
    assert_eq!(denied, 15_333);
    assert!(contents(&client).await == before, "a denied request has changed something");
}

#[tokio::test]
async fn allowed_requests_are_not_denied() {
    let client = prepared().await;
    fill(&client).await;
    let (targets, recorded) = (targets(&client).await, Recorded::read());
    let mut allowed = 0;
    for cell in cells::cells(&targets).iter().filter(|cell| recorded.allows(cell)) {
        let Subject::Resource(..) = cell.subject else { continue };
        for request in cell.requests().iter().filter(|request| !request.path.contains("watch")) {
            let answer = Answer::read(send(&client.server, cell.identity, request, "?dryRun=All").await).await;
            let label = format!("{} {} by {}: {}", request.method, request.path, cell.identity.user, answer.message());
            assert!(answer.code != 401 && answer.message() != cell.denial(), "{label}");
            // Reading what exists succeeds.
            let reads = request.method == "GET" && cell.subject_name() == "configmaps";
            let exists =
                cell.verb == "list" || request.path.contains(&format!("/namespaces/granted/configmaps/{NAME}"));
            assert!(!reads || !exists || answer.code == 200, "{label}");
            allowed += 1;
        }
    }
    assert!(allowed > 1000, "{allowed}");
}

#[tokio::test]
async fn requests_without_credentials_are_rejected_if_nobody_may_be_anonymous() {
    let options = AuthenticationOptions {
        anonymous: AnonymousOptions { enabled: false, paths: Vec::new() },
        ..AuthenticationOptions::default()
    };
    let builder = Server::builder(Arc::new(MemoryStore::new())).old_definitions(false).authentication(options);
    let client = Client::of(builder.build().await.unwrap());
    let targets = targets(&client).await;
    for cell in cells::cells(&targets).iter().filter(|cell| cell.identity.user == "system:anonymous") {
        for request in cell.requests() {
            let answer = Answer::read(send(&client.server, cell.identity, &request, "").await).await;
            let label = format!("{} {}", request.method, request.path);
            assert_eq!(answer.code, 401, "{label}");
            assert!(request.method == "HEAD" || answer.message() == "Unauthorized", "{label}");
        }
    }
}
