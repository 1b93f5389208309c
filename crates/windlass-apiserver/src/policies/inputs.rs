//! The inputs of expressions about one request, computed when a policy uses them.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use serde_json::Value;
use windlass_cel::authorizer::{Authorizer, Resource};

use super::compiled::Uses;
use crate::{
    authorization::Checks,
    call::Call,
    endpoint::Endpoint,
    status::{ApiError, Result},
    webhooks::{Subject, Versions, request, request_resource},
};

pub(super) static NULL: Value = Value::Null;

/// The objects of a request in one version of the resource.
pub(super) struct Seen<'a> {
    endpoint: Arc<Endpoint>,
    pub(super) object: Cow<'a, Value>,
    pub(super) old: Cow<'a, Value>,
    request: OnceLock<Value>,
}

impl<'a> Seen<'a> {
    /// Returns the objects in the version of an endpoint. Only other versions than that of the request are copies.
    pub(super) async fn new(
        call: &Call<'_>,
        endpoint: &Arc<Endpoint>,
        object: &'a Value,
        old: &'a Value,
    ) -> Result<Self> {
        let request = OnceLock::new();
        if Arc::ptr_eq(endpoint, call.endpoint) {
            let (object, old) = (Cow::Borrowed(object), Cow::Borrowed(old));
            return Ok(Self { endpoint: endpoint.clone(), object, old, request });
        }
        let mut versions = Versions::new(call, object.clone(), old);
        versions.convert(endpoint).await?;
        let (object, old) = versions.into_objects();
        Ok(Self { endpoint: endpoint.clone(), object: Cow::Owned(object), old: Cow::Owned(old), request })
    }

    pub(super) fn is_in(&self, endpoint: &Arc<Endpoint>) -> bool {
        Arc::ptr_eq(&self.endpoint, endpoint)
    }

    /// Returns the request as the policy sees it; null if it does not use it.
    pub(super) fn request(&self, call: &Call<'_>, subject: &Subject<'_>, uses: Uses) -> &Value {
        if uses.request { self.request.get_or_init(|| request(call, subject, &self.endpoint)) } else { &NULL }
    }
}

/// The parts of a request that do not depend on the version.
#[derive(Default)]
pub(super) struct Shared {
    namespace: Option<Value>,
    authorizer: Option<(Arc<Checks>, Arc<dyn Authorizer>, Resource)>,
}

impl Shared {
    /// Computes what a policy uses, unless it is known already.
    pub(super) fn prepare(&mut self, call: &Call<'_>, subject: &Subject<'_>, uses: Uses) -> Result<()> {
        if uses.namespace && self.namespace.is_none() {
            self.namespace = Some(namespace_object(call)?);
        }
        if uses.authorizer && self.authorizer.is_none() {
            let checks = Checks::new(call.server, call.user);
            self.authorizer = Some((checks.clone(), checks, request_resource(call, subject)));
        }
        Ok(())
    }

    pub(super) fn namespace(&self) -> &Value {
        self.namespace.as_ref().unwrap_or(&NULL)
    }

    pub(super) fn authorizer(&self) -> Option<(&Arc<dyn Authorizer>, &Resource)> {
        self.authorizer.as_ref().map(|(_, authorizer, resource)| (authorizer, resource))
    }

    /// Waits for decisions of the authorizer that an evaluation lacked; returns whether it has to be repeated.
    pub(super) async fn resolve(&self) -> bool {
        match &self.authorizer {
            Some((checks, ..)) => checks.resolve().await,
            None => false,
        }
    }
}

/// Returns the namespace of the object; null if it has none, or is one itself.
fn namespace_object(call: &Call<'_>) -> Result<Value> {
    let namespace = call.target.namespace;
    if namespace.is_empty() || call.is_core("namespaces") {
        return Ok(Value::Null);
    }
    let found = call.server.storage.cache("/core/namespaces/").get(namespace);
    let found = found.ok_or_else(|| ApiError::not_found("namespaces", "", namespace))?;
    Ok(found.to_value())
}
