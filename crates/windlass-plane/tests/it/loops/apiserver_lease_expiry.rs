//! Deletion of the leases of stopped API servers, in virtual time.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use serde_json::json;
use windlass_testing::TestPlane;

#[tokio::test]
async fn the_lease_of_a_stopped_server_is_deleted() {
    let plane = TestPlane::builder().virtual_time().await;
    let leases: Api<Lease> = Api::namespaced(plane.client(), "kube-system");
    let lease = |name: &str, labels: serde_json::Value, seconds: i32| -> Lease {
        let renewed = windlass_clock::now();
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": seconds,
            "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).unwrap()
    };
    let server = || json!({"apiserver.kubernetes.io/identity": "kube-apiserver"});
    for lease in
        [lease("gone", server(), 3600), lease("there", server(), 1_000_000), lease("of-another", json!({}), 3600)]
    {
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert!(leases.get_opt("gone").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert!(leases.get_opt("gone").await.unwrap().is_none());
    assert!(leases.get_opt("there").await.unwrap().is_some());
    assert!(leases.get_opt("of-another").await.unwrap().is_some());
}
