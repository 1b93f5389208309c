//! The path of a request: authentication, authorization, the verb's handler, and the response in the accepted form.

mod scope;
mod time_limit;

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, Version, request::Parts};
use http_body_util::BodyExt as _;
use tracing::warn;
use windlass_builtins::resource::Resource;
use windlass_store::Revision;

use self::{
    scope::{check_name, check_scope, has_tables},
    time_limit::{TimeLimit, hold_seat},
};
use crate::{
    aggregation::{self, Entry, Forwarded, Listing, RemoteDocuments},
    audit::RequestAudit,
    authentication::impersonation::{self, Impersonated},
    authorization::{self, Action, Attributes},
    blocking,
    body::Body,
    call::{Answer, Call, Warnings},
    computed,
    connections::Peer,
    discovery,
    flow_control::{self, Digest, Flow, Target, Width},
    health,
    metrics::Served,
    negotiate::{self, Offer},
    old_definitions, policies,
    query::{Query, unescape_path},
    represent,
    request_info::{RequestInfo, ResourceRequest},
    server::{BoxError, Inner},
    snapshot,
    status::{ApiError, Result},
    subresource,
    tokens::issuers::{self, CONFIGURATION_PATH, KEYS_PATH},
    upload::AnyBody,
    user::User,
    verb::Verb,
    verbs, webhooks,
    write::convert::PendingConversions,
};

