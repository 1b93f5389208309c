//! Validation of Nodes.

use std::collections::HashSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::{
    is_config_map_key, is_dns1123_label, is_dns1123_subdomain, is_valid_cidr_legacy, is_valid_label_value,
    parse_cidr_sloppy,
};
use windlass_schema::quantity::Quantity;

use crate::object::{copy, entries, integer, is_set, items, text};
use crate::resource_list::is_integer;
use crate::validate;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates a new or changed node.
pub(super) fn node(node: &Value) -> ErrorList {
    let mut errors = taints(node);
    errors.extend(resources(node));
    if let Some(capacity) = integer(node, "/status/nodeInfo/swap/capacity").filter(|capacity| *capacity <= 0) {
        // The path is kube-apiserver's.
        let path = Path::new("metadata").child("nodeSwapStatus").child("capacity");
        errors.push(FieldError::invalid(&path, &capacity.into(), "must be greater than 0"));
    }
    errors.extend(declared_features(node));
    errors.extend(pod_cidrs(node));
    errors
}

/// Validates an update of a node or of its status.
pub(super) fn update(node: &Value, old: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let mut errors = resources(node);
    errors.extend(declared_features(node));
    let path = Path::new("status").child("addresses");
    let mut seen = HashSet::new();
    for (i, address) in items(node, "/status/addresses").iter().enumerate() {
        let (kind, address) = (text(address, "/type"), text(address, "/address"));
        if !seen.insert((kind, address)) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", Value::from(kind), Value::from(address));
            let error = FieldError::duplicate(&path.index(i), &Value::Null);
            errors.push(FieldError { value: Some(shown), ..error });
        }
    }
    let (cidrs, old_cidrs) = (items(node, "/spec/podCIDRs"), items(old, "/spec/podCIDRs"));
    if !old_cidrs.is_empty() {
        let changes = if cidrs.len() == old_cidrs.len() {
            cidrs.iter().zip(old_cidrs).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.extend((0..changes).map(|_| FieldError::forbidden(&spec.child("podCIDRs"), detail)));
    }
    let provider = text(old, "/spec/providerID");
    if !provider.is_empty() && provider != text(node, "/spec/providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(&spec.child("providerID"), detail));
    }
    if let Some(source) = node.pointer("/spec/configSource").filter(|source| !source.is_null()) {
        errors.extend(config_source(source, &spec.child("configSource"), false));
    }
    for which in ["assigned", "active", "lastKnownGood"] {
        let source = node.pointer(&format!("/status/config/{which}")).filter(|source| !source.is_null());
        if let Some(source) = source {
            let path = Path::new("status").child("config").child(which);
            errors.extend(config_source(source, &path, true));
        }
    }
    errors.extend(taints(node));
    if text(node, "/spec/externalID") != text(old, "/spec/externalID") {
        errors.push(FieldError::forbidden(&spec.child("externalID"), "may not be updated"));
    }
    errors
}

