use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};

use super::*;

fn parent(namespace: &str, uid: &str) -> ConfigMap {
    let mut parent = ConfigMap::default();
    parent.metadata.name = Some("parent".into());
    parent.metadata.namespace = Some(namespace.into());
    parent.metadata.uid = Some(uid.into());
    parent
}

fn child(namespace: &str) -> Secret {
    let mut child = Secret::default();
    child.metadata.name = Some("child".into());
    child.metadata.namespace = Some(namespace.into());
    child
}

#[test]
fn an_owner_becomes_the_controller() {
    let mut child = child("a");
    set_controller(&parent("a", "1"), &mut child).unwrap();
    set_controller(&std::sync::Arc::new(parent("a", "1")), &mut child).unwrap();
    let owners = child.metadata.owner_references.clone().unwrap();
    assert_eq!(owners, [controller_reference(&parent("a", "1")).unwrap()]);
    let owner = &owners[0];
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!((owner.api_version.as_str(), owner.kind.as_str()), ("v1", "ConfigMap"));
}

#[test]
fn another_namespace_or_controller_is_rejected() {
    let mut owned = child("a");
    set_controller(&parent("a", "1"), &mut owned).unwrap();
    let mut unstored = parent("a", "1");
    unstored.metadata.uid = None;
    let table = [
        (parent("b", "2"), child("a"), "b/parent cannot own a/child"),
        (parent("a", "2"), owned, "a/child is already controlled by ConfigMap parent"),
        (unstored, child("a"), "the owner has no UID"),
    ];
    for (parent, mut child, message) in table {
        let before = child.clone();
        let error = set_controller(&parent, &mut child).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert_eq!(child, before, "nothing is changed");
    }
}

#[test]
fn cluster_scoped_objects_own_everything_and_are_owned_only_by_each_other() {
    let mut node = Node::default();
    node.metadata.name = Some("node".into());
    node.metadata.uid = Some("1".into());
    set_controller(&node, &mut child("a")).unwrap();
    set_controller(&parent("a", "2"), &mut node).unwrap_err();
}

#[test]
fn owners_are_distinguished_by_uid() {
    let mut child = child("a");
    set_controller(&parent("a", "1"), &mut child).unwrap();
    assert!(is_controlled_by(&child, &parent("a", "1")) && is_owned_by(&child, &parent("a", "1")));
    assert!(!is_controlled_by(&child, &parent("a", "2")), "recreated with the same name");
    child.metadata.owner_references.as_mut().unwrap()[0].controller = None;
    assert!(!is_controlled_by(&child, &parent("a", "1")) && is_owned_by(&child, &parent("a", "1")));
    assert!(!remove(&mut child, "2") && remove(&mut child, "1") && !remove(&mut child, "1"));
    assert_eq!(child.metadata.owner_references, None);
}

#[test]
fn a_reference_is_to_a_group_and_kind_in_any_version() {
    let reference = |api_version: &str| OwnerReference {
        api_version: api_version.into(),
        kind: "Foo".into(),
        ..OwnerReference::default()
    };
    let table = [
        ("example.com/v1", "example.com", true),
        ("example.com/v2beta1", "example.com", true),
        ("v1", "", true),
        ("v1", "example.com", false),
        ("other.com/v1", "example.com", false),
        ("example.com/v1", "", false),
    ];
    for (api_version, group, expected) in table {
        assert_eq!(refers_to(&reference(api_version), group, "Foo"), expected, "{api_version} {group}");
    }
    assert!(!refers_to(&reference("example.com/v1"), "example.com", "Bar"));
}
