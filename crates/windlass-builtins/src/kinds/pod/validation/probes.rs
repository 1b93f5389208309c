//! Validation of probes and lifecycle hooks.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, text};

/// Validates the three probes of a container.
pub(super) fn validate_probes(container: &Value, grace: Option<i64>, path: &Path, errors: &mut ErrorList) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name).filter(|probe| !probe.is_null()) else { continue };
        let path = path.child(name);
        validate_probe(probe, grace, &path, errors);
        if name == "readinessProbe" {
            if let Some(seconds) = integer(probe, "/terminationGracePeriodSeconds") {
                let detail = "must not be set for readinessProbes";
                errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, detail);
            }
        } else {
            let threshold = integer(probe, "/successThreshold").unwrap_or_default();
            if threshold != 1 {
                errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
            }
        }
    }
}

fn validate_probe(probe: &Value, grace: Option<i64>, path: &Path, errors: &mut ErrorList) {
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, path, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.nonnegative(&path.child(field), probe.get(field).and_then(Value::as_i64));
    }
    if let Some(seconds) = integer(probe, "/terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

/// Validates the lifecycle hooks of a container.
pub(super) fn validate_lifecycle(container: &Value, grace: Option<i64>, path: &Path, errors: &mut ErrorList) {
    for hook in ["postStart", "preStop"] {
        let Some(handler) = container.pointer(&format!("/lifecycle/{hook}")).filter(|hook| !hook.is_null()) else {
            continue;
        };
        let path = path.child("lifecycle").child(hook);
        validate_handler(handler, &["exec", "httpGet", "tcpSocket", "sleep"], grace, &path, errors);
    }
}

fn validate_handler(handler: &Value, actions: &[&str], grace: Option<i64>, path: &Path, errors: &mut ErrorList) {
    let mut found = false;
    for name in actions {
        let Some(action) = handler.get(*name).filter(|action| !action.is_null()) else { continue };
        let path = path.child(name);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *name {
            "exec" if items(action, "/command").is_empty() => errors.required(&path.child("command")),
            "httpGet" => validate_http_get(action, &path, errors),
            "tcpSocket" => validate_port(action.get("port"), &path.child("port"), errors),
            "grpc" => {
                let port = integer(action, "/port").unwrap_or_default();
                errors.invalid_each(&path.child("port"), port, names::is_valid_port_num(port));
            }
            "sleep" => {
                let seconds = integer(action, "/seconds").unwrap_or_default();
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&path, seconds, detail);
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.required_because(path, "must specify a handler type");
    }
}

fn validate_http_get(action: &Value, path: &Path, errors: &mut ErrorList) {
    errors.nonempty(&path.child("path"), text(action, "/path"));
    validate_port(action.get("port"), &path.child("port"), errors);
    let scheme = text(action, "/scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in items(action, "/httpHeaders") {
        let name = text(header, "/name");
        errors.invalid_each(&path.child("httpHeaders"), name, names::is_http_header_name(name));
    }
}

/// Validates a port number or name.
fn validate_port(port: Option<&Value>, path: &Path, errors: &mut ErrorList) {
    match port {
        Some(Value::String(name)) => errors.invalid_each(path, name.as_str(), names::is_valid_port_name(name)),
        port => {
            let number = port.and_then(Value::as_i64).unwrap_or_default();
            errors.invalid_each(path, number, names::is_valid_port_num(number));
        }
    }
}

/// Forbids hooks and probes on init containers that are not sidecars.
pub(super) fn forbid_on_init_container(container: &Value, path: &Path, errors: &mut ErrorList) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if is_set(container, &format!("/{field}")) {
            errors.forbidden(&path.child(field), "may not be set for init containers without restartPolicy=Always");
        }
    }
}
