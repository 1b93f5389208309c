//! The identity of the operator during a run.

use std::{fs, os::unix::fs::PermissionsExt as _};

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Secret},
    rbac::v1::{ClusterRole, Role},
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{MANIFESTS, Project, client, is_alive};

const USER: &str = "system:serviceaccount:shop-system:shop";

/// Manifests whose roles allow listing a resource everywhere; with `extra`, there is a Role as well.
fn manifests(resource: &str, extra: bool) -> String {
    let mut manifests: Value = serde_json::from_str(MANIFESTS).unwrap();
    let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "shop", "namespace": "shop-system"}]);
    let items = manifests["items"].as_array_mut().unwrap();
    let account = json!({"name": "shop", "namespace": "shop-system"});
    items.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}));
    for (prefix, metadata) in [("Cluster", json!({"name": "shop"})), ("", account)] {
        if prefix.is_empty() && !extra {
            continue;
        }
        let kind = format!("{prefix}Role");
        items.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules,
        }));
        items.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "shop"}, "subjects": subjects,
        }));
    }
    manifests.to_string()
}

async fn whoami(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    review.status.unwrap().user_info.unwrap().username.unwrap()
}

async fn may_list<K>(client: &Client) -> bool
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match Api::<K>::all(client.clone()).list(&ListParams::default()).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 403 => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_operator_runs_as_its_service_account_with_exactly_its_roles() {
    let project = Project::with(&manifests("configmaps", true));
    let folder = project.root().join("target/windlass");
    let mut run = project.run(&[]);
    let first = run.until("the first start", || project.start(1));
    assert_eq!(first.kubeconfig, folder.join("operator.kubeconfig"));
    for file in ["operator.kubeconfig", "operator.token"] {
        assert_eq!(fs::metadata(folder.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    run.until_said("operator | in namespace shop-system");
    let operator = client(&first.kubeconfig).await;
    assert_eq!(whoami(&operator).await, USER);
    assert!(may_list::<ConfigMap>(&operator).await && !may_list::<Secret>(&operator).await);

    // What is forbidden is explained.
    run.until_said("windlass | forbidden: the operator's roles do not allow list on secrets in the whole cluster; ");
    run.until_said(".permission(Permission::new(\"\", \"secrets\", [\"list\"]))");

    // Other wiring has other roles, at once.
    fs::write(project.root().join("manifests.json"), manifests("secrets", false)).unwrap();
    project.append("src/lib.rs", "// changed\n");
    let second = run.until("the second start", || project.start(2));
    let operator = client(&second.kubeconfig).await;
    assert!(!may_list::<ConfigMap>(&operator).await && may_list::<Secret>(&operator).await);
    run.until_said("windlass | forbidden: the operator's roles do not allow list on configmaps in the whole cluster; ");
    run.until_said("windlass | Role shop-system/shop: deleted");
    run.until_said("windlass | RoleBinding shop-system/shop: deleted");
    let admin = client(&folder.join("kubeconfig")).await;
    assert!(Api::<Role>::namespaced(admin.clone(), "shop-system").get_opt("shop").await.unwrap().is_none());
    assert!(Api::<ClusterRole>::all(admin).get_opt("shop").await.unwrap().is_some());

    let said = run.interrupt();
    assert!(!is_alive(&second.process));
    let explained = said.matches("windlass | forbidden: ").count();
    assert_eq!(explained, 2, "each once: {said}");
    assert!(!folder.join("operator.kubeconfig").exists() && !folder.join("operator.token").exists());
    assert!(!folder.join("audit").exists());
}

#[tokio::test]
async fn the_operator_runs_as_the_administrator_on_request() {
    let project = Project::with(&manifests("configmaps", false));
    let mut run = project.run(&["--as-admin"]);
    let start = run.until("the start", || project.start(1));
    assert_eq!(start.kubeconfig, project.root().join("target/windlass/kubeconfig"));
    run.until_said("operator | in namespace none");
    let client = client(&start.kubeconfig).await;
    assert!(Api::<ClusterRole>::all(client).get_opt("shop").await.unwrap().is_none());
    run.interrupt();
}

#[test]
fn an_interrupted_installation_leaves_no_credentials_and_no_process() {
    let project = Project::with(&manifests("configmaps", false));
    let slow = project.root().join("slow");
    fs::write(&slow, "").unwrap();
    let mut run = project.run(&[]);
    let process = run.until("the manifests", || {
        Some(fs::read_to_string(&slow).unwrap()).filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
    });
    let said = run.interrupt();
    assert!(!is_alive(&process), "{said}");
    let folder = project.root().join("target/windlass");
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        name.starts_with("operator") || name.starts_with(".windlass-")
    };
    assert!(!names.iter().any(left), "{names:?}");
}
