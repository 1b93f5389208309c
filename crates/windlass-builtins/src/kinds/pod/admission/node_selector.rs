//! Node selectors of namespaces, for the plugin that restricts where their pods run.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_schema::names::{is_qualified_name, is_valid_label_value};
use windlass_schema::{field::quote, sorting::Gather as _};

use crate::object::{entries, set};

/// Labels that a node must have.
pub type NodeSelector = BTreeMap<String, String>;

/// Adds the selector of the namespace to that of the pod. Returns false, and changes nothing, if they contradict each
/// other.
#[must_use]
pub fn merge_node_selector(pod: &mut Value, selector: &NodeSelector) -> bool {
    let mut merged = own(pod);
    if selector.iter().any(|(label, value)| merged.get(label).is_some_and(|other| other != value)) {
        return false;
    }
    merged.extend(selector.clone());
    if !merged.is_empty() {
        let merged: serde_json::Map<_, _> = merged.into_iter().map(|(label, value)| (label, value.into())).gather();
        set(pod, "/spec/nodeSelector", merged);
    }
    true
}

/// Returns whether the pod selects only labels and values of this selector; an empty one allows all.
pub fn selects_only(pod: &Value, allowed: &NodeSelector) -> bool {
    allowed.is_empty() || own(pod).iter().all(|(label, value)| allowed.get(label) == Some(value))
}

fn own(pod: &Value) -> NodeSelector {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries(pod, "/spec/nodeSelector").map(|(label, value)| (label.to_owned(), text(value))).gather()
}

/// Parses a selector: `label=value` pairs, separated by commas.
///
/// # Errors
/// Returns the error of kube-apiserver.
pub fn parse(text: &str) -> Result<NodeSelector, String> {
    if text.is_empty() {
        return Ok(NodeSelector::new());
    }
    let pair = |pair: &str| {
        let parts: Vec<_> = pair.split('=').collect();
        let [label, value] = parts.as_slice() else { return Err(format!("invalid selector: [{}]", parts.join(" "))) };
        let (label, value) = (label.trim(), value.trim());
        let label_problem = is_qualified_name(label).into_iter().map(|problem| (label, problem)).next();
        let problem = label_problem.or_else(|| Some((value, is_valid_label_value(value).into_iter().next()?)));
        match problem {
            // kube-apiserver has no name for the field.
            Some((wrong, problem)) => Err(format!("<nil>: Invalid value: {}: {problem}", quote(wrong))),
            None => Ok((label.to_owned(), value.to_owned())),
        }
    };
    text.split(',').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_are_pairs() {
        let parsed = parse("a=b, zone = c,empty=").expect("a selector");
        let expected = [("a", "b"), ("empty", ""), ("zone", "c")];
        assert_eq!(parsed, expected.map(|(label, value)| (label.to_owned(), value.to_owned())).into());
        assert_eq!(parse(""), Ok(NodeSelector::new()));
        for (wrong, expected) in [("a", "[a]"), ("a=b=c", "[a b c]"), ("a=b,", "[]")] {
            assert_eq!(parse(wrong), Err(format!("invalid selector: {expected}")));
        }
        for (wrong, expected) in [("_=b", "\"_\""), ("a=-", "\"-\"")] {
            assert!(parse(wrong).unwrap_err().starts_with(&format!("<nil>: Invalid value: {expected}: ")), "{wrong}");
        }
    }

    #[test]
    fn a_pod_selects_what_its_namespace_selects() {
        let selector = parse("a=b").expect("a selector");
        let mut pod = json!({"spec": {"nodeSelector": {"c": "d"}}});
        assert!(merge_node_selector(&mut pod, &selector));
        assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "b", "c": "d"}));
        assert!(selects_only(&pod, &parse("a=b,c=d,e=f").expect("a selector")));
        assert!(!selects_only(&pod, &selector));
        let mut other = json!({"spec": {"nodeSelector": {"a": "x"}}});
        assert!(!merge_node_selector(&mut other, &selector));
        assert_eq!(other["spec"]["nodeSelector"], json!({"a": "x"}));
    }
}
