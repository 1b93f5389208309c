//! The operator on a control plane.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vpc_operator::{
    api::vpc::{Vpc, VpcSpec, VpcStatus},
    controller::vpc::{FINALIZER, LABEL},
    operator::operator,
};
use windlass_testing::{
    TestPlane,
    fixtures::{self, Fixture},
};

fn vpc(name: &str, block: &str, subnets: u32) -> Vpc {
    Vpc::new(name, VpcSpec { vpcname: "production".to_owned(), cidrblock: block.to_owned(), subnetnum: subnets })
}

fn pod(name: &str) -> Pod {
    fixtures::pod(name).labelled(LABEL, "blue")
}

async fn merge(plane: &TestPlane, name: &str, patch: Value) {
    plane.api::<Vpc>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn status(vpc: &Vpc) -> VpcStatus {
    vpc.status.clone().unwrap_or_default()
}

/// Waits until the Vpc lists these pods.
async fn has_pods(plane: &TestPlane, pods: &[&str]) {
    plane.expect::<Vpc>("blue").to("list its pods", |vpc| status(vpc).pod_names == pods).await;
}

#[tokio::test]
async fn subnets_follow_the_spec() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let _operator = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/16", 2)).await;
    plane.expect::<Vpc>("blue").condition("Ready").await;
    let made = status(&plane.expect::<Vpc>("blue").exists().await);
    assert_eq!((made.subnetnum, made.observed_generation), (2, Some(1)));
    assert_eq!(made.subnets, ["10.0.0.0/17", "10.0.128.0/17"]);
    merge(&plane, "blue", json!({"spec": {"subnetnum": 3}})).await;
    let is_cut = |vpc: &Vpc| status(vpc).subnets == ["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"];
    plane.expect::<Vpc>("blue").to("be split again", is_cut).await;
}

#[tokio::test]
async fn pods_are_listed_while_they_have_the_label_and_run() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let _operator = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/16", 1)).await;
    plane.create(pod("b")).await;
    plane.create(pod("a")).await;
    plane.create(fixtures::pod("elsewhere").labelled(LABEL, "green")).await;
    has_pods(&plane, &["a", "b"]).await;
    let pods: Api<Pod> = plane.api();
    let moved = json!({"metadata": {"labels": {LABEL: "green"}}});
    pods.patch("a", &PatchParams::default(), &Patch::Merge(moved)).await.unwrap();
    has_pods(&plane, &["b"]).await;
    let ended = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("b", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    has_pods(&plane, &[]).await;
}

#[tokio::test]
async fn a_changed_status_is_restored() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let _operator = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/16", 1)).await;
    plane.expect::<Vpc>("blue").condition("Ready").await;
    let wrong = json!({"status": {"subnets": ["1.2.3.0/24"], "podNames": ["ghost"]}});
    plane.api::<Vpc>().patch_status("blue", &PatchParams::default(), &Patch::Merge(wrong)).await.unwrap();
    let is_true = |vpc: &Vpc| status(vpc).subnets == ["10.0.0.0/16"] && status(vpc).pod_names.is_empty();
    plane.expect::<Vpc>("blue").to("be correct again", is_true).await;
}

#[tokio::test]
async fn a_split_that_does_not_fit_is_reported_and_can_be_corrected() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let _operator = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/30", 8)).await;
    let rejected = plane.expect::<Vpc>("blue").condition_for("Ready", "False", "InvalidSplit").await;
    assert_eq!(rejected.message, "10.0.0.0/30 has no room for 8 subnets");
    plane.expect::<Vpc>("blue").event("InvalidSplit").await;
    assert!(status(&plane.expect::<Vpc>("blue").exists().await).subnets.is_empty());
    merge(&plane, "blue", json!({"spec": {"cidrblock": "10.0.0.0/16"}})).await;
    plane.expect::<Vpc>("blue").condition("Ready").await;
    let many = plane.api::<Vpc>().create(&Default::default(), &vpc("red", "10.0.0.0/8", 5000)).await;
    let kube::Error::Api(error) = many.unwrap_err() else { panic!("the server must reject it") };
    assert!(error.message.contains("spec.subnetnum"), "{}", error.message);
}

#[tokio::test]
async fn a_vpc_is_kept_until_its_last_pod_is_deleted() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let _operator = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/16", 1)).await;
    plane.create(pod("a")).await;
    has_pods(&plane, &["a"]).await;
    plane.api::<Vpc>().delete("blue", &DeleteParams::default()).await.unwrap();
    let kept = plane.expect::<Vpc>("blue").condition_for("Ready", "False", "InUse").await;
    assert_eq!(kept.message, "1 pods still use the Vpc");
    let waiting = plane.expect::<Vpc>("blue").exists().await;
    assert_eq!(waiting.metadata.finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));
    plane.api::<Pod>().delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    plane.expect::<Vpc>("blue").gone().await;
}

#[tokio::test]
async fn changes_while_the_operator_is_down_are_reconciled() {
    let plane = TestPlane::builder().with_crd::<Vpc>().await;
    let first = plane.run(operator());
    plane.create(vpc("blue", "10.0.0.0/16", 1)).await;
    plane.create(pod("a")).await;
    has_pods(&plane, &["a"]).await;
    first.stop().await.unwrap();
    plane.api::<Pod>().delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    plane.create(pod("b")).await;
    merge(&plane, "blue", json!({"spec": {"subnetnum": 2}})).await;
    let _second = plane.run(operator());
    has_pods(&plane, &["b"]).await;
    plane.expect::<Vpc>("blue").to("have two subnets", |vpc| status(vpc).subnets.len() == 2).await;
}
