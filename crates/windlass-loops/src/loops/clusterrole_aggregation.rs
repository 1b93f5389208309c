//! Aggregates the rules of cluster roles into others.
//!
//! A role with an aggregation rule gets the rules of all roles that its selectors select, in the order of selectors and
//! names, each rule once. They are written by server-side apply, unlike all other writes of the loops.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::{ObjectMeta, Selector, SelectorExt};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller},
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::sorting;

use super::ClusterCertificates;

/// The name of the loop, which is also its field manager.
const NAME: &str = "clusterrole-aggregation-controller";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let gatherers = |role: &ClusterRole, ctx: &Context| -> Vec<ObjectKey> {
        let Ok(roles) = gathering(ctx) else { return Vec::new() };
        roles
            .iter()
            .filter(|gatherer| selects(gatherer, role))
            .map(|gatherer| ObjectKey::of(gatherer.as_ref()))
            .collect()
    };
    operator.controller(
        Controller::<ClusterRole>::new(NAME, reconcile).field_manager(NAME).watches::<ClusterRole>(gatherers),
    )
}

async fn reconcile(role: Arc<ClusterRole>, ctx: Context) -> Result<Action> {
    if role.aggregation_rule.is_none() || role.metadata.deletion_timestamp.is_some() {
        return Ok(Action::done());
    }
    let rules = gathered(&role, ctx.list::<ClusterRole>()?);
    if rules == normalized(role.rules.as_deref().unwrap_or_default()) {
        return Ok(Action::done());
    }
    let metadata = ObjectMeta { name: role.metadata.name.clone(), ..ObjectMeta::default() };
    let rules = Some(rules).filter(|rules| !rules.is_empty());
    ctx.apply(ClusterRole { metadata, rules, ..ClusterRole::default() }).await?;
    Ok(Action::done())
}

/// The roles with an aggregation rule, from an index.
fn gathering(ctx: &Context) -> Result<Vec<Arc<ClusterRole>>> {
    Ok(ctx.index("aggregates", |role: &ClusterRole| vec![role.aggregation_rule.is_some()])?.get(&true))
}

/// The valid selectors of a role.
fn selectors(role: &ClusterRole) -> impl Iterator<Item = Selector> + '_ {
    let selectors = role.aggregation_rule.as_ref().and_then(|rule| rule.cluster_role_selectors.as_ref());
    selectors.into_iter().flatten().filter_map(|selector| Selector::try_from(selector.clone()).ok())
}

fn matches(selector: &Selector, role: &ClusterRole) -> bool {
    match &role.metadata.labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Default::default()),
    }
}

fn selects(gatherer: &ClusterRole, role: &ClusterRole) -> bool {
    selectors(gatherer).any(|selector| matches(&selector, role))
}

/// The aggregated rules of a role.
fn gathered(role: &ClusterRole, mut roles: Vec<Arc<ClusterRole>>) -> Vec<PolicyRule> {
    sorting::sort_by(&mut roles, |one, other| one.metadata.name.cmp(&other.metadata.name));
    let mut rules = Vec::new();
    for selector in selectors(role) {
        for other in roles.iter().filter(|other| other.metadata.name != role.metadata.name) {
            if !matches(&selector, other) {
                continue;
            }
            for rule in normalized(other.rules.as_deref().unwrap_or_default()) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    rules
}

/// Normalizes rules: an empty list means the same as none.
fn normalized(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let entries = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    let normalize = |rule: &PolicyRule| PolicyRule {
        api_groups: entries(&rule.api_groups),
        non_resource_urls: entries(&rule.non_resource_urls),
        resource_names: entries(&rule.resource_names),
        resources: entries(&rule.resources),
        verbs: rule.verbs.clone(),
    };
    rules.iter().map(normalize).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(value: serde_json::Value) -> Arc<ClusterRole> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn part(name: &str, label: &str, resources: &[&str]) -> Arc<ClusterRole> {
        let rules: Vec<_> =
            resources.iter().map(|resource| json!({"verbs": ["get"], "resources": [resource]})).collect();
        role(json!({"metadata": {"name": name, "labels": {label: "yes"}}, "rules": rules}))
    }

    #[test]
    fn rules_are_aggregated_by_selector_and_name_without_duplicates() {
        let all = role(json!({"metadata": {"name": "all", "labels": {"a": "yes"}}, "rules": [{"verbs": ["*"]}],
        "aggregationRule": {"clusterRoleSelectors": [
            {"matchLabels": {"b": "yes"}},
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        ]}}));
        let roles = vec![
            part("z", "a", &["pods"]),
            part("y", "a", &["nodes", "secrets"]),
            part("x", "b", &["secrets"]),
            part("w", "c", &["jobs"]),
            all.clone(),
        ];
        let resources: Vec<_> =
            gathered(&all, roles).iter().map(|rule| rule.resources.clone().unwrap().join("+")).collect();
        assert_eq!(resources, ["secrets", "nodes", "pods"]);
    }

    #[test]
    fn empty_and_absent_lists_of_a_rule_are_the_same() {
        let one: PolicyRule = serde_json::from_value(json!({"verbs": ["get"], "resourceNames": []})).unwrap();
        let other: PolicyRule = serde_json::from_value(json!({"verbs": ["get"]})).unwrap();
        assert_ne!(one, other);
        assert_eq!(normalized(&[one]), normalized(&[other]));
    }
}
