//! Validation of volumes, each of which has a name and exactly one source.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::{names, sorting::Gather as _};

use super::mounts::Volumes;
use super::{claims, containers, paths, projected};
use crate::field_errors::FieldErrors;
use crate::object::{boolean, entries, integer, is_set, items, text};
use crate::resource_list::quantity;

/// The volume sources in the order of validation, each with its name in the error about a second source.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Validates the volumes and returns the valid ones. `pod_name` is empty for templates and generated names.
pub(super) fn validate<'a>(
    spec: &'a Value,
    pod_name: &str,
    is_pod: bool,
    path: &Path,
    errors: &mut ErrorList,
) -> Volumes<'a> {
    let mut valid = Volumes::new();
    let volumes = items(spec, "/volumes");
    let created: BTreeSet<_> = volumes
        .iter()
        .filter(|volume| !pod_name.is_empty() && is_set(volume, "/ephemeral"))
        .map(|volume| format!("{pod_name}-{}", text(volume, "/name")))
        .gather();
    for (index, volume) in volumes.iter().enumerate() {
        let at = path.index(index);
        let name = text(volume, "/name");
        let before = errors.len();
        validate_sources(volume, pod_name, is_pod, &at, errors);
        if name.is_empty() {
            errors.required(&at.child("name"));
        } else {
            errors.dns_label(&at.child("name"), name);
        }
        if valid.contains_key(name) {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            valid.insert(name, volume);
        }
        let claim = text(volume, "/persistentVolumeClaim/claimName");
        if created.contains(claim) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&at.child("persistentVolumeClaim").child("claimName"), claim, detail);
        }
    }
    valid
}

fn validate_sources(volume: &Value, pod_name: &str, is_pod: bool, path: &Path, errors: &mut ErrorList) {
    let name = text(volume, "/name");
    let mut found = false;
    for (field, shown) in SOURCES {
        let Some(source) = volume.get(field).filter(|source| !source.is_null()) else { continue };
        if found {
            errors.forbidden(&path.child(shown), "may not specify more than 1 volume type");
        } else {
            found = true;
            let at = path.child(if field == "gcePersistentDisk" { "persistentDisk" } else { field });
            validate_source(field, source, is_pod, &at, errors);
            if field == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for problem in names::is_dns1123_subdomain(&claim) {
                    errors.invalid(&path.child("name"), name, format!("PVC name \"{claim}\": {problem}"));
                }
            }
        }
        if field == "iscsi"
            && is_set(source, "/initiatorName")
            && name.len() + 1 + text(source, "/targetPortal").len() > 64
        {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                          iscsi.initiatorName is specified.";
            errors.invalid(&path.child("name"), name, detail);
        }
    }
    if !found {
        errors.required_because(path, "must specify a volume type");
    }
}

