//! Validation of status updates.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::names;

use super::annotations;
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, text};

/// Validates an update of the status.
pub(in crate::kinds::pod) fn validate_status(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    annotations::validate_update(new, old, &mut errors);
    let path = Path::new("status");
    validate_conditions(new, &path.child("conditions"), &mut errors);
    if text(new, "/spec/nodeName") != text(old, "/spec/nodeName") {
        errors.forbidden(&path.child("nodeName"), "may not be changed directly");
    }
    let (nominated, before) = (text(new, "/status/nominatedNodeName"), text(old, "/status/nominatedNodeName"));
    if nominated != before && !nominated.is_empty() {
        errors.dns_subdomain(&path.child("nominatedNodeName"), nominated);
        if !text(old, "/spec/nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errors.forbidden(&path.child("nominatedNodeName"), detail);
        }
    }
    if let Some(generation) = integer(new, "/status/observedGeneration").filter(|generation| *generation < 0) {
        errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    let class = text(new, "/status/qosClass");
    if class != text(old, "/status/qosClass") {
        errors.invalid(&path.child("qosClass"), class, "field is immutable");
    }
    for kind in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_transitions(new, old, kind, &path.child(kind), &mut errors);
    }
    validate_claims(new, &path.child("resourceClaimStatuses"), &mut errors);
    validate_addresses(new, old, "podIPs", &path, &mut errors);
    let host_ips = items(new, "/status/hostIPs");
    if let Some(first) = host_ips.first().map(|ip| text(ip, "/ip")).filter(|ip| *ip != text(new, "/status/hostIP")) {
        errors.invalid(&path.child("hostIPs").index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    validate_addresses(new, old, "hostIPs", &path, &mut errors);
    for kind in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_users(new, kind, &path.child(kind), &mut errors);
    }
    errors
}

fn validate_conditions(pod: &Value, path: &Path, errors: &mut ErrorList) {
    for (index, condition) in items(pod, "/status/conditions").iter().enumerate() {
        if let Some(generation) = integer(condition, "/observedGeneration").filter(|generation| *generation < 0) {
            let detail = "must be a non-negative integer";
            errors.invalid(&path.index(index).child("observedGeneration"), generation, detail);
        }
        let kind = text(condition, "/type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.qualified_name(&path.index(index).child("Type"), kind);
        }
    }
}

/// Requires that a terminated container runs again only if its restart policy allows it.
fn validate_transitions(new: &Value, old: &Value, kind: &str, path: &Path, errors: &mut ErrorList) {
    let spec = &old["spec"];
    let is_ephemeral = kind == "ephemeralContainerStatuses";
    let restarts_all = |container: &Value| {
        items(container, "/restartPolicyRules").iter().any(|rule| text(rule, "/action") == "RestartAllContainers")
    };
    if !is_ephemeral && items(spec, "/containers").iter().chain(items(spec, "/initContainers")).any(restarts_all) {
        return;
    }
    let containers = if kind == "containerStatuses" { "/containers" } else { "/initContainers" };
    let pointer = format!("/status/{kind}");
    for (index, status) in items(old, &pointer).iter().enumerate() {
        let Some(ended) = status.pointer("/state/terminated").filter(|state| !state.is_null()) else { continue };
        let name = text(status, "/name");
        let runs_again = items(new, &pointer)
            .iter()
            .any(|status| text(status, "/name") == name && !is_set(status, "/state/terminated"));
        let code = integer(ended, "/exitCode").unwrap_or_default();
        let may_restart = !is_ephemeral
            && items(spec, containers)
                .iter()
                .find(|container| text(container, "/name") == name)
                .is_some_and(|container| restarts(container, text(spec, "/restartPolicy"), code));
        if runs_again && !may_restart {
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(index).child("state"), detail);
        }
    }
}

/// Returns whether a container that terminated with this exit code is restarted.
fn restarts(container: &Value, of_pod: &str, code: i64) -> bool {
    let own = text(container, "/restartPolicy");
    if !own.is_empty() {
        let fits = |rule: &&Value| {
            let is_listed = items(rule, "/exitCodes/values").iter().any(|value| value.as_i64() == Some(code));
            match text(rule, "/exitCodes/operator") {
                "In" => is_listed,
                "NotIn" => !is_listed,
                _ => false,
            }
        };
        let rule = items(container, "/restartPolicyRules").iter().find(fits);
        if rule.is_some_and(|rule| matches!(text(rule, "/action"), "Restart" | "RestartAllContainers")) {
            return true;
        }
    }
    match if own.is_empty() { of_pod } else { own } {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn validate_claims(pod: &Value, path: &Path, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, status) in items(pod, "/status/resourceClaimStatuses").iter().enumerate() {
        let (name, at) = (text(status, "/name"), path.index(index));
        if !items(pod, "/spec/resourceClaims").iter().any(|claim| text(claim, "/name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&at.child("name"), name, detail);
        }
        if !seen.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        if is_set(status, "/resourceClaimName") {
            errors.dns_subdomain(&at.child("resourceClaimName"), text(status, "/resourceClaimName"));
        }
    }
}

/// Allows at most one address per IP family, plus those of the old status.
fn validate_addresses(new: &Value, old: &Value, field: &str, path: &Path, errors: &mut ErrorList) {
    let pointer = format!("/status/{field}");
    let path = path.child(field);
    let addresses: Vec<_> = items(new, &pointer).iter().map(|ip| text(ip, "/ip")).collect();
    let before: Vec<_> = items(old, &pointer).iter().map(|ip| text(ip, "/ip")).collect();
    for (index, address) in addresses.iter().enumerate().filter(|(_, address)| !before.contains(address)) {
        errors.extend(names::is_valid_ip_legacy(&path.index(index), address, true));
    }
    if addresses.len() < 2 {
        return;
    }
    let parsed: Vec<_> = addresses.iter().map_while(|address| names::parse_ip_sloppy(address)).collect();
    if let Some(bad) = addresses.get(parsed.len()) {
        errors.push(FieldError {
            kind: ErrorKind::Internal,
            field: path.to_string(),
            value: None,
            detail: format!("failed to check for dual stack with error:invalid IP[{}]: {bad}", parsed.len()),
        });
    }
    let is_dual = parsed.len() == 2 && parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if !is_dual || addresses.len() > 2 {
        let shown: Vec<_> = addresses.iter().map(|ip| format!("{{\"IP\":{}}}", Value::from(*ip))).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid_shown(&path, format!("[{}]", shown.join(",")), detail);
    }
}

fn validate_users(pod: &Value, kind: &str, path: &Path, errors: &mut ErrorList) {
    for (index, status) in items(pod, &format!("/status/{kind}")).iter().enumerate() {
        let Some(user) = status.pointer("/user/linux").filter(|user| !user.is_null()) else { continue };
        let at = path.index(index).child("user").child("linux");
        if text(pod, "/spec/os/name") == "windows" {
            errors.forbidden(&at, "cannot be set for a windows pod");
            continue;
        }
        for field in ["uid", "gid"] {
            let id = integer(user, &format!("/{field}")).unwrap_or_default();
            errors.invalid_each(&at.child(field), id, names::is_valid_user_id(id));
        }
        for (group_index, group) in items(user, "/supplementalGroups").iter().enumerate() {
            let group = group.as_i64().unwrap_or_default();
            let at = at.child("supplementalGroups").index(group_index);
            errors.invalid_each(&at, group, names::is_valid_group_id(group));
        }
    }
}
