//! Custom resources as owners and dependents, and CustomResourceDefinitions that are created and deleted.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use windlass_testing::eventually;

use super::*;

async fn undefine(plane: &TestPlane, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    eventually("the CRD is deleted", async || definitions.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

fn of_foo(object: &DynamicObject) -> OwnerReference {
    reference(("example.com/v1", "Foo"), &object.metadata)
}

#[tokio::test]
async fn custom_resources_own_and_are_owned() {
    let plane = plane().await;
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    let (maps, foos) = (plane.api::<ConfigMap>(), custom(&plane, "foos", "Foo"));
    let owner = map(&maps, "owner", vec![]).await;
    let other = map(&maps, "other", vec![]).await;
    let foo = custom_object(&foos, "Foo", "foo", vec![of_map(&owner)]).await;
    custom_object(&foos, "Foo", "orphan", vec![of_map(&owner)]).await;
    custom_object(&foos, "Foo", "shared", vec![of_map(&owner), of_map(&other)]).await;
    map(&maps, "of-foo", vec![of_foo(&foo)]).await;
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    foos.patch("orphan", &PatchParams::default(), &patch).await.unwrap();
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    gone(&maps, "of-foo").await;
    // Custom resources do not support strategic merge patches.
    eventually("the owner reference is removed", async || {
        let owners = foos.get("shared").await.unwrap().metadata.owner_references.unwrap_or_default();
        (owners.len() == 1 && owners[0].name == "other").then_some(())
    })
    .await;
    foos.get("orphan").await.unwrap();
    maps.delete("other", &orphan()).await.unwrap();
    gone(&maps, "other").await;
    assert_eq!(foos.get("shared").await.unwrap().metadata.owner_references, None);
}

#[tokio::test]
async fn an_owner_of_an_unknown_kind_keeps_its_dependents_until_the_kind_is_known() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let never = OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Foo".into(),
        name: "never".into(),
        uid: "11111111-1111-1111-1111-111111111111".into(),
        ..OwnerReference::default()
    };
    map(&maps, "child", vec![never]).await;
    settled(&maps).await;
    maps.get("child").await.unwrap();
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    gone(&maps, "child").await;
}

#[tokio::test]
async fn deleting_a_crd_deletes_the_dependents_of_its_objects_and_it_can_be_recreated() {
    let plane = plane().await;
    let foo = definition("foos", "Foo", "Namespaced");
    plane.define_as(&foo).await;
    let (maps, foos) = (plane.api::<ConfigMap>(), custom(&plane, "foos", "Foo"));
    let first = custom_object(&foos, "Foo", "foo", vec![]).await;
    map(&maps, "of-first", vec![of_foo(&first)]).await;
    settled(&maps).await;
    undefine(&plane, "foos.example.com").await;
    gone(&maps, "of-first").await;

    plane.define_as(&foo).await;
    let second = custom_object(&foos, "Foo", "foo", vec![]).await;
    map(&maps, "of-second", vec![of_foo(&second)]).await;
    let third = custom_object(&foos, "Foo", "third", vec![]).await;
    map(&maps, "of-third", vec![of_foo(&third)]).await;
    foos.delete("third", &DeleteParams::background()).await.unwrap();
    gone(&maps, "of-third").await;
    maps.get("of-second").await.unwrap();
    foos.delete("foo", &DeleteParams::background()).await.unwrap();
    gone(&maps, "of-second").await;
}

#[tokio::test]
async fn a_crd_without_served_versions_deletes_no_dependents() {
    let plane = plane().await;
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    let (maps, foos) = (plane.api::<ConfigMap>(), custom(&plane, "foos", "Foo"));
    let foo = custom_object(&foos, "Foo", "foo", vec![]).await;
    map(&maps, "child", vec![of_foo(&foo)]).await;
    settled(&maps).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    let serve = async |served: bool| {
        let mut versions = definition("foos", "Foo", "Namespaced").spec.versions;
        versions[0].served = served;
        let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
        definitions.patch("foos.example.com", &PatchParams::default(), &patch).await.unwrap();
    };
    serve(false).await;
    settled(&maps).await;
    serve(true).await;
    maps.get("child").await.unwrap();
    foos.delete("foo", &DeleteParams::background()).await.unwrap();
    gone(&maps, "child").await;
}
