//! Webhooks of a whole program: its manifests, its server, and the CA bundles.

use std::collections::BTreeMap;

use clap::Parser;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Config,
    api::{ApiResource, DeleteParams, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use windlass_runtime::{
    client::{self, ClientOptions},
    manifests::Manifest,
    operator::{DebugState, Flags},
    webhook::{Conversion, Denied, Request, Warnings, Webhook},
};

use super::*;
use crate::webhook::foo::{Foo, admission, conversion, foo, old};

const DEFINITION: &str = "foos.webhook.windlass.example";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

fn operator(name: &str) -> Operator {
    let webhook = Webhook::<Foo>::new()
        .reads::<ConfigMap>()
        .default_with(|it: &mut Foo, _: &Request<Foo>| {
            it.spec.replicas.get_or_insert(3);
        })
        .validate(|request: &Request<Foo>| -> Result<Warnings, Denied> {
            match request.object.as_ref().and_then(|it| it.spec.replicas) {
                Some(replicas) if replicas < 0 => Err(Denied::field("spec.replicas", "must not be negative")),
                Some(13) => match request.context()?.get::<ConfigMap>(&ObjectKey::namespaced("default", "lucky"))? {
                    Some(_) => Ok(Warnings::none()),
                    None => Err(Denied::field("spec.replicas", "must not be 13 without luck")),
                },
                Some(replicas) if replicas > 100 => Ok(Warnings::new("that is a lot")),
                _ => Ok(Warnings::none()),
            }
        });
    Operator::new(name)
        .define::<Foo>()
        .define::<old::Foo>()
        .webhook(webhook)
        .conversion(Conversion::<Foo>::new().spoke::<old::Foo>())
}

fn options(cluster: &TestCluster, more: &[&str]) -> Options {
    let namespace = format!("--pod-namespace={}", cluster.namespace());
    let arguments = ["operator", "--webhook-port=0", &namespace].into_iter().chain(more.iter().copied());
    let config = Config::new("http://localhost".parse().unwrap());
    Options::from_flags(&Arguments::parse_from(arguments).flags, "hooked-operator", &config).unwrap()
}

/// Returns the port of a program's webhooks.
async fn port(state: &DebugState) -> u16 {
    eventually("webhooks are served", async || {
        let address: SocketAddr = state.show()["webhooks"]["address"].as_str()?.parse().unwrap();
        Some(address.port())
    })
    .await
}

/// What an API server knows of a webhook: the Service, the path, and the CA bundle.
#[derive(Clone, Debug)]
struct Known {
    server_name: String,
    path: String,
    bundle: String,
}

impl Known {
    /// Parses a `clientConfig`; returns `None` before there is a bundle.
    fn of(config: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let service = &config["service"];
        assert_eq!(service["port"].as_u64().unwrap_or(443), 443);
        Some(Self {
            server_name: format!("{}.{}.svc", text(&service["name"])?, text(&service["namespace"])?),
            path: text(&service["path"])?,
            bundle: text(&config["caBundle"]).filter(|bundle| !bundle.is_empty())?,
        })
    }

    /// Calls the webhook as the API server does, which finds the program behind the Service.
    async fn ask(&self, port: u16, review: &Value) -> Result<Value, kube::Error> {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": self.bundle,
                "tls-server-name": self.server_name,
            }}],
            "users": [{"name": "it", "user": {}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }))
        .unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.default_retry = false;
        let client = client::connect(&config, ClientOptions::new("kube-apiserver-admission")).unwrap();
        let request = http::Request::post(&self.path).header("content-type", "application/json");
        client.request(request.body(review.to_string().into_bytes()).unwrap()).await
    }
}

