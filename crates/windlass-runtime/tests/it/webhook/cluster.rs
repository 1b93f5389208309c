//! The same through an API server, which calls the webhooks by URL.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResourceExt as _, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::crd::merge_crds,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_runtime::webhook::{
    Conversion, Denied, Description, Endpoint, Request, SelfSigned, Warnings, Webhook, WebhookOptions, Webhooks,
};

use super::{
    Served,
    foo::{Foo, FooSpec, old},
};
use crate::cluster::{TestCluster, eventually, skip_on_cluster};

const DEFINITION: &str = "foos.webhook.windlass.example";

fn webhooks() -> Webhooks {
    let webhook = Webhook::<Foo>::new()
        .default_with(|foo: &mut Foo, _: &Request<Foo>| {
            foo.spec.replicas.get_or_insert(3);
        })
        .validate(|request: &Request<Foo>| -> Result<Warnings, Denied> {
            match request.object.as_ref().and_then(|foo| foo.spec.replicas) {
                Some(replicas) if replicas < 0 => Err(Denied::field("spec.replicas", "must not be negative")),
                _ => Ok(Warnings::none()),
            }
        })
        .also_on_delete()
        .validate(|request: &Request<Foo>| match request.old_object.as_ref().filter(|_| request.is_delete()) {
            Some(foo) if foo.spec.image == "kept" => Err(Denied::new("this one is kept")),
            _ => Ok(()),
        });
    Webhooks::new().add(webhook).conversion(Conversion::<Foo>::new().spoke::<old::Foo>())
}

/// Returns an entry of a webhook configuration.
fn entry(description: &Description, address: SocketAddr, namespace: &str) -> Value {
    json!({
        "name": description.name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": description.calls.timeout_seconds,
        "clientConfig": {"url": format!("https://{address}{}", description.path)},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{
            "apiGroups": [description.group],
            "apiVersions": description.versions,
            "resources": description.rules[0].resources,
            "operations": description.rules[0].operations,
        }]
    })
}

async fn apply<K>(api: &Api<K>, name: &str, object: Value)
where
    K: Resource<DynamicType: Default> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let mut object = object;
    object["apiVersion"] = K::api_version(&Default::default()).into();
    object["kind"] = K::kind(&Default::default()).into();
    object["metadata"]["name"] = name.into();
    api.patch(name, &PatchParams::apply("windlass-test").force(), &Patch::Apply(object)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_api_server_defaults_denies_and_converts_by_webhook() {
    if skip_on_cluster("it may not be able to reach this machine; another test asks it") {
        return;
    }
    defaults_denies_and_converts().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster in WINDLASS_TEST_KUBECONFIG that can reach this machine"]
async fn a_real_api_server_defaults_denies_and_converts_by_webhook() {
    assert!(std::env::var_os("WINDLASS_TEST_KUBECONFIG").is_some(), "WINDLASS_TEST_KUBECONFIG must name a cluster");
    defaults_denies_and_converts().await;
}

async fn defaults_denies_and_converts() {
    let cluster = TestCluster::start().await;
    let name = TestCluster::unique("webhook");
    let certificates = SelfSigned::new(cluster.client(), cluster.namespace(), "web")
        .name("127.0.0.1")
        .mutating(&name)
        .validating(&name)
        .definition(DEFINITION)
        .check_every(Duration::from_millis(50));
    let described = webhooks().describe();
    let served = Served::start(webhooks(), WebhookOptions::new(certificates)).await;

    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let mut definition = json!(merge_crds(vec![Foo::crd(), old::Foo::crd()], "v1").unwrap());
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/convert", served.address)}
        }
    });
    apply(&definitions, DEFINITION, definition).await;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let entries = |endpoint| {
        let entries = described.iter().filter(|description| description.endpoint == endpoint);
        let entries = entries.map(|description| entry(description, served.address, cluster.namespace()));
        json!({"webhooks": entries.collect::<Vec<_>>()})
    };
    apply(&mutating, &name, entries(Endpoint::Mutating)).await;
    apply(&validating, &name, entries(Endpoint::Validating)).await;

    // The API server needs some time to learn of all this.
    let foos: Api<Foo> = Api::namespaced(cluster.client(), cluster.namespace());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let foo = |name: &str, replicas| Foo::new(name, FooSpec { image: "x".to_owned(), replicas });
    eventually("objects are defaulted", async || {
        let made = foos.create(&dry_run, &foo("probe", None)).await.ok()?;
        (made.spec.replicas == Some(3)).then_some(())
    })
    .await;
    let rejected = eventually("objects are rejected", async || {
        foos.create(&dry_run, &foo("bad", Some(-1))).await.err().and_then(|error| match error {
            kube::Error::Api(status) if status.code == 422 => Some(status),
            _ => None,
        })
    })
    .await;
    let expected = "admission webhook \"validate.foos.v1.webhook.windlass.example\" denied the request: \
                    Foo.webhook.windlass.example \"bad\" is invalid: spec.replicas: must not be negative";
    assert_eq!(rejected.message, expected);
    assert_eq!(rejected.details.unwrap().causes[0].field, "spec.replicas");

    let olds: Api<old::Foo> = Api::namespaced(cluster.client(), cluster.namespace());
    let old = |name: &str, text: &str| old::Foo::new(name, old::FooSpec { text: text.to_owned() });
    olds.create(&PostParams::default(), &old("old", "nginx*2")).await.unwrap();
    let new = foos.get("old").await.unwrap();
    assert_eq!(new.spec, FooSpec { image: "nginx".to_owned(), replicas: Some(2) });
    assert_eq!(new.annotations()["converted"], "yes");
    foos.create(&PostParams::default(), &foo("new", Some(7))).await.unwrap();
    let texts: Vec<String> =
        olds.list(&Default::default()).await.unwrap().items.into_iter().map(|foo| foo.spec.text).collect();
    assert_eq!(texts, ["x*7", "nginx*2"]);
    let failed = olds.create(&PostParams::default(), &old("bad", "nothing")).await.unwrap_err();
    assert!(failed.to_string().contains("no star in the text"), "{failed}");

    let kept = Foo::new("kept", FooSpec { image: "kept".to_owned(), replicas: None });
    foos.create(&PostParams::default(), &kept).await.unwrap();
    let failed = foos.delete("kept", &DeleteParams::default()).await.unwrap_err();
    assert!(failed.to_string().contains("this one is kept"), "{failed}");

    mutating.delete(&name, &DeleteParams::default()).await.unwrap();
    validating.delete(&name, &DeleteParams::default()).await.unwrap();
    definitions.delete(DEFINITION, &DeleteParams::default()).await.unwrap();
}
