//! The path of a request: authentication, authorization, the verb's handler, and the response in the accepted form.

mod context;
mod path;
mod scope;
pub(crate) mod time_limit;

use std::{
    convert::Infallible,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, Uri, Version, request::Parts};
use http_body_util::BodyExt as _;
use tracing::{error, warn};
use windlass_store::Revision;

use self::{
    context::{Context, Facts, ParsedRequest},
    scope::{check_name, check_scope, has_tables},
    time_limit::{WRITE_TIMEOUT, hold_seat},
};
use crate::{
    aggregation::{self, Entry},
    audit::{self, RequestAudit},
    authentication::{
        Notices,
        impersonation::{self, Impersonated},
    },
    authorization::{self, Action, Attributes},
    body::Body,
    call::{Answer, Call, Warnings, is_proxied},
    computed,
    connections::Peer,
    deprecation,
    flow_control::{self, Digest, Target, Width},
    health,
    metrics::Served,
    negotiate::{self, Offer, Representation},
    old_definitions, policies,
    query::{Query, unescape_path},
    represent,
    request_info::RequestInfo,
    server::{BoxError, Inner},
    status::{ApiError, Result},
    subresource,
    upload::AnyBody,
    user::User,
    verb::Verb,
    verbs, webhooks,
    write::convert::PendingConversions,
};

impl Inner {
    /// Handles a request of a client, or of this process without a peer. Failures are responses, too.
    pub(crate) async fn handle<B>(self: &Arc<Self>, request: Request<B>, peer: Option<&Peer>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        self.handle_any(parts, peer, pin!(body.map_err(Into::into))).await
    }

