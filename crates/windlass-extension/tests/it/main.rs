//! An extension behind an API server, both in this process.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod objects;
mod versions;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        rbac::v1::ClusterRoleBinding,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, CustomResource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use windlass_apiserver::{
    Server,
    authentication::{AuthenticationOptions, RequestHeaderOptions},
    user::User,
};
use windlass_extension::{
    Extension, FieldError, Kind, Path, certificates::ServingCertificate, manifests::Registration,
};
use windlass_store::MemoryStore;

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "wardle.example.com", version = "v1alpha1", kind = "Flunder", namespaced, status = "FlunderStatus")]
#[kube(printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight"}"#)]
struct FlunderSpec {
    #[serde(default = "default_weight")]
    #[schemars(range(max = 100))]
    weight: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct FlunderStatus {
    caught: bool,
}

fn default_weight() -> i32 {
    7
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Fischer {
    #[serde(rename = "disallowedFlunders")]
    disallowed_flunders: Vec<String>,
}

/// The main API server, and an extension behind it.
struct Cluster {
    main: Server,
    port: u16,
    authority: String,
    _serving: JoinSet<()>,
}

/// Returns the certificate of the authority of front proxies, and a client certificate with its key.
fn front_proxy() -> (String, String, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut client = CertificateParams::new(Vec::new()).unwrap();
    client.distinguished_name.push(DnType::CommonName, "front-proxy-client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    (root, client.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

impl Cluster {
    async fn start() -> Self {
        let (root, certificate, key) = front_proxy();
        let authentication = AuthenticationOptions {
            request_header: Some(RequestHeaderOptions::new(root)),
            ..AuthenticationOptions::default()
        };
        let main = Server::builder(Arc::new(MemoryStore::new()))
            .authentication(authentication)
            .front_proxy(certificate, key)
            .build()
            .await
            .unwrap();
        let extension = Extension::new("wardle")
            .kind::<Flunder>()
            .plain_kind(&Kind::of::<Fischer>("wardle.example.com", "v1alpha1", "Fischer", "fischers").cluster_scoped())
            .rule(|flunder: &Flunder, old| match (flunder.spec.weight, old) {
                (13, None) => {
                    let weight = Path::new("spec").child("weight");
                    vec![FieldError::invalid(&weight, &json!(13), "nobody wants 13")]
                }
                _ => vec![],
            });
        let serving = ServingCertificate::issue(&["wardle.sea.svc".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let registration = Registration {
            namespace: "sea".to_owned(),
            service: "wardle".to_owned(),
            target_port: port,
            host: Some("localhost".to_owned()),
            ca_bundle: serving.ca_bundle(),
        };
        let objects = extension.registration(&registration);
        let permissions = extension.permissions(&registration);
        // The extension has the permissions of its manifests, and no others.
        let account = main.client_as(User::service_account("sea", "wardle"));
        for object in &permissions {
            apply(&main.client(), object).await;
        }
        let running = extension.start(account, &serving).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { running.serve(listener, std::future::pending()).await.unwrap() });
        for object in &objects {
            apply(&main.client(), object).await;
        }
        let cluster = Self { main, port, authority: serving.authority, _serving: tasks };
        cluster.available().await;
        cluster
    }

    /// Waits until requests are forwarded.
    async fn available(&self) {
        let services: Api<APIService> = Api::all(self.main.client());
        let only = WatchParams::default().fields("metadata.name=v1alpha1.wardle.example.com");
        let mut events = services.watch(&only, "0").await.unwrap().boxed();
        let waiting = async {
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(service) | WatchEvent::Modified(service)) = event else { continue };
                let conditions = service.status.unwrap_or_default().conditions.unwrap_or_default();
                if conditions.iter().any(|condition| condition.status == "True") {
                    return;
                }
            }
            panic!("the watch ended");
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
    }

    fn flunders(&self) -> Api<Flunder> {
        Api::namespaced(self.main.client(), "sea")
    }

    /// Gets a path of the extension itself, with a token if there is one.
    async fn direct(&self, token: &str, path: &str) -> (u16, Value) {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{}", self.port).parse().unwrap());
        config.root_cert = Some(kube_certificates(&self.authority));
        config.auth_info.token = (!token.is_empty()).then(|| token.to_owned().into());
        let client = windlass::client::connect(&config, windlass::client::ClientOptions::new("test")).unwrap();
        match client.request_text(http_get(path)).await {
            Ok(text) => (200, serde_json::from_str(&text).unwrap_or(Value::Null)),
            Err(kube::Error::Api(status)) => (status.code, json!(status.message)),
            Err(error) => panic!("{error}"),
        }
    }
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).unwrap()
}

fn kube_certificates(pem: &str) -> Vec<Vec<u8>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(|certificate| certificate.unwrap().to_vec()).collect()
}

/// Applies a manifest.
async fn apply(client: &Client, object: &Value) {
    async fn to<K>(api: Api<K>, object: &Value)
    where
        K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Serialize,
    {
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("test"), &Patch::Apply(object)).await.unwrap();
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let client = client.clone();
    match object["kind"].as_str().unwrap() {
        "Namespace" => to::<Namespace>(Api::all(client), object).await,
        "ServiceAccount" => to::<ServiceAccount>(Api::namespaced(client, namespace), object).await,
        "Service" => to::<Service>(Api::namespaced(client, namespace), object).await,
        "APIService" => to::<APIService>(Api::all(client), object).await,
        "ClusterRoleBinding" => to::<ClusterRoleBinding>(Api::all(client), object).await,
        "ClusterRole" => to::<k8s_openapi::api::rbac::v1::ClusterRole>(Api::all(client), object).await,
        "RoleBinding" => {
            to::<k8s_openapi::api::rbac::v1::RoleBinding>(Api::namespaced(client, namespace), object).await;
        }
        other => panic!("{other}"),
    }
}

fn flunder(name: &str, spec: Value) -> Flunder {
    let object = json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": name},
        "spec": spec});
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn a_kind_behaves_like_any_other() {
    let cluster = Cluster::start().await;
    let flunders = cluster.flunders();
    let created = flunders.create(&PostParams::default(), &flunder("a", json!({"weight": 1}))).await.unwrap();
    assert!(created.uid().is_some());
    let watching = WatchParams::default();
    let mut events = flunders.watch(&watching, &created.resource_version().unwrap()).await.unwrap().boxed();
    // The schema defaults and validates, and so does the rule.
    let bare: Flunder = serde_json::from_value(json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
        "metadata": {"name": "b"}, "spec": {}}))
    .unwrap();
    assert_eq!(flunders.create(&PostParams::default(), &bare).await.unwrap().spec.weight, 7);
    let heavy = flunders.create(&PostParams::default(), &flunder("c", json!({"weight": 101}))).await.unwrap_err();
    assert!(heavy.to_string().contains("should be less than or equal to 100"), "{heavy}");
    let unlucky = flunders.create(&PostParams::default(), &flunder("c", json!({"weight": 13}))).await.unwrap_err();
    let expected = "Flunder.wardle.example.com \"c\" is invalid: spec.weight: Invalid value: 13: nobody wants 13";
    assert!(unlucky.to_string().contains(expected), "{unlucky}");
    let status = json!({"status": {"caught": true}});
    let patched = flunders.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert!(patched.status.unwrap().caught);
    flunders.delete("b", &DeleteParams::default()).await.unwrap();
    let names: Vec<String> =
        flunders.list(&ListParams::default()).await.unwrap().iter().map(|flunder| flunder.name_any()).collect();
    assert_eq!(names, ["a"]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap().unwrap() {
            WatchEvent::Added(flunder) => seen.push(format!("added {}", flunder.name_any())),
            WatchEvent::Modified(flunder) => seen.push(format!("modified {}", flunder.name_any())),
            WatchEvent::Deleted(flunder) => seen.push(format!("deleted {}", flunder.name_any())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["added b", "modified a", "deleted b"]);
}

#[tokio::test]
async fn an_extension_serves_only_its_groups() {
    let cluster = Cluster::start().await;
    let token = token(&cluster).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.main.client());
    let binding = json!({"metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "diver", "namespace": "sea"}]});
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let (code, groups) = cluster.direct(&token, "/apis").await;
    assert_eq!(code, 200, "{groups}");
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wardle.example.com"]);
    let (code, resources) = cluster.direct(&token, "/apis/wardle.example.com/v1alpha1").await;
    assert_eq!((code, &resources["resources"][0]["name"]), (200, &json!("fischers")));
    for hidden in ["/api/v1/namespaces", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] {
        assert_eq!(cluster.direct(&token, hidden).await.0, 404, "{hidden}");
    }
    let (_, index) = cluster.direct(&token, "/openapi/v3").await;
    assert_eq!(index["paths"].as_object().unwrap().len(), 1, "{index}");
}

/// Returns a token of the service account `diver`.
async fn token(cluster: &Cluster) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.main.client(), "sea");
    let account = json!({"metadata": {"name": "diver"}});
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    accounts
        .create_token_request("diver", &PostParams::default(), &request)
        .await
        .unwrap()
        .status
        .unwrap()
        .token
        .unwrap()
}

