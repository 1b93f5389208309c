//! IP families of a service, in a cluster that has only IPv4.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::super::{cluster_ips, needs_cluster_ip, texts};
use super::AllocationError;
use crate::object::{copy, entries, is_set, items, set, text};

/// Sets `ipFamilyPolicy` and `ipFamilies`, or returns why the requested ones are not available.
pub(super) fn complete(service: &mut Value, old: Option<&Value>) -> Result<(), AllocationError> {
    if !needs_cluster_ip(service) || old.is_some_and(|old| is_unchanged_dual_stack(service, old)) {
        return Ok(());
    }
    let headless_without_selector =
        text(service, "/spec/clusterIP") == "None" && entries(service, "/spec/selector").next().is_none();
    if !is_set(service, "/spec/ipFamilyPolicy") {
        let policy = match old.map(|old| text(old, "/spec/ipFamilyPolicy")) {
            Some(policy) if !policy.is_empty() => policy,
            _ if headless_without_selector => "RequireDualStack",
            _ => "SingleStack",
        };
        set(service, "/spec/ipFamilyPolicy", policy);
    }
    fail(cluster_ips::validate(service, old))?;
    let policy = text(service, "/spec/ipFamilyPolicy").to_owned();
    fail(check_policy(service, old, &policy))?;

    if headless_without_selector {
        // Endpoints without a selector are written by the user and may have either family, so a headless service may be
        // dual-stack in any cluster.
        let mut families: Vec<_> = texts(service, "/spec/ipFamilies").into_iter().map(Value::from).collect();
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
        set(service, "/spec/ipFamilies", families);
        return Ok(());
    }

    let mut errors = ErrorList::new();
    if policy == "RequireDualStack" {
        errors.push(policy_error(service, "this cluster is not configured for dual-stack services"));
    }
    for (i, family) in texts(service, "/spec/ipFamilies").into_iter().enumerate() {
        if family != "IPv4" {
            let path = Path::new("spec").child("ipFamilies").index(i);
            errors.push(FieldError::invalid(&path, &family.into(), "not configured on this cluster"));
        }
    }
    fail(errors)?;
    if items(service, "/spec/ipFamilies").is_empty() {
        set(service, "/spec/ipFamilies", vec![Value::from("IPv4")]);
    }
    Ok(())
}

/// Validates the policy against the families and addresses; missing families are derived from the addresses.
fn check_policy(service: &mut Value, old: Option<&Value>, policy: &str) -> ErrorList {
    const LISTS: [(&str, &str, &str); 2] =
        [("/spec/clusterIPs", "cluster IP", "cluster IPs"), ("/spec/ipFamilies", "IP family", "IP families")];
    let mut errors = ErrorList::new();
    for (list, one, _) in LISTS {
        let Some(old) = old else { break };
        let (new, before) = (items(service, list), items(old, list));
        if policy == "SingleStack" {
            if new == before && new.len() > 1 {
                let first = new[0].clone();
                set(service, list, vec![first]);
            }
        } else if !new.is_empty() && new.len() < before.len() {
            errors.push(policy_error(service, &format!("must be 'SingleStack' to release the secondary {one}")));
        }
    }
    for (list, _, many) in LISTS {
        if policy == "SingleStack" && items(service, list).len() == 2 {
            let detail = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified");
            errors.push(policy_error(service, &detail));
        }
    }
    let mut families = items(service, "/spec/ipFamilies").to_vec();
    for (i, ip) in texts(service, "/spec/clusterIPs").into_iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        if i < families.len() {
            continue;
        }
        match cluster_ips::family_of(ip) {
            "IPv4" => families.push("IPv4".into()),
            family => {
                let path = Path::new("spec").child("clusterIPs").index(i);
                let detail = format!("{family} is not configured on this cluster");
                errors.push(FieldError::invalid(&path, &copy(service, "/spec/clusterIPs"), detail));
            }
        }
    }
    if !families.is_empty() {
        set(service, "/spec/ipFamilies", families);
    }
    errors
}

/// Returns whether a dual-stack service keeps its families because nothing about them changed.
fn is_unchanged_dual_stack(service: &Value, old: &Value) -> bool {
    let same = |pointer| items(service, pointer) == items(old, pointer);
    let kind = text(service, "/spec/type");
    kind == text(old, "/spec/type")
        && matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
        && text(service, "/spec/ipFamilyPolicy") == "PreferDualStack"
        && matches!(text(old, "/spec/ipFamilyPolicy"), "PreferDualStack" | "")
        && same("/spec/clusterIPs")
        && same("/spec/ipFamilies")
}

fn policy_error(service: &Value, detail: &str) -> FieldError {
    FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), &copy(service, "/spec/ipFamilyPolicy"), detail)
}

fn fail(errors: ErrorList) -> Result<(), AllocationError> {
    if errors.is_empty() { Ok(()) } else { Err(AllocationError::Invalid(errors)) }
}
