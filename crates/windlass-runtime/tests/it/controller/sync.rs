//! Controllers as pure functions.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use windlass_runtime::{
    Result,
    controller::{
        Watch,
        sync::{Children, DesiredState},
    },
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

/// Desires a Secret for each word of a ConfigMap.
fn sync(parent: &ConfigMap, children: &Children<'_>) -> Result<DesiredState> {
    children.list::<Secret>()?;
    let words = parent.data.iter().flatten().map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(" ");
    let mut wanted = DesiredState::new();
    for word in words.split_whitespace() {
        let mut secret = Secret::default();
        secret.metadata.name = Some(word.to_owned());
        wanted = wanted.child(secret);
    }
    Ok(wanted)
}

#[tokio::test]
async fn children_are_created_and_deleted_as_desired() {
    let cluster = TestCluster::start().await;
    let parents: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let children: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut parent = config("words");
    parent.data = Some([("words".to_owned(), "one two".to_owned())].into());
    let parent = create(&parents, parent).await;
    let scope = Scope::namespace(cluster.namespace());
    let watch = Watch::new().scope(scope.clone().fields("metadata.name=words"));
    let controller = Controller::syncing_of("words", watch, sync).source(Watch::<Secret>::new().scope(scope).owned());
    let running = Running::start(cluster.client(), controller);
    let names = async || {
        let mut names: Vec<_> = children.list(&Default::default()).await.unwrap().iter().map(name_of).collect();
        names.sort();
        names
    };
    eventually("two children", async || (names().await == ["one", "two"]).then_some(())).await;
    let child = children.get("one").await.unwrap();
    assert_eq!(child.metadata.owner_references.unwrap()[0].uid, parent.metadata.uid.unwrap());
    // A deleted child is recreated.
    children.delete("one", &Default::default()).await.unwrap();
    eventually("two children again", async || (names().await == ["one", "two"]).then_some(())).await;
    merge(&parents, "words", json!({"data": {"words": "two three"}})).await;
    eventually("other children", async || (names().await == ["three", "two"]).then_some(())).await;
    running.stop().await;
}
