//! Volumes, claims, classes and drivers.

use jiff::Timestamp;
use serde_json::Value;

use super::{Entry, flag, or_unset};
use crate::columns::{AGE, NAME, age, column, name, or_none, wide};
use crate::object::{boolean, is_set, items, map, text};
use crate::strategy::Column;

pub(super) fn core(resource: &str) -> Option<Entry> {
    Some(match resource {
        "persistentvolumes" => (PERSISTENT_VOLUME, persistent_volume),
        "persistentvolumeclaims" => (PERSISTENT_VOLUME_CLAIM, persistent_volume_claim),
        _ => return None,
    })
}

pub(super) fn storage(resource: &str) -> Option<Entry> {
    Some(match resource {
        "storageclasses" => (STORAGE_CLASS, storage_class),
        "volumeattributesclasses" => (VOLUME_ATTRIBUTES_CLASS, |object, now| {
            vec![name(object), text(object, "/driverName").into(), age(object, now)]
        }),
        "volumeattachments" => (VOLUME_ATTACHMENT, volume_attachment),
        "csidrivers" => (CSI_DRIVER, csi_driver),
        "csinodes" => {
            (CSI_NODE, |object, now| vec![name(object), items(object, "/spec/drivers").len().into(), age(object, now)])
        }
        "csistoragecapacities" => (CSI_STORAGE_CAPACITY, |object, _| {
            vec![name(object), text(object, "/storageClassName").into(), or_unset(object, "/capacity")]
        }),
        _ => return None,
    })
}

/// The phase, or that the object is going away.
fn phase(object: &Value) -> Value {
    match is_set(object, "/metadata/deletionTimestamp") {
        true => "Terminating".into(),
        false => text(object, "/status/phase").into(),
    }
}

/// The class; an old annotation comes first.
fn class(object: &Value) -> Value {
    let annotation =
        map(object, "/metadata/annotations").and_then(|all| all.get("volume.beta.kubernetes.io/storage-class"));
    annotation.and_then(Value::as_str).unwrap_or_else(|| text(object, "/spec/storageClassName")).into()
}

fn access_modes(object: &Value, pointer: &str) -> Value {
    const MODES: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = items(object, pointer);
    let short = MODES.iter().filter(|(mode, _)| modes.iter().any(|have| have == mode)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",").into()
}

/// A quantity as text; zero when it is absent.
fn amount<'a>(object: &'a Value, pointer: &str) -> &'a str {
    match text(object, pointer) {
        "" => "0",
        amount => amount,
    }
}

fn persistent_volume(object: &Value, now: Timestamp) -> Vec<Value> {
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

fn persistent_volume_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(object, "/spec/volumeName").is_empty();
    vec![
        name(object),
        phase(object),
        text(object, "/spec/volumeName").into(),
        if bound { amount(object, "/status/capacity/storage").into() } else { "".into() },
        if bound { access_modes(object, "/status/accessModes") } else { "".into() },
        class(object),
        or_unset(object, "/spec/volumeAttributesClassName"),
        age(object, now),
        or_unset(object, "/spec/volumeMode"),
    ]
}

fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = text(object, "/metadata/name").to_owned();
    let is_default =
        |key| map(object, "/metadata/annotations").is_some_and(|all| all.get(key).is_some_and(|value| value == "true"));
    if is_default("storageclass.kubernetes.io/is-default-class")
        || is_default("storageclass.beta.kubernetes.io/is-default-class")
    {
        shown.push_str(" (default)");
    }
    let or = |pointer: &str, absent: &str| {
        Value::from(object.pointer(pointer).and_then(Value::as_str).unwrap_or(absent).to_owned())
    };
    vec![
        shown.into(),
        text(object, "/provisioner").into(),
        or("/reclaimPolicy", "Delete"),
        or("/volumeBindingMode", "Immediate"),
        flag(object, "/allowVolumeExpansion"),
        age(object, now),
    ]
}

fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/attacher").into(),
        text(object, "/spec/source/persistentVolumeName").into(),
        text(object, "/spec/nodeName").into(),
        flag(object, "/status/attached"),
        age(object, now),
    ]
}

fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<_> = items(object, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let tokens = if is_set(object, "/spec/tokenRequests") {
        items(object, "/spec/tokenRequests").iter().map(|token| text(token, "/audience")).collect::<Vec<_>>().join(",")
    } else {
        "<unset>".to_owned()
    };
    vec![
        name(object),
        boolean(object, "/spec/attachRequired").unwrap_or(true).into(),
        flag(object, "/spec/podInfoOnMount"),
        flag(object, "/spec/storageCapacity"),
        tokens.into(),
        flag(object, "/spec/requiresRepublish"),
        or_none(&modes.join(",")).into(),
        age(object, now),
    ]
}

