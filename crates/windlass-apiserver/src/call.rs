//! A request for a resource.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, request::Parts};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_builtins::resource::Subresource;
use windlass_schema::types::StructId;

use crate::{
    audit::RequestAudit,
    blocking,
    body::{Body, Chunks},
    connections::Peer,
    definitions,
    negotiate::Representation,
    query::Query,
    registry::Endpoint,
    request_info::ResourceRequest,
    server::Inner,
    status::{ApiError, Result},
    storage::{StoredObject, WholeList},
    user::User,
    verb::Verb,
    write::convert::PendingConversions,
};

/// A request for a resource, as the handlers of verbs see it.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Inner>,
    pub(crate) endpoint: &'a Arc<Endpoint>,
    pub(crate) target: ResourceRequest<'a>,
    /// The subresource, if one is addressed.
    pub(crate) subresource: Option<&'a Subresource>,
    pub(crate) query: Query<'a>,
    pub(crate) headers: &'a HeaderMap,
    /// The request as it arrived; `None` if the server itself is its sender.
    pub(crate) parts: Option<&'a Parts>,
    /// The client; `None` if the request is from this process.
    pub(crate) peer: Option<&'a Peer>,
    pub(crate) user: &'a User,
    /// The verb of the request; [`Verb::Unknown`] if the server itself is its sender, or its method is `OPTIONS`.
    pub(crate) verb: Verb,
    pub(crate) body: Bytes,
    pub(crate) accept: Representation,
    /// Takes over the connection, if it can be upgraded.
    pub(crate) upgrade: Option<OnUpgrade>,
    pub(crate) warnings: Warnings,
    /// The audit of the request; `None` if it is not audited.
    pub(crate) audit: Option<&'a Arc<RequestAudit>>,
    /// Whether webhooks are called for this request.
    pub(crate) calls_webhooks: bool,
    /// Conversions that managed fields need.
    pub(crate) conversions: PendingConversions,
}

/// Warnings for the client, in order of occurrence.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Recorded>);

/// The warnings recorded so far.
#[derive(Debug, Default)]
struct Recorded {
    texts: Vec<String>,
    /// The number of characters that they add to the response.
    written: usize,
    /// Whether there were too many, so that each is truncated.
    truncating: bool,
}

/// Maximum number of characters of all warnings; beyond it, each warning is truncated and no more are added.
const WARNINGS_MAX: usize = 4 << 10;
/// The length to which warnings are truncated.
const WARNING_MAX: usize = 256;

impl Warnings {
    /// Adds the complaints of a strict decoder. Those about YAML are several lines in one.
    pub(crate) fn add_complaints(&self, complaints: &[String]) {
        for complaint in complaints {
            let yaml = complaint.strip_prefix("error converting YAML to JSON: ").unwrap_or(complaint);
            match yaml.strip_prefix("yaml: unmarshal errors:\n") {
                Some(lines) => lines.lines().for_each(|line| self.add(line.trim())),
                None => self.add(complaint),
            }
        }
    }

    pub(crate) fn add(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut recorded = self.0.lock();
        let Recorded { texts, written, truncating } = &mut *recorded;
        let enough = *truncating && *written >= WARNINGS_MAX;
        if warning.is_empty() || enough || texts.contains(&warning) {
            return;
        }
        texts.push(warning);
        let length = |text: &String, most: usize| text.chars().take(most).count();
        if !*truncating {
            *written += texts.last().map_or(0, |text| length(text, WARNINGS_MAX + 1));
            *truncating = *written > WARNINGS_MAX;
            if *truncating {
                *written = texts.iter().map(|text| length(text, WARNING_MAX)).sum();
            }
        } else {
            *written += texts.last().map_or(0, |text| length(text, WARNING_MAX));
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        let Recorded { mut texts, truncating, .. } = std::mem::take(&mut *self.0.lock());
        if truncating {
            texts.iter_mut().for_each(|text| *text = text.chars().take(WARNING_MAX).collect());
        }
        texts
    }
}

/// The response of a verb, before it is encoded in the representation that the client accepts.
pub(crate) enum Answer {
    /// A stored object.
    Stored { code: StatusCode, object: Arc<StoredObject> },
    /// An object as a value, of the endpoint's kind or of that of a subresource or Status.
    Value { code: StatusCode, value: Value },
    /// Plain text.
    Text { code: StatusCode, text: String },
    /// A list.
    List(ListAnswer),
    /// A list of everything under a prefix, as it is stored.
    WholeList { items: WholeList, revision: u64 },
    /// A watch.
    Watch { chunks: Chunks, content_type: &'static str },
    /// A complete response.
    Response(Box<Response<Body>>),
}

/// The parts of a list.
pub(crate) struct ListAnswer {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl<'a> Call<'a> {
    /// Returns a request by the same user for another object: the one behind a scale or a binding.
    pub(crate) fn redirected(&self, endpoint: &'a Arc<Endpoint>, target: ResourceRequest<'a>) -> Self {
        let internal = Self::internal(self.server, endpoint, target, self.user, self.headers);
        Self { accept: self.accept.clone(), verb: self.verb, ..internal }
    }

