//! Validation of requests, limits and resource claims, for containers and for the pod as a whole.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::quantity::Quantity;

use crate::field_errors::FieldErrors;
use crate::kinds::pod::resources::aggregate;
use crate::object::{is_set, items, text};
use crate::resource_list::{
    self, is_extended, is_huge_page, is_integer, is_native, is_pod_level, is_standard, is_standard_for_containers,
    is_whole_pages, may_be_overcommitted,
};

/// The owner of the resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Container,
    Pod,
}

/// Validates the resources of a container.
pub(super) fn validate_container(container: &Value, claims: &BTreeSet<&str>, path: &Path, errors: &mut ErrorList) {
    if let Some(resources) = container.get("resources") {
        validate(resources, "/limits", Level::Container, claims, path, errors);
    }
}

/// Validates the overhead of a pod, by the rules for limits.
pub(super) fn validate_overhead(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if is_set(spec, "/overhead") {
        validate_as_limits(spec, "/overhead", &path.child("overhead"), errors);
    }
}

/// Validates a field by the rules for container limits.
pub(crate) fn validate_as_limits(object: &Value, pointer: &str, path: &Path, errors: &mut ErrorList) {
    validate(object, pointer, Level::Container, &BTreeSet::new(), path, errors);
}

/// Validates pod-level resources.
pub(super) fn validate_pod(spec: &Value, claims: &BTreeSet<&str>, path: &Path, errors: &mut ErrorList) {
    let Some(resources) = spec.get("resources").filter(|resources| !resources.is_null()) else { return };
    let path = path.child("resources");
    if text(spec, "/os/name") == "windows" {
        errors.forbidden(&path, "may not be set for a windows pod");
        return;
    }
    if is_set(resources, "/claims") {
        errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate(resources, "/limits", Level::Pod, claims, &path, errors);
    validate_consistency(spec, &path, errors);
}

fn validate(
    requirements: &Value,
    limits_at: &str,
    level: Level,
    claims: &BTreeSet<&str>,
    path: &Path,
    errors: &mut ErrorList,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let limits = resource_list::list(requirements, limits_at);
    let requests =
        if limits_at == "/limits" { resource_list::list(requirements, "/requests") } else { Default::default() };
    for (name, quantity) in &limits {
        let at = limits_path.key(name);
        validate_name(name, level, &at, errors);
        validate_quantity(name, quantity, &at, errors);
        validate_pages(name, quantity, &at, errors);
    }
    for (name, quantity) in &requests {
        let at = requests_path.key(name);
        validate_name(name, level, &at, errors);
        validate_quantity(name, quantity, &at, errors);
        match limits.get(name) {
            Some(limit) if quantity != limit && !may_be_overcommitted(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.invalid(&requests_path, quantity.to_string(), detail);
            }
            Some(limit) if quantity > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests_path, quantity.to_string(), detail);
            }
            None if !may_be_overcommitted(name) => {
                errors.required_because(&limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        validate_pages(name, quantity, &at, errors);
    }
    let mut names = limits.keys().chain(requests.keys());
    if names.clone().any(|name| is_huge_page(name)) && !names.any(|name| matches!(name.as_str(), "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    if limits_at == "/limits" {
        validate_claims(items(requirements, "/claims"), claims, &path.child("claims"), errors);
    }
}

fn validate_pages(name: &str, quantity: &Quantity, path: &Path, errors: &mut ErrorList) {
    if is_huge_page(name) && !is_whole_pages(name, quantity) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.invalid(path, quantity.to_string(), detail);
    }
}

/// Validates a resource name: a standard resource, or a qualified name.
pub(crate) fn validate_resource_name(name: &str, path: &Path, errors: &mut ErrorList) {
    let before = errors.len();
    errors.qualified_name(path, name);
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// Validates a resource name for containers.
pub(crate) fn validate_container_resource_name(name: &str, path: &Path, errors: &mut ErrorList) {
    validate_resource_name(name, path, errors);
    if !name.contains('/') {
        if !is_standard_for_containers(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn validate_name(name: &str, level: Level, path: &Path, errors: &mut ErrorList) {
    match level {
        Level::Container => validate_container_resource_name(name, path, errors),
        Level::Pod => {
            let before = errors.len();
            validate_resource_name(name, path, errors);
            if errors.len() == before && !is_pod_level(name) {
                errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
            }
        }
    }
}

/// Requires a quantity that is not negative, and an integer if the resource is counted in whole numbers.
pub(crate) fn validate_quantity(name: &str, quantity: &Quantity, path: &Path, errors: &mut ErrorList) {
    if quantity.sign() < 0 {
        errors.invalid(path, quantity.to_string(), "must be greater than or equal to 0");
    }
    if is_integer(name) && quantity.milli_value() % 1000 != 0 {
        errors.invalid(path, quantity.to_string(), "must be an integer");
    }
}

fn validate_claims(claims: &[Value], known: &BTreeSet<&str>, path: &Path, errors: &mut ErrorList) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = path.index(index);
        let (name, request) = (text(claim, "/name"), text(claim, "/request"));
        if name.is_empty() {
            errors.required(&at);
            continue;
        }
        if seen.contains(name) {
            errors.duplicate(&at, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.dns_label(&at.child("request"), request);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.duplicate(&at, &key);
            } else if request.is_empty() {
                let overlaps =
                    seen.iter().filter(|key| key.split_once('/').is_some_and(|(claim, _)| claim == name)).count();
                (0..overlaps).for_each(|_| errors.duplicate(&at, name));
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let names: Vec<_> = known.iter().copied().collect();
            let list = if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{list}");
            errors.push(FieldError { kind: ErrorKind::NotFound, detail, ..FieldError::not_found(&at, &name.into()) });
        }
    }
}

/// Requires that the resources of the containers fit into the pod-level resources.
fn validate_consistency(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let requests = resource_list::list(spec, "/resources/requests");
    let limits = resource_list::list(spec, "/resources/limits");
    for (name, sum) in aggregate(spec, "requests") {
        if let Some(request) = requests.get(&name).filter(|request| sum > **request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&path.child("requests").key(&name), request.to_string(), detail);
        }
    }
    for (name, sum) in aggregate(spec, "limits") {
        if let Some(limit) = limits.get(&name).filter(|limit| is_huge_page(&name) && sum > **limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(&path.child("limits").key(&name), limit.to_string(), detail);
        }
    }
    for (index, container) in items(spec, "/containers").iter().enumerate() {
        for (name, limit) in resource_list::list(container, "/resources/limits") {
            if let Some(most) = limits.get(&name).filter(|most| limit > **most) {
                let at = path.child("containers").index(index).key(&name).child("limits");
                errors.invalid(&at, limit.to_string(), format!("must be less than or equal to pod limits of {most}"));
            }
        }
    }
}

/// Validates the resource claims of a pod; returns their names.
pub(super) fn validate_pod_claims<'a>(
    spec: &'a Value,
    is_static: bool,
    path: &Path,
    errors: &mut ErrorList,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, claim) in items(spec, "/resourceClaims").iter().enumerate() {
        if is_static {
            errors.forbidden_at_all("static pods do not support resource claims");
            continue;
        }
        let at = path.index(index);
        let name = text(claim, "/name");
        if name.is_empty() {
            errors.required(&at.child("name"));
        } else if names.contains(name) {
            errors.duplicate(&at.child("name"), name);
        } else {
            errors.dns_label(&at.child("name"), name);
            names.insert(name);
        }
        let sources = [("resourceClaimName", is_set(claim, "/resourceClaimName")), {
            ("resourceClaimTemplateName", is_set(claim, "/resourceClaimTemplateName"))
        }];
        let problem = match sources {
            [(_, true), (_, true)] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [(_, false), (_, false)] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !problem.is_empty() {
            let shown = |field: &str| claim.get(field).unwrap_or(&Value::Null).to_string();
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name),
                shown("resourceClaimName"),
                shown("resourceClaimTemplateName")
            );
            errors.invalid_shown(&at, shown, problem);
        }
        for (field, _) in sources.iter().filter(|(_, is_set)| *is_set) {
            errors.dns_subdomain(&at.child(field), text(claim, &format!("/{field}")));
        }
    }
    names
}
