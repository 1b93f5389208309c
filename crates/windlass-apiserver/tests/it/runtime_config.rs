//! Versions of built-in groups that are enabled and disabled.

use std::sync::Arc;

use http::Method;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::{
    RuntimeConfig, Server,
    authorization::{Action, Attributes, Authorization, Authorizer, Decision},
    user::User,
};
use windlass_store::{Store, memory::MemoryStore};

use crate::client::{Client, names};

async fn client(entries: &[&str]) -> Client {
    let config = RuntimeConfig::parse(entries.iter().copied()).unwrap();
    Client::of(Server::builder(Arc::new(MemoryStore::new())).runtime_config(config).build().await.unwrap())
}

/// The certificate of an authority.
fn authority() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

#[tokio::test]
async fn an_enabled_beta_version_is_another_view_of_the_same_objects() {
    let client = client(&["resource.k8s.io/v1beta2=true"]).await;
    let class = json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}});
    let created = client.post("/apis/resource.k8s.io/v1beta2/deviceclasses", &class).await.expect(201);
    assert_eq!(created["apiVersion"], "resource.k8s.io/v1beta2");
    let stable = client.get("/apis/resource.k8s.io/v1/deviceclasses/gpu").await.expect(200);
    assert_eq!((&stable["apiVersion"], &stable["spec"]), (&json!("resource.k8s.io/v1"), &created["spec"]));
    let list = client.get("/apis/resource.k8s.io/v1beta2/deviceclasses").await.expect(200);
    assert_eq!((names(&list), &list["apiVersion"]), (vec!["gpu".to_owned()], &json!("resource.k8s.io/v1beta2")));
    let path = "/apis/resource.k8s.io/v1beta2/deviceclasses/gpu";
    let applied =
        json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass", "metadata": {"labels": {"a": "b"}}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let applied =
        client.ask(http::Method::PATCH, &format!("{path}?fieldManager=m"), &headers, applied.to_string()).await;
    assert_eq!(applied.expect(200)["metadata"]["labels"], json!({"a": "b"}));
    client.delete(path).await.expect(200);
    assert_eq!(client.get("/apis/resource.k8s.io/v1/deviceclasses/gpu").await.code, 404);
}

#[tokio::test]
async fn deprecated_beta_versions_warn() {
    let client = client(&["api/beta=true", "api/alpha=true"]).await;
    for (path, warning) in [
        (
            "admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies",
            Some("MutatingAdmissionPolicy is deprecated in v1.35+, unavailable in v1.38+"),
        ),
        ("admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies", None),
        (
            "coordination.k8s.io/v1beta1/leasecandidates",
            Some("LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+"),
        ),
        ("networking.k8s.io/v1beta1/ipaddresses", Some("IPAddress is deprecated in v1.34+, unavailable in v1.37+")),
        (
            "resource.k8s.io/v1beta2/resourceslices",
            Some("ResourceSlice is deprecated in v1.36+, unavailable in v1.39+"),
        ),
        ("resource.k8s.io/v1beta2/devicetaintrules", None),
        ("resource.k8s.io/v1/resourceslices", None),
        (
            "storage.k8s.io/v1beta1/volumeattributesclasses",
            Some(
                "VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 \
                 VolumeAttributesClass",
            ),
        ),
    ] {
        let answer = client.get(&format!("/apis/{path}")).await;
        let given = answer.headers.get("warning").map(|value| value.to_str().unwrap().to_owned());
        let group_version = path.rsplit_once('/').unwrap().0;
        assert_eq!(given, warning.map(|warning| format!("299 - \"{group_version} {warning}\"")), "{path}");
        answer.expect(200);
    }
}

