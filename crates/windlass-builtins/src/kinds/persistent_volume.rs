//! PersistentVolumes.

mod sources;
mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

use super::pod::defaults::default_volume_source;
use super::pod::deprecated_label;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name, or_unset, wide};
use crate::object::{carry_over, copy, is_set, items, map, set, set_default, set_default_text, text};
use crate::resource_list;
use crate::strategy::{Strategy, WriteContext};

pub(super) use validation::validate_inline;

/// Strategy of PersistentVolumes.
#[derive(Debug, Clone, Copy)]
pub struct PersistentVolume;

/// The annotation that preceded `spec.storageClassName`.
pub(super) const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const OLD_MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/status/phase", "Pending");
        default_spec(object, "/spec");
        set_default_text(object, "/spec/persistentVolumeReclaimPolicy", "Retain");
        set_default(object, "/spec/volumeMode", "Filesystem");
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        // The phase of a new volume begins with its creation.
        let now = copy(object, "/metadata/creationTimestamp");
        set(object, "/status", json!({"phase": "Pending"}));
        if !now.is_null() {
            set(object, "/status/lastPhaseTransitionTime", now);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old)
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        context: &WriteContext<'_>,
    ) {
        if subresource == "status" {
            set_phase_transition_time(object, old, &context.time());
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(object)
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = if is_set(object, "/spec/claimRef") {
        format!("{}/{}", text(object, "/spec/claimRef/namespace"), text(object, "/spec/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        name(object),
        amount(object, "/spec/capacity/storage").into(),
        access_modes(object, "/spec/accessModes"),
        text(object, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(object),
        claim.into(),
        class(object),
        or_unset(object, "/spec/volumeAttributesClassName"),
        text(object, "/status/reason").into(),
        age(object, now),
        or_unset(object, "/spec/volumeMode"),
    ]
}

/// Keeps the time of the last phase transition, or sets it to `now` if the phase changes and the client does not set
/// the time itself.
fn set_phase_transition_time(object: &mut Value, old: &Value, now: &str) {
    const TIME: &str = "/status/lastPhaseTransitionTime";
    let is_same_phase = copy(object, "/status/phase") == copy(old, "/status/phase");
    if is_same_phase && !is_set(object, TIME) {
        carry_over(object, old, TIME);
    }
    if !is_same_phase && (!is_set(object, TIME) || copy(object, TIME) == copy(old, TIME)) {
        set(object, TIME, now);
    }
}

/// Applies the defaults of the volume sources in a spec, which VolumeAttachments may contain inline.
pub(super) fn default_spec(object: &mut Value, pointer: &str) {
    resource_list::round_up(object, &format!("{pointer}/capacity"));
    let Some(spec) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    for (name, source) in spec.iter_mut().filter(|(name, _)| sources::is_source(name)) {
        if source.is_object() {
            default_volume_source(name, source);
        }
    }
}

fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = [
        (OLD_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        (OLD_MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    for (annotation, message) in annotations {
        if map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(annotation)) {
            warnings.push(format!("metadata.annotations[{annotation}]: {message}"));
        }
    }
    if text(object, "/spec/persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    for (i, term) in items(object, "/spec/nodeAffinity/required/nodeSelectorTerms").iter().enumerate() {
        for (j, expression) in items(term, "/matchExpressions").iter().enumerate() {
            let key = text(expression, "/key");
            if let Some(message) = deprecated_label(key) {
                let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key");
                warnings.push(format!("{path}: {key} is {message}"));
            }
        }
    }
    let sources = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    for (source, shown, message) in sources {
        if is_set(object, &format!("/spec/{source}")) {
            warnings.push(format!("spec.{shown}: {message}"));
        }
    }
    warnings
}

/// Returns the phase, or `Terminating`.
pub(super) fn phase(object: &Value) -> Value {
    match is_set(object, "/metadata/deletionTimestamp") {
        true => "Terminating".into(),
        false => text(object, "/status/phase").into(),
    }
}

/// Returns the class; the deprecated annotation takes precedence.
pub(super) fn class(object: &Value) -> Value {
    let annotation = map(object, "/metadata/annotations").and_then(|all| all.get(OLD_CLASS));
    annotation.and_then(Value::as_str).unwrap_or_else(|| text(object, "/spec/storageClassName")).into()
}

/// Returns the abbreviated access modes.
pub(super) fn access_modes(object: &Value, pointer: &str) -> Value {
    const MODES: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = items(object, pointer);
    let short = MODES.iter().filter(|(mode, _)| modes.iter().any(|have| have == mode)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",").into()
}

/// Returns a quantity as text; 0 if it is absent.
pub(super) fn amount<'a>(object: &'a Value, pointer: &str) -> &'a str {
    match text(object, pointer) {
        "" => "0",
        amount => amount,
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Capacity",
        "string",
        "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
    ),
    column(
        "Access Modes",
        "string",
        "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
    ),
    column(
        "Reclaim Policy",
        "string",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
    ),
    column(
        "Status",
        "string",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
    ),
    column(
        "Claim",
        "string",
        "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
    ),
    column("StorageClass", "string", "StorageClass of the pv"),
    column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pv"),
    column(
        "Reason",
        "string",
        "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.",
    ),
    AGE,
    wide(
        "VolumeMode",
        "string",
        "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.",
    ),
];

#[cfg(test)]
mod tests;
