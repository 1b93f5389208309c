//! Service accounts and their tokens.

use std::{fmt, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

/// A service account, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A token, and when it expires.
pub(crate) struct IssuedToken {
    pub(crate) token: String,
    pub(crate) expires: Timestamp,
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl AccountName {
    /// Name of the account as a user.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Groups of the account as a user.
    pub(crate) fn groups(&self) -> Vec<String> {
        let own = format!("system:serviceaccounts:{}", self.namespace);
        vec!["system:serviceaccounts".to_owned(), own, "system:authenticated".to_owned()]
    }

    /// The object, to apply.
    pub(crate) fn manifest(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": self.name, "namespace": self.namespace},
        })
    }

    /// Requests a token for the API server. The server may choose another expiry.
    pub(crate) async fn token(&self, client: &Client, lifetime: Duration) -> anyhow::Result<IssuedToken> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let expiration_seconds = Some(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX));
        let spec = TokenRequestSpec { expiration_seconds, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let issued = accounts.create_token_request(&self.name, &PostParams::default(), &request).await;
        let issued = issued.with_context(|| format!("failed to request a token for service account {self}"))?;
        let status = issued.status.unwrap_or_default();
        let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp) else {
            anyhow::bail!("the server returned no token for service account {self}");
        };
        Ok(IssuedToken { token, expires: expires.0 })
    }
}

/// A namespace, to apply.
pub(crate) fn namespace_manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
