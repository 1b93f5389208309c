//! All webhooks of a process, and the dispatch of reviews to them.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;
use tracing::{debug, error, warn};

use super::{
    Conversion, Denied, RawWebhook, Webhook,
    admission::{Admission, deny},
    conversion::{self, Convert},
    describe::{Description, Endpoint},
    memory::Share,
    metrics::WebhookMetrics,
    review::{AdmissionRequest, ConversionRequest, ConversionResponse, ReviewError, ReviewRequest},
};
use crate::{
    cache::AnyInformer,
    context::{Context, Reader, SharedHandles, WatchedKinds},
    controller::AnyWatch,
    manifests::Permission,
    object::Object,
};

/// The webhooks of a process.
///
/// ```no_run
/// # use windlass_runtime::{metrics::Metrics, shutdown::Shutdown, webhook::{Certificates, WebhookOptions, Webhook, Webhooks}};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn serve() -> Result<(), windlass_runtime::webhook::ServeError> {
/// let webhooks = Webhooks::new().add(Webhook::<ConfigMap>::new().validate(|_| Ok::<(), std::io::Error>(())));
/// let options = WebhookOptions::new(Certificates::mounted("/certificates"));
/// webhooks.serve(options, &Metrics::new(), Shutdown::new()).await
/// # }
/// ```
#[derive(Default)]
pub struct Webhooks {
    admissions: BTreeMap<String, Route>,
    conversions: Vec<Arc<dyn Convert>>,
    descriptions: Vec<Description>,
    /// The kinds that the handlers of each admission webhook read.
    reads: Vec<Vec<AnyWatch>>,
    /// The contexts of these webhooks, once they are connected.
    connected: Vec<WebhookContext>,
    /// The context of all handlers, for webhooks without an operator.
    context: Option<WebhookContext>,
    /// The first path, name or kind that was added twice.
    pub(super) duplicate: Option<String>,
}

/// An endpoint of an admission webhook.
struct Route {
    endpoint: Endpoint,
    admission: Arc<dyn Admission>,
    /// Number of the webhook.
    webhook: usize,
}

/// The context of handlers, and the informers that it reads.
struct WebhookContext {
    context: Context,
    informers: Vec<Arc<AnyInformer>>,
}

impl WebhookContext {
    /// Returns the context when its caches are filled. The caller has a timeout.
    async fn ready(&self) -> &Context {
        for informer in &self.informers {
            informer.known().await;
        }
        &self.context
    }
}

impl Webhooks {
    /// Creates an empty set of webhooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a webhook. If another one has the same path, or the same name in the webhook configuration,
    /// [`Webhooks::bind`] fails.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "webhooks are added to a set, not to each other")]
    pub fn add<K: Object>(mut self, mut webhook: Webhook<K>) -> Self {
        self.reads.push(std::mem::take(&mut webhook.reads));
        let descriptions = webhook.describe();
        self.route(descriptions, Arc::new(webhook));
        self
    }

    /// Adds a webhook for objects of any kind. If another one has the same name, [`Webhooks::bind`] fails.
    #[must_use]
    pub fn add_raw(mut self, mut webhook: RawWebhook) -> Self {
        self.reads.push(std::mem::take(&mut webhook.reads));
        let descriptions = webhook.describe();
        self.route(descriptions, Arc::new(webhook));
        self
    }

    fn route(&mut self, descriptions: Vec<Description>, webhook: Arc<dyn Admission>) {
        for description in descriptions {
            let number = self.reads.len().saturating_sub(1);
            let route = Route { endpoint: description.endpoint, admission: webhook.clone(), webhook: number };
            if self.admissions.insert(description.path.clone(), route).is_some() || description.path == conversion::PATH
            {
                self.duplicate.get_or_insert(description.path.clone());
            }
            let same = |other: &Description| (other.endpoint, &other.name) == (description.endpoint, &description.name);
            if self.descriptions.iter().any(same) {
                self.duplicate.get_or_insert(description.name.clone());
            }
            self.descriptions.push(description);
        }
    }

