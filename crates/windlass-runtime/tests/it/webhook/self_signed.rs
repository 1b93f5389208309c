mod lost;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::StatusCode;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_runtime::webhook::{Denied, Request, SelfSigned, Webhook, WebhookOptions, Webhooks};

use super::{
    Caller, Served,
    foo::{Foo, admission, foo},
};
use crate::cluster::{TestCluster, eventually};

const VALIDATE: &str = "/validate-webhook-windlass-example-v1-foo";

/// A clock that a test moves ahead of the system's.
#[derive(Clone, Default)]
struct Clock {
    ahead: Arc<AtomicU64>,
    looks: Arc<AtomicUsize>,
}

impl Clock {
    fn now(&self) -> SystemTime {
        self.looks.fetch_add(1, Ordering::SeqCst);
        SystemTime::now() + Duration::from_secs(self.ahead.load(Ordering::SeqCst))
    }

    /// Advances the clock and waits for two more checks, so that the effects of the first are visible.
    async fn advance(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
        let looks = self.looks.load(Ordering::SeqCst);
        eventually("the clock is read", async || (self.looks.load(Ordering::SeqCst) > looks + 2).then_some(())).await;
    }
}

/// A webhook configuration with one webhook of ours and one of another operator, deleted at the end.
struct Configuration {
    api: Api<ValidatingWebhookConfiguration>,
    name: String,
}

impl Configuration {
    async fn create(cluster: &TestCluster) -> Self {
        let webhook = |name: &str, service: &str| {
            json!({
                "name": format!("{name}.windlass.example"),
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {
                    "service": {"namespace": cluster.namespace(), "name": service, "path": VALIDATE}
                },
                "rules": [{
                    "apiGroups": ["none.windlass.example"],
                    "apiVersions": ["v1"],
                    "resources": ["nothings"],
                    "operations": ["CREATE"]
                }]
            })
        };
        let name = TestCluster::unique("webhook");
        let configuration = json!({
            "metadata": {"name": name},
            "webhooks": [webhook("ours", "web"), webhook("theirs", "other")]
        });
        let api = Api::all(cluster.client());
        api.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();
        Self { api, name }
    }

    /// Returns the bundles of the two webhooks.
    async fn bundles(&self) -> [Option<String>; 2] {
        let configuration = self.api.get(&self.name).await.unwrap();
        let webhooks = configuration.webhooks.unwrap();
        [0, 1].map(|index| {
            let bundle = webhooks[index].client_config.ca_bundle.as_ref()?;
            Some(String::from_utf8(bundle.0.clone()).unwrap())
        })
    }

    async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new().add(Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(())))
}

fn certificates(cluster: &TestCluster, configuration: &Configuration, clock: &Clock) -> SelfSigned {
    certificates_with(cluster.client(), cluster, configuration, clock)
}

fn certificates_with(
    client: Client,
    cluster: &TestCluster,
    configuration: &Configuration,
    clock: &Clock,
) -> SelfSigned {
    let clock = clock.clone();
    SelfSigned::new(client, cluster.namespace(), "web")
        .name("127.0.0.1")
        .validating(&configuration.name)
        .lifetimes(Duration::from_mins(45), Duration::from_mins(6))
        .overlap(Duration::from_mins(5))
        .check_every(Duration::from_millis(20))
        .clock(move || clock.now())
}

/// Calls as the API server does, trusting the bundle of the configuration. Returns the server's certificate.
async fn ask(configuration: &Configuration, address: SocketAddr) -> Vec<u8> {
    let [bundle, _] = configuration.bundles().await;
    let (mut connection, certificate) = Caller::new(address, &bundle.unwrap()).connect().await.unwrap();
    let review = admission("CREATE", foo(json!({})), Value::Null);
    let (status, answer) = connection.post(VALIDATE, &review).await.unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    certificate.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_together_share_one_authority() {
    let cluster = TestCluster::start().await;
    let configuration = Configuration::create(&cluster).await;
    let clock = Clock::default();
    let mut starting = JoinSet::new();
    for _ in 0..5 {
        let options = WebhookOptions::new(certificates(&cluster, &configuration, &clock));
        starting.spawn(Served::start(webhooks(), options));
    }
    let mut shown = HashSet::new();
    for served in starting.join_all().await {
        shown.insert(ask(&configuration, served.address).await);
    }
    assert_eq!(shown.len(), 1);

    let secret =
        Api::<Secret>::namespaced(cluster.client(), cluster.namespace()).get("web-certificates").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    let data = secret.data.unwrap();
    let [ours, theirs] = configuration.bundles().await;
    assert_eq!(ours.unwrap().as_bytes(), data["ca.crt"].0);
    assert_eq!(theirs, None);
    configuration.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overwritten_bundle_and_a_removed_secret_are_restored() {
    let cluster = TestCluster::start().await;
    let configuration = Configuration::create(&cluster).await;
    let clock = Clock::default();
    let options = WebhookOptions::new(certificates(&cluster, &configuration, &clock));
    let served = Served::start(webhooks(), options).await;
    let [bundle, _] = configuration.bundles().await;

    let other: ByteString = ByteString(super::Authority::new().pem().into_bytes());
    let patch = json!({"webhooks": [{"name": "ours.windlass.example", "clientConfig": {"caBundle": other}}]});
    configuration.api.patch(&configuration.name, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    eventually("the bundle is written again", async || (configuration.bundles().await[0] == bundle).then_some(()))
        .await;
    let before = ask(&configuration, served.address).await;

    let secrets: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    secrets.delete("web-certificates", &DeleteParams::default()).await.unwrap();
    // At no time does the API server distrust the certificate.
    eventually("another certificate is shown", async || {
        (ask(&configuration, served.address).await != before).then_some(())
    })
    .await;
    let secret = secrets.get("web-certificates").await.unwrap();
    let authority = String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap();
    // Another replica may still use a certificate of the lost CA.
    let [old, new] = [bundle.unwrap(), authority];
    assert_eq!(configuration.bundles().await[0].as_deref(), Some(format!("{new}{old}").as_str()));
    clock.advance(301).await;
    eventually("the lost CA is removed", async || {
        (configuration.bundles().await[0].as_ref() == Some(&new)).then_some(())
    })
    .await;
    assert!(!secrets.get("web-certificates").await.unwrap().data.unwrap().contains_key("ca-former.crt"));
    ask(&configuration, served.address).await;
    configuration.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_replaced_under_load_without_a_failed_request() {
    let cluster = TestCluster::start().await;
    let configuration = Arc::new(Configuration::create(&cluster).await);
    let clock = Clock::default();
    let options = || WebhookOptions::new(certificates(&cluster, &configuration, &clock));
    // One replica renews, the other follows.
    let replicas = [Served::start(webhooks(), options()).await, Served::start(webhooks(), options()).await];

    let stop = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for replica in &replicas {
        let (configuration, stop, address) = (configuration.clone(), stop.clone(), replica.address);
        load.spawn(async move {
            let mut shown = HashSet::new();
            while !stop.load(Ordering::Relaxed) {
                shown.insert(ask(&configuration, address).await);
            }
            shown
        });
    }
    let mut bundles = HashSet::new();
    // The certificates' clock may be at most an hour ahead of the clients'.
    for _ in 0..50 {
        clock.advance(60).await;
        bundles.insert(configuration.bundles().await[0].clone().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(shown) = load.join_next().await {
        let shown = shown.unwrap();
        assert!(shown.len() >= 8, "{} certificates", shown.len());
    }
    // The first CA, both, and the second alone.
    assert_eq!(bundles.len(), 3);
    configuration.delete().await;
}
