//! Admission plugins and authorizers of an embedding program.

use std::sync::Arc;

use async_trait::async_trait;
use kube::core::GroupVersionResource;
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    admission::{Admission, Attributes, Operation},
    authorization::{self, Action, Authorization, Authorizer, Decision, MastersOnly},
    status::{ApiError, Result},
};
use windlass_store::memory::MemoryStore;

use crate::client::{CONFIG_MAPS, Client, config_map};

/// Rejects ConfigMaps whose namespace has no team label, and more than two of them per namespace.
struct TeamLimits;

#[async_trait]
impl Admission for TeamLimits {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if &*write.resource.plural != "configmaps" || write.operation != Operation::Create {
            return Ok(());
        }
        let namespaces = GroupVersionResource::gvr("", "v1", "namespaces");
        let namespace = write.objects.get(&namespaces, "", write.namespace).await?.unwrap_or_default();
        let forbidden = |why: &str| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Err(ApiError::forbidden("configmaps", "", name, why))
        };
        if namespace["metadata"]["labels"]["team"].is_null() {
            return forbidden("the namespace has no team");
        }
        let config_maps = GroupVersionResource::gvr("", "v1", "configmaps");
        let existing = write.objects.list(&config_maps, Some(write.namespace)).await?;
        if existing.len() >= 2 { forbidden("the namespace is full") } else { Ok(()) }
    }
}

#[tokio::test]
async fn an_admission_plugin_reads_objects() {
    let server = Server::builder(Arc::new(MemoryStore::new())).admission(TeamLimits).build().await.unwrap();
    let client = Client::of(server);
    let no_team = client.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(
        (no_team.code, no_team.message().as_str()),
        (403, "configmaps \"a\" is forbidden: the namespace has no team")
    );
    let labels = json!({"metadata": {"labels": {"team": "blue"}}});
    client.merge("/api/v1/namespaces/default", &labels).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let full = client.post(CONFIG_MAPS, &config_map("c")).await;
    assert_eq!((full.code, full.message().as_str()), (403, "configmaps \"c\" is forbidden: the namespace is full"));
}

/// Denies deletions, and has no opinion about anything else.
struct NoDeletions;

impl Authorizer for NoDeletions {
    fn authorize<'a>(&'a self, request: &'a authorization::Attributes<'a>) -> Authorization<'a> {
        match &request.action {
            Action::Resource(action) if action.verb.starts_with("delete") => Decision::deny("deletions are frozen"),
            Action::Resource(_) => Decision::no_opinion("not a deletion"),
            Action::Path { .. } => Decision::no_opinion(""),
        }
        .into()
    }
}

#[tokio::test]
async fn the_reason_of_an_authorizer_is_in_the_answer() {
    let authorizers: Vec<Box<dyn Authorizer>> = vec![Box::new(NoDeletions), Box::new(MastersOnly)];
    let server = Server::builder(Arc::new(MemoryStore::new())).authorizer(authorizers).build().await.unwrap();
    let client = Client::of(server);
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let denied = client.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(denied.code, 403);
    assert_eq!(
        denied.message(),
        "configmaps \"a\" is forbidden: User \"admin\" cannot delete resource \"configmaps\" in API group \"\" in the \
         namespace \"default\": deletions are frozen"
    );
}

#[tokio::test]
async fn a_request_that_no_authorizer_knows_is_denied_with_its_reason() {
    let server = Server::builder(Arc::new(MemoryStore::new()));
    let authorizers: Vec<Box<dyn Authorizer>> = vec![Box::new(MastersOnly), Box::new(NoDeletions)];
    let client = Client::of(server.authorizer(authorizers).build().await.unwrap());
    let answer = client.ask_as("eve", CONFIG_MAPS).await;
    assert_eq!(answer.code, 403);
    assert_eq!(
        answer.message(),
        "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\": not a deletion"
    );
    let path = client.ask_as("eve", "/metrics").await;
    assert_eq!(path.message(), "forbidden: User \"eve\" cannot get path \"/metrics\"");
}
