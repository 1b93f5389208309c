//! Validation of security contexts.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use super::{paths, windows};
use crate::field_errors::FieldErrors;
use crate::object::{boolean, integer, is_set, items, text};

const SYSCTL_RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates the security context of a container.
pub(super) fn validate_container(container: &Value, host_users: bool, path: &Path, errors: &mut ErrorList) {
    let Some(context) = container.get("securityContext").filter(|context| !context.is_null()) else { return };
    validate_ids(context, &["runAsUser", "runAsGroup"], path, errors);
    if is_set(context, "/procMount") {
        let mount = text(context, "/procMount");
        if !matches!(mount, "Default" | "Unmasked") {
            errors.not_supported(&path.child("procMount"), mount, &["Default", "Unmasked"]);
        }
        if host_users && mount == "Unmasked" {
            errors.invalid(&path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp(context, path, errors);
    if boolean(context, "/allowPrivilegeEscalation") == Some(false) {
        if boolean(context, "/privileged") == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_shown(path, show_context(context), detail);
        }
        for _ in items(context, "/capabilities/add").iter().filter(|add| **add == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_shown(path, show_context(context), detail);
        }
    }
    windows::validate_options(context, &path.child("windowsOptions"), errors);
    validate_app_armor(context, path, errors);
}

/// Validates the security context of a pod.
pub(super) fn validate_pod(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(context) = spec.get("securityContext").filter(|context| !context.is_null()) else { return };
    validate_ids(context, &["fsGroup", "runAsUser", "runAsGroup"], path, errors);
    for (index, group) in items(context, "/supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        errors.invalid_each(&path.child("supplementalGroups").index(index), group, names::is_valid_group_id(group));
    }
    if boolean(spec, "/shareProcessNamespace") == Some(true) && boolean(spec, "/hostPID") == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    validate_sysctls(spec, items(context, "/sysctls"), &path.child("sysctls"), errors);
    supported(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path, errors);
    validate_seccomp(context, path, errors);
    windows::validate_options(context, &path.child("windowsOptions"), errors);
    validate_app_armor(context, path, errors);
    supported(context, "supplementalGroupsPolicy", &["Merge", "Strict"], path, errors);
    supported(context, "seLinuxChangePolicy", &["Recursive"], path, errors);
}

/// Requires that a pod with its own user namespace shares no other namespace with the host.
pub(super) fn validate_host_users(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if boolean(spec, "/hostUsers") != Some(false) {
        return;
    }
    let detail = "when `hostUsers` is false";
    for (field, shown) in [("/hostNetwork", "hostNetwork"), ("/hostPID", "HostPID"), ("/hostIPC", "HostIPC")] {
        if boolean(spec, field) == Some(true) {
            errors.forbidden(&path.child(shown), detail);
        }
    }
    super::each_container(spec, path, |container, at| {
        if !items(container, "/volumeDevices").is_empty() {
            errors.forbidden(&at().child("volumeDevices"), detail);
        }
    });
}

fn supported(context: &Value, field: &str, values: &[&str], path: &Path, errors: &mut ErrorList) {
    let Some(value) = context.get(field).and_then(Value::as_str) else { return };
    if !values.contains(&value) {
        errors.not_supported(&path.child(field), value, values);
    }
}

fn validate_ids(context: &Value, fields: &[&str], path: &Path, errors: &mut ErrorList) {
    for field in fields {
        if let Some(id) = integer(context, &format!("/{field}")) {
            errors.invalid_each(&path.child(field), id, names::is_valid_user_id(id));
        }
    }
}

fn validate_sysctls(spec: &Value, sysctls: &[Value], path: &Path, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = path.index(index).child("name");
        let name = text(sysctl, "/name");
        if name.is_empty() {
            errors.required(&at);
        } else if !is_sysctl(name) {
            errors.invalid(&at, name, SYSCTL_RULE);
        } else if seen.contains(name) {
            errors.duplicate(&at, name);
        }
        let normal = if is_dotted_first(name) { name.to_owned() } else { name.replace('/', ".") };
        let is_ipc = IPC_SYSCTLS.contains(&normal.as_str()) || normal.starts_with("fs.mqueue.");
        if boolean(spec, "/hostNetwork") == Some(true) && normal.starts_with("net.") {
            errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        } else if boolean(spec, "/hostIPC") == Some(true) && is_ipc {
            errors.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
        seen.insert(name);
    }
}

/// Returns whether the first separator of a sysctl name is a dot, so that slashes are part of its elements.
fn is_dotted_first(name: &str) -> bool {
    name.find(['.', '/']).is_some_and(|at| name.as_bytes()[at] == b'.')
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().copied().is_some_and(is_end)
                && bytes.last().copied().is_some_and(is_end)
                && bytes.iter().all(|b| is_end(*b) || matches!(b, b'-' | b'_'))
        })
}

