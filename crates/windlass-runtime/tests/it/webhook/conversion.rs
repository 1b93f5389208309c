use http::StatusCode;
use serde_json::{Value, json};
use windlass_runtime::webhook::{Conversion, Webhooks};

use super::{
    Served,
    foo::{Foo, conversion, foo, old, older},
};

fn webhooks() -> Webhooks {
    Webhooks::new().conversion(Conversion::<Foo>::new().spoke::<old::Foo>().spoke::<older::Foo>())
}

/// Returns a Foo of another version.
fn object(version: &str, name: &str, spec: Value) -> Value {
    let mut object = foo(spec);
    object["apiVersion"] = format!("webhook.windlass.example/{version}").into();
    object["metadata"]["name"] = name.into();
    object
}

async fn convert(to: &str, objects: Vec<Value>) -> Value {
    let (_served, caller) = Served::with_certificate(webhooks()).await;
    let review = conversion(to, objects);
    let (status, mut answer) = caller.post("/convert?timeout=30s", &review).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(answer["kind"], "ConversionReview");
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].take()
}

#[tokio::test]
async fn objects_are_converted_in_order_to_the_hub() {
    let answer = convert(
        "v1",
        vec![
            object("v1alpha1", "a", json!({"text": "nginx*3"})),
            object("v1", "b", json!({"image": "same", "unknown": 1})),
            object("v1alpha0", "c", json!({"img": "redis"})),
        ],
    )
    .await;
    assert_eq!(answer["result"]["status"], "Success", "{answer}");
    let objects = answer["convertedObjects"].as_array().unwrap();
    let specs: Vec<&Value> = objects.iter().map(|object| &object["spec"]).collect();
    let expected =
        [json!({"image": "nginx", "replicas": 3}), json!({"image": "same", "unknown": 1}), json!({"image": "redis"})];
    assert_eq!(specs, expected.iter().collect::<Vec<_>>());
    for (object, name) in objects.iter().zip(["a", "b", "c"]) {
        assert_eq!(object["apiVersion"], "webhook.windlass.example/v1");
        assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("Foo"), &json!(name)));
    }
}

#[tokio::test]
async fn spokes_reach_each_other_through_the_hub() {
    let answer = convert("v1alpha1", vec![object("v1alpha0", "a", json!({"img": "redis"}))]).await;
    assert_eq!(answer["convertedObjects"][0]["spec"], json!({"text": "redis*0"}));
    let answer = convert("v1alpha0", vec![object("v1", "a", json!({"image": "x", "replicas": 1}))]).await;
    assert_eq!(answer["convertedObjects"][0]["spec"], json!({"img": "x"}));
}

#[tokio::test]
async fn the_remains_of_an_object_applied_in_another_version_are_carried_over() {
    let mut left = object("v1alpha1", "a", json!({}));
    left.as_object_mut().unwrap().remove("spec");
    let answer = convert("v1", vec![left.clone()]).await;
    left["apiVersion"] = json!("webhook.windlass.example/v1");
    assert_eq!(answer["convertedObjects"], json!([left]));
    for (from, to) in [("v7", "v1"), ("v1alpha1", "v7")] {
        left["apiVersion"] = json!(format!("webhook.windlass.example/{from}"));
        assert_eq!(convert(to, vec![left.clone()]).await["result"]["status"], "Failure", "{from} to {to}");
    }
}

#[tokio::test]
async fn only_labels_and_annotations_of_the_metadata_change() {
    let before = object("v1alpha1", "a", json!({"text": "x*1"}));
    let answer = convert("v1", vec![before.clone()]).await;
    let mut expected = before["metadata"].clone();
    expected["annotations"] = json!({"converted": "yes"});
    assert_eq!(answer["convertedObjects"][0]["metadata"], expected);
}

#[tokio::test]
async fn a_conversion_that_omits_the_metadata_keeps_it() {
    let mut before = object("v1alpha0", "a", json!({"img": "x"}));
    before["metadata"]["labels"] = json!({"app": "x"});
    let answer = convert("v1", vec![before.clone()]).await;
    assert_eq!(answer["convertedObjects"][0]["metadata"], before["metadata"]);
}

#[tokio::test]
async fn one_object_that_fails_fails_the_review_with_its_name() {
    let good = object("v1alpha1", "a", json!({"text": "nginx*3"}));
    let bad = object("v1alpha1", "b", json!({"text": "nginx"}));
    let answer = convert("v1", vec![good, bad]).await;
    assert_eq!(answer["result"]["status"], "Failure");
    assert_eq!(answer["result"]["message"], "object 1 (default/b): no star in the text");
    assert_eq!(answer["convertedObjects"], json!([]));
}

#[tokio::test]
async fn unknown_versions_and_kinds_fail() {
    let answer = convert("v9", vec![object("v1", "a", json!({}))]).await;
    assert_eq!(answer["result"]["message"], "object 0 (default/a): Foo has no version webhook.windlass.example/v9");
    let mut bar = object("v1", "a", json!({}));
    bar["kind"] = "Bar".into();
    let answer = convert("v1", vec![bar, json!(7)]).await;
    assert_eq!(answer["result"]["status"], "Failure");
}

#[tokio::test]
async fn a_panic_fails_the_review_and_is_counted() {
    let (served, caller) = Served::with_certificate(webhooks()).await;
    let review = conversion("v1", vec![object("v1alpha1", "a", json!({"text": "x*panic"}))]);
    let (_, answer) = caller.post("/convert", &review).await;
    assert_eq!(answer["response"]["result"]["status"], "Failure");
    assert!(answer["response"]["result"]["message"].as_str().unwrap().contains("asked to panic"));
    assert!(served.metrics.encode().contains("controller_runtime_conversion_webhook_panics_total 1\n"));
}

#[test]
fn conversion_describes_all_versions() {
    let described = webhooks().describe();
    assert_eq!(described[0].versions, ["v1", "v1alpha1", "v1alpha0"]);
    assert_eq!((described[0].name.as_str(), described[0].path.as_str()), ("foos.webhook.windlass.example", "/convert"));
}
