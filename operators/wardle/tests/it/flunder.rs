//! Flunders, as the sample-apiserver of Kubernetes treats them.

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use wardle_apiserver::api::flunder::{
    ReferenceType::{self, Fischer, Flunder},
    v1alpha1, v1beta1,
};

use crate::start;

fn old(name: &str, reference: Option<&str>, reference_type: Option<ReferenceType>) -> v1alpha1::Flunder {
    let reference = reference.map(str::to_owned);
    v1alpha1::Flunder::new(name, v1alpha1::FlunderSpec { reference, reference_type })
}

fn new(flunder: Option<&str>, fischer: Option<&str>, reference_type: Option<ReferenceType>) -> v1beta1::FlunderSpec {
    let (flunder_reference, fischer_reference) = (flunder.map(str::to_owned), fischer.map(str::to_owned));
    v1beta1::FlunderSpec { flunder_reference, fischer_reference, reference_type }
}

#[tokio::test]
async fn a_reference_has_a_field_of_its_own_in_v1beta1() {
    let wardle = start().await;
    let alphas: Api<v1alpha1::Flunder> = Api::namespaced(wardle.client(), "any");
    let betas: Api<v1beta1::Flunder> = Api::namespaced(wardle.client(), "any");
    for (name, alpha, beta) in [
        ("none", old("none", None, None), new(None, None, None)),
        ("flunder", old("flunder", Some("a"), Some(Flunder)), new(Some("a"), None, Some(Flunder))),
        ("fischer", old("fischer", Some("a"), Some(Fischer)), new(None, Some("a"), Some(Fischer))),
    ] {
        alphas.create(&PostParams::default(), &alpha).await.unwrap();
        assert_eq!(betas.get(name).await.unwrap().spec, beta, "{name}");
        let other = format!("{name}-beta");
        betas.create(&PostParams::default(), &v1beta1::Flunder::new(&other, beta)).await.unwrap();
        assert_eq!(alphas.get(&other).await.unwrap().spec, alpha.spec, "{other}");
    }
    let change = json!({"spec": {"fischerReference": "b", "flunderReference": null, "referenceType": "Fischer"}});
    betas.patch("flunder", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    assert_eq!(alphas.get("flunder").await.unwrap().spec, old("", Some("b"), Some(Fischer)).spec);
}

#[tokio::test]
async fn a_reference_is_one_to_a_flunder_by_default() {
    let flunders: Api<v1alpha1::Flunder> = Api::namespaced(start().await.client(), "any");
    for (name, reference, expected) in [("a", Some("b"), Some(Flunder)), ("b", None, None)] {
        let created = flunders.create(&PostParams::default(), &old(name, reference, None)).await.unwrap();
        assert_eq!(created.spec.reference_type, expected, "{name}");
    }
}

#[tokio::test]
async fn a_flunder_has_the_reference_of_its_type_and_no_other() {
    let wardle = start().await;
    let alphas: Api<v1alpha1::Flunder> = Api::namespaced(wardle.client(), "any");
    let betas: Api<v1beta1::Flunder> = Api::namespaced(wardle.client(), "any");
    let mut rejected = vec![alphas.create(&PostParams::default(), &old("a", None, Some(Fischer))).await.map(|_| ())];
    for spec in [
        new(Some("a"), Some("b"), Some(Flunder)),
        new(Some("a"), None, None),
        new(Some("a"), None, Some(Fischer)),
        new(None, Some("b"), Some(Flunder)),
        new(None, None, Some(Flunder)),
    ] {
        let created = betas.create(&PostParams::default(), &v1beta1::Flunder::new("a", spec)).await;
        rejected.push(created.map(|_| ()));
    }
    for result in rejected {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("spec must have a reference of its referenceType, and no other"), "{error}");
    }
}
