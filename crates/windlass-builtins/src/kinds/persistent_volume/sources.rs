//! Volume sources, of which a volume has exactly one.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::field_errors::FieldErrors;
use crate::kinds::pod::validation::paths::no_backsteps;
use crate::kinds::pod::validation::volumes::{required, validate_driver_name, validate_initiator, validate_source};
use crate::object::{boolean, integer, is_set, text};

/// The sources in the order of validation, each with its name in the error about a second source.
const SOURCES: [(&str, &str); 22] = [
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// Returns whether a field of the spec is a volume source.
pub(super) fn is_source(field: &str) -> bool {
    SOURCES.iter().any(|(source, _)| *source == field)
}

/// Validates the sources of a spec; `name` is the name of the volume.
pub(super) fn validate(spec: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    let mut found = false;
    for (field, shown) in SOURCES {
        let Some(source) = spec.get(field).filter(|source| !source.is_null()) else { continue };
        // kube-apiserver does not count preceding sources here.
        if found && field != "flexVolume" {
            errors.forbidden(&path.child(shown), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let at = path.child(if field == "gcePersistentDisk" { "persistentDisk" } else { field });
        validate_one(field, source, name, &at, errors);
        if field == "local" && !is_set(spec, "/nodeAffinity") {
            errors.required_because(&path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required_because(path, "must specify a volume type");
    }
}

fn validate_one(field: &str, source: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    match field {
        "csi" => return validate_csi(source, path, errors),
        "iscsi" => return validate_iscsi(source, name, path, errors),
        "local" => {
            let target = text(source, "/path");
            errors.nonempty(&path.child("path"), target);
            return no_backsteps(target, &path.child("path"), errors);
        }
        _ => validate_source(field, source, false, path, errors),
    }
    match field {
        "glusterfs" => {
            let at = path.child("endpointsNamespace");
            match source.get("endpointsNamespace").and_then(Value::as_str) {
                Some("") => {
                    errors.invalid(&at, "", "if the endpointnamespace is set, it must be a valid namespace name");
                }
                Some(namespace) => errors.dns_label(&at, namespace),
                None => {}
            }
        }
        "cinder" | "storageos" if is_set(source, "/secretRef") => {
            errors.nonempty(&path.child("secretRef").child("namespace"), text(source, "/secretRef/namespace"));
        }
        "azureFile" if is_set(source, "/secretNamespace") => {
            errors.nonempty(&path.child("secretNamespace"), text(source, "/secretNamespace"));
        }
        _ => {}
    }
}

fn validate_csi(source: &Value, path: &Path, errors: &mut ErrorList) {
    validate_driver_name(text(source, "/driver"), &path.child("driver"), errors);
    required(source, &["volumeHandle"], path, errors);
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in secrets {
        let Some(secret) = source.get(field).filter(|secret| !secret.is_null()) else { continue };
        let at = path.child(field);
        match text(secret, "/name") {
            "" => errors.required(&at.child("name")),
            name => errors.dns_subdomain(&at.child("name"), name),
        }
        match text(secret, "/namespace") {
            "" => errors.required(&at.child("namespace")),
            namespace => errors.dns_label(&at.child("namespace"), namespace),
        }
    }
}

fn validate_iscsi(source: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    let portal = text(source, "/targetPortal");
    errors.nonempty(&path.child("targetPortal"), portal);
    if is_set(source, "/initiatorName") && name.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.invalid(&path.child("targetportal"), portal, detail);
    }
    match text(source, "/iqn") {
        "" => errors.required(&path.child("iqn")),
        target => validate_target(target, &path.child("iqn"), errors),
    }
    let lun = integer(source, "/lun").unwrap_or_default();
    if !(0..=255).contains(&lun) {
        errors.invalid(&path.child("lun"), lun, names::inclusive_range_error(0, 255));
    }
    let authenticates = |field| boolean(source, field) == Some(true);
    if (authenticates("/chapAuthDiscovery") || authenticates("/chapAuthSession")) && !is_set(source, "/secretRef") {
        errors.required(&path.child("secretRef"));
    }
    if is_set(source, "/secretRef") {
        errors.nonempty(&path.child("secretRef").child("name"), text(source, "/secretRef/name"));
    }
    if let Some(initiator) = source.get("initiatorName").and_then(Value::as_str) {
        validate_target(initiator, &path.child("initiatorname"), errors);
    }
}

/// Like the validation for pods, with shorter messages.
fn validate_target(name: &str, path: &Path, errors: &mut ErrorList) {
    if matches!(name.get(..3), Some("iqn" | "eui" | "naa")) {
        validate_initiator(name, path, errors);
    } else {
        errors.invalid(path, name, "must be valid format");
    }
}
