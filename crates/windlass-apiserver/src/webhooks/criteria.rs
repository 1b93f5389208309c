//! Decides which requests a webhook or policy matches, and in which version of the resource it sees them.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Subject,
    matching::{Labels, RequestAttributes, Rule},
};
use crate::{
    admission::Operation,
    call::Call,
    endpoint::Endpoint,
    status::{ApiError, Result},
};

/// The requests that a webhook or policy matches.
pub(crate) struct Criteria {
    rules: Vec<Rule>,
    /// Requests that are excluded nevertheless.
    excluded: Vec<Rule>,
    /// Whether rules match equivalent versions of the resource too.
    equivalent: bool,
    namespaces: Labels,
    objects: Labels,
}

impl Criteria {
    /// Returns the criteria of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        Self::new(webhook, "rules")
    }

    /// Returns the criteria of a policy or binding.
    pub(crate) fn of_match_resources(resources: &Value) -> Self {
        Self::new(resources, "resourceRules")
    }

    fn new(value: &Value, rules: &str) -> Self {
        let list = |field: &str| value[field].as_array().into_iter().flatten().map(Rule::new).collect();
        Self {
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            equivalent: value["matchPolicy"] == "Equivalent",
            namespaces: Labels::new(&value["namespaceSelector"]),
            objects: Labels::new(&value["objectSelector"]),
        }
    }

    /// Returns the version of the resource in which a request matches; `None` if it does not.
    pub(crate) fn version_for(
        &self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &Value,
        old: &Value,
    ) -> Result<Option<Arc<Endpoint>>> {
        match self.endpoint_for(&self.rules, call, subject) {
            Some(endpoint) => Ok(self.selects(call, subject, object, old)?.then_some(endpoint)),
            None => Ok(None),
        }
    }

    /// Returns whether a request matches in any version. Without rules, only the selectors decide.
    pub(crate) fn matches(&self, call: &Call<'_>, subject: &Subject<'_>, object: &Value, old: &Value) -> Result<bool> {
        let covered = self.rules.is_empty() || self.endpoint_for(&self.rules, call, subject).is_some();
        if covered { self.selects(call, subject, object, old) } else { Ok(false) }
    }

    /// Returns whether the request is not excluded, and the selectors select it.
    fn selects(&self, call: &Call<'_>, subject: &Subject<'_>, object: &Value, old: &Value) -> Result<bool> {
        if !self.excluded.is_empty() && self.endpoint_for(&self.excluded, call, subject).is_some() {
            return Ok(false);
        }
        if !in_namespaces(call, &self.namespaces, subject, object)? {
            return Ok(false);
        }
        let selected = |object: &Value| match object {
            Value::Null => Ok(self.objects.is_empty()),
            object => self.objects.selects(object).map_err(ApiError::internal),
        };
        Ok(self.objects.is_empty() || selected(object)? || selected(old)?)
    }

    /// Returns the endpoint that one of the rules matches: the requested version, or an equivalent one.
    fn endpoint_for(&self, rules: &[Rule], call: &Call<'_>, subject: &Subject<'_>) -> Option<Arc<Endpoint>> {
        let asked = |endpoint: &Endpoint, matches: fn(&Rule, RequestAttributes<'_>) -> bool| {
            let resource = &*endpoint.resource;
            let asked = RequestAttributes {
                operation: subject.operation.name(),
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                subresource: call.target.subresource,
                namespace: call.target.namespace,
                name: subject.name,
            };
            rules.iter().position(|rule| matches(rule, asked))
        };
        if asked(call.endpoint, Rule::matches).is_some() {
            return Some(call.endpoint.clone());
        }
        // All versions of a resource have the same plural name.
        if !self.equivalent || asked(call.endpoint, Rule::matches_in_some_version).is_none() {
            return None;
        }
        let registry = call.server.registry.load();
        let subresource = call.target.subresource;
        let others = registry.equivalents(call.endpoint).filter(|other| {
            !Arc::ptr_eq(other, call.endpoint)
                && (subresource.is_empty() || other.resource.subresource(subresource).is_some())
        });
        // The first matching rule decides.
        let matching = others.filter_map(|other| Some((asked(other, Rule::matches)?, other)));
        matching.min_by_key(|(rule, _)| *rule).map(|(_, other)| other.clone())
    }
}

/// Returns whether the namespace of a request is selected; cluster-scoped requests always are.
fn in_namespaces(call: &Call<'_>, namespaces: &Labels, subject: &Subject<'_>, object: &Value) -> Result<bool> {
    let is_namespace = &*call.endpoint.resource.plural == "namespaces";
    let namespace = call.target.namespace;
    if namespaces.is_empty() || namespace.is_empty() && !is_namespace {
        return Ok(true);
    }
    let written = matches!(subject.operation, Operation::Create | Operation::Update);
    if is_namespace && call.target.subresource.is_empty() && written {
        return namespaces.selects(object).map_err(ApiError::internal);
    }
    let found = call.server.storage.cache("/core/namespaces/").get(namespace);
    let found = found.ok_or_else(|| ApiError::not_found("namespaces", "", namespace))?;
    namespaces.selects_labels(found.header.labels()).map_err(ApiError::internal)
}
