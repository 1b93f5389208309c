//! Validation of Ingresses.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use super::{OLD_CLASS, old_class};
use crate::field_errors::FieldErrors;
use crate::object::{copy, integer, is_set, items, text};

/// Validates an Ingress; an existing one may keep values that were accepted earlier.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let (spec, path) = (object.get("spec").unwrap_or(&Value::Null), Path::new("spec"));
    let rules = items(spec, "/rules");
    if rules.is_empty() && !is_set(spec, "/defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&path, copy(spec, "/rules"), detail);
    }
    if let Some(backend) = spec.get("defaultBackend").filter(|backend| !backend.is_null()) {
        validate_backend(backend, &path.child("defaultBackend"), &mut errors);
    }
    let tolerates_wildcards = old.is_some_and(has_invalid_wildcard_rule);
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("rules").index(index);
        validate_rule_host(text(rule, "/host"), &path.child("host"), &mut errors);
        if !(tolerates_wildcards && text(rule, "/host").contains('*')) {
            validate_rule(rule, &path, &mut errors);
        }
    }
    let tolerates_secrets = old.is_some_and(has_invalid_secret);
    for (index, tls) in items(spec, "/tls").iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in items(tls, "/hosts").iter().enumerate() {
            validate_host(host.as_str().unwrap_or_default(), &path.child("hosts").index(index), &mut errors);
        }
        if !tolerates_secrets {
            let secret = text(tls, "/secretName");
            errors.invalid_each(&path.child("secretName"), secret, secret_problems(secret));
        }
    }
    let class = spec.get("ingressClassName").and_then(Value::as_str);
    if let Some(class) = class {
        errors.dns_subdomain(&path.child("ingressClassName"), class);
    }
    if let (None, Some(named), Some(class)) = (old, old_class(object), class)
        && named != class
    {
        let path = Path::new("annotations").child(OLD_CLASS);
        errors.invalid(&path, named, "must match `ingressClassName` when both are specified");
    }
    errors
}

/// Validates a changed status.
pub(super) fn validate_status(object: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let points = "/status/loadBalancer/ingress";
    let known: Vec<&str> = items(old, points).iter().map(|point| text(point, "/ip")).collect();
    for (index, point) in items(object, points).iter().enumerate() {
        let path = Path::new("status").child("loadBalancer").child("ingress").index(index);
        let (ip, hostname) = (text(point, "/ip"), text(point, "/hostname"));
        if !ip.is_empty() && !known.contains(&ip) {
            errors.extend(names::is_valid_ip_legacy(&path.child("ip"), ip, true));
        }
        if !hostname.is_empty() {
            let path = path.child("hostname");
            errors.dns_subdomain(&path, hostname);
            validate_no_address(hostname, &path, &mut errors);
        }
    }
    errors
}

fn secret_problems(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::is_dns1123_subdomain(name) }
}

fn has_invalid_secret(object: &Value) -> bool {
    items(object, "/spec/tls").iter().any(|tls| !secret_problems(text(tls, "/secretName")).is_empty())
}

fn has_invalid_wildcard_rule(object: &Value) -> bool {
    items(object, "/spec/rules").iter().any(|rule| {
        let mut errors = ErrorList::new();
        validate_rule(rule, &Path::root(), &mut errors);
        text(rule, "/host").contains('*') && !errors.is_empty()
    })
}

fn validate_no_address(host: &str, path: &Path, errors: &mut ErrorList) {
    if names::parse_ip_sloppy(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

fn validate_host(host: &str, path: &Path, errors: &mut ErrorList) {
    let check = if host.contains('*') { names::is_wildcard_dns1123_subdomain } else { names::is_dns1123_subdomain };
    errors.invalid_each(path, host, check(host));
}

fn validate_rule_host(host: &str, path: &Path, errors: &mut ErrorList) {
    if !host.is_empty() {
        validate_no_address(host, path, errors);
        validate_host(host, path, errors);
    }
}

fn validate_rule(rule: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_set(rule, "/http") {
        return;
    }
    let path = path.child("http").child("paths");
    let paths = items(rule, "/http/paths");
    if paths.is_empty() {
        errors.required(&path);
    }
    for (index, one) in paths.iter().enumerate() {
        validate_path(one, &path.index(index), errors);
    }
}

fn validate_path(path_rule: &Value, path: &Path, errors: &mut ErrorList) {
    let (target, at) = (text(path_rule, "/path"), path.child("path"));
    let Some(kind) = path_rule.get("pathType").and_then(Value::as_str) else {
        return errors.required_because(&path.child("pathType"), "pathType must be specified");
    };
    match kind {
        "Exact" | "Prefix" => {
            if !target.starts_with('/') {
                errors.invalid(&at, target, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if target.contains(part) {
                    errors.invalid(&at, target, format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if target.ends_with(end) {
                    errors.invalid(&at, target, format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !target.is_empty() && !target.starts_with('/') {
                errors.invalid(&at, target, "must be an absolute path");
            }
        }
        other => {
            errors.not_supported(&path.child("pathType"), other, &["Exact", "ImplementationSpecific", "Prefix"]);
        }
    }
    validate_backend(path_rule.get("backend").unwrap_or(&Value::Null), &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path, errors: &mut ErrorList) {
    match (is_set(backend, "/resource"), is_set(backend, "/service")) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => {
            let resource = backend.get("resource").unwrap_or(&Value::Null);
            validate_reference(resource, &path.child("resource"), errors);
        }
        (false, true) => {
            let at = path.child("service").child("name");
            match text(backend, "/service/name") {
                "" => errors.required(&at),
                name => errors.dns_label(&at, name),
            }
            let at = path.child("service").child("port");
            let name = text(backend, "/service/port/name");
            let number = integer(backend, "/service/port/number").unwrap_or_default();
            match (name.is_empty(), number) {
                (true, 0) => errors.required_because(path, "port name or number is required"),
                (true, number) => errors.invalid_each(&at.child("number"), number, names::is_valid_port_num(number)),
                (false, 0) => errors.invalid_each(&at.child("name"), name, names::is_valid_port_name(name)),
                (false, _) => errors.invalid(path, "", "cannot set both port name & port number"),
            }
        }
        (false, false) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

/// Validates a reference to an object.
pub(in crate::kinds) fn validate_reference(reference: &Value, path: &Path, errors: &mut ErrorList) {
    if let Some(group) = reference.get("apiGroup").and_then(Value::as_str) {
        errors.dns_subdomain(&path.child("apiGroup"), group);
    }
    for field in ["kind", "name"] {
        let at = path.child(field);
        match reference.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" => errors.required(&at),
            value => errors.invalid_each(&at, value, names::is_path_segment_name(value)),
        }
    }
}
