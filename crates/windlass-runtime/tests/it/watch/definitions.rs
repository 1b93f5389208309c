//! Resources whose CRD is created and deleted.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::*;
use crate::{
    cluster::eventually,
    faults::{Fault, Faults, Seen},
};

struct Definition {
    api: Api<CustomResourceDefinition>,
    resource: ApiResource,
    group: String,
}

impl Definition {
    /// Returns a CRD that no server has yet.
    fn new(cluster: &TestCluster) -> Self {
        let group = format!("{}.example.com", TestCluster::unique("watch"));
        let kind = GroupVersionKind::gvk(&group, "v1", "Boat");
        Self { api: Api::all(cluster.client()), resource: ApiResource::from_gvk_with_plural(&kind, "boats"), group }
    }

    fn name(&self) -> String {
        format!("boats.{}", self.group)
    }

    async fn create(&self) {
        let definition = serde_json::from_value(serde_json::json!({
            "metadata": {"name": self.name()},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }));
        self.api.create(&PostParams::default(), &definition.unwrap()).await.unwrap();
    }

    async fn delete(&self) {
        self.api.delete(&self.name(), &Default::default()).await.unwrap();
        eventually("the CRD is deleted", async || {
            self.api.get_opt(&self.name()).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// Creates a boat as soon as the resource is served.
    async fn launch(&self, cluster: &TestCluster, name: &str) {
        let boats: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &self.resource);
        let boat = DynamicObject::new(name, &self.resource);
        eventually("a boat can be created", async || boats.create(&PostParams::default(), &boat).await.ok()).await;
    }
}

#[tokio::test]
async fn a_crd_that_is_created_deleted_and_recreated_is_followed() {
    for streaming_list in WAYS {
        let cluster = TestCluster::start().await;
        let definition = Definition::new(&cluster);
        let scope = Scope::namespace(cluster.namespace());
        let options = WatchOptions { streaming_list, ..WatchOptions::new(definition.resource.clone(), scope) };
        let mut reflected = Reflected::<DynamicObject>::start(cluster.client(), options);
        assert!(matches!(reflected.next().await, Change::Absent));

        definition.create().await;
        definition.launch(&cluster, "first").await;
        reflected.until("the boat exists", |reflected| reflected.names() == ["first"]).await;
        assert_eq!(reflected.absents, 1, "absence is reported once");

        definition.delete().await;
        reflected.until("it is absent", |reflected| reflected.absents == 2).await;
        assert!(reflected.objects.is_empty());

        definition.create().await;
        definition.launch(&cluster, "second").await;
        reflected.until("the other boat exists", |reflected| reflected.names() == ["second"]).await;
        assert_eq!(reflected.absents, 2);
        definition.delete().await;
    }
}

#[tokio::test]
async fn a_forbidden_resource_is_not_considered_absent() {
    let cluster = TestCluster::start().await;
    create(&cluster, "a").await;
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| seen.is_list("configmaps"), 1, Fault::status(403));
    faults.inject(Seen::is_watch, 1, Fault::status(403));
    let mut reflected = Reflected::<ConfigMap>::start(faults.client(), options(&cluster));
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    create(&cluster, "b").await;
    reflected.until("b exists", |reflected| reflected.names() == ["a", "b"]).await;
    assert_eq!((reflected.absents, reflected.replaces), (0, 1));
}