const PERSISTENT_VOLUME: &[Column] = &[
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

const PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    NAME,
    column("Status", "string", "phase represents the current phase of PersistentVolumeClaim."),
    column("Volume", "string", "volumeName is the binding reference to the PersistentVolume backing this claim."),
    column("Capacity", "string", "capacity represents the actual resources of the underlying volume."),
    column(
        "Access Modes",
        "string",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
    ),
    column("StorageClass", "string", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc"),
    AGE,
    wide(
        "VolumeMode",
        "string",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
    ),
];

const STORAGE_CLASS: &[Column] = &[
    NAME,
    column("Provisioner", "string", "provisioner indicates the type of the provisioner."),
    column(
        "ReclaimPolicy",
        "string",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
    ),
    column(
        "VolumeBindingMode",
        "string",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
    ),
    column(
        "AllowVolumeExpansion",
        "string",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
    ),
    AGE,
];

const VOLUME_ATTRIBUTES_CLASS: &[Column] =
    &[NAME, column("DriverName", "string", "Name of the CSI driver This field is immutable."), AGE];

const VOLUME_ATTACHMENT: &[Column] = &[
    NAME,
    Column {
        name: "Attacher",
        kind: "string",
        format: "name",
        description: "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
        priority: 0,
    },
    column("PV", "string", "persistentVolumeName represents the name of the persistent volume to attach."),
    column("Node", "string", "nodeName represents the node that the volume should be attached to."),
    column(
        "Attached",
        "boolean",
        "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.",
    ),
    AGE,
];

const CSI_DRIVER: &[Column] = &[
    NAME,
    column(
        "AttachRequired",
        "boolean",
        "attachRequired indicates this CSI volume driver requires an attach operation (because it implements the CSI ControllerPublishVolume() method), and that the Kubernetes attach detach controller should call the attach volume interface which checks the volumeattachment status and waits until the volume is attached before proceeding to mounting. The CSI external-attacher coordinates with CSI volume driver and updates the volumeattachment status when the attach operation is complete. If the value is specified to false, the attach operation will be skipped. Otherwise the attach operation will be called.\n\nThis field is immutable.",
    ),
    column(
        "PodInfoOnMount",
        "boolean",
        "podInfoOnMount indicates this CSI volume driver requires additional pod information (like podName, podUID, etc.) during mount operations, if set to true. If set to false, pod information will not be passed on mount. Default is false.\n\nThe CSI driver specifies podInfoOnMount as part of driver deployment. If true, Kubelet will pass pod information as VolumeContext in the CSI NodePublishVolume() calls. The CSI driver is responsible for parsing and validating the information passed in as VolumeContext.\n\nThe following VolumeContext will be passed if podInfoOnMount is set to true. This list might grow, but the prefix will be used. \"csi.storage.k8s.io/pod.name\": pod.Name \"csi.storage.k8s.io/pod.namespace\": pod.Namespace \"csi.storage.k8s.io/pod.uid\": string(pod.UID) \"csi.storage.k8s.io/ephemeral\": \"true\" if the volume is an ephemeral inline volume\n                                defined by a CSIVolumeSource, otherwise \"false\"\n\n\"csi.storage.k8s.io/ephemeral\" is a new feature in Kubernetes 1.16. It is only required for drivers which support both the \"Persistent\" and \"Ephemeral\" VolumeLifecycleMode. Other drivers can leave pod info disabled and/or ignore this field. As Kubernetes 1.15 doesn't support this field, drivers can only support one mode when deployed on such a cluster and the deployment determines which mode that is, for example via a command line parameter of the driver.\n\nThis field was immutable in Kubernetes < 1.29 and now is mutable.",
    ),
    column(
        "StorageCapacity",
        "boolean",
        "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage capacity that the driver deployment will report by creating CSIStorageCapacity objects with capacity information, if set to true.\n\nThe check can be enabled immediately when deploying a driver. In that case, provisioning new volumes with late binding will pause until the driver deployment has published some suitable CSIStorageCapacity object.\n\nAlternatively, the driver can be deployed with the field unset or false and it can be flipped later when storage capacity information has been published.\n\nThis field was immutable in Kubernetes <= 1.22 and now is mutable.",
    ),
    column(
        "TokenRequests",
        "string",
        "tokenRequests indicates the CSI driver needs pods' service account tokens it is mounting volume for to do necessary authentication. Kubelet will pass the tokens in VolumeContext in the CSI NodePublishVolume calls. The CSI driver should parse and validate the following VolumeContext: \"csi.storage.k8s.io/serviceAccount.tokens\": {\n  \"<audience>\": {\n    \"token\": <token>,\n    \"expirationTimestamp\": <expiration timestamp in RFC3339>,\n  },\n  ...\n}\n\nNote: Audience in each TokenRequest should be different and at most one token is empty string. To receive a new token after expiry, RequiresRepublish can be used to trigger NodePublishVolume periodically.",
    ),
    column(
        "RequiresRepublish",
        "boolean",
        "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being periodically called to reflect any possible change in the mounted volume. This field defaults to false.\n\nNote: After a successful initial NodePublishVolume call, subsequent calls to NodePublishVolume should only update the contents of the volume. New mount points will not be seen by a running container.",
    ),
    column(
        "Modes",
        "string",
        "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports. The default if the list is empty is \"Persistent\", which is the usage defined by the CSI specification and implemented in Kubernetes via the usual PV/PVC mechanism.\n\nThe other mode is \"Ephemeral\". In this mode, volumes are defined inline inside the pod spec with CSIVolumeSource and their lifecycle is tied to the lifecycle of that pod. A driver has to be aware of this because it is only going to get a NodePublishVolume call for such a volume.\n\nFor more information about implementing this mode, see https://kubernetes-csi.github.io/docs/ephemeral-local-volumes.html A driver can support one or more of these modes and more modes may be added in the future.\n\nThis field is beta. This field is immutable.",
    ),
    AGE,
];

const CSI_NODE: &[Column] =
    &[NAME, column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node"), AGE];

const CSI_STORAGE_CAPACITY: &[Column] = &[
    NAME,
    column(
        "StorageClassName",
        "string",
        "storageClassName represents the name of the StorageClass that the reported capacity applies to. It must meet the same requirements as the name of a StorageClass object (non-empty, DNS subdomain). If that object no longer exists, the CSIStorageCapacity object is obsolete and should be removed by its creator. This field is immutable.",
    ),
    column(
        "Capacity",
        "string",
        "capacity is the value reported by the CSI driver in its GetCapacityResponse for a GetCapacityRequest with topology and parameters that match the previous fields.\n\nThe semantic is currently (CSI spec 1.2) defined as: The available capacity, in bytes, of the storage that can be used to provision volumes. If not set, that information is currently unavailable.",
    ),
];