/// The time limit of requests other than watches.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Inner {
    /// Answers a request. Failures are answers too.
    pub(crate) async fn handle<B>(self: &Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        self.handle_any(parts, pin!(body.map_err(Into::into))).await
    }

    /// Answers a request. Not generic, so that the path of a request is compiled once, and not for every type of body.
    async fn handle_any(self: &Arc<Self>, parts: Parts, body: Pin<&mut AnyBody<'_>>) -> Response<Body> {
        let mut served = self.metrics.begin();
        let mut facts = Facts::default();
        let audit = self.audit.begin(&parts);
        let answer = self.answer(&parts, body, &mut served, &mut facts, audit.as_ref()).await;
        let mut response = answer.unwrap_or_else(|error| failure(&parts, &error, audit.as_ref()));
        if let Some(flow) = &facts.flow {
            flow.add_headers(response.headers_mut());
        }
        if let Some(warning) = facts.warning {
            represent::add_warnings(response.headers_mut(), &[warning.to_owned()]);
        }
        let unknown = facts.user.is_none_or(|user| user.is_unauthenticated());
        if parts.version == Version::HTTP_2
            && unknown
            && let Some(peer) = parts.extensions.get::<Peer>()
        {
            // As kube-apiserver does: HTTP/2 is expensive, and clients that it does not know get one response.
            peer.connection.drain();
        }
        served.end(response.status());
        if let Some(audit) = audit {
            Box::pin(audit.respond(&parts, &mut response)).await;
        }
        response
    }

    /// Answers a request, and sets the facts about it.
    async fn answer(
        self: &Arc<Self>,
        parts: &Parts,
        body: Pin<&mut AnyBody<'_>>,
        served: &mut Served<'_>,
        facts: &mut Facts,
        audit: Option<&Arc<RequestAudit>>,
    ) -> Result<Response<Body>> {
        let path = unescape_path(parts.uri.path()).ok_or_else(|| ApiError::bad_request("the path is malformed"))?;
        let path = &*path;
        let identified = self.authenticate(parts, path).await?;
        facts.warning = identified.warning;
        let requester = &*facts.user.insert(identified.user);
        if let Some(audit) = audit {
            Box::pin(audit.authenticated(parts, requester)).await?;
        }
        let wanted = impersonation::wanted(&parts.headers)?;
        match RequestInfo::from_path(path) {
            RequestInfo::Path(path) => {
                let method = parts.method.as_str().to_lowercase();
                let action = Action::Path { verb: &method, path };
                let user = match wanted {
                    None => requester,
                    Some(wanted) => {
                        let user = Box::pin(self.impersonate(requester, &wanted, &action, audit)).await?;
                        &facts.impersonated.insert(user).user
                    }
                };
                let digest = Digest { user, target: Target::Path { verb: &method, path } };
                let flow = facts.flow.insert(self.flow_control.classify(&digest));
                self.authorize(&Attributes { user, action }, &parts.uri, audit).await?;
                // Health checks must be answered especially when there is too much to do.
                if health::is_health_path(path) {
                    return self.path(parts, path, audit).await;
                }
                let _seat = self.flow_control.enter(flow, &digest, Width::One, TIMEOUT / 4).await?;
                if let Some(remote) = self.aggregation.remote_of_path(path) {
                    let request = Forwarded { parts, body: Bytes::new(), user, long_running: false, audit };
                    return Ok(Box::pin(remote.forward(self, request)).await);
                }
                self.path(parts, path, audit).await
            }
            RequestInfo::Resource(target) => {
                let query = Query::parse(parts.uri.query());
                let verb = target.verb(&parts.method, &query);
                let action = Action::of(verb, &target, &query);
                let user = match wanted {
                    None => requester,
                    Some(wanted) => {
                        let user = Box::pin(self.impersonate(requester, &wanted, &action, audit)).await?;
                        &facts.impersonated.insert(user).user
                    }
                };
                if verb == Verb::Watch || !target.is_long_running() {
                    facts.flow = Some(self.flow_control.classify(&Digest::of(user, verb, &target)));
                }
                self.authorize(&Attributes { user, action }, &parts.uri, audit).await?;
                let limit = TimeLimit::new(timeout(&query)?);
                let request = ParsedRequest { user, target, query, verb, flow: facts.flow.as_ref(), limit, audit };
                let work = self.resource(parts, request, body, served);
                if verb == Verb::Watch {
                    return work.await;
                }
                tokio::time::timeout_at(limit.deadline, work)
                    .await
                    .unwrap_or_else(|_| Err(ApiError::timeout("request did not complete within the allotted timeout")))
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

    /// Answers requests for paths that are not a resource's.
    async fn path(
        self: &Arc<Self>,
        parts: &Parts,
        path: &str,
        audit: Option<&Arc<RequestAudit>>,
    ) -> Result<Response<Body>> {
        if health::is_health_path(path) && !path.ends_with('/') {
            return Ok(health::answer(self, path, &Query::parse(parts.uri.query())).await);
        }
        let registry = self.registry.load_full();
        if !scope::serves_method(path, &parts.method) {
            let listing = Listing::new(&registry, self);
            let unknown = || discovery::answer(&listing, path, &parts.headers, &parts.uri).err();
            return Err(scope::method_error(path, unknown));
        }
        match path.trim_end_matches('/') {
            // Only the paths of a router ignore a slash at the end.
            "/metrics" | "/openapi/v2" | "/openapi/v3" if path.ends_with('/') => Err(ApiError::page_not_found()),
            "/version" => health::version_answer(&parts.headers),
            snapshot::PATH if parts.method == Method::GET => snapshot::answer(self).await,
            "/metrics" => Ok(represent::text(StatusCode::OK, self.metrics.render(self))),
            CONFIGURATION_PATH | KEYS_PATH if parts.method == Method::GET => {
                issuers::answer(self, path.trim_end_matches('/'), &parts.headers)
            }
            "" | "/index.html" => {
                Ok(represent::json(StatusCode::OK, &discovery::paths(&Listing::new(&registry, self))))
            }
            path if path.starts_with("/openapi/") => {
                if let Some(remote) = self.remote_document(path) {
                    let user = &User::aggregator();
                    let request = Forwarded { parts, body: Bytes::new(), user, long_running: false, audit };
                    return Ok(remote.document(self, request).await);
                }
                let remote = match path {
                    "/openapi/v2" => Box::pin(RemoteDocuments::read(self)).await,
                    _ => RemoteDocuments::indexed(&self.aggregation),
                };
                blocking::run(|| {
                    let only = self.only_groups.as_deref();
                    self.openapi.answer(&registry, &remote, only, path, &parts.headers)
                })
            }
            path if path.starts_with("/api") => {
                let listing = Listing::new(&registry, self);
                let response = discovery::answer(&listing, path, &parts.headers, &parts.uri)?;
                if let Some(audit) = audit {
                    audit.response_body(&response);
                }
                Ok(response)
            }
            _ => Err(ApiError::page_not_found()),
        }
    }

    /// Returns the server of an OpenAPI document of version 3, if that is another one.
    fn remote_document(&self, path: &str) -> Option<Arc<Entry>> {
        self.aggregation.remote_of_path(path.strip_prefix("/openapi/v3")?)
    }

    async fn resource(
        self: &Arc<Self>,
        parts: &Parts,
        request: ParsedRequest<'_>,
        body: Pin<&mut AnyBody<'_>>,
        served: &mut Served<'_>,
    ) -> Result<Response<Body>> {
        if let Some(remote) = self.aggregation.remote(request.target.group, request.target.version) {
            return Box::pin(self.forward(parts, request, body, &remote)).await;
        }
        let ParsedRequest { user, target, query, verb, flow, limit, audit } = request;
        let registry = self.registry.load_full();
        if let Some(only) = &self.only_groups
            && parts.extensions.get::<Peer>().is_some()
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
        served.describe(verb, resource, subresource);
        let verbs = subresource.map_or(&resource.verbs, |sub| &sub.verbs);
        let allowed = verbs.iter().any(|have| **have == *verb.as_str());
        let named_create = verb == Verb::Create && !target.name.is_empty() && subresource.is_none();
        let unnamed = target.name.is_empty() && matches!(verb, Verb::Update | Verb::Patch);
        match custom {
            Some(_) if !allowed => return Err(ApiError::verb_not_supported(verb, &resource.plural, &resource.group)),
            Some(_) if unnamed => return Err(ApiError::bad_request("name must be provided")),
            None if !allowed || named_create || unnamed => return Err(ApiError::method_not_allowed()),
            _ if parts.method == Method::HEAD => return Err(ApiError::method_not_allowed()),
            _ => check_name(verb, target.name)?,
        }
        let (tables, streams) = (has_tables(endpoint, target.subresource), verb == Verb::List);
        let offer = Offer { custom: custom.is_some(), tables, streams };
        let accept = negotiate::accept(&parts.headers, verb == Verb::Watch, parts.uri.query(), offer)?;
        let limited = parts.extensions.get::<Peer>().is_some();
        let (body, _charge) = self.uploads.read(&parts.method, body, user, limited).await?;
        // After the body, so that a slow client occupies no seat.
        let seat = match flow {
            Some(flow) => {
                let width = Width::Resource { verb, cache: &endpoint.cache, query: &query };
                Some(self.flow_control.enter(flow, &Digest::of(user, verb, &target), width, limit.patience()).await?)
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
            user,
            body,
            accept,
            upgrade: parts.extensions.get().cloned(),
            warnings: Warnings::default(),
            audit,
            calls_webhooks: true,
            conversions: PendingConversions::default(),
        };
        let deprecated = deprecated(resource).or_else(|| custom?.warning.as_deref());
        if let Some(warning) = deprecated {
            call.warnings.add(warning);
            if let Some(audit) = audit {
                audit.annotate("k8s.io/deprecated", "true");
            }
        }
        let answer = dispatch(&call, verb).await;
        if !verb.is_read()
            && let Ok(answer) = &answer
        {
            let written = if let Answer::Stored { object, .. } = answer { Some(object.revision) } else { None };
            self.take_effect(&call, written).await?;
        }
        let warnings = call.warnings.take();
        let mut response = match answer.and_then(|answer| represent::answer(&call, answer)) {
            Ok(response) => response,
            Err(error) => failure(parts, &error, audit),
        };
        represent::add_warnings(response.headers_mut(), &warnings);
        if verb != Verb::Watch
            && matches!(response.body(), Body::Stream(_))
            && let Some(seat) = seat
        {
            hold_seat(parts, &mut response, seat, limit.deadline);
        }
        Ok(response)
    }

    /// Answers a request for a resource of another server.
    async fn forward(
        self: &Arc<Self>,
        parts: &Parts,
        request: ParsedRequest<'_>,
        body: Pin<&mut AnyBody<'_>>,
        remote: &Entry,
    ) -> Result<Response<Body>> {
        let ParsedRequest { user, target, verb, flow, limit, audit, .. } = request;
        let limited = parts.extensions.get::<Peer>().is_some();
        let (body, _charge) = self.uploads.read(&parts.method, body, user, limited).await?;
        let _seat = match flow {
            Some(flow) => Some(
                self.flow_control.enter(flow, &Digest::of(user, verb, &target), Width::One, limit.patience()).await?,
            ),
            None => None,
        };
        let long_running = verb == Verb::Watch || target.is_long_running();
        Ok(remote.forward(self, Forwarded { parts, body, user, long_running, audit }).await)
    }

    /// Waits until a write of a CustomResourceDefinition, an APIService, a webhook configuration, an admission policy or its
    /// binding, a role or binding, or an object of flow control is effective, which it becomes without the request as well.
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

/// Returns the warning that every response of a deprecated API carries.
fn deprecated(resource: &Resource) -> Option<&str> {
    match (&*resource.group, &*resource.plural) {
        ("", "endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        (group, _) if old_definitions::is_version(group, &resource.version) => Some(old_definitions::DEPRECATED),
        _ => None,
    }
}

/// Returns the time limit of a request: the client's, up to the server's own limit.
pub(crate) fn timeout(query: &Query<'_>) -> Result<Duration> {
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(TIMEOUT);
    }
    let nanoseconds = windlass_schema::time::parse_duration(text)
        .map_err(|error| ApiError::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    let asked = u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0);
    Ok(asked.map_or(TIMEOUT, |nanoseconds| Duration::from_nanos(nanoseconds).min(TIMEOUT)))
}

/// What becomes known about a request while it is answered.
#[derive(Default)]
struct Facts {
    /// The user that sent it.
    user: Option<Arc<User>>,
    /// The user that it acts as, if that is another one.
    impersonated: Option<Impersonated>,
    /// The flow that it belongs to.
    flow: Option<Arc<Flow>>,
    /// A warning about its credentials.
    warning: Option<&'static str>,
}

/// A request for a resource, before its endpoint is known.
struct ParsedRequest<'a> {
    user: &'a User,
    target: ResourceRequest<'a>,
    query: Query<'a>,
    verb: Verb,
    /// `None` if the request is not limited.
    flow: Option<&'a Arc<Flow>>,
    limit: TimeLimit,
    audit: Option<&'a Arc<RequestAudit>>,
}

async fn dispatch(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    // The most frequent request has a small future; the others have large ones, which are boxed so that they are not
    // moved.
    let computed = call.endpoint.custom().and_then(|custom| custom.computed.as_deref());
    if let Some(objects) = computed {
        return Box::pin(computed::answer(call, verb, objects)).await;
    }
    if verb == Verb::Get && call.subresource.is_none() && !call.is_core("componentstatuses") {
        return verbs::read::get(call).await;
    }
    Box::pin(dispatch_any(call, verb)).await
}

async fn dispatch_any(call: &Call<'_>, verb: Verb) -> Result<Answer> {
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

/// Returns the response to a request that failed.
fn failure(parts: &Parts, error: &ApiError, audit: Option<&Arc<RequestAudit>>) -> Response<Body> {
    log_failure(error, &parts.method, &parts.uri);
    if let Some(audit) = audit {
        audit.failed(error);
    }
    represent::error(&parts.headers, &parts.uri, error)
}

fn log_failure(error: &ApiError, method: &Method, uri: &Uri) {
    if error.code.is_server_error() {
        warn!(%method, path = uri.path(), code = error.code.as_u16(), cause = error.cause.as_deref(), "{error}");
    }
}