    /// Adds the versions of a kind. If there is another conversion of the same kind, [`Webhooks::bind`] fails.
    #[must_use]
    pub fn conversion<H: Object<DynamicType: Default>>(mut self, conversion: Conversion<H>) -> Self {
        let description = conversion.describe();
        if self.conversion_of(&description.group, &description.kind).is_some() {
            self.duplicate.get_or_insert(format!("{} {}", conversion::PATH, description.name));
        }
        self.descriptions.push(description);
        self.conversions.push(Arc::new(conversion));
        self
    }

    /// Sets the context of [`Request::context`](super::Request::context), for webhooks without an operator. Kinds that
    /// handlers read must be [added](Context::add_informer) to it.
    #[must_use]
    pub fn context(mut self, context: Context) -> Self {
        self.context = Some(WebhookContext { context, informers: Vec::new() });
        self
    }

    /// Watches the kinds that handlers read, and sets their context.
    pub(crate) fn connect(&mut self, handles: SharedHandles) {
        let connect = |reads: &Vec<AnyWatch>| {
            let watched_kinds = WatchedKinds::of(Reader::Webhook);
            let informers = reads.iter().flat_map(|watch| watch.open(&handles.caches, &watched_kinds)).collect();
            WebhookContext { context: Context::new(handles.clone(), watched_kinds), informers }
        };
        // Each has its own: it must not wait for the informers of others, nor read them before they are synced.
        self.connected = self.reads.iter().map(connect).collect();
    }

    /// Returns the context of an admission webhook when its caches are filled; `None` if it has none.
    async fn ready(&self, webhook: usize) -> Option<&Context> {
        let context = self.connected.get(webhook).or(self.context.as_ref())?;
        Some(context.ready().await)
    }

    /// Narrows watches of all namespaces to these.
    pub(crate) fn restrict_to(&mut self, namespaces: &[String]) {
        self.reads.iter_mut().flatten().for_each(|watch| watch.restrict_to(namespaces, &|_| false));
    }

    /// Returns the permissions for the kinds that handlers read.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        self.reads.iter().flatten().flat_map(|watch| watch.permissions("", &["get", "list", "watch"])).collect()
    }

    /// Returns the descriptions for webhook configurations and CRDs.
    pub fn describe(&self) -> Vec<Description> {
        self.descriptions.clone()
    }

    /// Returns whether there are no webhooks.
    pub fn is_empty(&self) -> bool {
        self.descriptions.is_empty()
    }

    /// Returns all paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let conversion = (!self.conversions.is_empty()).then_some(conversion::PATH);
        self.admissions.keys().map(String::as_str).chain(conversion)
    }

    fn conversion_of(&self, group: &str, kind: &str) -> Option<&dyn Convert> {
        let found = self.conversions.iter().find(|conversion| conversion.group_and_kind() == (group, kind));
        found.map(AsRef::as_ref)
    }

    /// Handles a review that was sent to one of [`Webhooks::paths`], and holds its share of memory meanwhile.
    pub(super) async fn answer(
        self: &Arc<Self>,
        path: &str,
        body: Bytes,
        share: Share,
        metrics: &WebhookMetrics,
    ) -> Result<Vec<u8>, ReviewError> {
        match self.admissions.get(path) {
            Some(Route { endpoint, admission, webhook }) => {
                let context = self.ready(*webhook).await;
                admit(*endpoint, admission.as_ref(), context, &body, metrics).await
            }
            None => self.convert(body, share, metrics).await,
        }
    }

    async fn convert(
        self: &Arc<Self>,
        body: Bytes,
        share: Share,
        metrics: &WebhookMetrics,
    ) -> Result<Vec<u8>, ReviewError> {
        let this = self.clone();
        let metrics = metrics.clone();
        // A review may hold thousands of objects: it must not block the threads that handle requests.
        let converting = tokio::task::spawn_blocking(move || {
            // This continues when the client has disconnected or the timeout has expired: the memory is free when it
            // ends.
            let _share = share;
            let question = ReviewRequest::<ConversionRequest>::decode(&body)?;
            Ok(question.encode(&this.convert_all(&question.request, &metrics)))
        });
        // Panics are caught, so only a runtime that is stopping remains.
        converting.await.unwrap_or(Err(ReviewError::Stopping))
    }

    fn convert_all(&self, request: &ConversionRequest, metrics: &WebhookMetrics) -> ConversionResponse {
        let converting = AssertUnwindSafe(|| {
            let objects = request.objects.iter().enumerate();
            objects.map(|(index, object)| self.convert_one(request, index, object)).collect::<Result<Vec<_>, _>>()
        });
        let converted = std::panic::catch_unwind(converting).unwrap_or_else(|panic| {
            metrics.conversion_panics.inc();
            let message = crate::panic::message(&*panic);
            error!(uid = request.uid, message, "conversion panicked");
            Err(format!("panic: {message} [recovered]"))
        });
        match converted {
            Ok(converted_objects) => {
                let result = Status { status: Some("Success".to_owned()), ..Status::default() };
                ConversionResponse { uid: request.uid.clone(), converted_objects, result }
            }
            Err(message) => {
                warn!(uid = request.uid, to = request.desired_api_version, message, "conversion failed");
                let result = Status { status: Some("Failure".to_owned()), message: Some(message), ..Status::default() };
                ConversionResponse { uid: request.uid.clone(), converted_objects: Vec::new(), result }
            }
        }
    }

    fn convert_one(&self, request: &ConversionRequest, index: usize, object: &Value) -> Result<Value, String> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("/apiVersion").split_once('/').map_or("", |(group, _)| group), text("/kind"));
        let desired = &request.desired_api_version;
        let converted = match self.conversion_of(group, kind) {
            _ if desired.split_once('/').map_or("", |(group, _)| group) != group => {
                Err(format!("{} {kind} cannot be converted to {desired}", text("/apiVersion")))
            }
            Some(conversion) => conversion.convert(object, desired),
            None => Err(format!("no conversion for {kind} of {group:?}")),
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        converted.map_err(|error| format!("object {index} ({namespace}/{name}): {error}"))
    }
}