    /// [`Inner::handle`] for other crates, and for requests of the server itself. Neither generic nor async: the code of
    /// an async function is compiled again in each crate that awaits it, with the level of optimization of that crate,
    /// and each caller that boxes or spawns it proves again that all its parts are [`Send`].
    #[inline(never)]
    pub(crate) fn handle_boxed(
        self: Arc<Self>,
        parts: Parts,
        mut body: Pin<Box<AnyBody<'static>>>,
    ) -> BoxFuture<'static, std::result::Result<Response<Body>, Infallible>> {
        Box::pin(async move { Ok(self.handle_any(parts, None, body.as_mut()).await) })
    }

    /// Handles a request. Not generic, so that the path of a request is compiled once, and not for every type of body.
    async fn handle_any(
        self: &Arc<Self>,
        parts: Parts,
        peer: Option<&Peer>,
        body: Pin<&mut AnyBody<'_>>,
    ) -> Response<Body> {
        let mut served = self.metrics.begin();
        let audit_id = audit::id(&parts.headers);
        let mut facts = Facts::default();
        let audit = self.audit.begin(&audit_id, peer.and_then(|peer| peer.address));
        let context = Context { parts: &parts, peer, audit: audit.as_ref(), audit_id: &audit_id };
        let answer = {
            // Constructed in place: an enclosing future would move it.
            let mut answering = pin!(self.answer(context, body, &mut served, &mut facts));
            poll_fn(|context| {
                let polled = catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(context)));
                polled.unwrap_or_else(|_| Poll::Ready(Err(panicked(&parts, audit.as_ref()))))
            })
            .await
        };
        let timed_out = answer.as_ref().is_err_and(|error| error.timed_out);
        let mut response = answer.unwrap_or_else(|error| self.failure(context, &error));
        // The handler's headers do not apply to the response that replaces its own.
        if let Some(class) = facts.class.as_ref().filter(|_| !timed_out) {
            class.add_headers(response.headers_mut());
        }
        if !timed_out {
            let warnings = facts.warnings.iter().map(|warning| (*warning).to_owned());
            represent::add_warnings(response.headers_mut(), &warnings.collect::<Vec<_>>());
        }
        response.headers_mut().entry(audit::ID).or_insert(audit_id);
        let unknown = facts.user.is_none_or(|user| user.is_unauthenticated());
        if parts.version == Version::HTTP_2
            && unknown
            && let Some(peer) = peer
        {
            // As in kube-apiserver: HTTP/2 is expensive, so unauthenticated clients get one response per connection.
            peer.connection.drain();
        }
        served.end(response.status());
        if let Some(audit) = audit {
            audit.respond(&parts, &mut response).boxed().await;
        }
        response
    }

    /// Handles a request, and sets the facts about it.
    async fn answer(
        self: &Arc<Self>,
        context: Context<'_>,
        body: Pin<&mut AnyBody<'_>>,
        served: &mut Served<'_>,
        facts: &mut Facts,
    ) -> Result<Response<Body>> {
        let Context { parts, peer, audit, .. } = context;
        let path = unescape_path(parts.uri.path()).ok_or_else(|| ApiError::bad_request("the path is malformed"))?;
        let path = &*path;
        let query = Query::parse(parts.uri.query());
        let info = RequestInfo::from_path(path);
        let limit = time_limit::of(&info, &parts.method, &query, self.limits.request_timeout).inspect_err(|error| {
            if let Some(audit) = audit {
                audit.rejected(parts, error);
            }
        })?;
        let mut notices = Notices::new(audit);
        let user = self.authenticate(parts, peer, path, &mut notices).await;
        facts.warnings = notices.warnings;
        let requester = &*facts.user.insert(user?);
        if let Some(audit) = audit {
            audit.authenticated(parts, requester).boxed().await?;
        }
        let wanted = impersonation::wanted(&parts.headers)?;
        match info {
            RequestInfo::Path(path) => {
                let method = parts.method.as_str().to_lowercase();
                let action = Action::Path { verb: &method, path };
                let user = match wanted {
                    None => requester,
                    Some(wanted) => {
                        let user = self.impersonate(requester, &wanted, &action, audit).boxed().await?;
                        &facts.impersonated.insert(user).user
                    }
                };
                let digest = Digest { user, target: Target::Path { verb: &method, path } };
                let class = facts.class.insert(self.flow_control.classify(&digest));
                self.authorize(&Attributes { user, action }, &parts.uri, audit).await?;
                // Health checks must be answered especially when there is too much to do.
                if health::is_health_path(path) {
                    return self.path(context, path).await;
                }
                let _seat = self.flow_control.enter(class, &digest, Width::One, limit.patience()).await?;
                if let Some(remote) = self.aggregation.remote_of_path(path) {
                    let request = context.forwarded(Bytes::new(), user, false);
                    return Ok(remote.forward(self, request).boxed().await);
                }
                self.path(context, path).await
            }
            RequestInfo::Resource(target) => {
                let verb = target.verb(&parts.method, &query);
                let action = Action::of(verb, &target, &query);
                let user = match wanted {
                    None => requester,
                    Some(wanted) => {
                        let user = self.impersonate(requester, &wanted, &action, audit).boxed().await?;
                        &facts.impersonated.insert(user).user
                    }
                };
                if verb == Verb::Watch || !target.is_long_running() {
                    facts.class = Some(self.flow_control.classify(&Digest::of(user, verb, &target)));
                }
                self.authorize(&Attributes { user, action }, &parts.uri, audit).await?;
                // A pod may take any time.
                let is_proxy = target.group.is_empty() && target.subresource == "proxy";
                let request = ParsedRequest { user, target, query, verb, class: facts.class.as_ref(), limit };
                // A time limit would move it.
                let work = pin!(self.resource(context, request, body, served));
                if verb == Verb::Watch || is_proxy {
                    return work.await;
                }
                tokio::time::timeout_at(limit.deadline, work).await.unwrap_or_else(|_| Err(ApiError::timed_out()))
            }
        }
    }

    /// Returns the user that a request acts as.
    async fn impersonate(
        &self,
        requester: &User,
        wanted: &User,
        action: &Action<'_>,
        audit: Option<&Arc<RequestAudit>>,
    ) -> Result<Impersonated> {
        let modes = &self.authentication.impersonation;
        let impersonated = modes.impersonate(&*self.authorizer, requester, wanted, action).await?;
        if let Some(audit) = audit {
            audit.impersonated(&impersonated.user, impersonated.constraint);
        }
        Ok(impersonated)
    }

    async fn authorize(&self, request: &Attributes<'_>, uri: &Uri, audit: Option<&Arc<RequestAudit>>) -> Result<()> {
        let decision = self.authorizer.authorize(request).decide().await;
        if let Some(audit) = audit {
            audit.authorized(&decision);
        }
        match (decision.is_allowed(), &decision.error) {
            (true, _) => Ok(()),
            (false, Some(error)) => Err(ApiError::undecided(uri, error)),
            (false, None) => Err(authorization::forbidden(request, &decision.reason)),
        }
    }

    async fn resource(
        self: &Arc<Self>,
        context: Context<'_>,
        request: ParsedRequest<'_>,
        body: Pin<&mut AnyBody<'_>>,
        served: &mut Served<'_>,
    ) -> Result<Response<Body>> {
        if let Some(remote) = self.aggregation.remote(request.target.group, request.target.version) {
            return self.forward(context, request, body, &remote).boxed().await;
        }
        let Context { parts, peer, audit, .. } = context;
        let ParsedRequest { user, target, query, verb, class, limit } = request;
        let registry = self.registry.load();
        if let Some(only) = &self.only_groups
            && peer.is_some()
            && !only.iter().any(|group| group == target.group)
        {
            return Err(ApiError::page_not_found());
        }
        let endpoint = registry.endpoint(target.group, target.version, target.resource);
        let endpoint = endpoint.ok_or_else(|| match registry.has_builtin_group(target.group) {
            true => ApiError::no_such_resource(),
            false => ApiError::page_not_found(),
        })?;
        let resource = &*endpoint.resource;
        check_scope(endpoint, &target, &parts.method)?;
        let custom = endpoint.custom();
        let subresource = match target.subresource {
            "" => None,
            name => Some(resource.subresource(name).ok_or_else(|| match custom {
                Some(_) => ApiError::not_found(&resource.plural, &resource.group, target.name),
                None => ApiError::no_such_resource(),
            })?),
        };
        served.describe(verb, endpoint, subresource);
        let verbs = subresource.map_or(&resource.verbs, |sub| &sub.verbs);
        let proxied = is_proxied(endpoint, &target);
        let allowed = verbs.contains(&verb) || (proxied && parts.method == Method::OPTIONS);
        let named_create = verb == Verb::Create && !target.name.is_empty() && subresource.is_none();
        let unnamed = target.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch);
        match custom {
            Some(_) if !allowed => return Err(ApiError::verb_not_supported(verb, &resource.plural, &resource.group)),
            Some(_) if unnamed => return Err(ApiError::bad_request("name must be provided")),
            None if !allowed && verb == Verb::Watch && resource.has_verb(Verb::List) => {
                return Err(ApiError::verb_not_supported(verb, &resource.plural, &resource.group));
            }
            None if !allowed || named_create || unnamed => return Err(ApiError::method_not_allowed()),
            _ if parts.method == Method::HEAD && !proxied => return Err(ApiError::method_not_allowed()),
            _ => check_name(verb, target.name)?,
        }
        let (tables, streams) = (has_tables(endpoint, target.subresource), verb == Verb::List);
        let offer = Offer { custom: custom.is_some(), tables, streams };
        let accepted = match proxied {
            // The pod decides.
            true => Ok(Representation::plain()),
            false => negotiate::accept(&parts.headers, verb == Verb::Watch, parts.uri.query(), offer),
        };
        // The error has the warnings of the resource.
        let (accept, refused) = match accepted {
            Ok(accept) => (accept, None),
            Err(error) => (Representation::plain(), Some(error)),
        };
        let reading = self.uploads.read(&parts.method, body, user, peer.is_some());
        let reading = tokio::time::timeout_at(limit.deadline, reading).await;
        let (body, _charge) = reading.unwrap_or_else(|_| Err(ApiError::timed_out()))?;
        // After the body, so that a slow client occupies no seat.
        let seat = match class {
            Some(class) => {
                let width = Width::Resource { verb, cache: &endpoint.cache, query: &query };
                Some(self.flow_control.enter(class, &Digest::of(user, verb, &target), width, limit.patience()).await?)
            }
            None => None,
        };
        let call = Call {
            server: self,
            endpoint,
            target,
            subresource,
            query,
            headers: &parts.headers,
            parts: Some(parts),
            peer,
            user,
            verb,
            body,
            accept,
            upgrade: parts.extensions.get().cloned(),
            warnings: Warnings::default(),
            audit,
            calls_webhooks: true,
            conversions: PendingConversions::default(),
        };
        let deprecation = deprecation::of(resource);
        let warning = deprecation.as_ref().map(|deprecation| deprecation.warning(resource));
        let warning = warning.or_else(|| custom?.warning.clone());
        if let Some(warning) = warning {
            call.warnings.add(warning);
            if let Some(audit) = audit {
                audit.annotate("k8s.io/deprecated", "true");
                if let Some(release) = deprecation.and_then(|deprecation| deprecation.removed_release) {
                    audit.annotate("k8s.io/removed-release", release);
                }
            }
        }
        let is_write = matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete);
        let work = async {
            match refused {
                Some(error) => Err(error),
                None => dispatch(&call, verb).await,
            }
        };
        let answer = match is_write && !call.target.is_long_running() {
            true => tokio::time::timeout(WRITE_TIMEOUT, work).await.unwrap_or_else(|_| Err(ApiError::unfinished())),
            false => work.await,
        };
        if !verb.is_read()
            && let Ok(answer) = &answer
        {
            let written = if let Answer::Stored { object, .. } = answer { Some(object.revision) } else { None };
            self.take_effect(&call, written).await?;
        }
        let warnings = call.warnings.take();
        let mut response = match answer.and_then(|answer| represent::answer(&call, answer)) {
            Ok(response) => response,
            Err(error) => self.failure(context, &error),
        };
        represent::add_warnings(response.headers_mut(), &warnings);
        if verb != Verb::Watch
            && matches!(response.body(), Body::Stream(_))
            && let Some(seat) = seat
        {
            hold_seat(context, &mut response, seat, limit.deadline);
        }
        Ok(response)
    }

    /// Handles a request for a resource of another server.
    async fn forward(
        self: &Arc<Self>,
        context: Context<'_>,
        request: ParsedRequest<'_>,
        body: Pin<&mut AnyBody<'_>>,
        remote: &Entry,
    ) -> Result<Response<Body>> {
        let ParsedRequest { user, target, verb, class, limit, .. } = request;
        let parts = context.parts;
        let limited = context.peer.is_some();
        let (body, _charge) = self.uploads.read(&parts.method, body, user, limited).await?;
        let _seat = match class {
            Some(class) => Some(
                self.flow_control.enter(class, &Digest::of(user, verb, &target), Width::One, limit.patience()).await?,
            ),
            None => None,
        };
        let long_running = verb == Verb::Watch || target.is_long_running();
        Ok(remote.forward(self, context.forwarded(body, user, long_running)).await)
    }

    /// Returns the response to a request that failed.
    fn failure(&self, context: Context<'_>, error: &ApiError) -> Response<Body> {
        let Context { parts, audit, .. } = context;
        self.log_failure(error, &parts.method, &parts.uri);
        if let Some(audit) = audit {
            audit.failed(error);
        }
        represent::error(&parts.headers, &parts.uri, error)
    }

    fn log_failure(&self, error: &ApiError, method: &Method, uri: &Uri) {
        if error.code.is_server_error() {
            warn!(%method, path = uri.path(), code = error.code.as_u16(), cause = error.cause.as_deref(), "{error}");
        } else if error.code == StatusCode::UNAUTHORIZED
            && let Some(cause) = &error.cause
        {
            self.authentication.failures.log(cause);
        }
    }

    /// Waits until a write of a CustomResourceDefinition, an APIService, a webhook configuration, an admission policy
    /// or its binding, a role or binding, or an object of flow control is effective, which also happens if the request
    /// ends early.
    async fn take_effect(&self, call: &Call<'_>, written: Option<Revision>) -> Result<()> {
        if call.is_definition() && call.subresource.is_none() {
            let revision = match written {
                Some(revision) => revision,
                None => {
                    self.storage.fresh().await?;
                    // Not the newest revision of all: the task only handles changes of CRDs.
                    call.endpoint.cache.snapshot().revision
                }
            };
            self.definitions.reached(revision).await;
        } else if webhooks::is_configuration(call.endpoint)
            || policies::is_configuration(call.endpoint)
            || aggregation::is_configuration(call.endpoint)
            || flow_control::is_configuration(call.endpoint)
            || authorization::rbac::is_configuration(call.endpoint)
        {
            self.storage.fresh().await?;
        }
        Ok(())
    }
}

