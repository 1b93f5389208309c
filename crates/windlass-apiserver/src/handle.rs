//! The path of a request: authentication, authorization, the verb's handler, and the response in the accepted form.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header, request::Parts};
use tracing::warn;
use windlass_builtins::resource::Resource;
use windlass_store::Revision;

use crate::{
    authorization::{self, Action, Attributes, Decision},
    blocking,
    body::Body,
    call::{Answer, Call, Warnings},
    connections::Peer,
    discovery,
    flow_control::{self, Digest, Flow, Target, Width},
    health,
    metrics::Served,
    negotiate, old_definitions,
    query::{Query, unescape_path},
    registry::Endpoint,
    represent,
    request_info::{RequestInfo, ResourceRequest},
    server::{BoxError, Inner},
    snapshot,
    status::{ApiError, Result},
    subresource, tokens,
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
        let mut served = self.metrics.begin();
        let mut flow = None;
        let answer = self.answer(&parts, body, &mut served, &mut flow).await;
        let mut response = answer.unwrap_or_else(|error| {
            log_failure(&error, &parts.method, &parts.uri);
            represent::error(&parts.headers, &parts.uri, &error)
        });
        if let Some(flow) = flow {
            flow.add_headers(response.headers_mut());
        }
        served.end(response.status());
        response
    }

    /// Answers a request, and sets the flow that it belongs to.
    async fn answer<B>(
        self: &Arc<Self>,
        parts: &Parts,
        body: B,
        served: &mut Served<'_>,
        flow: &mut Option<Arc<Flow>>,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let path = unescape_path(parts.uri.path()).ok_or_else(|| ApiError::bad_request("the path is malformed"))?;
        let path = &*path;
        let user = match parts.headers.get(header::AUTHORIZATION) {
            Some(shown) => {
                let user = Box::pin(self.authenticate(shown)).await?;
                attribute(parts, &user)?;
                user
            }
            None => connected(parts),
        };
        if user.is_anonymous() && !health::is_health_path(path) {
            return Err(ApiError::unauthorized());
        }
        authorization::impersonation::reject(&user, &parts.headers)?;
        match RequestInfo::from_path(path) {
            RequestInfo::Path(path) => {
                let method = parts.method.as_str().to_lowercase();
                let digest = Digest { user: &user, target: Target::Path { verb: &method, path } };
                let flow = flow.insert(self.flow_control.classify(&digest));
                // Health checks must be answered especially when there is too much to do.
                if health::is_health_path(path) {
                    return self.path(parts, path).await;
                }
                self.authorize(&Attributes { user: &user, action: Action::Path { method: &method, path } })?;
                let _seat = self.flow_control.enter(flow, &digest, Width::One, TIMEOUT / 4).await?;
                self.path(parts, path).await
            }
            RequestInfo::Resource(target) => {
                let query = Query::parse(parts.uri.query());
                let verb = target.verb(&parts.method, &query);
                if verb == Verb::Watch || !target.is_long_running() {
                    *flow = Some(self.flow_control.classify(&Digest::of(&user, verb, &target)));
                }
                self.authorize(&Attributes { user: &user, action: Action::of(verb, &target) })?;
                let timeout = timeout(&query)?;
                let request = ParsedRequest { user: &user, target, query, verb, flow: flow.as_ref(), timeout };
                let work = self.resource(parts, request, body, served);
                if verb == Verb::Watch {
                    return work.await;
                }
                tokio::time::timeout(timeout, work)
                    .await
                    .unwrap_or_else(|_| Err(ApiError::timeout("request did not complete within the allotted timeout")))
            }
        }
    }

    /// Authenticates a bearer token of a service account.
    async fn authenticate(&self, shown: &HeaderValue) -> Result<Arc<User>> {
        let token = shown.to_str().ok().and_then(|text| text.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        match token {
            Some(token) => match self.user_of_token(token, &[tokens::ISSUER]).await {
                Ok((user, _)) => Ok(Arc::new(user)),
                Err(why) => Err(ApiError { cause: Some(why.into()), ..ApiError::unauthorized() }),
            },
            None => Err(ApiError::unauthorized()),
        }
    }

    fn authorize(&self, request: &Attributes<'_>) -> Result<()> {
        match self.authorizer.authorize(request) {
            Decision::Allow => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(authorization::forbidden(request, &reason)),
        }
    }

    /// Answers requests for paths that are not a resource's.
    async fn path(self: &Arc<Self>, parts: &Parts, path: &str) -> Result<Response<Body>> {
        let read = matches!(parts.method, Method::GET | Method::HEAD);
        if health::is_health_path(path) {
            return Ok(health::answer(self, path, &Query::parse(parts.uri.query())).await);
        }
        if !read {
            return Err(if path.starts_with("/api") {
                ApiError::method_not_allowed()
            } else {
                ApiError::page_not_found()
            });
        }
        let registry = self.registry.load_full();
        match path.trim_end_matches('/') {
            "/version" => Ok(represent::json(StatusCode::OK, &health::version())),
            snapshot::PATH if parts.method == Method::GET => snapshot::answer(self).await,
            "/metrics" => Ok(represent::text(StatusCode::OK, self.metrics.render(self))),
            "" => Ok(represent::json(StatusCode::OK, &discovery::paths(&registry))),
            path if path.starts_with("/openapi/") => {
                blocking::run(|| self.openapi.answer(&registry, path, &parts.headers))
            }
            path if path.starts_with("/api") => discovery::answer(&registry, path, &parts.headers, &parts.uri),
            _ => Err(ApiError::page_not_found()),
        }
    }

    async fn resource<B>(
        self: &Arc<Self>,
        parts: &Parts,
        request: ParsedRequest<'_>,
        body: B,
        served: &mut Served<'_>,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let ParsedRequest { user, target, query, verb, flow, timeout } = request;
        let registry = self.registry.load_full();
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
            _ => {}
        }
        let accept = negotiate::accept(&parts.headers, verb == Verb::Watch, parts.uri.query(), custom.is_some())?;
        let limited = parts.extensions.get::<Peer>().is_some();
        let (body, _charge) = self.uploads.read(&parts.method, body, user, limited).await?;
        // After the body, so that a slow client occupies no seat.
        let _seat = match flow {
            Some(flow) => {
                let width = Width::Resource { verb, cache: &endpoint.cache, query: &query };
                Some(self.flow_control.enter(flow, &Digest::of(user, verb, &target), width, timeout / 4).await?)
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
            calls_webhooks: true,
            conversions: PendingConversions::default(),
        };
        let deprecated = deprecated(resource).or_else(|| custom?.warning.as_deref());
        if let Some(warning) = deprecated {
            call.warnings.add(warning);
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
            Err(error) => {
                log_failure(&error, &parts.method, &parts.uri);
                represent::error(&parts.headers, &parts.uri, &error)
            }
        };
        represent::add_warnings(response.headers_mut(), &warnings);
        Ok(response)
    }

    /// Waits until a write of a CustomResourceDefinition, a webhook configuration or an object of flow control is
    /// effective, which it becomes without the request as well.
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
        } else if webhooks::is_configuration(call.endpoint) || flow_control::is_configuration(call.endpoint) {
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

/// A request for a resource, before its endpoint is known.
struct ParsedRequest<'a> {
    user: &'a User,
    target: ResourceRequest<'a>,
    query: Query<'a>,
    verb: Verb,
    /// `None` if the request is not limited.
    flow: Option<&'a Arc<Flow>>,
    timeout: Duration,
}

