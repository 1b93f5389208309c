//! CRDs that an operator installs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, CustomResource, CustomResourceExt as _, api::DeleteParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{
    operator::{Operator, Options},
    webhook::Conversion,
};

use super::Running;
use crate::cluster::{TestCluster, eventually};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "installed.windlass.example", version = "v1", kind = "Foo", namespaced)]
struct FooSpec {
    replicas: i32,
}

mod old {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "installed.windlass.example", version = "v1beta1", kind = "Foo", namespaced)]
    pub(super) struct FooSpec {
        pub(super) count: i32,
    }
}

impl From<old::Foo> for Foo {
    fn from(old: old::Foo) -> Self {
        Self { metadata: old.metadata, spec: FooSpec { replicas: old.spec.count } }
    }
}

impl From<Foo> for old::Foo {
    fn from(new: Foo) -> Self {
        Self { metadata: new.metadata, spec: old::FooSpec { count: new.spec.replicas } }
    }
}

#[tokio::test]
async fn versions_of_a_resource_are_installed_as_one_crd_with_their_conversion() {
    let cluster = TestCluster::start().await;
    let operator = || Operator::new("install-operator").define::<old::Foo>().define::<Foo>();
    let options = || {
        let mut options = Options { install_crds: true, ..Options::default() };
        (options.webhooks.port, options.webhooks.namespace) = (0, cluster.namespace().to_owned());
        options.webhooks.service = Some("hooks".to_owned());
        options
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let name = Foo::crd().metadata.name.unwrap();

    let running = Running::start(operator(), cluster.client(), options()).await;
    running.ready().await;
    let installed = definitions.get(&name).await.unwrap();
    let versions: Vec<_> = installed.spec.versions.iter().map(|one| (one.name.as_str(), one.storage)).collect();
    assert_eq!(versions, [("v1", true), ("v1beta1", false)]);
    assert_eq!(installed.spec.conversion.map(|conversion| conversion.strategy).as_deref(), Some("None"));
    running.stop().await.unwrap();

    // A second time, with a conversion, and a third, which keeps what the second has added.
    for _ in 0..2 {
        let converting = operator().conversion(Conversion::<Foo>::new().spoke::<old::Foo>());
        let running = Running::start(converting, cluster.client(), options()).await;
        running.ready().await;
        let client = eventually("the CA bundle is installed", async || {
            let conversion = definitions.get(&name).await.unwrap().spec.conversion?;
            conversion.webhook?.client_config.filter(|client| client.ca_bundle.is_some())
        })
        .await;
        let service = client.service.unwrap();
        assert_eq!((service.name.as_str(), service.namespace.as_str()), ("hooks", cluster.namespace()));
        assert_eq!(service.path.as_deref(), Some("/convert"));
        running.stop().await.unwrap();
    }
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
}