async fn dispatch(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    // The most frequent request has a small future; the others have large ones, which are boxed so that they are not
    // moved.
    let computed = call.endpoint.custom().and_then(|custom| custom.computed.as_deref());
    if let Some(objects) = computed {
        return computed::answer(call, verb, objects).boxed().await;
    }
    if verb == Verb::Get && call.subresource.is_none() && !call.is_core("componentstatuses") {
        return verbs::read::get(call).await;
    }
    dispatch_any(call, verb).boxed().await
}

async fn dispatch_any(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    // Otherwise, a write would wait for the caches until its time limit.
    if !matches!(verb, Verb::Get | Verb::List | Verb::Watch) {
        call.server.storage.check_current()?;
    }
    if let Some(answer) = subresource::dispatch(call, verb).await {
        return answer;
    }
    if let Some(answer) = old_definitions::dispatch(call, verb).await {
        return answer;
    }
    match verb {
        Verb::Get => verbs::read::get(call).await,
        Verb::List => verbs::read::list(call).await,
        Verb::Watch => verbs::watch::watch(call).await,
        Verb::Create => verbs::create::create(call).await,
        Verb::Update => verbs::update::update(call).await,
        Verb::Patch => verbs::patch::patch(call).await,
        Verb::Delete => verbs::delete::delete(call).await,
        Verb::DeleteCollection => verbs::delete::delete_collection(call).await,
        Verb::Unknown => Err(ApiError::method_not_allowed()),
    }
}

/// Returns the error of a request whose handler panicked.
fn panicked(parts: &Parts, audit: Option<&Arc<RequestAudit>>) -> ApiError {
    error!(method = %parts.method, path = parts.uri.path(), "a request panicked");
    if let Some(audit) = audit {
        audit.panicked();
    }
    ApiError::panicked()
}
