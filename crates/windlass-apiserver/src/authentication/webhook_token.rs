//! Webhook token authentication: a remote server reviews tokens.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http::{Method, Request, header};
use http_body_util::Full;
use parking_lot::Mutex;
use ring::{hmac, rand::SystemRandom};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_schema::sorting::Gather as _;

use super::{Authenticated, TokenAuthenticator};
pub use crate::kubeconfig::KubeconfigError;
use crate::{
    kubeconfig::{Credentials, RemoteServer},
    user::User,
    webhooks::Remote,
};

/// The time limit of a review, with all attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// The number of responses that are kept.
const CAPACITY: usize = 32_768;
/// The number of attempts, the first delay between them, and its factor in tenths.
const ATTEMPTS: (u32, Duration, u32) = (5, Duration::from_millis(500), 15);

/// The webhook that reviews tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookTokenOptions {
    /// The kubeconfig of the server.
    pub kubeconfig: PathBuf,
    /// The version of TokenReview.
    pub version: TokenReviewVersion,
    /// Time for which responses are cached; zero disables the cache.
    pub cache_ttl: Duration,
}

impl WebhookTokenOptions {
    /// A webhook with kube-apiserver's defaults: `v1beta1`, two minutes.
    pub fn new(kubeconfig: impl AsRef<Path>) -> Self {
        let (version, cache_ttl) = (TokenReviewVersion::default(), Duration::from_secs(120));
        Self { kubeconfig: kubeconfig.as_ref().to_owned(), version, cache_ttl }
    }
}

/// The versions of TokenReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenReviewVersion {
    /// `authentication.k8s.io/v1`
    V1,
    /// `authentication.k8s.io/v1beta1`
    #[default]
    V1Beta1,
}

/// The result of a review; `None` if the server does not know the token.
type Outcome = Result<Option<Authenticated>, String>;

/// A digest of a token and its audiences: tokens themselves are not kept.
type Key = [u8; 32];

/// Authenticates tokens by a remote server.
pub(crate) struct WebhookTokenAuthenticator {
    reviewer: Arc<Reviewer>,
    cache: Arc<Cache>,
}

struct Cache {
    key: hmac::Key,
    ttl: Duration,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    known: HashMap<Key, (Instant, Option<Authenticated>)>,
    pending: HashMap<Key, Shared<BoxFuture<'static, Outcome>>>,
}

/// The server, and the form of its reviews.
struct Reviewer {
    remote: Remote,
    url: String,
    credentials: Credentials,
    api_version: &'static str,
    /// The audiences of a server that returns none.
    implicit_audiences: Vec<String>,
}

impl WebhookTokenAuthenticator {
    /// Reads the kubeconfig. Connects to the server when there is a token.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig cannot be used.
    pub(crate) fn new(options: &WebhookTokenOptions, implicit_audiences: &[&str]) -> Result<Self, KubeconfigError> {
        let server = RemoteServer::load(&options.kubeconfig)?;
        let invalid = |why| KubeconfigError::Invalid { path: options.kubeconfig.clone(), why };
        let reviewer = Reviewer {
            remote: crate::blocking::run(|| Remote::new(&server.tls)).map_err(invalid)?,
            url: server.url,
            credentials: server.credentials,
            api_version: match options.version {
                TokenReviewVersion::V1 => "authentication.k8s.io/v1",
                TokenReviewVersion::V1Beta1 => "authentication.k8s.io/v1beta1",
            },
            implicit_audiences: implicit_audiences.iter().map(|audience| (*audience).to_owned()).collect(),
        };
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.expect("the system must have random numbers");
        let cache = Cache { key, ttl: options.cache_ttl, entries: Mutex::default() };
        Ok(Self { reviewer: Arc::new(reviewer), cache: Arc::new(cache) })
    }
}

