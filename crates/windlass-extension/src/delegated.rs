//! Delegated authentication and authorization: the main API server knows who a user is and what it may do.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::ConfigMap,
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_apiserver::{
    authentication::{Authenticated, AuthenticationOptions, RequestHeaderOptions, TokenAuthenticator},
    authorization::{Action, Attributes, Authorization, Authorizer, Decision},
    user::User,
};

/// Time for which a decision is cached.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Maximum number of cached decisions.
const MAX_REMEMBERED: usize = 4096;
/// The time limit of a review.
const LIMIT: Duration = Duration::from_secs(10);
/// The ConfigMap in which the main API server publishes how it authenticates.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "extension-apiserver-authentication";
/// Paths that all users may get, so that kubelets can probe the server.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Reads how the main API server authenticates its clients and itself, from the ConfigMap
/// `kube-system/extension-apiserver-authentication`.
///
/// # Errors
/// Returns an error if the ConfigMap cannot be read.
pub async fn authentication(client: &Client) -> Result<AuthenticationOptions, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    Ok(options_of(maps.get(NAME).await?))
}

/// Returns the contents of the ConfigMap.
pub(crate) fn options_of(map: ConfigMap) -> AuthenticationOptions {
    let data = map.data.unwrap_or_default();
    let list = |key: &str| -> Vec<String> {
        data.get(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let request_header = data.get("requestheader-client-ca-file").map(|authority| RequestHeaderOptions {
        client_ca: authority.clone(),
        allowed_names: list("requestheader-allowed-names"),
        username_headers: list("requestheader-username-headers"),
        uid_headers: list("requestheader-uid-headers"),
        group_headers: list("requestheader-group-headers"),
        extra_header_prefixes: list("requestheader-extra-headers-prefix"),
    });
    let client_ca = data.get("client-ca-file").cloned();
    AuthenticationOptions { client_ca, request_header, ..AuthenticationOptions::default() }
}

/// Authenticates tokens by TokenReviews.
pub struct TokenReviews {
    client: Client,
}

impl TokenReviews {
    /// Sends reviews with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl TokenAuthenticator for TokenReviews {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _audiences: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Option<Authenticated>, String>> {
        Box::pin(async move {
            let reviews: Api<TokenReview> = Api::all(self.client.clone());
            let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
            let review = TokenReview { spec, ..TokenReview::default() };
            let post = PostParams::default();
            let reviewed = tokio::time::timeout(LIMIT, reviews.create(&post, &review)).await;
            let reviewed = reviewed.map_err(|_| "the review of the token took too long".to_owned())?;
            let status = reviewed.map_err(|error| format!("failed to review the token: {error}"))?.status;
            let status = status.unwrap_or_default();
            if status.authenticated != Some(true) {
                return status.error.filter(|error| !error.is_empty()).map_or(Ok(None), Err);
            }
            let user = status.user.unwrap_or_default();
            let user = User {
                name: user.username.unwrap_or_default(),
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            };
            Ok(Some(Authenticated { user, audiences: None }))
        })
    }
}

/// Authorizes requests by SubjectAccessReviews. Members of `system:masters` may do everything.
pub struct AccessReviews {
    client: Client,
    remembered: Mutex<HashMap<String, (Instant, Decision)>>,
}

impl AccessReviews {
    /// Sends reviews with this client.
    pub fn new(client: Client) -> Self {
        Self { client, remembered: Mutex::default() }
    }

    async fn review(&self, spec: SubjectAccessReviewSpec) -> Decision {
        let key = serde_json::to_string(&spec).unwrap_or_default();
        let known = self.remembered.lock().get(&key).filter(|(until, _)| *until > Instant::now()).cloned();
        if let Some((_, decision)) = known {
            return decision;
        }
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = tokio::time::timeout(LIMIT, reviews.create(&PostParams::default(), &review)).await;
        let status = match reviewed {
            Ok(Ok(reviewed)) => reviewed.status.unwrap_or_default(),
            Ok(Err(error)) => return undecided(format!("failed to review the access: {error}")),
            Err(_) => return undecided("the review of the access took too long".to_owned()),
        };
        let reason: Arc<str> = status.reason.unwrap_or_default().into();
        let decision = match (status.allowed, status.denied) {
            (true, _) => Decision::allow(reason),
            (false, Some(true)) => Decision::deny(reason),
            (false, _) => Decision::no_opinion(reason),
        };
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key, (Instant::now() + REMEMBERED, decision.clone()));
        decision
    }
}

/// A failed review allows nothing.
fn undecided(error: String) -> Decision {
    Decision { error: Some(error), ..Decision::no_opinion("") }
}

impl Authorizer for AccessReviews {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        if request.user.groups.iter().any(|group| group == "system:masters") {
            return Decision::allow("").into();
        }
        if matches!(request.action, Action::Path { verb: "get", path } if HEALTH.contains(&path)) {
            return Decision::allow("").into();
        }
        let spec = spec(request);
        Authorization::Pending(Box::pin(self.review(spec)))
    }
}

/// Returns the review of a request.
fn spec(request: &Attributes<'_>) -> SubjectAccessReviewSpec {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let User { name, uid, groups, extra } = request.user;
    let mut spec = SubjectAccessReviewSpec {
        user: text(name),
        uid: text(uid),
        groups: Some(groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(extra.clone()).filter(|extra: &BTreeMap<_, _>| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match &request.action {
        Action::Resource(action) => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: text(action.verb),
                group: text(action.group),
                version: text(action.version),
                resource: text(action.resource),
                subresource: text(action.subresource),
                namespace: text(action.namespace),
                name: text(action.name),
                ..ResourceAttributes::default()
            });
        }
        Action::Path { verb, path } => {
            spec.non_resource_attributes = Some(NonResourceAttributes { verb: text(verb), path: text(path) });
        }
    }
    spec
}
