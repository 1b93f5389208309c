//! Validation of PersistentVolumes and their updates.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::{go_format, names, sorting::Gather as _};

use super::{OLD_MOUNT_OPTIONS, sources};
use crate::diff::{diff, same};
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types::show_volume_source;
use crate::kinds::pod::validation::claims::{validate_access_modes, validate_class_and_mode};
use crate::kinds::pod::validation::scheduling::validate_node_selector;
use crate::object::{copy, is_set, items, map, remove, text};
use crate::resource_list;
use crate::validate;

/// Volume sources that support mount options.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Validates a volume; an existing one may keep invalid label values.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = validate_spec_of(object, old);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let is_annotated = map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(OLD_MOUNT_OPTIONS));
    if is_annotated && !MOUNTABLE.iter().any(|source| spec.get(source).is_some_and(|source| !source.is_null())) {
        let path = Path::new("metadata").child("annotations").child(OLD_MOUNT_OPTIONS);
        errors.forbidden(&path, "may not specify mount options for this volume type");
    }
    errors
}

/// Validates an update. kube-apiserver validates the whole object twice, so its errors are listed twice.
pub(super) fn validate_update(object: &Value, old: &Value) -> ErrorList {
    let mut errors = validate(object, Some(old));
    errors.extend(validate_spec_of(object, Some(old)));
    let (mut new_source, old_source) = (source_of(object), source_of(old));
    // A secret for expansion may be added later.
    let secret = "/csi/controllerExpandSecretRef";
    if is_set(&old_source, "/csi") && !is_set(&old_source, secret) && is_set(&new_source, secret) {
        remove(&mut new_source, secret);
    }
    if !same(&new_source, &old_source) {
        let differences = diff(&show_volume_source(&old_source), &show_volume_source(&new_source));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{differences}");
        errors.forbidden(&Path::new("spec").child("persistentvolumesource"), detail);
    }
    let mode = "/spec/volumeMode";
    errors.extend(validate::immutable(&Path::new("volumeMode"), &copy(object, mode), &copy(old, mode)));
    if is_set(old, "/spec/nodeAffinity") {
        validate_affinity_unchanged(object, old, &mut errors);
    }
    if is_set(old, "/spec/volumeAttributesClassName") && !is_set(object, "/spec/volumeAttributesClassName") {
        let path = Path::new("spec").child("volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
    errors
}

/// Validates the inline volume spec of a VolumeAttachment.
pub(in crate::kinds) fn validate_inline(spec: &Value, path: &Path, errors: &mut ErrorList) {
    const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
    if is_set(spec, "/claimRef") {
        errors.forbidden(&path.child("claimRef"), NOT_INLINE);
    }
    if map(spec, "/capacity").is_some_and(|capacity| !capacity.is_empty()) {
        errors.forbidden(&path.child("capacity"), NOT_INLINE);
    }
    if !is_set(spec, "/csi") {
        errors.required_because(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    modes(spec, path, errors);
    if !matches!(text(spec, "/persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = "may only be Retain in the context of inline volumes";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
    if is_set(spec, "/nodeAffinity") {
        errors.forbidden(&path.child("nodeAffinity"), NOT_INLINE);
    }
    sources::validate(spec, "", path, errors);
    if !text(spec, "/storageClassName").is_empty() {
        errors.forbidden(&path.child("storageClassName"), NOT_INLINE);
    }
    if is_set(spec, "/volumeMode") && text(spec, "/volumeMode") != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(&path.child("volumeMode"), detail);
    }
}

fn validate_spec_of(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let (spec, path) = (object.get("spec").unwrap_or(&Value::Null), Path::new("spec"));
    modes(spec, &path, &mut errors);
    capacity(spec, &path.child("capacity"), &mut errors);
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(spec, "/persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(&policy_path, policy, &policies);
    }
    if is_set(spec, "/nodeAffinity") {
        let at = path.child("nodeAffinity").child("required");
        match spec.pointer("/nodeAffinity/required").filter(|required| !required.is_null()) {
            Some(required) => {
                validate_node_selector(required, !old.is_some_and(has_invalid_values), &at, &mut errors);
            }
            None => errors.required_because(&at, "must specify required node constraints"),
        }
    }
    sources::validate(spec, text(object, "/metadata/name"), &path, &mut errors);
    if policy == "Recycle" && is_root(text(spec, "/hostPath/path")) {
        errors.forbidden(&policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    validate_class_and_mode(spec, &path, &mut errors);
    if let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) {
        let at = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required_because(&at, "an empty string is disallowed");
        } else {
            errors.dns_subdomain(&at, class);
        }
        if !is_set(spec, "/csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.required_because(&path.child("csi"), detail);
        }
    }
    errors
}

fn modes(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let modes = items(spec, "/accessModes");
    if modes.is_empty() {
        errors.required(&path.child("accessModes"));
    }
    validate_access_modes(modes, &path.child("accessModes"), errors);
}

fn capacity(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let capacity = map(spec, "/capacity");
    let length = capacity.map_or(0, serde_json::Map::len);
    if length == 0 {
        errors.required(path);
    }
    if length != 1 || !capacity.is_some_and(|all| all.contains_key("storage")) {
        let shown = copy(spec, "/capacity");
        errors.add(windlass_schema::field::FieldError::not_supported(path, &shown, &["storage"]));
    }
    for (name, quantity) in resource_list::list(spec, "/capacity") {
        let at = path.key(&name);
        if quantity.value() < 0 {
            errors.invalid(&at, quantity.value(), "must be a valid resource quantity");
        }
        if quantity.sign() <= 0 {
            errors.invalid(&at, quantity.to_string(), "must be greater than zero");
        }
    }
}

/// Returns whether a path denotes the root directory.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for element in path.split('/').filter(|element| !matches!(*element, "" | ".")) {
        depth = if element == ".." { depth.saturating_sub(1) } else { depth + 1 };
    }
    path.starts_with('/') && depth == 0
}

fn has_invalid_values(object: &Value) -> bool {
    let terms = items(object, "/spec/nodeAffinity/required/nodeSelectorTerms").iter();
    let values = terms.flat_map(|term| items(term, "/matchExpressions")).flat_map(|rule| items(rule, "/values"));
    values.filter_map(Value::as_str).any(|value| !names::is_valid_label_value(value).is_empty())
}

/// Returns the volume source of a spec.
fn source_of(object: &Value) -> Value {
    let fields = map(object, "/spec").into_iter().flatten();
    let sources = fields.filter(|(name, _)| sources::is_source(name));
    sources.map(|(name, source)| (name.clone(), source.clone())).gather::<serde_json::Map<_, _>>().into()
}

fn validate_affinity_unchanged(object: &Value, old: &Value, errors: &mut ErrorList) {
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms";
    let mut masked = copy(old, "/spec/nodeAffinity");
    let inner = terms.trim_start_matches("/spec/nodeAffinity");
    for (i, term) in items(object, terms).iter().enumerate() {
        for (j, rule) in items(term, "/matchExpressions").iter().enumerate() {
            let key = format!("{inner}/{i}/matchExpressions/{j}/key");
            if newer_label(text(&masked, &key)) == Some(text(rule, "/key")) {
                crate::object::set(&mut masked, &key, text(rule, "/key"));
            }
        }
    }
    let new = copy(object, "/spec/nodeAffinity");
    if !same(&new, &masked) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid_shown(&Path::new("nodeAffinity"), shown_affinity(&new), detail);
    }
}

/// Returns the label that replaces a deprecated one.
fn newer_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}

/// Formats the affinity as kube-apiserver does, with the field names of its internal types.
fn shown_affinity(affinity: &Value) -> String {
    if affinity.is_null() {
        return "null".to_owned();
    }
    let rules = |term: &Value, field: &str| match term.get(field).and_then(Value::as_array) {
        None => "null".to_owned(),
        Some(rules) => {
            let show = |rule: &Value| {
                let (key, operator) = (copy(rule, "/key"), copy(rule, "/operator"));
                validate::go_struct(&[("Key", &key), ("Operator", &operator), ("Values", &copy(rule, "/values"))])
            };
            format!("[{}]", rules.iter().map(show).collect::<Vec<_>>().join(","))
        }
    };
    let required = match affinity.get("required").filter(|required| !required.is_null()) {
        None => go_format::marshal(&Value::Null),
        Some(required) => {
            let show = |term: &Value| {
                let (expressions, fields) = (rules(term, "matchExpressions"), rules(term, "matchFields"));
                format!("{{\"MatchExpressions\":{expressions},\"MatchFields\":{fields}}}")
            };
            let terms: Vec<_> = items(required, "/nodeSelectorTerms").iter().map(show).collect();
            format!("{{\"NodeSelectorTerms\":[{}]}}", terms.join(","))
        }
    };
    format!("{{\"Required\":{required}}}")
}