#[tokio::test]
async fn the_main_api_server_decides_who_may_do_what() {
    let cluster = Cluster::start().await;
    let token = token(&cluster).await;
    let path = "/apis/wardle.example.com/v1alpha1/namespaces/sea/flunders";
    assert_eq!(cluster.direct("nonsense", path).await.0, 401);
    let (code, message) = cluster.direct(&token, path).await;
    assert_eq!(code, 403);
    let expected =
        "flunders.wardle.example.com is forbidden: User \"system:serviceaccount:sea:diver\" cannot list resource";
    assert!(message.as_str().unwrap().starts_with(expected), "{message}");
    // The main server decides about forwarded requests as well.
    let diver: Api<Flunder> = Api::namespaced(cluster.main.client_as(User::service_account("sea", "diver")), "sea");
    assert!(diver.list(&ListParams::default()).await.is_err());
    assert_eq!(cluster.direct("", "/healthz").await.0, 200);
}

#[tokio::test]
async fn a_new_authority_of_front_proxies_needs_no_restart() {
    let cluster = Cluster::start().await;
    cluster.available().await;
    cluster.flunders().list(&ListParams::default()).await.unwrap();
    let (root, certificate, key) = front_proxy();
    cluster.main.set_front_proxy(certificate, key);
    let list = async || cluster.flunders().list(&ListParams::default()).await;
    assert!(list().await.is_err(), "the authority must be unknown yet");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.main.client(), "kube-system");
    let name = "extension-apiserver-authentication";
    let mut map = maps.get(name).await.unwrap();
    map.data.as_mut().unwrap().get_mut("requestheader-client-ca-file").unwrap().push_str(&root);
    maps.replace(name, &PostParams::default(), &map).await.unwrap();
    let accepted = async {
        while list().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), accepted).await.unwrap();
}
