//! The service accounts of control loops.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tower::BoxError;
use windlass_apiserver::user::User;

use super::Identities;

const NAMESPACE: &str = "kube-system";

/// The service account that a control loop acts as.
///
/// It is created with the loop's first request, as kube-controller-manager does when it starts a controller: a loop
/// that has nothing to do needs none. If it is deleted, the next request creates it again.
pub(super) struct LoopAccount {
    name: &'static str,
    /// The user of the last request, which most requests share.
    last: Mutex<Arc<User>>,
}

/// The part of the account that its user has.
#[derive(Deserialize)]
struct Account {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

impl LoopAccount {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, last: Mutex::new(Arc::new(User::service_account(NAMESPACE, name))) }
    }

    /// Returns the user of the account. It has no UID while the account can be neither read nor created, so that loops
    /// are not blocked.
    pub(super) async fn user(&self, identities: &Identities) -> Arc<User> {
        let uid = match identities.server.service_account_uid(NAMESPACE, self.name) {
            Some(uid) => uid,
            None => self.find_or_create(identities).await.unwrap_or_else(|error| {
                tracing::debug!(account = self.name, error, "the service account of a control loop does not exist");
                String::new()
            }),
        };
        let mut last = self.last.lock();
        if last.uid != uid {
            *last = Arc::new(User { uid, ..User::service_account(NAMESPACE, self.name) });
        }
        last.clone()
    }

    /// Returns the UID of the account.
    async fn find_or_create(&self, identities: &Identities) -> Result<String, BoxError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let account = json!({"metadata": {"name": self.name, "namespace": NAMESPACE}}).to_string();
        let find = || request(identities, Method::GET, format!("{path}/{}", self.name), String::new());
        if let Some(uid) = find().await? {
            return Ok(uid);
        }
        match request(identities, Method::POST, path.clone(), account).await? {
            Some(uid) => Ok(uid),
            // Another loop with this account was faster.
            None => find().await?.ok_or_else(|| "it was deleted at once".into()),
        }
    }
}

/// Sends a request of the controller manager; returns the UID of the account, or `None` if the account does not exist
/// or exists already.
async fn request(
    identities: &Identities,
    method: Method,
    path: String,
    body: String,
) -> Result<Option<String>, BoxError> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(kube::client::Body::from(body.into_bytes()))?;
    let manager = Arc::new(User::component("system:kube-controller-manager"));
    let response = identities.clone().send(manager, request).await?;
    let code = response.status();
    if matches!(code, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
        return Ok(None);
    }
    let body = response.into_body().collect().await?.to_bytes();
    if !code.is_success() {
        return Err(format!("{code}: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(Some(serde_json::from_slice::<Account>(&body)?.metadata.uid))
}
