//! Flunders, as the sample-apiserver of Kubernetes treats them.

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::Status,
};
use serde_json::json;
use wardle_apiserver::api::flunder::{v1alpha1, v1beta1};

use crate::start;

fn old(name: &str, reference: &str, reference_type: &str) -> v1alpha1::Flunder {
    let (reference, reference_type) = (reference.to_owned(), reference_type.to_owned());
    v1alpha1::Flunder::new(name, v1alpha1::FlunderSpec { reference, reference_type })
}

fn new(flunder: &str, fischer: &str, reference_type: &str) -> v1beta1::FlunderSpec {
    let [flunder_reference, fischer_reference, reference_type] = [flunder, fischer, reference_type].map(str::to_owned);
    v1beta1::FlunderSpec { flunder_reference, fischer_reference, reference_type }
}

#[tokio::test]
async fn a_reference_has_a_field_of_its_own_in_v1beta1() {
    let wardle = start().await;
    let alphas: Api<v1alpha1::Flunder> = Api::namespaced(wardle.client(), "any");
    let betas: Api<v1beta1::Flunder> = Api::namespaced(wardle.client(), "any");
    for (name, alpha, beta) in [
        ("none", old("none", "", ""), new("", "", "")),
        ("flunder", old("flunder", "a", "Flunder"), new("a", "", "Flunder")),
        ("fischer", old("fischer", "a", "Fischer"), new("", "a", "Fischer")),
    ] {
        alphas.create(&PostParams::default(), &alpha).await.unwrap();
        assert_eq!(betas.get(name).await.unwrap().spec, beta, "{name}");
        let other = format!("{name}-beta");
        betas.create(&PostParams::default(), &v1beta1::Flunder::new(&other, beta)).await.unwrap();
        assert_eq!(alphas.get(&other).await.unwrap().spec, alpha.spec, "{other}");
    }
    let change = json!({"spec": {"fischerReference": "b", "flunderReference": null, "referenceType": "Fischer"}});
    betas.patch("flunder", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    assert_eq!(alphas.get("flunder").await.unwrap().spec, old("", "b", "Fischer").spec);
}

#[tokio::test]
async fn a_reference_is_one_to_a_flunder_by_default() {
    let flunders: Api<v1alpha1::Flunder> = Api::namespaced(start().await.client(), "any");
    for (name, reference, expected) in [("a", "b", "Flunder"), ("b", "", "")] {
        let created = flunders.create(&PostParams::default(), &old(name, reference, "")).await.unwrap();
        assert_eq!(created.spec.reference_type, expected, "{name}");
    }
}

#[tokio::test]
async fn a_new_flunder_has_the_reference_of_its_type_and_no_other() {
    let wardle = start().await;
    let alphas: Api<v1alpha1::Flunder> = Api::namespaced(wardle.client(), "any");
    let betas: Api<v1beta1::Flunder> = Api::namespaced(wardle.client(), "any");
    let (both, empty) = ("cannot be set with flunderReference at the same time", "cannot be empty if referenceType is");
    for (spec, field, value, why) in [
        (new("a", "b", "Flunder"), "fischerReference", "b", both.to_owned()),
        (new("a", "", ""), "flunderReference", "a", "cannot be set if referenceType is not Flunder".to_owned()),
        (new("a", "", "Fischer"), "flunderReference", "a", "cannot be set if referenceType is not Flunder".to_owned()),
        (new("", "b", "Flunder"), "fischerReference", "b", "cannot be set if referenceType is not Fischer".to_owned()),
        (new("", "", "Fischer"), "fischerReference", "", format!("{empty} Fischer")),
        (new("", "", "Flunder"), "flunderReference", "", format!("{empty} Flunder")),
        (new("", "", "Shark"), "referenceType", "Shark", "must be Flunder or Fischer".to_owned()),
    ] {
        let created = betas.create(&PostParams::default(), &v1beta1::Flunder::new("a", spec)).await;
        let status = rejected(created);
        let message =
            format!("Flunder.wardle.example.com \"a\" is invalid: spec.{field}: Invalid value: {value:?}: {why}");
        assert_eq!((status.code, &*status.reason, &*status.message), (422, "Invalid", &*message));
        assert_eq!(status.details.unwrap().causes[0].field, format!("spec.{field}"));
    }
    let status = rejected(alphas.create(&PostParams::default(), &old("a", "", "Fischer")).await);
    assert!(status.message.contains(&format!("{empty} Fischer")), "{}", status.message);
}

#[tokio::test]
async fn an_update_is_not_validated_but_needs_the_resource_version() {
    let betas: Api<v1beta1::Flunder> = Api::namespaced(start().await.client(), "any");
    let flunder = v1beta1::Flunder::new("a", new("b", "", "Flunder"));
    let mut created = betas.create(&PostParams::default(), &flunder).await.unwrap();
    created.spec = new("b", "c", "");
    let updated = betas.replace("a", &PostParams::default(), &created).await.unwrap();
    assert_eq!(updated.spec, created.spec);
    let status = rejected(betas.replace("a", &PostParams::default(), &flunder).await);
    let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!((status.code, status.message.contains(why)), (422, true), "{}", status.message);
}

fn rejected<T>(result: Result<T, kube::Error>) -> Status {
    match result.map(drop) {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{other:?}"),
    }
}