/// Applies a manifest as `kubectl apply` does.
async fn apply(cluster: &TestCluster, manifest: &Manifest) {
    let params = PatchParams::apply("kubectl").force();
    let api: Api<DynamicObject> = manifest.api(cluster.client());
    api.patch(manifest.name(), &params, &Patch::Apply(&manifest.object)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_serves_the_webhooks_of_its_manifests_to_clients_with_its_bundle() {
    let cluster = TestCluster::start().await;
    let name = TestCluster::unique("hooked");
    let manifests = operator(&name).manifests(cluster.namespace(), "example.com/hooked:1").build().unwrap();
    let hooks: Vec<&Manifest> =
        manifests.iter().filter(|manifest| manifest.kind().ends_with("WebhookConfiguration")).collect();
    assert_eq!(hooks.len(), 2);
    let role = manifests.iter().find(|manifest| manifest.kind() == "ClusterRole").unwrap();
    let rules = role.object.data["rules"].as_array().unwrap();
    let reads = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
    assert!(rules.contains(&reads), "the webhook may read what it declares: {rules:?}");
    for manifest in &hooks {
        apply(&cluster, manifest).await;
    }

    let operator = operator(&name);
    let state = operator.state().clone();
    let running = Running::start(operator, cluster.client(), options(&cluster, &["--install-crds"])).await;
    running.ready().await;
    let port = port(&state).await;
    // The applied configurations have bundles now, and so does the CRD that the program has installed.
    let mut known = BTreeMap::new();
    for manifest in &hooks {
        let known_of = eventually("there is a bundle", async || {
            let object = manifest.api(cluster.client()).get(manifest.name()).await.unwrap();
            Known::of(&object.data["webhooks"][0]["clientConfig"])
        });
        known.insert(manifest.kind().to_owned(), known_of.await);
    }
    let definitions: Api<DynamicObject> =
        Api::all_with(cluster.client(), &ApiResource::erase::<CustomResourceDefinition>(&()));
    let converting = eventually("the CRD has a bundle", async || {
        let definition = definitions.get(DEFINITION).await.unwrap();
        Known::of(&definition.data["spec"]["conversion"]["webhook"]["clientConfig"])
    })
    .await;

    let review = |spec| admission("CREATE", foo(spec), Value::Null);
    let defaulting = &known["MutatingWebhookConfiguration"];
    let answer = defaulting.ask(port, &review(json!({"image": "x"}))).await.unwrap();
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let validating = &known["ValidatingWebhookConfiguration"];
    let answer = validating.ask(port, &review(json!({"image": "x", "replicas": -1}))).await.unwrap();
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["details"]["causes"][0]["field"], "spec.replicas");
    let answer = validating.ask(port, &review(json!({"image": "x", "replicas": 101}))).await.unwrap();
    assert_eq!(
        (&answer["response"]["allowed"], &answer["response"]["warnings"]),
        (&json!(true), &json!(["that is a lot"]))
    );
    // Its cache is filled by then.
    let answer = validating.ask(port, &review(json!({"image": "x", "replicas": 13}))).await.unwrap();
    let cause = &answer["response"]["status"]["details"]["causes"][0]["message"];
    assert!(cause.as_str().is_some_and(|cause| cause.contains("without luck")), "{answer}");
    let object = json!({"apiVersion": "webhook.windlass.example/v1alpha1", "kind": "Foo",
        "metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {"text": "nginx*2"}});
    let answer = converting.ask(port, &conversion("v1", vec![object])).await.unwrap();
    assert_eq!(answer["response"]["result"]["status"], "Success", "{answer}");
    assert_eq!(answer["response"]["convertedObjects"][0]["spec"], json!({"image": "nginx", "replicas": 2}));

    // A client that uses another name, or trusts another CA, fails.
    let stranger = Known { server_name: format!("other.{}.svc", cluster.namespace()), ..validating.clone() };
    assert!(stranger.ask(port, &review(json!({}))).await.is_err());

    let (status, text) = get(running.probes, "/readyz?verbose").await.unwrap();
    assert_eq!(status, 200, "{text}");
    let (_, metrics) = get(running.metrics, "/metrics").await.unwrap();
    let counted =
        format!("controller_runtime_webhook_requests_total{{webhook=\"{}\",code=\"200\"}} 3\n", validating.path);
    assert!(metrics.contains(&counted), "{counted} in {metrics}");
    running.stop().await.unwrap();
    assert!(validating.ask(port, &review(json!({}))).await.is_err(), "the listener is closed");

    for manifest in hooks {
        manifest.api(cluster.client()).delete(manifest.name(), &DeleteParams::default()).await.unwrap();
    }
    definitions.delete(DEFINITION, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_replicas_of_a_program_are_trusted_by_one_bundle() {
    let cluster = TestCluster::start().await;
    let name = TestCluster::unique("hooked");
    let manifests = operator(&name).manifests(cluster.namespace(), "example.com/hooked:1").build().unwrap();
    let validating = manifests.iter().find(|one| one.kind() == "ValidatingWebhookConfiguration").unwrap();
    apply(&cluster, validating).await;
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let operator = operator(&name);
        let state = operator.state().clone();
        replicas.push((Running::start(operator, cluster.client(), options(&cluster, &[])).await, state));
    }
    for (running, state) in &replicas {
        running.ready().await;
        let object = validating.api(cluster.client()).get(validating.name()).await.unwrap();
        let known = Known::of(&object.data["webhooks"][0]["clientConfig"]).unwrap();
        let answer = known.ask(port(state).await, &admission("CREATE", foo(json!({})), Value::Null)).await.unwrap();
        assert_eq!(answer["response"]["allowed"], true);
    }
    for (running, _) in replicas {
        running.stop().await.unwrap();
    }
    validating.api(cluster.client()).delete(validating.name(), &DeleteParams::default()).await.unwrap();
}
