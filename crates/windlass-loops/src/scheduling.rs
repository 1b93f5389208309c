//! Label selectors, node selectors, taints and tolerations.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Returns whether a label selector matches. No selector matches nothing, an empty one everything.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            holds(&requirement.operator, labels.get(&requirement.key), values)
        })
}

/// Returns whether a node selector term matches a node. An empty term matches nothing.
pub fn term_selects(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let values = |requirement: &NodeSelectorRequirement| requirement.values.clone().unwrap_or_default();
    let name = name.to_owned();
    expressions.iter().all(|one| holds(&one.operator, labels.get(&one.key), &values(one)))
        && fields.iter().all(|one| {
            let field = (one.key == "metadata.name").then_some(&name);
            holds(&one.operator, field, &values(one))
        })
}

fn holds(operator: &str, present: Option<&String>, values: &[String]) -> bool {
    let compare = |wanted: fn(i64, i64) -> bool| {
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
        number(present).zip(number(values.first())).is_some_and(|(present, value)| wanted(present, value))
    };
    match operator {
        "In" => present.is_some_and(|present| values.contains(present)),
        "NotIn" => present.is_none_or(|present| !values.contains(present)),
        "Exists" => present.is_some(),
        "DoesNotExist" => present.is_none(),
        "Gt" => compare(|present, value| present > value),
        "Lt" => compare(|present, value| present < value),
        _ => false,
    }
}

/// Returns whether one of the tolerations tolerates a taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let effect = text(&toleration.effect);
        let key = text(&toleration.key);
        let value = taint.value.clone().unwrap_or_default();
        let same = match text(&toleration.operator).as_str() {
            "" | "Equal" => text(&toleration.value) == value,
            "Exists" => true,
            operator @ ("Gt" | "Lt") => {
                let numbers = value.parse::<i64>().ok().zip(text(&toleration.value).parse::<i64>().ok());
                numbers.is_some_and(|(taint, wanted)| if operator == "Gt" { taint > wanted } else { taint < wanted })
            }
            _ => false,
        };
        (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key) && same
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels() -> Labels {
        [("app", "web"), ("size", "7")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn label_selectors_match() {
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), true),
        ] {
            let parsed = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(selects(Some(&parsed), &labels()), expected, "{selector}");
        }
        assert!(!selects(None, &labels()));
    }

    #[test]
    fn node_selector_terms_match_labels_and_name() {
        for (term, expected) in [
            (json!({}), false),
            (json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["6"]}]}), true),
            (json!({"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["7"]}]}), false),
            (json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}), true),
            (json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}), false),
        ] {
            let parsed = serde_json::from_value(term.clone()).unwrap();
            assert_eq!(term_selects(&parsed, "a", &labels()), expected, "{term}");
        }
    }

    #[test]
    fn tolerations_match_taints() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
        let check = |toleration: Value| tolerates(&[serde_json::from_value(toleration).unwrap()], &taint);
        assert!(check(json!({"operator": "Exists"})));
        assert!(check(json!({"key": "k", "value": "v"})));
        assert!(check(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(!check(json!({"key": "k", "value": "w"})));
        assert!(!check(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})));
        assert!(!check(json!({"key": "j", "operator": "Exists"})));
    }
}
