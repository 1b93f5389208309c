//! Validation of the linked fields `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::parse_ip_sloppy;

use super::validation::legacy_ip;
use super::{is_headless, needs_cluster_ip, texts};
use crate::object::{copy, text};

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Returns the IP family of an address; IPv4-mapped and invalid addresses count as IPv4.
pub(super) fn family_of(ip: &str) -> &'static str {
    match parse_ip_sloppy(ip).map(|ip| ip.to_canonical()) {
        Some(ip) if ip.is_ipv6() => "IPv6",
        _ => "IPv4",
    }
}

/// Validates that the four fields are consistent. Allocation checks this before it uses them.
pub(super) fn validate(service: &Value, old: Option<&Value>) -> ErrorList {
    if !needs_cluster_ip(service) {
        return ErrorList::new();
    }
    let path = Path::new("spec").child("clusterIPs");
    let shown = copy(service, "/spec/clusterIPs");
    let (single, ips) = (text(service, "/spec/clusterIP"), texts(service, "/spec/clusterIPs"));
    let families = texts(service, "/spec/ipFamilies");
    let mut errors = ErrorList::new();
    match (single, ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(FieldError::invalid(&path, &shown, "must be empty when `clusterIP` is not specified"));
        }
        (_, None) => errors.push(FieldError::required(&path, "")),
        (single, Some(first)) if single != *first => {
            errors.push(FieldError::invalid(&path, &shown, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    errors.extend(families_and_policy(service, &families));

    let known = old.map(|old| texts(old, "/spec/clusterIPs")).unwrap_or_default();
    let mut malformed = false;
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && *ip == "None" {
            if ips.len() > 1 {
                malformed = true;
                errors.push(FieldError::invalid(&path, &shown, "'None' must be the first and only value"));
            }
            continue;
        }
        let problems = legacy_ip(&path.index(i), ip, &known);
        malformed |= !problems.is_empty();
        errors.extend(problems);
    }
    if ips.len() > 2 {
        errors.push(FieldError::invalid(&path, &shown, "may only hold up to 2 values"));
    }
    // Malformed addresses would only make the following messages misleading.
    if malformed {
        return errors;
    }
    if ips.len() > 1 && ips.iter().all(|ip| family_of(ip) == family_of(ips[0])) {
        errors.push(FieldError::invalid(&path, &shown, "may specify no more than one IP for each IP family"));
    }
    if !is_headless(service) {
        for (i, (ip, family)) in ips.iter().zip(&families).enumerate() {
            if FAMILIES.contains(family) && family_of(ip) != *family {
                let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.push(FieldError::invalid(&path.index(i), &(*ip).into(), detail));
            }
        }
    }
    errors
}

fn families_and_policy(service: &Value, families: &[&str]) -> ErrorList {
    let path = Path::new("spec").child("ipFamilies");
    let mut errors = ErrorList::new();
    for (i, family) in families.iter().enumerate() {
        let value = Value::from(*family);
        if !FAMILIES.contains(family) {
            errors.push(FieldError::not_supported(&path.index(i), &value, FAMILIES));
        }
        if families[..i].contains(family) {
            errors.push(FieldError::duplicate(&path.index(i), &value));
        }
    }
    if let Some(policy) = service.pointer("/spec/ipFamilyPolicy").filter(|policy| !policy.is_null())
        && !policy.as_str().is_some_and(|policy| POLICIES.contains(&policy))
    {
        errors.push(FieldError::not_supported(&Path::new("spec").child("ipFamilyPolicy"), policy, POLICIES));
    }
    errors
}

/// Validates an update: a secondary address may be added or removed, but the primary one must not change.
pub(super) fn validate_change(service: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !needs_cluster_ip(service) || !needs_cluster_ip(old) {
        return errors;
    }
    let (headless, was_headless) = (is_headless(service), is_headless(old));
    if !(headless && was_headless) {
        errors.extend(changed_ips(service, old));
    }
    // A headless service may change its families.
    if !headless && !was_headless {
        errors.extend(changed_families(service, old));
    }
    errors
}

const UNCHANGEABLE: &str = "may not change once set";

fn changed_ips(service: &Value, old: &Value) -> ErrorList {
    let path = Path::new("spec").child("clusterIPs");
    let shown = copy(service, "/spec/clusterIPs");
    let (new, old) = (texts(service, "/spec/clusterIPs"), texts(old, "/spec/clusterIPs"));
    if new.len() == old.len() {
        let changed = (0..new.len()).filter(|i| new[*i] != old[*i]);
        return changed.map(|i| FieldError::invalid(&path.index(i), &shown, UNCHANGEABLE)).collect();
    }
    let mut errors = ErrorList::new();
    if new.is_empty() {
        errors.push(FieldError::invalid(&path.index(0), &shown, "primary clusterIP can not be unset"));
    }
    if new.first().zip(old.first()).is_some_and(|(new, old)| new != old) {
        errors.push(FieldError::invalid(&path.index(0), &shown, UNCHANGEABLE));
    }
    if new.len() == 1 && old.len() > 1 {
        errors.extend(must_be_single_stack(service, "clusterIP"));
    }
    errors
}

fn changed_families(service: &Value, old: &Value) -> ErrorList {
    let path = Path::new("spec").child("ipFamilies").index(0);
    let shown = copy(service, "/spec/ipFamilies");
    let (new, old) = (texts(service, "/spec/ipFamilies"), texts(old, "/spec/ipFamilies"));
    if new.len() == old.len() {
        let changed = new.iter().zip(&old).filter(|(new, old)| new != old);
        return changed.map(|_| FieldError::invalid(&path, &shown, UNCHANGEABLE)).collect();
    }
    let mut errors = ErrorList::new();
    if new.len() < old.len() && texts(service, "/spec/clusterIPs").is_empty() {
        errors.push(FieldError::invalid(&path, &shown, "primary ipFamily can not be unset"));
    }
    if new.first().zip(old.first()).is_some_and(|(new, old)| new != old) {
        // kube-apiserver shows the addresses here.
        errors.push(FieldError::invalid(&path, &copy(service, "/spec/clusterIPs"), UNCHANGEABLE));
    }
    if new.len() == 1 && old.len() > 1 {
        errors.extend(must_be_single_stack(service, "ipFamily"));
    }
    errors
}

fn must_be_single_stack(service: &Value, released: &str) -> Option<FieldError> {
    if text(service, "/spec/ipFamilyPolicy") == "SingleStack" {
        return None;
    }
    let path = Path::new("spec").child("ipFamilyPolicy");
    let detail = format!("must be set to 'SingleStack' when releasing the secondary {released}");
    Some(FieldError::invalid(&path, &copy(service, "/spec/ipFamilyPolicy"), detail))
}
