//! Kinds that are not served yet, or no longer.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::json;
use windlass_runtime::{
    Error,
    context::Context,
    controller::{Action, Watch},
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

/// A CRD of a kind that no other test uses.
struct Defined {
    definitions: Api<CustomResourceDefinition>,
    definition: CustomResourceDefinition,
    resource: ApiResource,
    objects: Api<DynamicObject>,
}

impl Defined {
    fn new(cluster: &TestCluster) -> Self {
        let group = format!("{}.windlass.dev", TestCluster::unique("g"));
        let definition = json!({
            "metadata": {"name": format!("racks.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "racks", "singular": "rack", "kind": "Rack", "listKind": "RackList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Rack"), "racks");
        Self {
            definitions: Api::all(cluster.client()),
            definition: serde_json::from_value(definition).unwrap(),
            objects: Api::namespaced_with(cluster.client(), cluster.namespace(), &resource),
            resource,
        }
    }

    async fn define(&self) {
        create(&self.definitions, self.definition.clone()).await;
    }

    async fn remove(&self) {
        let name = name_of(&self.definition);
        self.definitions.delete(&name, &Default::default()).await.unwrap();
        eventually("the CRD is deleted", async || {
            self.definitions.get_opt(&name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// Creates an object as soon as the kind is served.
    async fn make(&self, name: &str) -> DynamicObject {
        let object = DynamicObject::new(name, &self.resource);
        eventually("an object can be created", async || self.objects.create(&Default::default(), &object).await.ok())
            .await
    }
}

fn journaling(cluster: &TestCluster, defined: &Defined, journal: &Journal<String>) -> Controller<DynamicObject> {
    let (reconciled, gone) = (journal.clone(), journal.clone());
    let watch = Watch::<DynamicObject>::with(defined.resource.clone()).scope(Scope::namespace(cluster.namespace()));
    Controller::of("racks", watch, move |rack: Arc<DynamicObject>, _ctx| {
        reconciled.write(name_of(&*rack));
        async { Ok(Action::done()) }
    })
    .on_deleted(move |key, _ctx| {
        gone.write(format!("-{}", key.name()));
        async { Ok(()) }
    })
}

#[tokio::test]
async fn a_controller_waits_for_its_kind_and_outlives_it() {
    let cluster = TestCluster::start().await;
    let defined = Defined::new(&cluster);
    let journal = Journal::new();
    let running = Running::start(cluster.client(), journaling(&cluster, &defined, &journal));
    defined.define().await;
    defined.make("a").await;
    journal.until("the first object", |seen| seen == ["a"]).await;
    // The CRD is deleted, with its objects.
    defined.remove().await;
    journal.until("the first object goes", |seen| seen == ["a", "-a"]).await;
    // It is recreated while the controller runs.
    defined.define().await;
    defined.make("b").await;
    journal.until("an object of the new definition", |seen| seen == ["a", "-a", "b"]).await;
    running.stop().await;
    defined.remove().await;
}

#[tokio::test]
async fn a_watched_kind_that_is_not_served_does_not_hold_up_the_controller() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let owner = create(&api, config("owner")).await;
    let defined = Defined::new(&cluster);
    let journal = Journal::new();
    let written = journal.clone();
    let controller = Controller::<ConfigMap>::new("owners", move |config: Arc<ConfigMap>, _ctx| {
        written.write(name_of(&*config));
        async { Ok(Action::done()) }
    })
    .scope(Scope::namespace(cluster.namespace()).fields("metadata.name=owner"))
    .source(Watch::<DynamicObject>::with(defined.resource.clone()).owned())
    .absent_grace(Duration::from_millis(100));
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    defined.define().await;
    let mut rack = DynamicObject::new("rack", &defined.resource);
    rack.metadata.owner_references = Some(vec![controlled_by(&owner)]);
    eventually("a rack can be created", async || defined.objects.create(&Default::default(), &rack).await.ok()).await;
    journal.has(2).await;
    running.stop().await;
    defined.remove().await;
}

#[tokio::test]
async fn reading_a_kind_that_is_not_served_is_an_error_until_it_is_served() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("owner")).await;
    let defined = Defined::new(&cluster);
    let journal = Journal::new();
    let (written, resource) = (journal.clone(), defined.resource.clone());
    let controller = Controller::<ConfigMap>::new("readers", move |_config: Arc<ConfigMap>, ctx: Context| {
        let (written, resource) = (written.clone(), resource.clone());
        async move {
            let racks = ctx.kind_with::<DynamicObject>(&resource);
            let key = ObjectKey::namespaced("default", "rack");
            let read = racks.list().map(|racks| racks.len()).map_err(|error| error.to_string());
            let one = racks.get(&key).map(|rack| usize::from(rack.is_some())).map_err(|error| error.to_string());
            assert_eq!(read, one);
            written.write(read.clone());
            match read {
                Ok(_) => Ok(Action::done()),
                // Only a change can bring it back.
                Err(error) => Err(Error::terminal(error)),
            }
        }
    })
    .scope(Scope::namespace(cluster.namespace()).fields("metadata.name=owner"))
    .source(Watch::<DynamicObject>::with(defined.resource.clone()).owned())
    .absent_grace(Duration::from_millis(100));
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    let error = journal.read()[0].clone().unwrap_err();
    assert!(error.contains("is not served") && error.contains(&defined.resource.kind), "{error}");
    defined.define().await;
    journal.until("the kind is readable", |seen| seen.last() == Some(&Ok(0))).await;
    running.stop().await;
    defined.remove().await;
}
