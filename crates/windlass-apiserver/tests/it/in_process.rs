//! The server as a `kube::Client`, without a socket.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::client::{Client, config_map};

#[tokio::test]
async fn kube_talks_to_the_server_without_a_socket() {
    let client = Client::new().await.server.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let object: ConfigMap = serde_json::from_value(config_map("a")).unwrap();
    maps.create(&PostParams::default(), &object).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"b": "2"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    let missing = maps.get("none").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
}
