//! Scopes of quotas: the objects that a quota applies to.

use serde_json::Value;

use super::pods;
use crate::kinds::pod::resources::qos_class;
use crate::object::{is_set, items, text};

/// A scope selector of a quota.
pub(super) struct Selector<'a> {
    scope: &'a str,
    operator: &'a str,
    values: &'a [Value],
}

/// Returns all scope selectors of a quota.
pub(super) fn selectors(quota: &Value) -> impl Iterator<Item = Selector<'_>> {
    let scopes = items(quota, "/spec/scopes").iter().filter_map(Value::as_str);
    let scopes = scopes.map(|scope| Selector { scope, operator: "Exists", values: &[] });
    let expressions = items(quota, "/spec/scopeSelector/matchExpressions").iter();
    scopes.chain(expressions.map(|expression| Selector {
        scope: text(expression, "/scopeName"),
        operator: text(expression, "/operator"),
        values: items(expression, "/values"),
    }))
}

impl Selector<'_> {
    /// Returns whether the selector matches a name, or the absence of one.
    fn selects(&self, name: Option<&str>) -> bool {
        let listed = || self.values.iter().any(|value| value.as_str() == name);
        match self.operator {
            "In" => name.is_some() && listed(),
            "NotIn" => name.is_none() || !listed(),
            "Exists" => name.is_some(),
            "DoesNotExist" => name.is_none(),
            _ => false,
        }
    }
}

pub(super) fn selects_pod(selector: &Selector<'_>, pod: &Value) -> bool {
    match selector.scope {
        "Terminating" => pods::has_deadline(pod),
        "NotTerminating" => !pods::has_deadline(pod),
        "BestEffort" => qos_class(pod) == "BestEffort",
        "NotBestEffort" => qos_class(pod) != "BestEffort",
        "PriorityClass" => selector.selects(named(text(pod, "/spec/priorityClassName"))),
        "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
        _ => false,
    }
}

pub(super) fn selects_claim(selector: &Selector<'_>, claim: &Value) -> bool {
    if selector.scope != "VolumeAttributesClass" {
        return false;
    }
    let names: Vec<&str> = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ]
    .into_iter()
    .filter_map(|field| named(text(claim, field)))
    .collect();
    match names.as_slice() {
        [] => selector.selects(None),
        names => names.iter().any(|name| selector.selects(Some(name))),
    }
}

fn named(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

fn looks_into_other_namespaces(pod: &Value) -> bool {
    let term = |term: &Value| !items(term, "/namespaces").is_empty() || is_set(term, "/namespaceSelector");
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |strength: &str| items(pod, &format!("/spec/affinity/{kind}/{strength}"));
        terms("requiredDuringSchedulingIgnoredDuringExecution").iter().any(term)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(term))
    })
}
