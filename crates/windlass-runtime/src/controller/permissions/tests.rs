use std::fmt::Write as _;

use expect_test::{Expect, expect};
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{ConfigMap, Node, Pod, Secret, Service},
};

use super::*;
use crate::{controller::Action, key::ObjectKey, operator::Operator};

fn controller() -> Controller<Deployment> {
    Controller::new("test", async |_deployment, _ctx| Ok(Action::done()))
}

fn check(operator: Operator, expected: Expect) {
    let mut text = String::new();
    for manifest in operator.plain_metrics().manifests("system", "").rbac("account") {
        let data = &manifest.object.data;
        let namespace = manifest.object.metadata.namespace.as_deref().unwrap_or("*");
        for rule in data["rules"].as_array().into_iter().flatten() {
            let list = |field: &str| {
                let items = rule[field].as_array().into_iter().flatten().filter_map(|item| item.as_str());
                items.collect::<Vec<_>>().join(",")
            };
            writeln!(text, "{namespace} {} {}: {}", list("apiGroups"), list("resources"), list("verbs")).unwrap();
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn the_wiring_implies_permissions() {
    let controller = controller().owns::<Service>().watches::<Pod>(|pod, _| vec![ObjectKey::of(pod)]);
    check(
        Operator::new("test").controller(controller),
        expect![[r#"
            *  pods: get,list,watch
            *  services: create,delete,get,list,patch,update,watch
            * apps deployments: get,list,patch,update,watch
            * apps deployments/finalizers: update
            * apps deployments/status: get,patch,update
            * events.k8s.io events: create,patch
            system coordination.k8s.io leases: create,get,update
        "#]],
    );
}

#[test]
fn other_writes_are_declared() {
    let controller = controller()
        .creates::<Job>()
        .applies::<ConfigMap>()
        .updates::<Node>()
        .deletes::<Deployment>()
        .reads::<Secret>()
        .permission(Permission::new("", "pods/eviction", ["create"]));
    check(
        Operator::new("test").controller(controller),
        expect![[r#"
            *  configmaps: create,patch
            *  nodes: get,patch,update
            *  pods/eviction: create
            *  secrets: get,list
            * apps deployments: delete,get,list,patch,update,watch
            * apps deployments/finalizers: update
            * apps deployments/status: get,patch,update
            * batch jobs: create
            * events.k8s.io events: create,patch
            system coordination.k8s.io leases: create,get,update
        "#]],
    );
}

#[test]
fn subresources_are_declared() {
    let controller = controller().scales::<Deployment>().evicts().reads_logs().execs().deletes_all::<Job>();
    check(
        Operator::new("test").controller(controller),
        expect![[r#"
            *  pods,pods/log: get
            *  pods/eviction: create
            *  pods/exec: create,get
            * apps deployments: get,list,patch,update,watch
            * apps deployments/finalizers: update
            * apps deployments/scale,deployments/status: get,patch,update
            * batch jobs: deletecollection
            * events.k8s.io events: create,patch
            system coordination.k8s.io leases: create,get,update
        "#]],
    );
}

#[test]
fn declared_permissions_are_limited_to_the_watched_namespaces() {
    let controller = controller()
        .creates::<Job>()
        .reads::<Node>()
        .permission(Permission::new("", "secrets", ["get"]).in_namespace("other"));
    check(
        Operator::new("test").controller(controller).namespaces(["a", "b"]),
        expect![[r#"
            *  nodes: get,list
            a apps deployments: get,list,patch,update,watch
            a apps deployments/finalizers: update
            a apps deployments/status: get,patch,update
            a batch jobs: create
            a events.k8s.io events: create,patch
            b apps deployments: get,list,patch,update,watch
            b apps deployments/finalizers: update
            b apps deployments/status: get,patch,update
            b batch jobs: create
            b events.k8s.io events: create,patch
            default events.k8s.io events: create,patch
            other  secrets: get
            other events.k8s.io events: create,patch
            system coordination.k8s.io leases: create,get,update
            system events.k8s.io events: create,patch
        "#]],
    );
}

#[test]
fn the_account_can_have_any_name() {
    let manifests = Operator::new("test").controller(controller()).manifests("system", "").rbac("account");
    let names: Vec<_> = manifests.iter().map(|manifest| (manifest.kind(), manifest.name())).collect();
    assert_eq!(
        names,
        [
            ("ServiceAccount", "account"),
            ("ClusterRole", "account"),
            ("ClusterRoleBinding", "account"),
            ("Role", "account"),
            ("RoleBinding", "account"),
            ("ClusterRole", "account-metrics-auth"),
            ("ClusterRoleBinding", "account-metrics-auth"),
        ]
    );
    for binding in [&manifests[2], &manifests[6]] {
        let subject = &binding.object.data["subjects"][0];
        assert_eq!(*subject, serde_json::json!({"kind": "ServiceAccount", "name": "account", "namespace": "system"}));
    }
}
