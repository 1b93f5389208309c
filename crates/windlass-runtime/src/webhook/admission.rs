//! Defaulting and validation of one kind.

mod handlers;
mod settings;

use std::{future::Future, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use kube::core::ApiResource;
use serde_json::Value;

pub use handlers::{Defaulter, Validator};
use settings::Settings;

use super::{
    Answer, Denied, Request, Rule, RuleScope, Warnings,
    denied::Subject,
    describe::{Description, Endpoint},
    patch::{self, Patch},
    request::Operation,
    review::{AdmissionRequest, AdmissionResponse},
};
use crate::{
    context::Context,
    controller::{AnyWatch, Watch},
    object::{Object, resource_of},
};

type Default<K> = Box<dyn Fn(K, Arc<Request<K>>) -> BoxFuture<'static, Result<K, Denied>> + Send + Sync>;
type Validate<K> = Box<dyn Fn(Arc<Request<K>>) -> BoxFuture<'static, Result<Warnings, Denied>> + Send + Sync>;

/// Defaulting and validation of requests that write objects of one kind.
///
/// ```
/// use windlass_runtime::webhook::{Denied, Request, Warnings, Webhook};
/// # use k8s_openapi::api::core::v1::ConfigMap;
///
/// let webhook = Webhook::<ConfigMap>::new()
///     .default_with(|map: &mut ConfigMap, _: &Request<ConfigMap>| {
///         map.immutable.get_or_insert(true);
///     })
///     .validate(|request: &Request<ConfigMap>| -> Result<Warnings, Denied> {
///         match request.object.as_ref().and_then(|map| map.data.as_ref()) {
///             Some(data) if data.len() > 100 => Err(Denied::field("data", "must have at most 100 keys")),
///             Some(_) => Ok(Warnings::none()),
///             None => Ok(Warnings::new("this map is empty")),
///         }
///     });
/// assert_eq!(webhook.describe().len(), 2);
/// ```
///
/// Handlers of the same type run in the order in which they were added; the first one that denies the request ends it.
/// A handler that panics or exceeds the API server's timeout denies the request.
///
/// Defaulting responds with a patch of exactly what the handlers changed: fields that the Rust type does not know, or
/// serializes differently, are not touched.
pub struct Webhook<K: Object> {
    resource: ApiResource,
    defaulters: Vec<Default<K>>,
    validators: Vec<Validate<K>>,
    /// The kinds that the handlers read.
    pub(super) reads: Vec<AnyWatch>,
    settings: Settings,
}

impl<K: Object<DynamicType: std::default::Default>> Webhook<K> {
    /// Creates a webhook without handlers.
    #[expect(clippy::new_without_default, reason = "a webhook without handlers has no use as a default")]
    pub fn new() -> Self {
        Self::of(&K::DynamicType::default())
    }
}

impl<K: Object> Webhook<K> {
    /// Creates a webhook without handlers, for a kind that is known at run time.
    pub fn of(dynamic: &K::DynamicType) -> Self {
        Self {
            resource: resource_of::<K>(dynamic),
            defaulters: Vec::new(),
            validators: Vec::new(),
            reads: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// Adds a defaulting handler, which sets fields that a client left out. It is called with the new object, on create
    /// and update.
    ///
    /// The closure changes the object and returns nothing, or a result.
    #[must_use]
    pub fn default_with<F, R>(mut self, default: F) -> Self
    where
        F: Fn(&mut K, &Request<K>) -> R + Send + Sync + 'static,
        R: Answer<()>,
    {
        self.defaulters.push(Box::new(move |mut object, request| {
            let answer = default(&mut object, &request).answer();
            std::future::ready(answer.map(|()| object)).boxed()
        }));
        self
    }

    /// Like [`Webhook::default_with`], for an async closure, which gets the object and returns it.
    ///
    /// ```
    /// # use windlass_runtime::webhook::{Denied, Webhook};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn look_up() -> Result<bool, std::io::Error> { Ok(true) }
    /// Webhook::<ConfigMap>::new().default_async(|mut map, _request| async move {
    ///     map.immutable = Some(look_up().await?);
    ///     Ok::<_, Denied>(map)
    /// });
    /// ```
    #[must_use]
    pub fn default_async<F, W, R>(mut self, default: F) -> Self
    where
        F: Fn(K, Arc<Request<K>>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: Answer<K> + 'static,
    {
        self.defaulters.push(Box::new(move |object, request| default(object, request).map(Answer::answer).boxed()));
        self
    }

    /// Like [`Webhook::default_with`], for a value with a trait.
    #[must_use]
    pub fn defaulter(self, defaulter: impl Defaulter<K>) -> Self {
        let defaulter = Arc::new(defaulter);
        self.default_async(move |mut object, request| {
            let defaulter = defaulter.clone();
            async move { defaulter.default(&mut object, &request).await.map(|()| object) }
        })
    }

    /// Adds a validating handler, which allows a request, with or without warnings, or denies it.
    ///
    /// It is called on create and update; also on delete, after [`Webhook::also_on_delete`].
    #[must_use]
    pub fn validate<F, R>(mut self, validate: F) -> Self
    where
        F: Fn(&Request<K>) -> R + Send + Sync + 'static,
        R: Answer<Warnings>,
    {
        self.validators.push(Box::new(move |request| std::future::ready(validate(&request).answer()).boxed()));
        self
    }

    /// Like [`Webhook::validate`], for an async closure.
    #[must_use]
    pub fn validate_async<F, W, R>(mut self, validate: F) -> Self
    where
        F: Fn(Arc<Request<K>>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: Answer<Warnings> + 'static,
    {
        self.validators.push(Box::new(move |request| validate(request).map(Answer::answer).boxed()));
        self
    }

    /// Like [`Webhook::validate`], for a value with a trait.
    #[must_use]
    pub fn validator(self, validator: impl Validator<K>) -> Self {
        let validator = Arc::new(validator);
        self.validate_async(move |request| {
            let validator = validator.clone();
            async move { handlers::validate(&*validator, &request).await }
        })
    }

    /// Declares that the handlers read objects of this kind from a cache, with [`Request::context`]. The operator watches
    /// them, and the generated role allows it. Requests wait until the cache is filled, within the API server's timeout.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use windlass_runtime::{key::ObjectKey, webhook::{Denied, Request, Warnings, Webhook}};
    ///
    /// let webhook = Webhook::<ConfigMap>::new().reads::<Secret>().validate(
    ///     |request: &Request<ConfigMap>| -> Result<Warnings, Denied> {
    ///         let key = ObjectKey::namespaced(request.namespace.as_deref().unwrap_or_default(), &request.name);
    ///         match request.context()?.get::<Secret>(&key)? {
    ///             Some(_) => Err(Denied::new("there is a Secret of this name")),
    ///             None => Ok(Warnings::none()),
    ///         }
    ///     },
    /// );
    /// ```
    #[must_use]
    pub fn reads<W: Object<DynamicType: std::default::Default>>(self) -> Self {
        self.reads_from(Watch::<W>::new())
    }

    /// Like [`Webhook::reads`], for the objects of a scope, for metadata only, or for a kind that is known at run time.
    #[must_use]
    pub fn reads_from<W: Object>(mut self, watch: Watch<W>) -> Self {
        self.reads.push(watch.into_any());
        self
    }

    /// Returns the entries of webhook configurations: one for defaulting and one for validation, if there are handlers.
    pub fn describe(&self) -> Vec<Description> {
        let mut described = Vec::new();
        if !self.defaulters.is_empty() {
            described.push(self.describe_as(Endpoint::Mutating));
        }
        if !self.validators.is_empty() {
            described.push(self.describe_as(Endpoint::Validating));
        }
        described
    }

    fn describe_as(&self, endpoint: Endpoint) -> Description {
        let (verb, path, calls) = match endpoint {
            Endpoint::Mutating => ("mutate", &self.settings.mutate_path, &self.settings.mutating),
            _ => ("validate", &self.settings.validate_path, &self.settings.validating),
        };
        let ApiResource { group, version, kind, plural, .. } = &self.resource;
        let distinction = path.as_deref().map(label).filter(|label| !label.is_empty());
        let distinction = distinction.map(|label| label + ".").unwrap_or_default();
        let path = path
            .clone()
            .unwrap_or_else(|| format!("/{verb}-{}-{version}-{}", group.replace('.', "-"), kind.to_lowercase()));
        // Deleted objects need no defaults.
        let operations = self.settings.operations.iter().copied();
        let operations =
            operations.filter(|operation| endpoint == Endpoint::Validating || *operation != Operation::Delete);
        let subresources = self.settings.subresources.iter().map(|name| format!("{plural}/{name}"));
        let domain = if group.is_empty() { "core" } else { group };
        Description {
            endpoint,
            name: format!("{distinction}{verb}.{plural}.{version}.{domain}"),
            path,
            group: group.clone(),
            versions: vec![version.clone()],
            kind: kind.clone(),
            rules: vec![Rule {
                groups: vec![group.clone()],
                versions: vec![version.clone()],
                resources: std::iter::once(plural.clone()).chain(subresources).collect(),
                operations: operations.collect(),
                scope: RuleScope::All,
            }],
            calls: calls.clone(),
        }
    }

    /// Deserializes the request. A request for another kind means that a webhook configuration is wrong.
    fn read(
        &self,
        request: &AdmissionRequest,
        endpoint: Endpoint,
        context: Option<&Context>,
    ) -> Result<Arc<Request<K>>, Denied> {
        let ApiResource { group, version, kind, .. } = &self.resource;
        let asked = &request.kind;
        if (group, version, kind) != (&asked.group, &asked.version, &asked.kind) {
            let asked = format!("{} of {}/{}", asked.kind, asked.group, asked.version);
            return Err(Denied::bad_request(format!("this webhook handles {kind} of {group}/{version}, not {asked}")));
        }
        Request::decode(request, endpoint, context).map(Arc::new)
    }

    async fn mutate(&self, request: &AdmissionRequest, context: Option<&Context>) -> Result<Patch, Denied> {
        let typed = self.read(request, Endpoint::Mutating, context)?;
        let Some(mut object) = typed.object.clone() else { return Ok(Patch::default()) };
        let before = serde_json::to_value(&object)?;
        for defaulter in &self.defaulters {
            object = defaulter(object, typed.clone()).await?;
        }
        let target = patch::transfer(&request.object, &before, &serde_json::to_value(&object)?);
        Ok(patch::diff(&request.object, &target))
    }

    async fn judge(&self, request: &AdmissionRequest, context: Option<&Context>) -> Result<Warnings, Denied> {
        let typed = self.read(request, Endpoint::Validating, context)?;
        let mut warnings = Warnings::none();
        for validator in &self.validators {
            match validator(typed.clone()).await {
                Ok(more) => warnings.extend(more),
                Err(denied) => return Err(denied.warnings(warnings)),
            }
        }
        Ok(warnings)
    }
}

impl<K: Object> std::fmt::Debug for Webhook<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("resource", &self.resource)
            .field("defaulters", &self.defaulters.len())
            .field("validators", &self.validators.len())
            .finish_non_exhaustive()
    }
}

/// Converts a path to a part of a domain name.
pub(super) fn label(path: &str) -> String {
    let letters = path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    letters.collect::<String>().trim_matches('-').to_ascii_lowercase()
}

/// A type-erased [`Webhook`].
pub(super) trait Admission: Send + Sync {
    fn admit<'a>(
        &'a self,
        endpoint: Endpoint,
        request: &'a AdmissionRequest,
        context: Option<&'a Context>,
    ) -> BoxFuture<'a, AdmissionResponse>;
}

impl<K: Object> Admission for Webhook<K> {
    fn admit<'a>(
        &'a self,
        endpoint: Endpoint,
        request: &'a AdmissionRequest,
        context: Option<&'a Context>,
    ) -> BoxFuture<'a, AdmissionResponse> {
        async move {
            let answer = match endpoint {
                Endpoint::Mutating => self.mutate(request, context).await.map(|patch| (patch, Warnings::none())),
                _ => self.judge(request, context).await.map(|warnings| (Patch::default(), warnings)),
            };
            respond(request, answer)
        }
        .boxed()
    }
}

/// Returns the response to a request.
pub(super) fn respond(request: &AdmissionRequest, answer: Result<(Patch, Warnings), Denied>) -> AdmissionResponse {
    match answer {
        Ok((patch, warnings)) => AdmissionResponse::allowed(&request.uid, warnings.into_inner()).patched(&patch),
        Err(denied) => deny(request, denied),
    }
}

/// Returns the response that denies a request.
pub(super) fn deny(request: &AdmissionRequest, denied: Denied) -> AdmissionResponse {
    let generated = request.object.pointer("/metadata/generateName").and_then(Value::as_str).unwrap_or_default();
    let name = if request.name.is_empty() { generated } else { &request.name };
    let subject = Subject { group: &request.kind.group, kind: &request.kind.kind, name };
    let (status, warnings) = denied.into_parts(&subject);
    AdmissionResponse::denied(&request.uid, status, warnings)
}