/// Validates one source of a volume.
pub(crate) fn validate_source(field: &str, source: &Value, is_pod: bool, path: &Path, errors: &mut ErrorList) {
    match field {
        "emptyDir" => {
            if source.get("sizeLimit").and_then(quantity).is_some_and(|limit| limit.sign() < 0) {
                errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => validate_host_path(source, path, errors),
        "gitRepo" => {
            required(source, &["repository"], path, errors);
            paths::local_descending(text(source, "/directory"), &path.child("directory"), errors);
        }
        "gcePersistentDisk" => {
            required(source, &["pdName"], path, errors);
            validate_partition(source, path, errors);
        }
        "awsElasticBlockStore" => {
            required(source, &["volumeID"], path, errors);
            validate_partition(source, path, errors);
        }
        "secret" => projected::validate_files(source, "secretName", path, errors),
        "configMap" => projected::validate_files(source, "name", path, errors),
        "downwardAPI" => projected::validate_downward(source, path, errors),
        "projected" => projected::validate(source, path, errors),
        "nfs" => {
            required(source, &["server", "path"], path, errors);
            let target = text(source, "/path");
            if !target.starts_with('/') {
                errors.invalid(&path.child("path"), target, "must be an absolute path");
            }
        }
        "persistentVolumeClaim" => required(source, &["claimName"], path, errors),
        "csi" => validate_csi(source, path, errors),
        "ephemeral" => claims::validate_ephemeral(source, path, errors),
        "image" => {
            if is_pod {
                required(source, &["reference"], path, errors);
            }
            containers::validate_pull_policy(text(source, "/pullPolicy"), &path.child("pullPolicy"), errors);
        }
        other => validate_remote(other, source, path, errors),
    }
}

/// Validates the sources that refer to a disk or share of a storage system.
fn validate_remote(field: &str, source: &Value, path: &Path, errors: &mut ErrorList) {
    match field {
        "iscsi" => validate_iscsi(source, path, errors),
        "glusterfs" => required(source, &["endpoints", "path"], path, errors),
        "flocker" => {
            let (name, uuid) = (text(source, "/datasetName"), text(source, "/datasetUUID"));
            if name.is_empty() && uuid.is_empty() {
                errors.required_because(path, "one of datasetName and datasetUUID is required");
            } else if !name.is_empty() && !uuid.is_empty() {
                errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
            }
            if name.contains('/') {
                errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
            }
        }
        "rbd" => {
            if items(source, "/monitors").is_empty() {
                errors.required(&path.child("monitors"));
            }
            required(source, &["image"], path, errors);
        }
        "cephfs" if items(source, "/monitors").is_empty() => errors.required(&path.child("monitors")),
        "cinder" => {
            required(source, &["volumeID"], path, errors);
            validate_secret_ref(source, path, errors);
        }
        "quobyte" => validate_quobyte(source, path, errors),
        "fc" => validate_fibre_channel(source, path, errors),
        "flexVolume" => {
            required(source, &["driver"], path, errors);
            for (key, _) in entries(source, "/options") {
                let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
                let domain = if key.contains('/') { domain } else { format!(".{}", key.to_lowercase()) };
                if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
                    let detail = "kubernetes.io and k8s.io namespaces are reserved";
                    errors.invalid(&path.child("options").key(key), key, detail);
                }
            }
        }
        "azureFile" => required(source, &["secretName", "shareName"], path, errors),
        "azureDisk" => validate_azure_disk(source, path, errors),
        "vsphereVolume" => required(source, &["volumePath"], path, errors),
        "photonPersistentDisk" => required(source, &["pdID"], path, errors),
        "portworxVolume" => required(source, &["volumeID"], path, errors),
        "scaleIO" => required(source, &["gateway", "system", "volumeName"], path, errors),
        "storageos" => {
            let name = text(source, "/volumeName");
            if name.is_empty() {
                errors.required(&path.child("volumeName"));
            } else {
                errors.dns_label(&path.child("volumeName"), name);
            }
            let namespace = text(source, "/volumeNamespace");
            if !namespace.is_empty() {
                errors.dns_label(&path.child("volumeNamespace"), namespace);
            }
            validate_secret_ref(source, path, errors);
        }
        _ => {}
    }
}

/// Requires the given fields of a source.
pub(crate) fn required(source: &Value, fields: &[&str], path: &Path, errors: &mut ErrorList) {
    for field in fields {
        errors.nonempty(&path.child(field), source.get(field).and_then(Value::as_str).unwrap_or_default());
    }
}

fn validate_secret_ref(source: &Value, path: &Path, errors: &mut ErrorList) {
    if is_set(source, "/secretRef") {
        errors.nonempty(&path.child("secretRef").child("name"), text(source, "/secretRef/name"));
    }
}

fn validate_partition(source: &Value, path: &Path, errors: &mut ErrorList) {
    let partition = integer(source, "/partition").unwrap_or_default();
    if !(0..=255).contains(&partition) {
        errors.invalid(&path.child("partition"), partition, names::inclusive_range_error(1, 255));
    }
}

fn validate_host_path(source: &Value, path: &Path, errors: &mut ErrorList) {
    let target = text(source, "/path");
    if target.is_empty() {
        return errors.required(&path.child("path"));
    }
    paths::no_backsteps(target, &path.child("path"), errors);
    let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = text(source, "/type");
    if !kinds.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &kinds);
    }
}

/// Validates the name of a CSI driver.
pub(crate) fn validate_driver_name(driver: &str, path: &Path, errors: &mut ErrorList) {
    if driver.is_empty() {
        return errors.required(path);
    }
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    errors.invalid_each(path, driver, names::is_dns1123_subdomain(&driver.to_lowercase()));
}

