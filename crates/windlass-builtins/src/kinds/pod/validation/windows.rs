//! Validation of the operating system of a pod, and of the options for Windows.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::object::{boolean, is_set, text};

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

/// Forbids the fields that the operating system of the pod does not support.
pub(super) fn validate_os(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_set(spec, "/os") {
        return;
    }
    match text(spec, "/os/name") {
        "" => errors.required(&path.child("os").child("name")),
        "linux" => validate_linux(spec, path, errors),
        "windows" => validate_windows(spec, path, errors),
        other => errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn validate_linux(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let detail = "windows options cannot be set for a linux pod";
    if is_set(spec, "/securityContext/windowsOptions") {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), detail);
    }
    super::each_container(spec, path, |container, at| {
        if is_set(container, "/securityContext/windowsOptions") {
            errors.forbidden(&at().child("securityContext").child("windowsOptions"), detail);
        }
    });
}

fn validate_windows(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let of_pod = [
        "securityContext.appArmorProfile",
        "securityContext.seLinuxOptions",
        "hostUsers",
        "hostPID",
        "hostIPC",
        "securityContext.seccompProfile",
        "securityContext.fsGroup",
        "securityContext.fsGroupChangePolicy",
        "securityContext.sysctls",
        "shareProcessNamespace",
        "securityContext.runAsUser",
        "securityContext.runAsGroup",
        "securityContext.supplementalGroups",
        "securityContext.supplementalGroupsPolicy",
        "securityContext.seLinuxChangePolicy",
    ];
    for field in of_pod {
        let value = spec.pointer(&format!("/{}", field.replace('.', "/"))).unwrap_or(&Value::Null);
        let is_there = match field {
            "hostPID" | "hostIPC" => value.as_bool() == Some(true),
            "securityContext.sysctls" => value.as_array().is_some_and(|sysctls| !sysctls.is_empty()),
            _ => !value.is_null(),
        };
        if is_there {
            errors.forbidden(&path.child(field), NOT_ON_WINDOWS);
        }
    }
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    super::each_container(spec, path, |container, at| {
        for field in of_container {
            if is_set(container, &format!("/securityContext/{field}")) {
                errors.forbidden(&at().child("securityContext").child(field), NOT_ON_WINDOWS);
            }
        }
    });
}

/// Validates the Windows options of a security context.
pub(super) fn validate_options(context: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(options) = context.get("windowsOptions").filter(|options| !options.is_null()) else { return };
    if let Some(name) = options.get("gmsaCredentialSpecName").and_then(Value::as_str) {
        errors.dns_subdomain(&path.child("gmsaCredentialSpecName"), name);
    }
    if let Some(spec) = options.get("gmsaCredentialSpec").and_then(Value::as_str) {
        let path = path.child("gmsaCredentialSpec");
        match spec.len() {
            0 => errors.invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string"),
            1..=65536 => {}
            _ => errors.invalid(&path, spec, "gmsaCredentialSpec size must be under 64 KiB"),
        }
    }
    if let Some(name) = options.get("runAsUserName").and_then(Value::as_str) {
        let path = path.child("runAsUserName");
        for problem in user_name_problems(name) {
            errors.invalid(&path, name, format!("runAsUserName{problem}"));
        }
    }
}

fn user_name_problems(name: &str) -> Vec<&'static str> {
    let parts: Vec<_> = name.split('\\').collect();
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec![" cannot contain more than one backslash"],
    };
    let mut problems = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            problems.push("'s Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !domain.split('.').all(is_dns_label) {
            problems.push("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    match user.len() {
        0 => problems.push("'s User cannot be empty"),
        1..=104 => {}
        _ => problems.push("'s User length must not be longer than 104 characters"),
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        problems.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        problems.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    problems
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns_label(label: &str) -> bool {
    names::is_dns1123_label(&label.to_ascii_lowercase()).is_empty()
}

/// Validates host process containers: all containers of a pod or none, on the host network.
pub(super) fn validate_host_process(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let of_pod = boolean(spec, "/securityContext/windowsOptions/hostProcess");
    let (mut all, mut host) = (0, 0);
    super::each_container(spec, path, |container, at| {
        all += 1;
        let of_container = boolean(container, "/securityContext/windowsOptions/hostProcess");
        if let (Some(of_pod), Some(own)) = (of_pod, of_container)
            && of_pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&at().child("securityContext").child("windowsOptions").child("hostProcess"), own, detail);
        }
        if of_container.or(of_pod) == Some(true) {
            host += 1;
        }
    });
    if host == 0 {
        return;
    }
    if host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if boolean(spec, "/hostNetwork") != Some(true) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, detail);
    }
}