#[tokio::test]
async fn an_alpha_version_is_a_view_of_the_beta_one_whichever_is_served() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let start = async |entries: &[&str]| {
        let config = RuntimeConfig::parse(entries.iter().copied()).unwrap();
        Client::of(Server::builder(store.clone()).runtime_config(config).build().await.unwrap())
    };
    let path = |version: &str| format!("/apis/coordination.k8s.io/{version}/namespaces/default/leasecandidates");
    let client = start(&["coordination.k8s.io/v1alpha2=true"]).await;
    let candidate = json!({"apiVersion": "coordination.k8s.io/v1alpha2", "kind": "LeaseCandidate",
        "metadata": {"name": "c"}, "spec": {"leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion"}});
    let created = client.post(&path("v1alpha2"), &candidate).await.expect(201);
    assert_eq!(created["apiVersion"], "coordination.k8s.io/v1alpha2");
    assert_eq!(client.get(&path("v1beta1")).await.code, 404);
    client.get("/openapi/v3/apis/coordination.k8s.io/v1alpha2").await.expect(200);
    drop(client);
    let client = start(&["coordination.k8s.io/v1beta1=true"]).await;
    let stored = client.get(&format!("{}/c", path("v1beta1"))).await.expect(200);
    assert_eq!((&stored["apiVersion"], &stored["spec"]), (&json!("coordination.k8s.io/v1beta1"), &created["spec"]));
    drop(client);
    let client = start(&["api/all=true"]).await;
    for version in ["v1alpha2", "v1beta1"] {
        let list = client.get(&path(version)).await.expect(200);
        assert_eq!((names(&list), &list["items"][0]["spec"]), (vec!["c".to_owned()], &created["spec"]), "{version}");
    }
}

#[tokio::test]
async fn discovery_and_openapi_have_the_enabled_version() {
    let client = client(&["networking.k8s.io/v1beta1=true"]).await;
    let group = client.get("/apis/networking.k8s.io").await.expect(200);
    let versions: Vec<_> = group["versions"].as_array().unwrap().iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = client.get("/apis/networking.k8s.io/v1beta1").await.expect(200);
    let found: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|resource| &resource["name"]).collect();
    assert_eq!(found, ["ipaddresses", "servicecidrs", "servicecidrs/status"]);
    let document = client.get("/openapi/v3/apis/networking.k8s.io/v1beta1").await.expect(200);
    assert!(document["paths"]["/apis/networking.k8s.io/v1beta1/servicecidrs"].is_object());
    client.get("/openapi/v2").await.expect(200);
}

#[tokio::test]
async fn a_disabled_version_is_not_found() {
    let client = client(&["batch/v1/cronjobs=false", "discovery.k8s.io/v1=false"]).await;
    client.get("/apis/batch/v1/namespaces/default/jobs").await.expect(200);
    for path in ["/apis/batch/v1/namespaces/default/cronjobs", "/apis/discovery.k8s.io/v1/endpointslices"] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
    let default = Client::new().await;
    default.get("/apis/discovery.k8s.io/v1/endpointslices").await.expect(200);
    assert_eq!(default.get("/apis/networking.k8s.io/v1beta1/ipaddresses").await.code, 404);
}

#[tokio::test]
async fn kinds_without_a_stable_version_can_be_enabled() {
    let client = client(&["certificates.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha2=true"]).await;
    let bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
    let bundle = json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": {"name": "example.com:ca:1"}, "spec": {"signerName": "example.com/ca", "trustBundle": authority()}});
    let created = client.post(bundles, &bundle).await.expect(201);
    assert_eq!(created["spec"], bundle["spec"]);
    let mut misnamed = bundle.clone();
    misnamed["metadata"]["name"] = json!("a:b");
    assert_eq!(
        client.post(bundles, &misnamed).await.message(),
        "ClusterTrustBundle.certificates.k8s.io \"a:b\" is invalid: metadata.name: Invalid value: \"a:b\": \
         ClusterTrustBundle for signerName example.com/ca must be named with prefix example.com:ca:"
    );
    let mut wrong = bundle.clone();
    wrong["spec"]["signerName"] = json!(1);
    assert_eq!(client.post(bundles, &wrong).await.code, 400);
    let groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}}, "status": {"conditions": []}});
    let created = client.post(groups, &group).await.expect(201);
    assert_eq!(created["spec"]["schedulingPolicy"], group["spec"]["schedulingPolicy"]);
    let document = client.get("/openapi/v3/apis/scheduling.k8s.io/v1alpha2").await.expect(200);
    let schema = &document["components"]["schemas"]["io.k8s.api.scheduling.v1alpha2.PodGroup"];
    assert!(schema["description"].as_str().is_some_and(|text| text.starts_with("PodGroup")));
    client.delete(&format!("{groups}/g")).await.expect(200);
}

