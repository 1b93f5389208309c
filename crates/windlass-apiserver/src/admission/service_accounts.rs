//! ServiceAccount: every pod runs as a service account and gets its token.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::pod::admission;
use windlass_schema::go_format::parse_bool;

use super::{Admission, Attributes, Operation};
use crate::{meta, status::Result, storage::ResourceCache};

/// Time for which a pod waits for the `default` account of a new namespace.
const DEFAULT_ACCOUNT: Duration = Duration::from_millis(1500);

/// The annotation on accounts that restricts pods to the secrets that the account lists.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) struct ServiceAccounts {
    pub(crate) accounts: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for ServiceAccounts {
    async fn mutate(&self, write: &Attributes<'_>, object: &mut Value) -> Result<()> {
        if !is_new_pod(write) || admission::is_mirror(object) {
            return Ok(());
        }
        let account = self.account(write, object).await?;
        admission::use_service_account(object, &account, &meta::name_suffix());
        Ok(())
    }

    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let reject = |why: &str| Err(write.forbidden(object, why));
        let adds_ephemeral = write.is("", "pods")
            && matches!((write.operation, write.subresource), (Operation::Update, "ephemeralcontainers"));
        if !is_new_pod(write) && !adds_ephemeral {
            return Ok(());
        }
        if is_new_pod(write) && admission::is_mirror(object) {
            return admission::check_mirror(object).or_else(reject);
        }
        if object["spec"]["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
            let name = meta::text(object, "name");
            return reject(&format!("no service account specified for pod {}/{name}", write.namespace));
        }
        let account = self.account(write, object).await?;
        let enforced = account["metadata"]["annotations"][ENFORCE].as_str();
        if enforced.and_then(parse_bool) != Some(true) {
            return Ok(());
        }
        let kinds: &[&str] = if adds_ephemeral { &["ephemeralContainers"] } else { &["initContainers", "containers"] };
        admission::check_secrets(object, &account, kinds).or_else(|why| reject(&why))
    }
}

impl ServiceAccounts {
    /// Returns the account that a pod runs as.
    async fn account(&self, write: &Attributes<'_>, pod: &Value) -> Result<Value> {
        let name = admission::service_account_name(pod);
        let key = format!("{}/{name}", write.namespace);
        let found = async {
            loop {
                let changed = self.accounts.changed();
                match self.accounts.get(&key) {
                    Some(account) => return Some(account),
                    None if name == "default" => changed.await,
                    None => return None,
                }
            }
        };
        // A control loop creates the account of a new namespace within moments.
        match tokio::time::timeout(DEFAULT_ACCOUNT, found).await {
            Ok(Some(account)) => Ok(account.to_value()),
            Ok(None) | Err(_) => {
                let why = format!("error looking up service account {key}: serviceaccount \"{name}\" not found");
                Err(write.forbidden(pod, &why))
            }
        }
    }
}

fn is_new_pod(write: &Attributes<'_>) -> bool {
    write.operation == Operation::Create && write.subresource.is_empty() && write.is("", "pods")
}
