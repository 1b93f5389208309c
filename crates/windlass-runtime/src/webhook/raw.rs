//! Webhooks for objects of any kind.

use std::{future::Future, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use super::{
    Answer, CallOptions, Denied, Request, Rule, Warnings,
    admission::{Admission, label, respond},
    describe::{Description, Endpoint},
    patch::{self, Patch},
    review::{AdmissionRequest, AdmissionResponse},
};
use crate::{
    context::Context,
    controller::{AnyWatch, Watch},
    object::Object,
};

/// An admission request with the objects as they were sent.
pub type RawRequest = Request<Value>;

type Mutate = Box<dyn Fn(Value, Arc<RawRequest>) -> BoxFuture<'static, Result<Value, Denied>> + Send + Sync>;
type Validate = Box<dyn Fn(Arc<RawRequest>) -> BoxFuture<'static, Result<Warnings, Denied>> + Send + Sync>;

/// Defaulting and validation of requests for objects of any kind: several kinds at once, kinds without a Rust type,
/// subresources, and connections such as `kubectl exec`. Objects are JSON.
///
/// ```
/// use serde_json::{Value, json};
/// use windlass_runtime::webhook::{Denied, Operation, RawRequest, RawWebhook, Rule, Warnings};
///
/// let owners = RawWebhook::new("owners", [Rule::new("apps", "*"), Rule::new("batch", "jobs")])
///     .mutate(|object: &mut Value, request: &RawRequest| {
///         let user = request.user.username.clone().unwrap_or_default();
///         object["metadata"]["annotations"]["example.com/changed-by"] = json!(user);
///     });
/// let shells = RawWebhook::new("shells", [Rule::new("", "pods/exec").operations([Operation::Connect])])
///     .validate(|request: &RawRequest| -> Result<Warnings, Denied> {
///         match request.namespace.as_deref() {
///             Some("production") => Err(Denied::new("no shells in production")),
///             _ => Ok(Warnings::none()),
///         }
///     });
/// # let _ = (owners, shells);
/// ```
///
/// Handlers of the same type run in the order in which they were added; the first one that denies the request ends it.
pub struct RawWebhook {
    name: String,
    rules: Vec<Rule>,
    mutators: Vec<Mutate>,
    validators: Vec<Validate>,
    /// The kinds that the handlers read.
    pub(super) reads: Vec<AnyWatch>,
    mutating: CallOptions,
    validating: CallOptions,
}

impl RawWebhook {
    /// Creates a webhook without handlers. The name is unique within the operator: its paths are `/mutate-<name>` and
    /// `/validate-<name>`.
    pub fn new(name: &str, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            name: label(name),
            rules: rules.into_iter().collect(),
            mutators: Vec::new(),
            validators: Vec::new(),
            reads: Vec::new(),
            mutating: CallOptions::default(),
            validating: CallOptions::default(),
        }
    }

    /// Adds a handler that changes the new object. It is not called for deletions.
    #[must_use]
    pub fn mutate<F, R>(mut self, mutate: F) -> Self
    where
        F: Fn(&mut Value, &RawRequest) -> R + Send + Sync + 'static,
        R: Answer<()>,
    {
        self.mutators.push(Box::new(move |mut object, request| {
            let answer = mutate(&mut object, &request).answer();
            std::future::ready(answer.map(|()| object)).boxed()
        }));
        self
    }

    /// Like [`mutate`](Self::mutate), for an async closure, which gets the object and returns it.
    #[must_use]
    pub fn mutate_async<F, W, R>(mut self, mutate: F) -> Self
    where
        F: Fn(Value, Arc<RawRequest>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: Answer<Value> + 'static,
    {
        self.mutators.push(Box::new(move |object, request| mutate(object, request).map(Answer::answer).boxed()));
        self
    }

    /// Adds a handler that allows a request, with or without warnings, or denies it.
    #[must_use]
    pub fn validate<F, R>(mut self, validate: F) -> Self
    where
        F: Fn(&RawRequest) -> R + Send + Sync + 'static,
        R: Answer<Warnings>,
    {
        self.validators.push(Box::new(move |request| std::future::ready(validate(&request).answer()).boxed()));
        self
    }

    /// Like [`validate`](Self::validate), for an async closure.
    #[must_use]
    pub fn validate_async<F, W, R>(mut self, validate: F) -> Self
    where
        F: Fn(Arc<RawRequest>) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
        R: Answer<Warnings> + 'static,
    {
        self.validators.push(Box::new(move |request| validate(request).map(Answer::answer).boxed()));
        self
    }

    /// Declares that the handlers read objects of this kind from a cache; see [`Webhook::reads`](super::Webhook::reads).
    #[must_use]
    pub fn reads<W: Object<DynamicType: Default>>(self) -> Self {
        self.reads_from(Watch::<W>::new())
    }

    /// Like [`reads`](Self::reads), for the objects of a scope, for metadata only, or for a kind that is known at run
    /// time.
    #[must_use]
    pub fn reads_from<W: Object>(mut self, watch: Watch<W>) -> Self {
        self.reads.push(watch.into_any());
        self
    }

    /// Changes when and how the API server calls the handlers.
    #[must_use]
    pub fn calls(self, set: impl Fn(CallOptions) -> CallOptions) -> Self {
        self.mutating(&set).validating(&set)
    }

    /// Changes when and how the API server calls the handlers that change objects.
    #[must_use]
    pub fn mutating(mut self, set: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        self.mutating = set(std::mem::take(&mut self.mutating));
        self
    }

    /// Changes when and how the API server calls the handlers that validate.
    #[must_use]
    pub fn validating(mut self, set: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        self.validating = set(std::mem::take(&mut self.validating));
        self
    }

    /// Returns the entries of webhook configurations.
    pub fn describe(&self) -> Vec<Description> {
        let describe = |endpoint, verb: &str, calls: &CallOptions| Description {
            endpoint,
            name: format!("{verb}.{}.raw", self.name),
            path: format!("/{verb}-{}", self.name),
            group: String::new(),
            versions: Vec::new(),
            kind: String::new(),
            rules: self.rules.clone(),
            calls: calls.clone(),
        };
        let mut described = Vec::new();
        if !self.mutators.is_empty() {
            described.push(describe(Endpoint::Mutating, "mutate", &self.mutating));
        }
        if !self.validators.is_empty() {
            described.push(describe(Endpoint::Validating, "validate", &self.validating));
        }
        described
    }

    async fn change(&self, request: &AdmissionRequest, context: Option<&Context>) -> Result<Patch, Denied> {
        let raw = Arc::new(RawRequest::raw(request, context));
        let Some(mut object) = raw.object.clone() else { return Ok(Patch::default()) };
        for mutator in &self.mutators {
            object = mutator(object, raw.clone()).await?;
        }
        Ok(patch::diff(&request.object, &object))
    }

    async fn judge(&self, request: &AdmissionRequest, context: Option<&Context>) -> Result<Warnings, Denied> {
        let raw = Arc::new(RawRequest::raw(request, context));
        let mut warnings = Warnings::none();
        for validator in &self.validators {
            match validator(raw.clone()).await {
                Ok(more) => warnings.extend(more),
                Err(denied) => return Err(denied.warnings(warnings)),
            }
        }
        Ok(warnings)
    }
}

impl Admission for RawWebhook {
    fn admit<'a>(
        &'a self,
        endpoint: Endpoint,
        request: &'a AdmissionRequest,
        context: Option<&'a Context>,
    ) -> BoxFuture<'a, AdmissionResponse> {
        async move {
            let answer = match endpoint {
                Endpoint::Mutating => self.change(request, context).await.map(|patch| (patch, Warnings::none())),
                _ => self.judge(request, context).await.map(|warnings| (Patch::default(), warnings)),
            };
            respond(request, answer)
        }
        .boxed()
    }
}

impl std::fmt::Debug for RawWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawWebhook")
            .field("name", &self.name)
            .field("rules", &self.rules)
            .field("mutators", &self.mutators.len())
            .field("validators", &self.validators.len())
            .finish_non_exhaustive()
    }
}