impl TokenAuthenticator for WebhookTokenAuthenticator {
    fn authenticate<'a>(&'a self, token: &'a str, audiences: &'a [&'a str]) -> BoxFuture<'a, Outcome> {
        let key = self.cache.key_of(token, audiences);
        if let Some(known) = self.cache.recall(&key) {
            return std::future::ready(Ok(known)).boxed();
        }
        self.cache.review(key, || {
            let (reviewer, token) = (self.reviewer.clone(), token.to_owned());
            let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
            async move { reviewer.review(token, audiences).await }.boxed()
        })
    }
}

impl Cache {
    fn key_of(&self, token: &str, audiences: &[&str]) -> Key {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [token].iter().chain(audiences) {
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    fn recall(&self, key: &Key) -> Option<Option<Authenticated>> {
        let entries = self.entries.lock();
        let (until, known) = entries.known.get(key)?;
        (Instant::now() < *until).then(|| known.clone())
    }

    /// Returns the result of the pending review of a token, or of a new one. It runs in a task of its own, because
    /// others may wait for it.
    fn review(
        self: &Arc<Self>,
        key: Key,
        start: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> BoxFuture<'static, Outcome> {
        let mut entries = self.entries.lock();
        if let Some(pending) = entries.pending.get(&key) {
            return pending.clone().boxed();
        }
        let (cache, review) = (self.clone(), start());
        let task = async move {
            // Dropped last, even if the review panics or the runtime stops.
            let pending = Pending { cache: &cache, key };
            let outcome = review.await;
            if let Ok(known) = &outcome {
                cache.remember(key, known);
            }
            drop(pending);
            outcome
        };
        let task = tokio::spawn(task.boxed());
        let joined = async move { task.await.unwrap_or_else(|_| Err("authentication failed unexpectedly".to_owned())) };
        let pending = joined.boxed().shared();
        entries.pending.insert(key, pending.clone());
        pending.boxed()
    }

    fn remember(&self, key: Key, known: &Option<Authenticated>) {
        if self.ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let Some(until) = now.checked_add(self.ttl) else { return };
        let mut entries = self.entries.lock();
        if entries.known.len() >= CAPACITY {
            entries.known.retain(|_, (until, _)| now < *until);
        }
        if entries.known.len() < CAPACITY {
            entries.known.insert(key, (until, known.clone()));
        }
    }
}

/// Removes a pending review when it ends.
struct Pending<'c> {
    cache: &'c Cache,
    key: Key,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.cache.entries.lock().pending.remove(&self.key);
    }
}

/// Reason why an attempt failed.
struct Failed {
    why: String,
    /// Whether another attempt may succeed.
    again: bool,
}

impl Reviewer {
    async fn review(&self, token: String, audiences: Vec<String>) -> Outcome {
        let mut spec = json!({"token": token});
        if !audiences.is_empty() {
            spec["audiences"] = json!(audiences);
        }
        let review = json!({
            "kind": "TokenReview", "apiVersion": self.api_version, "metadata": {}, "spec": spec, "status": {"user": {}},
        });
        let body = Bytes::from(review.to_string());
        // The last error is kept in case time runs out.
        let last = Mutex::new(None);
        let attempts = async {
            let (most, mut delay, factor) = ATTEMPTS;
            for attempt in 1.. {
                match self.attempt(body.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(Failed { why, again: true }) if attempt < most => {
                        *last.lock() = Some(why);
                        tokio::time::sleep(delay).await;
                        delay = delay * factor / 10;
                    }
                    Err(Failed { why, .. }) => return Err(why),
                }
            }
            Err("no attempt was made".to_owned())
        };
        let answer = tokio::time::timeout(TIMEOUT, attempts)
            .await
            .unwrap_or_else(|_| Err(last.lock().take().unwrap_or_else(|| "context deadline exceeded".to_owned())));
        let answer = answer.inspect_err(|error| {
            tracing::error!(url = self.url, error, "failed to call the webhook that authenticates tokens");
        })?;
        self.outcome(&answer["status"], &audiences)
    }

    /// Sends a review once, and returns the review of the response.
    async fn attempt(&self, body: Bytes) -> Result<Value, Failed> {
        let fail = |why: String, again| Failed { why, again };
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver");
        if let Some(value) = self.credentials.header().await.map_err(|why| fail(why, false))? {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| fail(error.to_string(), false))?;
        let answer = self.remote.send(request, TIMEOUT, MAX_SIZE).await.map_err(|why| {
            let again = why.contains("connection reset") || why.ends_with("EOF");
            fail(why, again)
        })?;
        if let Some(why) = answer.failure() {
            let again = matches!(answer.status.as_u16(), 429 | 500 | 504) || answer.headers.contains_key("retry-after");
            return Err(fail(why, again));
        }
        let review: Value = serde_json::from_slice(&answer.body).map_err(|error| fail(error.to_string(), false))?;
        match review["kind"].as_str() {
            Some("TokenReview") => Ok(review),
            kind => Err(fail(format!("the webhook answered with kind {:?}", kind.unwrap_or_default()), false)),
        }
    }

    /// Returns the user of a review's status.
    fn outcome(&self, status: &Value, wanted: &[String]) -> Outcome {
        let given = match strings(&status["audiences"]) {
            given if given.is_empty() => self.implicit_audiences.clone(),
            given => given,
        };
        let audiences: Vec<String> = wanted.iter().filter(|audience| given.contains(audience)).cloned().collect();
        if !wanted.is_empty() && audiences.is_empty() {
            return Ok(None);
        }
        if status["authenticated"].as_bool() != Some(true) {
            return match status["error"].as_str() {
                None | Some("") => Ok(None),
                Some(error) => Err(error.to_owned()),
            };
        }
        let user = &status["user"];
        let text = |field: &str| user[field].as_str().unwrap_or_default().to_owned();
        let extra = user["extra"].as_object().into_iter().flatten();
        let user = User {
            name: text("username"),
            uid: text("uid"),
            groups: strings(&user["groups"]),
            extra: extra.map(|(key, values)| (key.clone(), strings(values))).gather(),
        };
        Ok(Some(Authenticated { user, audiences: Some(audiences) }))
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