async fn dispatch(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    // The most frequent request has a small future; the others have large ones, which are boxed so that they are not
    // moved.
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

fn log_failure(error: &ApiError, method: &Method, uri: &Uri) {
    if error.code.is_server_error() {
        warn!(%method, path = uri.path(), code = error.code.as_u16(), cause = error.cause.as_deref(), "{error}");
    }
}

/// Returns the user of the connection; anonymous if it has none.
fn connected(parts: &Parts) -> Arc<User> {
    let user = match parts.extensions.get::<Peer>() {
        Some(peer) => peer.user.as_ref(),
        None => parts.extensions.get::<Arc<User>>(),
    };
    user.cloned().unwrap_or_else(|| Arc::new(User::anonymous()))
}

/// Counts the connection as one of the user whose token it sent; fails if the user has too many.
fn attribute(parts: &Parts, user: &User) -> Result<()> {
    match parts.extensions.get::<Peer>() {
        Some(peer) if peer.user.is_none() && !peer.connection.identify(Some(user)) => {
            peer.connection.close();
            Err(ApiError::too_many_requests(1))
        }
        _ => Ok(()),
    }
}

/// Checks that namespaced objects are addressed in a namespace, and cluster-scoped ones are not.
fn check_scope(endpoint: &Endpoint, target: &ResourceRequest<'_>, method: &Method) -> Result<()> {
    let resource = &*endpoint.resource;
    if endpoint.custom().is_some() {
        let reads = target.name.is_empty() && (*method == Method::GET || *method == Method::HEAD);
        let fits = resource.namespaced != target.namespace.is_empty() || (resource.namespaced && reads);
        return if fits { Ok(()) } else { Err(ApiError::page_not_found()) };
    }
    // A namespace is not addressed in another one, whose rules would apply.
    let in_namespace = !target.namespace.is_empty() && (target.in_namespace || &*resource.plural != "namespaces");
    if resource.namespaced {
        if !in_namespace && !target.name.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        if !in_namespace && *method != Method::GET && *method != Method::HEAD {
            return Err(ApiError::method_not_allowed());
        }
    } else if in_namespace {
        return Err(ApiError::no_such_resource());
    }
    if target.old_watch && *method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}
