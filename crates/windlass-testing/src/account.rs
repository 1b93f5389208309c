//! The service account of an operator that runs in the test, with the roles that its manifests grant.

use std::path::Path;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    config::{AuthInfo, Kubeconfig},
};
use serde_json::{Value, json};
use windlass_apiserver::{Server, user::User};
use windlass_runtime::manifests::Manifest;

use crate::cluster::{POLL_INTERVAL, TIMEOUT, connect_as};

/// The server that the account belongs to.
#[derive(Clone)]
pub(crate) enum AccountServer {
    Embedded(Server),
    /// A cluster, by its kubeconfig.
    Cluster(Box<Path>),
}

/// Creates the service account of an operator, its roles and their bindings, like an administrator who deploys it.
/// Returns a client that acts as the account.
pub(crate) async fn client(
    server: &AccountServer,
    administrator: &Client,
    namespace: &str,
    account: &str,
    objects: &[Manifest],
) -> Client {
    let mut namespaces: Vec<_> = objects.iter().filter_map(|object| object.object.metadata.namespace.clone()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    // An operator that watches some namespaces has a role in each of them.
    for namespace in &namespaces {
        create_namespace(administrator, namespace).await;
    }
    for object in objects {
        apply(administrator, account, object).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(administrator.clone(), namespace);
    match server {
        AccountServer::Embedded(server) => {
            let created = accounts.get(account).await.expect("the service account must exist");
            let uid = created.metadata.uid.unwrap_or_default();
            server.client_as(User { uid, ..User::service_account(namespace, account) })
        }
        AccountServer::Cluster(kubeconfig) => {
            let user = format!("system:serviceaccount:{}:{account}", namespace);
            for object in objects {
                in_force(administrator, &user, object).await;
            }
            let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
            let issued = accounts.create_token_request(account, &PostParams::default(), &request).await;
            let issued = issued.expect("issuing a token of the service account must succeed");
            with_token(kubeconfig, issued.status.and_then(|status| status.token).unwrap_or_default()).await
        }
    }
}

/// Creates a namespace, unless it exists.
async fn create_namespace(administrator: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match Api::all(administrator.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => panic!("failed to create namespace {name}: {error}"),
    }
}

/// Applies an object of an operator.
pub(crate) async fn apply(administrator: &Client, manager: &str, manifest: &Manifest) {
    let params = PatchParams::apply(manager).force();
    let api = manifest.api(administrator.clone());
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        match api.patch(manifest.name(), &params, &Patch::Apply(&manifest.object)).await {
            Ok(_) => return,
            // Another replica of the operator is being started.
            Err(kube::Error::Api(status)) if status.code == 409 && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Err(error) => panic!("failed to apply {} {}: {error}", manifest.kind(), manifest.name()),
        }
    }
}

/// Waits until the first rule of a role takes effect. An API server learns about roles and bindings from a watch.
async fn in_force(administrator: &Client, user: &str, role: &Manifest) {
    let rule = &role.object.data["rules"][0];
    let first = |field: &str| rule[field][0].as_str().map(str::to_owned);
    let (Some(group), Some(resource), Some(verb)) = (first("apiGroups"), first("resources"), first("verbs")) else {
        return;
    };
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (resource, None),
    };
    let attributes = ResourceAttributes {
        group: Some(group),
        resource: Some(resource),
        subresource,
        verb: Some(verb),
        name: first("resourceNames"),
        namespace: role.object.metadata.namespace.clone(),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(administrator.clone());
    let waiting = async {
        loop {
            let review = reviews.create(&PostParams::default(), &review).await;
            if review.is_ok_and(|review| review.status.is_some_and(|status| status.allowed)) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("timed out waiting for {} {} to take effect", role.kind(), role.name()));
}

/// Returns a client of the cluster with a token, and without the credentials of the kubeconfig.
async fn with_token(kubeconfig: &Path, token: String) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig must be readable");
    let account: AuthInfo = serde_json::from_value(json!({ "token": token })).expect("a token must be a credential");
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(account.clone());
    }
    connect_as(kubeconfig).await
}

/// Returns whether an object is part of the access of an operator, which is not interesting in the history of a test.
pub(crate) fn is_access(kind: &str, state: &Value) -> bool {
    let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    kinds.contains(&kind) && state["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "windlass"
}
