//! Further networks for cluster IPs, in virtual time.

use std::time::Duration;

use k8s_openapi::api::{core::v1::Service, networking::v1::ServiceCIDR};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

fn cidr(name: &str, network: &str) -> ServiceCIDR {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"cidrs": [network]}})).unwrap()
}

fn service(name: &str, address: &str) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}))
        .unwrap()
}

/// Returns the status and the reason of the condition `Ready`.
async fn ready(cidrs: &Api<ServiceCIDR>, name: &str) -> Option<(String, String)> {
    let cidr = cidrs.get_opt(name).await.unwrap()?;
    let conditions = cidr.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status, ready.reason))
}

#[tokio::test]
async fn a_network_is_kept_while_services_have_its_addresses() {
    let plane = TestPlane::builder().virtual_time().await;
    let (cidrs, services) = (Api::<ServiceCIDR>::all(plane.client()), plane.api::<Service>());
    let rejected = services.create(&PostParams::default(), &service("a", "10.9.0.7")).await.unwrap_err();
    assert!(rejected.to_string().contains("does not match the current range"), "{rejected}");

    cidrs.create(&PostParams::default(), &cidr("more", "10.9.0.0/29")).await.unwrap();
    let is_ready = async || (ready(&cidrs, "more").await?.0 == "True").then_some(());
    eventually("the network is ready", is_ready).await;
    assert_eq!(cidrs.get("more").await.unwrap().finalizers(), ["networking.k8s.io/service-cidr-finalizer"]);
    services.create(&PostParams::default(), &service("a", "10.9.0.6")).await.unwrap();

    cidrs.delete("more", &DeleteParams::default()).await.unwrap();
    let is_terminating =
        async || (ready(&cidrs, "more").await? == ("False".into(), "Terminating".into())).then_some(());
    eventually("the network is terminating", is_terminating).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(cidrs.get_opt("more").await.unwrap().is_some(), "it is in use");
    let rejected = services.create(&PostParams::default(), &service("b", "10.9.0.5")).await.unwrap_err();
    assert!(rejected.to_string().contains("does not match the current range"), "{rejected}");

    services.delete("a", &DeleteParams::default()).await.unwrap();
    let is_gone = async || cidrs.get_opt("more").await.unwrap().is_none().then_some(());
    eventually("the network is deleted", is_gone).await;
}

#[tokio::test]
async fn a_network_within_another_one_can_be_deleted_and_addresses_come_from_any() {
    let plane = TestPlane::builder().virtual_time().await;
    let (cidrs, services) = (Api::<ServiceCIDR>::all(plane.client()), plane.api::<Service>());
    for (name, network) in [("outer", "10.9.0.0/24"), ("inner", "10.9.0.0/29")] {
        cidrs.create(&PostParams::default(), &cidr(name, network)).await.unwrap();
        eventually("the network is ready", async || (ready(&cidrs, name).await?.0 == "True").then_some(())).await;
    }
    services.create(&PostParams::default(), &service("a", "10.9.0.6")).await.unwrap();
    cidrs.delete("inner", &DeleteParams::default()).await.unwrap();
    eventually("it is deleted", async || cidrs.get_opt("inner").await.unwrap().is_none().then_some(())).await;

    // 254 addresses of the cluster's own network, one of them used.
    for index in 0..300 {
        let any: Value = json!({"metadata": {"name": format!("s{index}")}, "spec": {"ports": [{"port": 80}]}});
        services.create(&PostParams::default(), &serde_json::from_value(any).unwrap()).await.unwrap();
    }
    let all = services.list(&kube::api::ListParams::default()).await.unwrap();
    let further = all.items.iter().filter_map(|service| service.spec.as_ref()?.cluster_ip.as_deref());
    assert_eq!(further.filter(|address| address.starts_with("10.9.0.")).count(), 48);
}