async fn admit(
    endpoint: Endpoint,
    admission: &dyn Admission,
    context: Option<&Context>,
    body: &[u8],
    metrics: &WebhookMetrics,
) -> Result<Vec<u8>, ReviewError> {
    let question = ReviewRequest::<AdmissionRequest>::decode(body)?;
    let request = &question.request;
    let admitting = AssertUnwindSafe(async { admission.admit(endpoint, request, context).await });
    let response = admitting.catch_unwind().await.unwrap_or_else(|panic| {
        metrics.panics.inc();
        let message = crate::panic::message(&*panic);
        error!(uid = request.uid, message, "webhook panicked");
        deny(request, Denied::internal(format!("panic: {message} [recovered]")))
    });
    debug!(
        uid = request.uid,
        kind = request.kind.kind,
        namespace = request.namespace,
        name = request.name,
        operation = request.operation.as_str(),
        allowed = response.allowed,
        "handled admission request"
    );
    Ok(question.encode(&response))
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.paths()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
    use kube::Client;

    use super::*;
    use crate::webhook::Request;

    #[tokio::test(start_paused = true)]
    async fn a_webhook_waits_only_for_the_kinds_that_it_reads() {
        let server = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
        });
        let context = Context::builder(Client::new(server, "default")).build();
        let allow = |_: &Request<Service>| Ok::<(), std::io::Error>(());
        let mut webhooks = Webhooks::new()
            .add(Webhook::<ConfigMap>::new().reads::<Secret>().validate(|_| Ok::<(), std::io::Error>(())))
            .add(Webhook::<Service>::new().validate(allow));
        webhooks.connect(context.handles().clone());
        let number = |path: &str| webhooks.admissions[path].webhook;
        let [reading, other] = ["/validate--v1-configmap", "/validate--v1-service"].map(number);
        assert!(webhooks.ready(reading).now_or_never().is_none(), "its cache is empty");
        let context = webhooks.ready(other).now_or_never().flatten();
        let error = context.expect("there is nothing to wait for").list::<Secret>().expect_err("it is not declared");
        assert!(error.to_string().contains("add .reads::<Secret>() to the webhook"), "{error}");
    }
}