fn taints(node: &Value) -> ErrorList {
    // The path is kube-apiserver's.
    let path = Path::new("metadata").child("taints");
    let mut seen = HashSet::new();
    let mut errors = ErrorList::new();
    for (i, taint) in items(node, "/spec/taints").iter().enumerate() {
        let path = path.index(i);
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        errors.extend(validate::qualified_name(&path.child("key"), key));
        let problems = is_valid_label_value(value);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(&path.child("value"), &value.into(), problems.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(&path.child("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(&path.child("effect"), &effect.into(), EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                Value::from(key),
                Value::from(value),
                Value::from(effect),
                copy(taint, "/timeAdded")
            );
            let detail = "taints must be unique by key and effect pair".to_owned();
            let error = FieldError::duplicate(&path, &Value::Null);
            errors.push(FieldError { value: Some(shown), detail, ..error });
        }
    }
    errors
}

fn resources(node: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    for list in ["capacity", "allocatable"] {
        let path = Path::new("status").child(list);
        for (resource, amount) in entries(node, &format!("/status/{list}")) {
            let path = path.child(resource);
            let Ok(quantity) = Quantity::parse(amount.as_str().unwrap_or_default()) else { continue };
            let shown = Value::from(quantity.to_string());
            if quantity.sign() < 0 {
                errors.push(FieldError::invalid(&path, &shown, "must be greater than or equal to 0"));
            }
            if is_integer(resource) && quantity.milli_value() % 1000 != 0 {
                errors.push(FieldError::invalid(&path, &shown, "must be an integer"));
            }
        }
    }
    errors
}

fn declared_features(node: &Value) -> ErrorList {
    const RULE: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., \
                        MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
    let path = Path::new("status").child("declaredFeatures");
    let features: Vec<_> =
        items(node, "/status/declaredFeatures").iter().map(|feature| feature.as_str().unwrap_or_default()).collect();
    let mut errors = ErrorList::new();
    for (i, feature) in features.iter().enumerate() {
        let problem = if feature.len() > 253 {
            Some("must be no more than 253 characters")
        } else if !is_feature_name(feature) {
            Some(RULE)
        } else {
            None
        };
        if let Some(problem) = problem {
            let detail = format!("invalid feature name {feature:?}: {problem}");
            errors.push(FieldError::invalid(&path.index(i), &(*feature).into(), detail));
        }
        match features.get(i + 1) {
            Some(next) if next == feature => errors.push(FieldError::duplicate(&path.index(i + 1), &(*next).into())),
            Some(next) if feature > next => {
                let detail = "list must be sorted alphabetically";
                errors.push(FieldError::invalid(&path.index(i + 1), &(*next).into(), detail));
            }
            _ => {}
        }
    }
    errors
}

fn is_feature_name(feature: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphabetic()) && segment.chars().all(|c| c.is_ascii_alphanumeric())
    };
    feature.starts_with(|c: char| c.is_ascii_uppercase()) && feature.split('/').all(is_segment)
}

fn pod_cidrs(node: &Value) -> ErrorList {
    let path = Path::new("spec").child("podCIDRs");
    let ranges: Vec<_> = items(node, "/spec/podCIDRs").iter().map(|range| range.as_str().unwrap_or_default()).collect();
    let mut errors = ErrorList::new();
    for (i, range) in ranges.iter().enumerate() {
        errors.extend(is_valid_cidr_legacy(&path.index(i), range, true));
    }
    if ranges.len() < 2 {
        return errors;
    }
    let mut families = HashSet::new();
    for (i, range) in ranges.iter().enumerate() {
        match parse_cidr_sloppy(range) {
            Some((ip, _)) => {
                families.insert(ip.to_canonical().is_ipv6());
            }
            None => {
                families.clear();
                let detail = format!(
                    "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR \
                     address: {range})"
                );
                errors.push(validate::internal(&path, detail));
                break;
            }
        }
    }
    if families.len() < 2 || ranges.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&path, &copy(node, "/spec/podCIDRs"), detail));
    }
    errors
}

/// Validates the dynamic kubelet configuration, a removed feature whose validation remains.
fn config_source(source: &Value, path: &Path, in_status: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    if !is_set(source, "/configMap") {
        errors.push(FieldError::invalid(path, &Value::Null, "exactly one reference subfield must be non-nil"));
        let shown = "{\"ConfigMap\":null}".to_owned();
        return errors.into_iter().map(|error| FieldError { value: Some(shown.clone()), ..error }).collect();
    }
    let path = path.child("configMap");
    for field in ["uid", "resourceVersion"] {
        let given = !text(source, &format!("/configMap/{field}")).is_empty();
        match (in_status, given) {
            (false, true) => {
                errors.push(FieldError::forbidden(&path.child(field), format!("{field} must not be set in spec")));
            }
            (true, false) => errors.push(FieldError::required(&path.child(field), "")),
            _ => {}
        }
    }
    let rules: [(&str, validate::TextCheck); 3] =
        [("namespace", is_dns1123_label), ("name", is_dns1123_subdomain), ("kubeletConfigKey", is_config_map_key)];
    for (field, rule) in rules {
        match text(source, &format!("/configMap/{field}")) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            value => errors.extend(validate::each(&path.child(field), value, rule(value))),
        }
    }
    errors
}
