//! Deletion and orphaning of dependents.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Namespace, Secret},
    rbac::v1::ClusterRole,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use windlass_testing::{TestCluster, eventually};

use super::*;

#[tokio::test]
async fn dependents_of_dependents_are_deleted_with_the_owner() {
    let plane = plane().await;
    let (maps, secrets) = (plane.api::<ConfigMap>(), plane.api::<Secret>());
    let owner = map(&maps, "owner", vec![]).await;
    let child = map(&maps, "child", vec![of_map(&owner)]).await;
    let mut grandchild = Secret::default();
    grandchild.metadata.name = Some("grandchild".into());
    grandchild.metadata.owner_references = Some(vec![of_map(&child)]);
    secrets.create(&PostParams::default(), &grandchild).await.unwrap();
    map(&maps, "other", vec![]).await;
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    gone(&maps, "child").await;
    eventually("the secret is deleted", async || secrets.get_opt("grandchild").await.unwrap().is_none().then_some(()))
        .await;
    maps.get("other").await.unwrap();
}

#[tokio::test]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let owner = map(&maps, "owner", vec![]).await;
    held_map(&maps, "blocks", vec![blocking(of_map(&owner))]).await;
    held_map(&maps, "does-not", vec![of_map(&owner)]).await;
    settled(&maps).await;
    maps.delete("owner", &foreground()).await.unwrap();
    for name in ["blocks", "does-not"] {
        eventually("dependents are deleted", async || {
            maps.get(name).await.unwrap().metadata.deletion_timestamp.map(|_| ())
        })
        .await;
    }
    settled(&maps).await;
    assert_eq!(maps.get("owner").await.unwrap().metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    set_finalizers(&maps, "blocks", &[]).await;
    gone(&maps, "owner").await;
    // Without `blockOwnerDeletion`, the owner does not wait for it.
    maps.get("does-not").await.unwrap();
    set_finalizers(&maps, "does-not", &[]).await;
    gone(&maps, "does-not").await;
}

#[tokio::test]
async fn foreground_deletion_of_a_tree_starts_at_the_leaves() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let root = map(&maps, "root", vec![]).await;
    let branch = map(&maps, "branch", vec![blocking(of_map(&root))]).await;
    held_map(&maps, "leaf", vec![blocking(of_map(&branch))]).await;
    settled(&maps).await;
    maps.delete("root", &foreground()).await.unwrap();
    eventually("the leaf is deleted", async || maps.get("leaf").await.unwrap().metadata.deletion_timestamp.map(|_| ()))
        .await;
    settled(&maps).await;
    assert_eq!(maps.get("branch").await.unwrap().metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    maps.get("root").await.unwrap();
    set_finalizers(&maps, "leaf", &[]).await;
    for name in ["leaf", "branch", "root"] {
        gone(&maps, name).await;
    }
}

#[tokio::test]
async fn a_cycle_of_owners_that_block_each_other_is_deleted() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let first = map(&maps, "first", vec![]).await;
    let second = map(&maps, "second", vec![blocking(of_map(&first))]).await;
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [blocking(of_map(&second))]}}));
    maps.patch("first", &PatchParams::default(), &patch).await.unwrap();
    settled(&maps).await;
    maps.delete("first", &foreground()).await.unwrap();
    gone(&maps, "first").await;
    gone(&maps, "second").await;
}

#[tokio::test]
async fn orphans_stay_and_lose_their_owner_reference() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let owner = map(&maps, "owner", vec![]).await;
    let other = map(&maps, "other", vec![]).await;
    map(&maps, "child", vec![of_map(&owner)]).await;
    map(&maps, "shared", vec![of_map(&owner), of_map(&other)]).await;
    maps.delete("owner", &orphan()).await.unwrap();
    gone(&maps, "owner").await;
    settled(&maps).await;
    assert!(owners(&maps, "child").await.is_empty());
    assert_eq!(owners(&maps, "shared").await, ["other"]);
}

#[tokio::test]
async fn a_dependent_is_deleted_with_its_last_owner() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let (one, two) = (map(&maps, "one", vec![]).await, map(&maps, "two", vec![]).await);
    map(&maps, "child", vec![of_map(&one), of_map(&two)]).await;
    maps.delete("one", &DeleteParams::background()).await.unwrap();
    eventually("one owner remains", async || (owners(&maps, "child").await == ["two"]).then_some(())).await;
    maps.delete("two", &DeleteParams::background()).await.unwrap();
    gone(&maps, "child").await;
}

