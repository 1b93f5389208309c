//! Flags of kube-apiserver that change what the control plane serves.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy,
    authentication::v1::SelfSubjectReview,
    coordination::v1::Lease,
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use windlass_plane::Pki;

use super::pair::{Etcd, KubeApiserver, Pair, assets, files};

/// Asks again until there is a response.
async fn eventually<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn versions_are_served_as_configured() {
    let arguments = [
        "--runtime-config=networking.k8s.io/v1beta1=true,autoscaling/v1=false",
        "--runtime-config=resource.k8s.io/v1beta1",
    ];
    let mut pair = Pair::start_with(&assets(), &arguments, &[]);
    let groups = pair.admin().await.list_api_groups().await.unwrap().groups;
    let versions = |name: &str| {
        let group = groups.iter().find(|group| group.name == name).unwrap();
        group.versions.iter().map(|version| version.version.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(versions("networking.k8s.io"), ["v1", "v1beta1"]);
    assert_eq!(versions("autoscaling"), ["v2"]);
    pair.server.stop("TERM");
    let log = pair.server.log();
    assert!(log.contains("no effect in windlass: --runtime-config=resource.k8s.io/v1beta1\n"), "{log}");
}

#[tokio::test]
async fn the_kubernetes_service_leads_to_the_secure_port() {
    let arguments = ["--advertise-address=192.0.2.7", "--service-cluster-ip-range=172.30.8.0/28,fd00::/112"];
    let mut pair = Pair::start_with(&assets(), &arguments, &[]);
    let client = pair.admin().await;
    let service = Api::<Service>::default_namespaced(client.clone()).get("kubernetes").await.unwrap().spec.unwrap();
    assert_eq!(service.cluster_ip.as_deref(), Some("172.30.8.1"));
    let port = i32::from(pair.server.port());
    let target = service.ports.unwrap().remove(0).target_port.unwrap();
    assert_eq!(target, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(port));
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    let subset = endpoints.subsets.unwrap().remove(0);
    assert_eq!((subset.addresses.unwrap()[0].ip.as_str(), subset.ports.unwrap()[0].port), ("192.0.2.7", port));
    let slice = Api::<EndpointSlice>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    assert_eq!(
        (&slice.endpoints.unwrap()[0].addresses[..], slice.ports.unwrap()[0].port),
        (&["192.0.2.7".to_owned()][..], Some(port))
    );
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let own = ListParams::default().labels("apiserver.kubernetes.io/identity=kube-apiserver");
    eventually(async || leases.list(&own).await.unwrap().items.pop()).await;
    pair.server.stop("TERM");
    let log = pair.server.log();
    assert!(log.contains("no effect in windlass: --service-cluster-ip-range=fd00::/112\n"), "{log}");
}

#[tokio::test]
async fn endpoints_have_no_loopback_address() {
    let pair = Pair::start_with(&assets(), &["--advertise-address=127.0.0.1"], &[]);
    let client = pair.admin().await;
    assert_eq!(Api::<Endpoints>::default_namespaced(client.clone()).get_opt("kubernetes").await.unwrap(), None);
    assert_eq!(Api::<EndpointSlice>::default_namespaced(client).get_opt("kubernetes").await.unwrap(), None);
}

#[tokio::test]
async fn policies_are_type_checked_by_a_control_loop() {
    let pair = Pair::start_with(&assets(), &[], &[("WINDLASS_CONTROLLERS", "*")]);
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(pair.admin().await);
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]});
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.spec.replica > 1"}],
        },
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    let checked = eventually(async || policies.get("p").await.unwrap().status?.type_checking).await;
    let warning = &checked.expression_warnings.unwrap()[0];
    assert!(warning.warning.contains("undefined field 'replica'"), "{}", warning.warning);
}

#[tokio::test]
async fn other_api_servers_get_the_certificate_of_the_front_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Pki::load_or_create(folder.path(), &[]).unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let certificate = format!("--proxy-client-cert-file={}", file("front-proxy-client.crt"));
    let key = format!("--proxy-client-key-file={}", file("front-proxy-client.key"));
    let pair = Pair::start_with(&assets(), &[&certificate, &key], &[]);

    let mut roots = RootCertStore::empty();
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(der(&proxy.front_proxy().ca.certificate)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let serving = Pki::self_signed(&["localhost".to_owned()]).unwrap();
    let serving_key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![der(&serving.certificate)], serving_key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();

    let client = pair.admin().await;
    let service = json!({
        "metadata": {"name": "other"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    });
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let registration = json!({
        "metadata": {"name": "v1.example.com"},
        "spec": {
            "group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "other", "port": port},
        },
    });
    let registrations: Api<APIService> = Api::all(client);
    registrations.create(&PostParams::default(), &serde_json::from_value(registration).unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let stream = TlsAcceptor::from(Arc::new(tls)).accept(stream).await.unwrap();
    let presented = stream.get_ref().1.peer_certificates().unwrap();
    assert_eq!(presented[0], der(&proxy.front_proxy().client.certificate));
}

#[test]
fn a_certificate_of_the_front_proxy_must_fit_its_key() {
    let (assets, files) = (assets(), files());
    let etcd = Etcd::start(&assets, files.path(), 0);
    let file = |name: &str| files.path().join(name).display().to_string();
    let certificate = format!("--proxy-client-cert-file={}", file("ca.crt"));
    let key = format!("--proxy-client-key-file={}", file("apiserver.key"));
    let (exit, log) = KubeApiserver::spawn(&assets, files.path(), etcd.port(), &[&certificate, &key]).ended();
    assert_eq!(exit.code(), Some(1), "{log}");
    assert!(log.contains("command failed"), "{log}");
}

/// As jenvtest starts kube-apiserver.
#[tokio::test]
async fn a_client_certificate_that_is_its_own_authority_is_accepted() {
    let own = Pki::new_authority().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.crt");
    std::fs::write(&file, &own.certificate).unwrap();
    let argument = format!("--client-ca-file={}", file.display());
    let pair = Pair::start_with(&assets(), &[&argument], &[]);
    let whoami = async |client| {
        let reviews: Api<SelfSubjectReview> = Api::all(client);
        reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await
    };
    let review = whoami(pair.client_with(&own).await).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert!(user.groups.unwrap().contains(&"system:authenticated".to_owned()));
    let stranger = whoami(pair.client_with(&Pki::new_authority().unwrap()).await).await.unwrap_err();
    assert!(matches!(&stranger, kube::Error::Api(status) if status.code == 401), "{stranger}");
}
