//! An operator with webhooks: defaulting, a rejection, a warning, and conversion between versions.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, CustomResource, ResourceExt as _,
    api::{ListParams, PostParams},
    core::Request as KubeRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{
    operator::Operator,
    webhook::{Conversion, Denied, Request, Warnings, Webhook},
};
use windlass_testing::TestPlane;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "garden.example.com", version = "v1", kind = "Bed", namespaced)]
struct BedSpec {
    plant: String,
    rows: Option<i32>,
}

mod old {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "garden.example.com", version = "v1alpha1", kind = "Bed", namespaced)]
    pub(super) struct BedSpec {
        pub(super) seed: String,
        pub(super) rows: Option<i32>,
    }
}

impl From<old::Bed> for Bed {
    fn from(bed: old::Bed) -> Self {
        Self { metadata: bed.metadata, spec: BedSpec { plant: bed.spec.seed, rows: bed.spec.rows } }
    }
}

impl From<Bed> for old::Bed {
    fn from(bed: Bed) -> Self {
        Self { metadata: bed.metadata, spec: old::BedSpec { seed: bed.spec.plant, rows: bed.spec.rows } }
    }
}

fn operator() -> Operator {
    let webhook = Webhook::<Bed>::new()
        .default_with(|bed: &mut Bed, _: &Request<Bed>| {
            bed.spec.rows.get_or_insert(3);
        })
        .validate(|request: &Request<Bed>| -> Result<Warnings, Denied> {
            match request.object.as_ref().and_then(|bed| bed.spec.rows) {
                Some(rows) if rows < 1 => Err(Denied::field("spec.rows", "must be at least 1")),
                Some(rows) if rows > 50 => Ok(Warnings::new("that is a field")),
                _ => Ok(Warnings::none()),
            }
        });
    Operator::new("gardener")
        .define::<Bed>()
        .define::<old::Bed>()
        .webhook(webhook)
        .conversion(Conversion::<Bed>::new().spoke::<old::Bed>())
}

fn bed(name: &str, rows: Option<i32>) -> Bed {
    Bed::new(name, BedSpec { plant: "leek".to_owned(), rows })
}

#[tokio::test]
async fn the_server_calls_the_webhooks_of_an_operator_in_the_test() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        // A cluster cannot reach the test.
        return;
    }
    let running = plane.run(operator());
    running.webhooks_served().await;

    // Its own objects are in the namespace in which it would be deployed.
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "gardener-system");
    secrets.get("gardener-webhook-certificates").await.unwrap();

    let made = plane.create(bed("one", None)).await;
    assert_eq!(made.spec.rows, Some(3));

    let beds: Api<Bed> = plane.api();
    let rejected = beds.create(&PostParams::default(), &bed("two", Some(0))).await.unwrap_err();
    let rejected = rejected.to_string();
    assert!(rejected.contains("denied the request") && rejected.contains("must be at least 1"), "{rejected}");

    let url = format!("/apis/garden.example.com/v1/namespaces/{}/beds", plane.namespace());
    let body = serde_json::to_vec(&bed("large", Some(99))).unwrap();
    let request = KubeRequest::new(&url).create(&PostParams::default(), body).unwrap();
    let answer = plane.client().send(request.map(Into::into)).await.unwrap();
    assert_eq!(answer.headers()["warning"], "299 - \"that is a field\"");

    // The same objects in the old version, and one that is created in it.
    let old: Api<old::Bed> = plane.api();
    let mut seeds: Vec<(String, String)> = Vec::new();
    for bed in old.list(&ListParams::default()).await.unwrap() {
        seeds.push((bed.name_any(), bed.spec.seed));
    }
    assert_eq!(seeds, [("large".to_owned(), "leek".to_owned()), ("one".to_owned(), "leek".to_owned())]);
    plane.create(old::Bed::new("three", old::BedSpec { seed: "kale".to_owned(), rows: None })).await;
    let three = beds.get("three").await.unwrap();
    assert_eq!((three.spec.plant.as_str(), three.spec.rows), ("kale", Some(3)));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn virtual_time_waits_for_webhooks() {
    let plane = TestPlane::builder().virtual_time().await;
    if plane.server().is_none() {
        return;
    }
    let running = plane.run(operator());
    running.webhooks_served().await;
    let began = windlass_clock::now();
    assert_eq!(plane.create(bed("one", None)).await.spec.rows, Some(3));
    assert!(
        windlass_clock::now().as_second() - began.as_second() < 10,
        "virtual time must not advance during a webhook call"
    );
}
