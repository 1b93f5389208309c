use serde_json::json;

use super::graph::{Kind, Relations};

const NODES: [&str; 2] = ["a", "b"];

/// Returns which of the nodes `a` and `b` an object is related to.
fn related(relations: &Relations, kind: Kind, key: &str) -> Vec<&'static str> {
    NODES.into_iter().filter(|node| relations.relates(node, kind, key)).collect()
}

#[test]
fn pods_relate_their_node_to_what_they_refer_to() {
    let mut relations = Relations::default();
    let pod = json!({
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {
            "nodeName": "a", "serviceAccountName": "account", "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}, {"configMapRef": {"name": "map"}}]}],
            "containers": [{"env": [
                {"valueFrom": {"secretKeyRef": {"name": "env"}}}, {"valueFrom": {"configMapKeyRef": {"name": "env"}}},
            ]}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "volume"}}, {"name": "e", "ephemeral": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "j", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "part"}}]}},
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": "stated"}, {"name": "t", "resourceClaimTemplateName": "x"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "made"}]},
    });
    relations.set_pod("d/p", Some(&pod));
    for (kind, names) in [
        (Kind::Pod, &["p"][..]),
        (Kind::ServiceAccount, &["account"]),
        (Kind::Secret, &["pull", "init", "env", "volume", "part"]),
        (Kind::ConfigMap, &["map", "env", "part"]),
        (Kind::Claim, &["claim", "p-e"]),
        (Kind::ResourceClaim, &["stated", "made"]),
    ] {
        for name in names {
            assert_eq!(related(&relations, kind, &format!("d/{name}")), ["a"], "{kind:?} {name}");
            assert_eq!(related(&relations, kind, &format!("other/{name}")), [""; 0], "{kind:?} {name}");
        }
    }
    relations.set_pod("d/p", None);
    assert_eq!(related(&relations, Kind::Secret, "d/pull"), [""; 0]);
    assert_eq!(related(&relations, Kind::Pod, "d/p"), [""; 0]);
}

#[test]
fn an_object_is_related_until_the_last_pod_is_gone() {
    let mut relations = Relations::default();
    let pod = |node: &str| json!({"metadata": {"namespace": "d"}, "spec": {"nodeName": node, "imagePullSecrets": [{"name": "s"}, {"name": "s"}]}});
    relations.set_pod("d/1", Some(&pod("a")));
    relations.set_pod("d/2", Some(&pod("a")));
    relations.set_pod("d/3", Some(&pod("b")));
    assert_eq!(related(&relations, Kind::Secret, "d/s"), ["a", "b"]);
    relations.set_pod("d/1", None);
    assert_eq!(related(&relations, Kind::Secret, "d/s"), ["a", "b"]);
    relations.set_pod("d/2", None);
    assert_eq!(related(&relations, Kind::Secret, "d/s"), ["b"]);
    relations.set_pod("d/3", Some(&pod("")));
    assert_eq!(related(&relations, Kind::Secret, "d/s"), [""; 0]);
}

#[test]
fn mirror_pods_grant_nothing_but_themselves() {
    let mut relations = Relations::default();
    let pod = json!({
        "metadata": {"namespace": "d", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "a", "imagePullSecrets": [{"name": "s"}]},
    });
    relations.set_pod("d/p", Some(&pod));
    assert_eq!(related(&relations, Kind::Pod, "d/p"), ["a"]);
    assert_eq!(related(&relations, Kind::Secret, "d/s"), [""; 0]);
}

#[test]
fn volumes_and_their_secrets_are_related_through_claims() {
    let mut relations = Relations::default();
    let volume = json!({"spec": {
        "claimRef": {"namespace": "d", "name": "c"},
        "csi": {
            "nodeStageSecretRef": {"namespace": "x", "name": "stage"},
            "controllerPublishSecretRef": {"namespace": "x", "name": "controller"},
        },
    }});
    let pod = json!({
        "metadata": {"namespace": "d"},
        "spec": {"nodeName": "a", "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]},
    });
    relations.set_volume("v", Some(&volume));
    assert_eq!(related(&relations, Kind::Volume, "v"), [""; 0]);
    relations.set_pod("d/p", Some(&pod));
    assert_eq!(related(&relations, Kind::Volume, "v"), ["a"]);
    assert_eq!(related(&relations, Kind::Secret, "x/stage"), ["a"]);
    assert_eq!(related(&relations, Kind::Secret, "x/controller"), [""; 0]);
    let old = json!({"spec": {
        "claimRef": {"namespace": "d", "name": "c"}, "rbd": {"secretRef": {"name": "here"}},
    }});
    relations.set_volume("v", Some(&old));
    assert_eq!(related(&relations, Kind::Secret, "d/here"), ["a"]);
    assert_eq!(related(&relations, Kind::Secret, "x/stage"), [""; 0]);
    relations.set_volume("v", Some(&json!({"spec": {}})));
    assert_eq!(related(&relations, Kind::Volume, "v"), [""; 0]);
    assert_eq!(related(&relations, Kind::Secret, "d/here"), [""; 0]);
}