#[tokio::test]
async fn a_dependent_with_another_owner_drops_the_reference_to_a_waiting_owner() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let (one, two) = (map(&maps, "one", vec![]).await, map(&maps, "two", vec![]).await);
    map(&maps, "child", vec![blocking(of_map(&one)), of_map(&two)]).await;
    settled(&maps).await;
    maps.delete("one", &foreground()).await.unwrap();
    gone(&maps, "one").await;
    assert_eq!(owners(&maps, "child").await, ["two"]);
}

#[tokio::test]
async fn a_dependent_of_a_missing_owner_is_deleted() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let solid = map(&maps, "solid", vec![]).await;
    let never = OwnerReference { uid: "never".into(), ..of_map(&solid) };
    let misnamed = OwnerReference { name: "other".into(), ..of_map(&solid) };
    map(&maps, "of-another-uid", vec![never.clone()]).await;
    map(&maps, "of-another-name", vec![misnamed]).await;
    map(&maps, "of-both", vec![never, of_map(&solid)]).await;
    gone(&maps, "of-another-uid").await;
    gone(&maps, "of-another-name").await;
    eventually("the wrong owner reference is removed", async || {
        (owners(&maps, "of-both").await == ["solid"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_new_owner_of_the_old_name_is_not_the_old_one() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let old = held_map(&maps, "owner", vec![]).await;
    map(&maps, "of-old", vec![of_map(&old)]).await;
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    set_finalizers(&maps, "owner", &[]).await;
    let new = map(&maps, "owner", vec![]).await;
    map(&maps, "of-new", vec![of_map(&new)]).await;
    gone(&maps, "of-old").await;
    settled(&maps).await;
    maps.get("of-new").await.unwrap();
}

#[tokio::test]
async fn cluster_scoped_objects_can_own_namespaced_ones() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let roles: Api<ClusterRole> = Api::all(plane.client());
    let mut role = ClusterRole::default();
    role.metadata.name = Some("owner".into());
    let role = roles.create(&PostParams::default(), &role).await.unwrap();
    let of_role = reference(("rbac.authorization.k8s.io/v1", "ClusterRole"), &role.metadata);
    map(&maps, "child", vec![of_role.clone()]).await;
    let mut sibling = ClusterRole::default();
    sibling.metadata.name = Some("sibling".into());
    sibling.metadata.owner_references = Some(vec![of_role]);
    roles.create(&PostParams::default(), &sibling).await.unwrap();
    settled(&maps).await;
    maps.get("child").await.unwrap();
    roles.delete("owner", &DeleteParams::background()).await.unwrap();
    gone(&maps, "child").await;
    eventually("the role is deleted", async || roles.get_opt("sibling").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_cluster_scoped_object_with_a_namespaced_owner_stays() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let owner = map(&maps, "owner", vec![]).await;
    let roles: Api<ClusterRole> = Api::all(plane.client());
    let mut role = ClusterRole::default();
    role.metadata.name = Some("child".into());
    role.metadata.owner_references = Some(vec![of_map(&owner)]);
    roles.create(&PostParams::default(), &role).await.unwrap();
    settled(&maps).await;
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    settled(&maps).await;
    roles.get("child").await.unwrap();
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_ignored_and_reported() {
    let plane = plane().await;
    let far = TestCluster::unique("far");
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(far.clone());
    Api::all(plane.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let (maps, far): (_, Api<ConfigMap>) = (plane.api(), Api::namespaced(plane.client(), &far));
    let near = map(&maps, "near", vec![]).await;
    let owner = map(&far, "owner", vec![]).await;
    map(&far, "good", vec![of_map(&owner)]).await;
    settled(&maps).await;
    map(&maps, "bad", vec![of_map(&owner)]).await;
    map(&maps, "shared", vec![of_map(&owner), of_map(&near)]).await;
    gone(&maps, "bad").await;
    eventually("the far owner reference is removed", async || {
        (owners(&maps, "shared").await == ["near"]).then_some(())
    })
    .await;
    far.get("good").await.unwrap();
    let events: Api<Event> = plane.api();
    let note = format!(
        "ownerRef [v1/ConfigMap, namespace: {0}, name: owner, uid: {1}] does not exist in namespace \"{0}\"",
        plane.namespace(),
        owner.metadata.uid.as_deref().unwrap()
    );
    eventually("there is an event", async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let told = |event: &Event| {
            event.reason.as_deref() == Some("OwnerRefInvalidNamespace") && event.message.as_deref() == Some(&note)
        };
        events.iter().any(told).then_some(())
    })
    .await;
}
