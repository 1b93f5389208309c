//! Facts about a request that its stages share.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, request::Parts};

use super::time_limit::TimeLimit;
use crate::{
    aggregation::Forwarded, audit::RequestAudit, authentication::impersonation::Impersonated, connections::Peer,
    flow_control::Class, query::Query, request_info::ResourceRequest, user::User, verb::Verb,
};

/// Facts about a request that its stages add.
#[derive(Default)]
pub(super) struct Facts {
    /// The user that sent it.
    pub(super) user: Option<Arc<User>>,
    /// The user that it acts as, if that is another one.
    pub(super) impersonated: Option<Impersonated>,
    /// Limit that applies to the request.
    pub(super) class: Option<Class>,
    /// Warnings about the credentials of the request.
    pub(super) warnings: Vec<&'static str>,
}

/// A request, and what identifies it in audit events.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) parts: &'a Parts,
    /// The client; `None` if the request is from this process.
    pub(super) peer: Option<&'a Peer>,
    pub(super) audit: Option<&'a Arc<RequestAudit>>,
    pub(super) audit_id: &'a HeaderValue,
}

impl<'a> Context<'a> {
    /// Returns the request as another server gets it.
    pub(super) fn forwarded(self, body: Bytes, user: &'a User, long_running: bool) -> Forwarded<'a> {
        let Self { parts, peer, audit, audit_id } = self;
        let address = peer.and_then(|peer| peer.address);
        Forwarded { parts, address, body, user, long_running, audit, audit_id }
    }
}

/// A request for a resource, before its endpoint is known.
pub(super) struct ParsedRequest<'a> {
    pub(super) user: &'a User,
    pub(super) target: ResourceRequest<'a>,
    pub(super) query: Query<'a>,
    pub(super) verb: Verb,
    /// `None` if the request is not limited.
    pub(super) class: Option<&'a Class>,
    pub(super) limit: TimeLimit,
}
