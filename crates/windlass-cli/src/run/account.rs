//! The operator's service account: the identity of the operator during a run, with the roles of its manifests.
//!
//! The operator gets a kubeconfig that names a file with a token. The token is renewed in time, and clients read the
//! file again.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams},
    core::{ApiResource, DynamicObject},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass_schema::sorting::Gather as _;

use super::{event::Reporter, trace::LABEL};
use crate::{
    kubeconfig::{Credentials, NewKubeconfig},
    secret_file,
    service_account::{AccountName, namespace_manifest},
};

/// Requested lifetime of tokens.
const LIFETIME: Duration = Duration::from_hours(1);
/// Time between attempts to renew a token.
const RENEWAL_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which the age of a token is checked. While the machine sleeps, only the wall clock advances.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Returns whether an object belongs to the roles of an operator.
pub(crate) fn is_role(kind: &str) -> bool {
    ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"].contains(&kind)
}

/// Returns the service account among the objects of an operator.
pub(crate) fn account(objects: &[Value]) -> Option<AccountName> {
    let account = objects.iter().find(|object| object["kind"] == "ServiceAccount")?;
    let text = |name: &str| account["metadata"][name].as_str().map(str::to_owned);
    Some(AccountName { namespace: text("namespace")?, name: text("name")? })
}

/// Returns the namespaces of objects, to apply before them.
pub(crate) fn namespaces(objects: &[Value]) -> Vec<Value> {
    let names: BTreeSet<&str> = objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).gather();
    names.into_iter().map(namespace_manifest).collect()
}

/// Marks objects of a run, so that objects that are no longer generated can be found.
pub(crate) fn label(object: &mut Value, operator: &str) {
    object["metadata"]["labels"][LABEL] = json!(operator);
}

/// A cheap handle to the operator's credentials.
#[derive(Clone)]
pub(crate) struct AccountCredentials(Arc<Shared>);

struct Shared {
    client: Client,
    /// Connection to the cluster.
    config: Config,
    reporter: Reporter,
    kubeconfig: PathBuf,
    token: PathBuf,
    /// The account, and when its token is renewed.
    current: Mutex<Option<(AccountName, Timestamp)>>,
    /// Time at which the roles of the account were installed.
    installed: Mutex<Option<Timestamp>>,
    changed: Notify,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // They may not have been written.
        let _ = fs::remove_file(&self.kubeconfig);
        let _ = fs::remove_file(&self.token);
    }
}

impl AccountCredentials {
    /// Keeps the credentials in a directory until it is dropped.
    pub(crate) fn new(client: Client, config: Config, folder: &Path, reporter: Reporter) -> Self {
        Self(Arc::new(Shared {
            client,
            config,
            reporter,
            kubeconfig: folder.join("operator.kubeconfig"),
            token: folder.join("operator.token"),
            current: Mutex::new(None),
            installed: Mutex::new(None),
            changed: Notify::new(),
        }))
    }