#[tokio::test]
async fn a_storage_migration_keeps_its_spec_and_its_outcome() {
    let client = client(&["storagemigration.k8s.io/v1beta1=true"]).await;
    let path = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
    let migration = json!({"apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": "m"}, "spec": {"resource": {"group": "", "resource": "secrets"}},
        "status": {"resourceVersion": "7"}});
    let created = client.post(path, &migration).await.expect(201);
    assert!(created["status"]["resourceVersion"].is_null());
    let own = format!("{path}/m");
    let changed = client.merge(&own, &json!({"spec": {"resource": {"resource": "pods"}}})).await;
    assert_eq!((changed.code, changed.message().ends_with("field is immutable")), (422, true));
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = format!("{own}/status");
    let ended = json!({"status": {"resourceVersion": "7", "conditions": [condition("Succeeded", "True")]}});
    client.merge(&status, &ended).await.expect(200);
    let reopened = json!({"status": {"conditions": [condition("Succeeded", "False")]}});
    let reopened = client.merge(&status, &reopened).await;
    assert!(reopened.message().ends_with("Success condition cannot be set to false once it is true"));
}

/// Allows everything except acting for signers other than those of `example.com`.
struct Signers;

impl Authorizer for Signers {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        let allowed = match &request.action {
            Action::Resource(action) if action.resource == "signers" => action.name == "example.com/*",
            _ => true,
        };
        if allowed { Decision::allow("") } else { Decision::no_opinion("") }.into()
    }
}

#[tokio::test]
async fn only_users_who_may_act_for_a_signer_publish_its_bundles_and_answer_requests() {
    let config = RuntimeConfig::parse(["certificates.k8s.io/v1beta1=true"]).unwrap();
    let server = Server::builder(Arc::new(MemoryStore::new())).runtime_config(config).authorizer(Signers);
    let client = Client::of(server.build().await.unwrap());
    let user = User::service_account("default", "eve");
    let bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
    let bundle = |domain: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": {"name": format!("{domain}:ca:1")},
            "spec": {"signerName": format!("{domain}/ca"), "trustBundle": authority()}})
    };
    let send = async |method, path: &str, body: &Value| client.ask_for(&user, method, path, body).await;
    send(Method::POST, bundles, &bundle("example.com")).await.expect(201);
    let denied = send(Method::POST, bundles, &bundle("example.org")).await;
    let expected = "user not permitted to attest for signerName \"example.org/ca\"";
    assert_eq!((denied.code, denied.message().ends_with(expected)), (403, true));

    let requests = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
    let request = |name: &str, signer: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
            "metadata": {"name": name}, "spec": {"signerName": signer, "podName": "p", "podUID": "1",
            "serviceAccountName": "s", "serviceAccountUID": "2", "nodeName": "n", "nodeUID": "3",
            "pkixPublicKey": "MCowBQYDK2VwAyEA4Km6EQ91ZExa7gmUctidppJZcG/Pi87Jtk1dCLrpj3M=", "proofOfPossession": "YQ=="}})
    };
    let denial = json!({"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    for (name, signer, expected) in [
        ("a", "example.com/s", None),
        (
            "b",
            "example.org/s",
            Some(
                "PodCertificateRequest.certificates.k8s.io \"b\" is invalid: spec.signerName: Forbidden: User \"system:serviceaccount:default:eve\" is \
                 not permitted to \"sign\" for signer \"example.org/s\"",
            ),
        ),
    ] {
        let created = client.post(requests, &request(name, signer)).await.expect(201);
        assert_eq!(created["spec"]["maxExpirationSeconds"], 86400);
        let answer = send(Method::PATCH, &format!("{requests}/{name}/status"), &denial).await;
        match expected {
            None => assert_eq!(answer.code, 200),
            Some(message) => assert_eq!((answer.code, &*answer.message()), (422, message)),
        }
    }
}