fn validate_csi(source: &Value, path: &Path, errors: &mut ErrorList) {
    validate_driver_name(text(source, "/driver"), &path.child("driver"), errors);
    if is_set(source, "/nodePublishSecretRef") {
        let name = text(source, "/nodePublishSecretRef/name");
        if name.is_empty() {
            errors.required(&path.child("nodePublishSecretRef").child("name"));
        } else {
            errors.dns_subdomain(&path.child("name"), name);
        }
    }
}

fn validate_iscsi(source: &Value, path: &Path, errors: &mut ErrorList) {
    required(source, &["targetPortal", "iqn"], path, errors);
    let name = text(source, "/iqn");
    if !name.is_empty() {
        validate_initiator(name, &path.child("iqn"), errors);
    }
    let lun = integer(source, "/lun").unwrap_or_default();
    if !(0..=255).contains(&lun) {
        errors.invalid(&path.child("lun"), lun, names::inclusive_range_error(0, 255));
    }
    let authenticates = |field| boolean(source, field) == Some(true);
    if (authenticates("/chapAuthDiscovery") || authenticates("/chapAuthSession")) && !is_set(source, "/secretRef") {
        errors.required(&path.child("secretRef"));
    }
    if let Some(initiator) = source.get("initiatorName").and_then(Value::as_str) {
        validate_initiator(initiator, &path.child("initiatorname"), errors);
    }
}

/// Validates the name of an iSCSI initiator or target.
pub(crate) fn validate_initiator(name: &str, path: &Path, errors: &mut ErrorList) {
    let alphanumeric = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let fits = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        // The dot in kube-apiserver's pattern matches any character.
        Some("eui") => name.get(4..).is_some_and(|rest| alphanumeric(rest, 16)),
        Some("naa") => name.get(4..).is_some_and(|rest| alphanumeric(rest, 32)),
        _ => return errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa"),
    };
    if !fits {
        errors.invalid(path, name, "must be valid format");
    }
}

/// Returns whether a name has the form `iqn.2015-02.example.com:name`.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else { return false };
    let Some((authority, target)) = rest.split_once(':') else { return false };
    let is_date =
        date.len() == 7 && date.bytes().enumerate().all(|(at, b)| if at == 4 { b == b'-' } else { b.is_ascii_digit() });
    is_date
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && !target.is_empty()
        && !target.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r'])
}

fn validate_quobyte(source: &Value, path: &Path, errors: &mut ErrorList) {
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "/registry");
    if registry.is_empty() {
        errors.required_because(&path.child("registry"), detail);
    } else if text(source, "/tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required_because(&path.child("tenant"), detail);
    } else {
        for pair in registry.split(',') {
            let is_pair = match pair.rsplit_once(':') {
                Some((host, _)) => !host.contains(':') || host.starts_with('[') && host.ends_with(']'),
                None => false,
            };
            if !is_pair {
                errors.invalid(&path.child("registry"), registry, detail);
            }
        }
    }
    required(source, &["volume"], path, errors);
}

fn validate_fibre_channel(source: &Value, path: &Path, errors: &mut ErrorList) {
    let (targets, ids) = (items(source, "/targetWWNs"), items(source, "/wwids"));
    let at = path.child("targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        errors.required_because(&at, "must specify either targetWWNs or wwids, but not both");
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        errors.invalid(&at, targets.to_vec(), "targetWWNs and wwids can not be specified simultaneously");
    }
    match integer(source, "/lun") {
        None => errors.required_because(&path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(0..=255) => {}
        Some(lun) => errors.invalid(&path.child("lun"), lun, names::inclusive_range_error(0, 255)),
    }
}

fn validate_azure_disk(source: &Value, path: &Path, errors: &mut ErrorList) {
    required(source, &["diskName", "diskURI"], path, errors);
    let uri = text(source, "/diskURI");
    for (field, values) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(value) = source.get(field).and_then(Value::as_str).filter(|value| !values.contains(value)) {
            errors.not_supported(&path.child(field), value, &values);
        }
    }
    let at = path.child("diskURI");
    match source.get("kind").and_then(Value::as_str) {
        Some("Managed") if !uri.starts_with("/subscriptions/") => {
            let form =
                "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
            errors.not_supported(&at, uri, &[form]);
        }
        Some(kind) if kind != "Managed" && !uri.starts_with("https://") => {
            let form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
            errors.not_supported(&at, uri, &[form]);
        }
        _ => {}
    }
}