    /// The operator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.0.kubeconfig
    }

    /// The account, if there is one, and when its roles were installed.
    pub(crate) fn current(&self) -> Option<(Timestamp, AccountName)> {
        let account = self.0.current.lock().as_ref().map(|(account, _)| account.clone())?;
        let installed = *self.0.installed.lock();
        Some((installed?, account))
    }

    /// Writes a kubeconfig with a new token of an account.
    pub(crate) async fn assume(&self, account: &AccountName) -> anyhow::Result<()> {
        self.renew(account).await?;
        *self.0.installed.lock() = Some(windlass_clock::now());
        let credentials = Credentials::TokenFile(self.0.token.clone());
        let new = NewKubeconfig {
            config: &self.0.config,
            cluster: "windlass",
            user: &account.name,
            namespace: None,
            credentials: &credentials,
        };
        write(&self.0.kubeconfig, &new.to_yaml()?)
    }

    async fn renew(&self, account: &AccountName) -> anyhow::Result<()> {
        let issued = account.token(&self.0.client, LIFETIME).await?;
        write(&self.0.token, &issued.token)?;
        let lifetime = Duration::try_from(issued.expires.duration_since(windlass_clock::now())).unwrap_or_default();
        // Clients read the file again within a minute.
        let due =
            windlass_clock::now().checked_add((lifetime / 2).max(RENEWAL_RETRY_INTERVAL)).unwrap_or(Timestamp::MAX);
        *self.0.current.lock() = Some((account.clone(), due));
        self.0.changed.notify_one();
        Ok(())
    }

    /// Renews tokens before they expire.
    pub(crate) async fn keep_renewed(self) {
        loop {
            let current = self.0.current.lock().clone();
            let Some((account, due)) = current else {
                self.0.changed.notified().await;
                continue;
            };
            let left = Duration::try_from(due.duration_since(windlass_clock::now())).unwrap_or_default();
            if !left.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(left.min(CHECK_EVERY)) => {}
                    () = self.0.changed.notified() => {}
                }
                continue;
            }
            if let Err(error) = self.renew(&account).await {
                self.0.reporter.complain(&error.context("failed to renew the operator's token")).await;
                tokio::time::sleep(RENEWAL_RETRY_INTERVAL).await;
            }
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    secret_file::replace(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Deletes roles and bindings of earlier operators that are not among `wanted`, and returns what was deleted.
pub(crate) async fn prune(client: &Client, operator: &str, wanted: &[Value]) -> anyhow::Result<Vec<String>> {
    let resources = [
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<Role>(&()),
    ];
    let ours = ListParams::default().labels(&format!("{LABEL}={operator}"));
    let mut told = Vec::new();
    for resource in resources {
        let kind = &resource.kind;
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let found = all.list(&ours).await.with_context(|| format!("failed to list {kind} of a run"))?;
        for object in found.items {
            let (name, namespace) = (object.name_any(), object.namespace());
            let is_same = |wanted: &&Value| {
                wanted["kind"] == **kind
                    && wanted["metadata"]["name"] == *name
                    && wanted["metadata"]["namespace"].as_str() == namespace.as_deref()
            };
            if wanted.iter().any(|wanted| is_same(&wanted)) {
                continue;
            }
            let place = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let api: Api<DynamicObject> = match &namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => all.clone(),
            };
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => told.push(format!("{kind} {place}{name}: deleted")),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("cannot delete {kind} {place}{name}")),
            }
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceAccount;
    use kube::api::{ObjectMeta, PostParams};
    use windlass_testing::TestPlane;

    use super::*;

    #[test]
    fn the_account_and_its_namespaces_are_those_of_the_manifests() {
        let object = |kind: &str, namespace: Option<&str>| {
            let mut object = json!({"kind": kind, "metadata": {"name": "shop"}});
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = namespace.into();
            }
            object
        };
        let objects = [object("ClusterRole", None), object("Role", Some("b")), object("ServiceAccount", Some("a"))];
        assert_eq!(account(&objects), Some(AccountName { namespace: "a".to_owned(), name: "shop".to_owned() }));
        assert_eq!(account(&objects[..2]), None);
        let names: Vec<Value> = namespaces(&objects).into_iter().map(|one| one["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_token_is_renewed_before_it_expires_and_removed_at_the_end() {
        let plane = TestPlane::builder().virtual_time().await;
        let client = plane.client();
        let account = AccountName { namespace: "default".to_owned(), name: "shop".to_owned() };
        let metadata = ObjectMeta { name: Some("shop".to_owned()), ..ObjectMeta::default() };
        let object = ServiceAccount { metadata, ..ServiceAccount::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        accounts.create(&PostParams::default(), &object).await.unwrap();

        let folder = tempfile::tempdir().unwrap();
        let (reporter, _events) = Reporter::new();
        let config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        let credentials = AccountCredentials::new(client, config, folder.path(), reporter);
        let renewal = tokio::spawn(credentials.clone().keep_renewed());
        credentials.assume(&account).await.unwrap();
        let token = || fs::read_to_string(folder.path().join("operator.token")).unwrap();
        let first = token();
        plane.advance(LIFETIME / 4).await;
        assert_eq!(token(), first);
        plane.advance(LIFETIME / 2).await;
        assert_ne!(token(), first);
        assert!(fs::read_to_string(credentials.kubeconfig()).unwrap().contains("operator.token"));
        renewal.abort();
        assert!(renewal.await.unwrap_err().is_cancelled());
        drop(credentials);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
