//! YAML is valid, and manifests are accepted.

use crontab_operator::api::cron_tab::CronTab;
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;
use windlass_plane::{Stages, jwt::configuration::AuthenticationConfiguration};
use windlass_testing::TestPlane;

use windlass_book::page::{Page, pages};

/// Manifests for other programs or for a cluster with more CRDs; the second version exists only in the reader's
/// project.
const ELSEWHERE: &[&str] = &[
    "apiserver.config.k8s.io",
    "kustomize.config.k8s.io",
    "monitoring.coreos.com",
    "stable.example.com/v2",
    "windlass.dev",
];

#[tokio::test]
async fn manifests_are_accepted_by_a_plane() {
    for page in pages() {
        let mut plane = None;
        for block in page.blocks().iter().filter(|block| block.language() == "yaml") {
            let text = block.lines.join("\n");
            let place = format!("{}:{}", page.name(), block.line);
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
            for document in documents {
                let version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
                if document["kind"] == "Stage" {
                    Stages::parse(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
                }
                if document["kind"] == "AuthenticationConfiguration" {
                    let parsed = AuthenticationConfiguration::parse(text.as_bytes());
                    let valid = parsed.and_then(|configuration| configuration.validate(&[]));
                    valid.unwrap_or_else(|error| panic!("{place}: {error}"));
                }
                if !version.is_empty() && !ELSEWHERE.iter().any(|group| version.starts_with(group)) {
                    if plane.is_none() {
                        plane = Some(TestPlane::builder().with_crds([CronTab::crd()]).await);
                    }
                    create(plane.as_ref().unwrap(), document, &place).await;
                }
            }
        }
    }
}

async fn create(plane: &TestPlane, document: Value, place: &str) {
    let object: DynamicObject = serde_json::from_value(document).unwrap_or_else(|error| panic!("{place}: {error}"));
    let types = object.types.clone().unwrap();
    let kind = types.try_into().unwrap_or_else(|error| panic!("{place}: {error}"));
    let found = pinned_kind(&plane.client(), &kind).await;
    let (resource, capabilities): (ApiResource, _) = found.unwrap_or_else(|error| panic!("{place}: {error}"));
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(plane.client(), &resource),
        Scope::Namespaced => Api::namespaced_with(plane.client(), plane.namespace(), &resource),
    };
    let mut object = object;
    object.metadata.namespace = None;
    let created = api.create(&PostParams::default(), &object).await;
    created.unwrap_or_else(|error| panic!("{place}: {}: {error}", object.name_any()));
}

#[test]
fn pages_have_manifests() {
    let has = |page: &Page| page.blocks().iter().any(|block| block.language() == "yaml");
    assert!(pages().iter().any(has));
}
