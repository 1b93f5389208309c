//! Fills Secrets of the type `kubernetes.io/service-account-token`: the token of the account that an annotation names,
//! the certificate of the server's authority, and the namespace. Such a Secret is deleted with its account.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, ServiceAccount},
};
use kube::api::{DeleteParams, Preconditions};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Watch},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use super::{ClusterCertificates, FIELD_MANAGER};

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The claims of the token in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretToken {
    /// The namespace of the account and of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the account.
    pub account: String,
    /// The UID of the account.
    pub account_uid: String,
}

/// Signs the tokens of Secrets with the key of the API server.
#[derive(Clone)]
pub struct TokenSigner(Arc<dyn Fn(&SecretToken) -> String + Send + Sync>);

impl TokenSigner {
    /// Signs with a function that returns the token.
    pub fn new(sign: impl Fn(&SecretToken) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSigner").finish_non_exhaustive()
    }
}

/// Sources of the contents of Secrets.
struct Contents {
    signer: TokenSigner,
    root_ca: Option<Arc<str>>,
}

pub(super) fn add(operator: Operator, certificates: &ClusterCertificates) -> Operator {
    let Some(signer) = certificates.token_signer.clone() else { return operator };
    let contents = Arc::new(Contents { signer, root_ca: certificates.root_ca.clone() });
    let secrets = Watch::<Secret>::new().scope(Scope::all().fields("type=kubernetes.io/service-account-token"));
    let tokens_of = |account: &ServiceAccount, ctx: &Context| {
        let namespace = account.metadata.namespace.as_deref().unwrap_or_default();
        // Without the cache of Secrets there is nothing to do yet: each Secret is reconciled when it is there.
        let secrets = ctx.kind::<Secret>().list_in(namespace).unwrap_or_default();
        let named =
            secrets.iter().filter(|secret| annotation(secret, ACCOUNT_NAME) == account.metadata.name.as_deref());
        named.map(|secret| ObjectKey::of(secret.as_ref())).collect()
    };
    let reconciler = move |secret, ctx| reconcile(Arc::clone(&contents), secret, ctx);
    operator.controller(
        Controller::of("serviceaccount-token-controller", secrets, reconciler)
            .field_manager(FIELD_MANAGER)
            .source(Watch::<ServiceAccount>::new().map(tokens_of))
            .on_deleted(forget)
            .concurrency(4),
    )
}

async fn reconcile(contents: Arc<Contents>, secret: Arc<Secret>, ctx: Context) -> Result<Action> {
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    let Some(name) = annotation(&secret, ACCOUNT_NAME).filter(|name| !name.is_empty()) else {
        return Ok(Action::done());
    };
    let key = ObjectKey::namespaced(namespace, name);
    let uid = annotation(&secret, ACCOUNT_UID).filter(|uid| !uid.is_empty());
    let same = |account: &ServiceAccount| uid.is_none() || account.metadata.uid.as_deref() == uid;
    let account = match ctx.get::<ServiceAccount>(&key)?.filter(|account| same(account)) {
        Some(account) => Some(account),
        None => ctx.live().get::<ServiceAccount>(&key).await?.filter(same).map(Arc::new),
    };
    let Some(account) = account else {
        let preconditions = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        return match ctx.delete_with(&*secret, &params).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(Action::done()),
        };
    };
    let Some(filled) = filled(&contents, &secret, &account) else { return Ok(Action::done()) };
    match ctx.update(filled).await {
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Returns the Secret with everything that it lacks; `None` if it is complete.
fn filled(contents: &Contents, secret: &Secret, account: &ServiceAccount) -> Option<Secret> {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let present = secret.data.clone().unwrap_or_default();
    let has = |key: &str| present.get(key).is_some_and(|value| !value.0.is_empty());
    let mut missing = BTreeMap::new();
    if let Some(root_ca) = &contents.root_ca
        && present.get("ca.crt").is_none_or(|value| value.0 != root_ca.as_bytes())
    {
        missing.insert("ca.crt".to_owned(), bytes(root_ca));
    }
    let namespace = text(&secret.metadata.namespace);
    if !has("namespace") {
        missing.insert("namespace".to_owned(), bytes(&namespace));
    }
    if !has("token") {
        let token = SecretToken {
            namespace,
            secret: text(&secret.metadata.name),
            account: text(&account.metadata.name),
            account_uid: text(&account.metadata.uid),
        };
        missing.insert("token".to_owned(), bytes(&(contents.signer.0)(&token)));
    }
    if missing.is_empty() {
        return None;
    }
    let mut filled = secret.clone();
    filled.data.get_or_insert_default().extend(missing);
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), text(&account.metadata.name));
    annotations.insert(ACCOUNT_UID.to_owned(), text(&account.metadata.uid));
    Some(filled)
}

/// Removes a deleted Secret from the accounts that refer to it.
async fn forget(key: ObjectKey, ctx: Context) -> Result<()> {
    let namespace = key.namespace().unwrap_or_default();
    for account in ctx.kind::<ServiceAccount>().list_in(namespace)? {
        let Some(secrets) = &account.secrets else { continue };
        let kept: Vec<_> =
            secrets.iter().filter(|secret| secret.name.as_deref() != Some(key.name())).cloned().collect();
        if kept.len() < secrets.len() {
            match ctx.update(ServiceAccount { secrets: Some(kept), ..ServiceAccount::clone(&account) }).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

fn annotation<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_gets_what_it_lacks_and_keeps_its_token() {
        let signer = TokenSigner::new(|token: &SecretToken| format!("{}/{}", token.account, token.account_uid));
        let contents = Contents { signer, root_ca: Some("ca".into()) };
        let account: ServiceAccount =
            serde_json::from_value(json!({"metadata": {"name": "bot", "namespace": "ns", "uid": "u1"}})).unwrap();
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "ns"}})).unwrap();
        let full = filled(&contents, &secret, &account).unwrap();
        let data = full.data.as_ref().unwrap();
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        assert_eq!((text("token"), text("ca.crt"), text("namespace")), ("bot/u1".into(), "ca".into(), "ns".into()));
        assert_eq!(annotation(&full, ACCOUNT_UID), Some("u1"));
        assert!(filled(&contents, &full, &account).is_none());
        let mut other = full.clone();
        other.data.as_mut().unwrap().insert("ca.crt".to_owned(), ByteString(b"old".to_vec()));
        other.data.as_mut().unwrap().insert("token".to_owned(), ByteString(b"mine".to_vec()));
        let renewed = filled(&contents, &other, &account).unwrap().data.unwrap();
        assert_eq!((&renewed["ca.crt"].0[..], &renewed["token"].0[..]), (&b"ca"[..], &b"mine"[..]));
    }
}