    /// Returns a request of the server itself.
    pub(crate) fn internal(
        server: &'a Arc<Inner>,
        endpoint: &'a Arc<Endpoint>,
        target: ResourceRequest<'a>,
        user: &'a User,
        headers: &'a HeaderMap,
    ) -> Self {
        Self {
            server,
            subresource: endpoint.resource.subresource(target.subresource),
            endpoint,
            target,
            query: Query::default(),
            headers,
            parts: None,
            peer: None,
            user,
            verb: Verb::Unknown,
            body: Bytes::new(),
            accept: Representation::plain(),
            upgrade: None,
            warnings: Warnings::default(),
            audit: None,
            calls_webhooks: false,
            conversions: PendingConversions::default(),
        }
    }
}

impl Call<'_> {
    /// Runs work that blocks its thread for long if the body is large.
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.body.len() < blocking::LARGE { work() } else { blocking::run(work) }
    }

    /// Returns the key of the addressed object in its cache.
    pub(crate) fn key(&self) -> String {
        self.endpoint.key(self.target.namespace, self.target.name)
    }

    /// Returns why the addressed object is not in its cache: it does not exist, or it is damaged.
    pub(crate) fn not_found(&self) -> ApiError {
        let resource = &*self.endpoint.resource;
        let key = self.key();
        if let Some(damaged) = self.endpoint.cache.damaged(&key) {
            return ApiError::storage_read(self.endpoint.describe_damaged(&key, &damaged));
        }
        ApiError::not_found(&resource.plural, &resource.group, self.target.name)
    }

    pub(crate) fn modified(&self, name: &str) -> ApiError {
        let resource = &*self.endpoint.resource;
        ApiError::modified(&resource.plural, &resource.group, name)
    }

    /// Returns the addressed object; sees every write that was acknowledged before.
    pub(crate) async fn current(&self) -> Result<Option<Arc<StoredObject>>> {
        self.server.storage.fresh().await?;
        Ok(self.endpoint.cache.get(&self.key()))
    }

    /// Returns the type of the request's body: the endpoint's, or that of the subresource.
    pub(crate) fn body_type(&self) -> StructId {
        self.subresource.and_then(|sub| sub.ty).unwrap_or(self.endpoint.resource.ty)
    }

    /// Returns the apiVersion and kind of the request's body.
    pub(crate) fn body_kind(&self) -> (String, &str) {
        let resource = &*self.endpoint.resource;
        match self.subresource {
            Some(sub) if !sub.version.is_empty() => {
                let api_version = if sub.group.is_empty() {
                    sub.version.to_string()
                } else {
                    format!("{}/{}", sub.group, sub.version)
                };
                (api_version, &sub.kind)
            }
            Some(sub) => (resource.api_version(), &sub.kind),
            None => (resource.api_version(), &resource.kind),
        }
    }

    /// Returns whether the body is of the endpoint's kind, not of a kind that only a subresource has.
    pub(crate) fn is_own_kind(&self) -> bool {
        self.subresource.is_none_or(|sub| sub.version.is_empty() || sub.kind == self.endpoint.resource.kind)
    }

    /// Returns whether the request is for CustomResourceDefinitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.endpoint.is(definitions::GROUP, definitions::PLURAL)
    }

    /// Returns whether the request is for this resource of the core group.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.endpoint.is("", plural)
    }
}

/// Returns whether a request is forwarded to a pod, a service or a node.
pub(crate) fn is_proxied(endpoint: &Endpoint, target: &ResourceRequest<'_>) -> bool {
    target.subresource == "proxy" && ["pods", "services", "nodes"].iter().any(|plural| endpoint.is("", plural))
}
