//! Handlers that read other objects.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use windlass_runtime::{
    context::Context,
    key::ObjectKey,
    scope::Scope,
    webhook::{Denied, Request, Warnings, Webhook, Webhooks},
};

use super::{
    Served,
    foo::{Foo, admission, foo},
};
use crate::cluster::TestCluster;

const MUTATE: &str = "/mutate-webhook-windlass-example-v1-foo?timeout=10s";
const VALIDATE: &str = "/validate-webhook-windlass-example-v1-foo?timeout=10s";

/// Allows a Foo if there is a ConfigMap with the name of its image, and takes the number of replicas from it.
fn webhook(namespace: &str) -> Webhook<Foo> {
    let (of_default, of_validate) = (namespace.to_owned(), namespace.to_owned());
    Webhook::<Foo>::new()
        .default_with(move |foo: &mut Foo, request: &Request<Foo>| -> Result<(), Denied> {
            let key = ObjectKey::namespaced(&of_default, &foo.spec.image);
            let settings = request.context()?.get::<ConfigMap>(&key)?;
            foo.spec.replicas = settings.and_then(|settings| settings.data.as_ref()?.get("replicas")?.parse().ok());
            Ok(())
        })
        .validate_async(move |request| {
            let namespace = of_validate.clone();
            async move {
                let image = request.object.as_ref().map(|foo| foo.spec.image.clone()).unwrap_or_default();
                match request.context()?.live().get::<ConfigMap>(&ObjectKey::namespaced(&namespace, &image)).await? {
                    Some(_) => Ok(Warnings::none()),
                    None => Err(Denied::new(format!("there is no ConfigMap {image}"))),
                }
            }
        })
}

fn review(image: &str) -> Value {
    admission("CREATE", foo(json!({ "image": image })), Value::Null)
}

#[tokio::test]
async fn a_handler_reads_caches_and_the_api_server() {
    let cluster = TestCluster::start().await;
    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("known".into());
    settings.data = Some([("replicas".to_owned(), "7".to_owned())].into());
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    api.create(&PostParams::default(), &settings).await.unwrap();
    let (context, scope) = (Context::builder(cluster.client()).build(), Scope::namespace(cluster.namespace()));
    let informer = context.caches().informer::<ConfigMap>(&scope);
    informer.synced().await;
    context.add_informer(&(), &scope, informer);
    let webhooks = Webhooks::new().add(webhook(cluster.namespace())).context(context);
    let (_served, caller) = Served::with_certificate(webhooks).await;

    let (_, answer) = caller.post(MUTATE, &review("known")).await;
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");
    let (_, answer) = caller.post(VALIDATE, &review("known")).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let (_, answer) = caller.post(VALIDATE, &review("unknown")).await;
    assert_eq!(answer["response"]["allowed"], false);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("there is no ConfigMap unknown"), "{message}");
}

#[tokio::test]
async fn the_error_for_a_handler_without_a_context_says_how_to_get_one() {
    let (_served, caller) = Served::with_certificate(Webhooks::new().add(webhook("default"))).await;
    let (_, answer) = caller.post(VALIDATE, &review("known")).await;
    assert_eq!(answer["response"]["allowed"], false);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("Webhooks::context"), "{message}");
}
