//! Tokens in Secrets of the type `kubernetes.io/service-account-token`, which do not expire.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::json;
use windlass_schema::go_format::quote;

use super::{names, same_secret, service_accounts::account_user};
use crate::{bootstrap, meta, server::Inner, storage::StoredObject, tokens::LegacyClaims, user::User};

/// Marks the tokens that are no longer accepted.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The day on which a token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// Returns the user of a token whose signature was verified.
pub(super) async fn user(server: &Arc<Inner>, token: &str, claims: &LegacyClaims) -> Result<User, String> {
    let LegacyClaims { sub, namespace, secret, account, uid, .. } = claims;
    for (claim, value) in
        [("sub", sub), ("namespace", namespace), ("secretName", secret), ("serviceAccountName", account)]
    {
        if value.is_empty() {
            return Err(format!("{claim} claim is missing"));
        }
    }
    if uid.is_empty() {
        return Err("serviceAccountUID claim is missing".to_owned());
    }
    if names::service_account(sub) != Some((namespace, account)) {
        return Err("sub claim is invalid".to_owned());
    }
    server.storage.fresh().await.map_err(|error| error.to_string())?;
    let objects = &server.authentication.service_accounts;
    let stored = objects.secrets.get(&format!("{namespace}/{secret}")).ok_or("Token has been invalidated")?;
    let value = stored.to_value();
    if meta::is_terminating(&value) {
        return Err("Token has been invalidated".to_owned());
    }
    let copy = value["data"]["token"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    if !same_secret(&copy, token.as_bytes()) {
        return Err("Token does not match server's copy".to_owned());
    }
    let found = objects.accounts.get(&format!("{namespace}/{account}"));
    let found = found.ok_or_else(|| format!("serviceaccounts {} not found", quote(account)))?;
    if meta::is_terminating(&found.to_value()) {
        return Err(format!("ServiceAccount {namespace}/{account} has been deleted"));
    }
    if *found.header.uid != **uid {
        return Err(format!("ServiceAccount UID ({}) does not match claim ({uid})", found.header.uid));
    }
    let invalid = stored.header.label(INVALID_SINCE).is_some_and(|since| !since.is_empty());
    note_use(server, namespace, secret, &stored).await;
    if invalid {
        return Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked \
             invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
             '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        ));
    }
    Ok(account_user(namespace, account, uid))
}

/// Labels a Secret with the day on which its token was last used.
async fn note_use(server: &Arc<Inner>, namespace: &str, secret: &str, stored: &StoredObject) {
    let now = server.now();
    let day = |time: jiff::Timestamp| time.strftime("%Y-%m-%d").to_string();
    let (today, tomorrow) = (day(now), day(now.saturating_add(jiff::SignedDuration::from_hours(24)).unwrap_or(now)));
    if stored.header.label(LAST_USED).is_some_and(|day| *day == *today || *day == *tomorrow) {
        return;
    }
    let patch = json!({"metadata": {
        "name": secret, "namespace": namespace, "uid": &*stored.header.uid, "labels": {LAST_USED: today},
    }});
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
    let media_type = "application/merge-patch+json";
    if let Err(error) = bootstrap::send(server, Method::PATCH, &path, media_type, &patch).await {
        tracing::warn!(%error, namespace, secret, "failed to label a service account token with the day of its use");
    }
}