fn validate_seccomp(context: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(profile) = context.get("seccompProfile").filter(|profile| !profile.is_null()) else { return };
    let path = path.child("seccompProfile");
    let kind = text(profile, "/type");
    if kind.is_empty() {
        errors.required_because(&path.child("type"), "type is required when seccompProfile is set");
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &PROFILE_TYPES);
    }
    let local = profile.get("localhostProfile").and_then(Value::as_str);
    let path = path.child("localhostProfile");
    match (kind, local) {
        ("Localhost", None) => errors.required_because(&path, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(local)) => paths::local_descending(local, &path, errors),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid_shown(&path, show_profile(profile), detail);
        }
        (_, None) => {}
    }
}

/// Validates the AppArmor profile of a container or pod.
pub(in crate::kinds::pod) fn validate_app_armor(context: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(profile) = context.get("appArmorProfile").filter(|profile| !profile.is_null()) else { return };
    let path = path.child("appArmorProfile");
    let local = profile.get("localhostProfile").and_then(Value::as_str);
    let local_path = path.child("localhostProfile");
    match (text(profile, "/type"), local) {
        ("Localhost", None) => {
            errors.required_because(&local_path, "must be set when AppArmor type is Localhost");
        }
        ("Localhost", Some(local)) => {
            if local.trim() != local {
                errors.invalid(&local_path, local, "must not be padded with whitespace");
            } else if local.is_empty() {
                errors.required_because(&local_path, "must be set when AppArmor type is Localhost");
            }
            if local.len() > 4095 {
                errors.push(FieldError::too_long(&local_path, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            errors.invalid(&local_path, local, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required_because(&path.child("type"), "type is required when appArmorProfile is set"),
        (kind, _) => errors.not_supported(&path.child("type"), kind, &PROFILE_TYPES),
    }
}

fn show_profile(profile: &Value) -> String {
    show_struct(profile, &[("Type", "type"), ("LocalhostProfile", "localhostProfile")], &["type"])
}

/// Formats a security context as in messages, with the field names of kube-apiserver's internal type.
fn show_context(context: &Value) -> String {
    let mut out = String::from("{");
    for (name, field) in [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ] {
        let value = context.get(field).unwrap_or(&Value::Null);
        let shown = match field {
            _ if value.is_null() => "null".to_owned(),
            "capabilities" => show_struct(value, &[("Add", "add"), ("Drop", "drop")], &[]),
            "seLinuxOptions" => {
                let fields = [("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")];
                show_struct(value, &fields, &["user", "role", "type", "level"])
            }
            "windowsOptions" => {
                let fields = [
                    ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
                    ("GMSACredentialSpec", "gmsaCredentialSpec"),
                    ("RunAsUserName", "runAsUserName"),
                    ("HostProcess", "hostProcess"),
                ];
                show_struct(value, &fields, &[])
            }
            "seccompProfile" | "appArmorProfile" => show_profile(value),
            _ => value.to_string(),
        };
        let separator = if out.len() > 1 { "," } else { "" };
        let _ = write!(out, "{separator}\"{name}\":{shown}");
    }
    out + "}"
}

/// Formats a struct with internal field names; absent fields in `texts` are shown as empty instead of null.
fn show_struct(value: &Value, fields: &[(&str, &str)], texts: &[&str]) -> String {
    let shown: Vec<_> = fields
        .iter()
        .map(|(name, field)| match value.get(*field) {
            Some(value) => format!("\"{name}\":{value}"),
            None if texts.contains(field) => format!("\"{name}\":\"\""),
            None => format!("\"{name}\":null"),
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}
