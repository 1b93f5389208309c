//! CSIDrivers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use crate::columns::{AGE, Column, NAME, Printer, age, column, flag, name, or_none};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{boolean, copy, integer, is_set, items, remove, set, set_default, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

/// Strategy of CSIDrivers.
#[derive(Debug, Clone, Copy)]
pub struct CsiDriver;

/// A field of a feature gate that is off.
const SCALING: &str = "/spec/preventPodSchedulingIfMissing";
const TOKENS_IN_SECRETS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to \
                                 true to prevent possible logging of tokens in volume attributes";

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for CsiDriver {
    fn default(&self, object: &mut Value) {
        set_default(object, "/spec/attachRequired", true);
        set_default(object, "/spec/fsGroupPolicy", "ReadWriteOnceWithFSType");
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            set_default(object, &format!("/spec/{field}"), false);
        }
        if items(object, "/spec/volumeLifecycleModes").is_empty() {
            set(object, "/spec/volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        remove(object, SCALING);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        if !is_set(old, SCALING) {
            remove(object, SCALING);
        }
        // The generation of a driver is set only from its first change on.
        if !same(&copy(object, "/spec"), &copy(old, "/spec")) {
            set(object, "/metadata/generation", integer(old, "/metadata/generation").unwrap_or_default() + 1);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate(object);
        for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            let pointer = format!("/spec/{field}");
            let path = Path::new("spec").child(shown);
            errors.extend(validate::immutable(&path, &copy(object, &pointer), &copy(old, &pointer)));
        }
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let tokens = "/spec/tokenRequests";
        let is_new = old.is_none_or(|old| !same(&copy(object, tokens), &copy(old, tokens)));
        let is_unset = !is_set(object, "/spec/serviceAccountTokenInSecrets");
        let warns = is_new && is_unset && !items(object, tokens).is_empty();
        if warns { vec![TOKENS_IN_SECRETS.to_owned()] } else { Vec::new() }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<_> = items(object, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let tokens = if is_set(object, "/spec/tokenRequests") {
        let audiences = items(object, "/spec/tokenRequests").iter().map(|token| text(token, "/audience"));
        audiences.collect::<Vec<_>>().join(",")
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

fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let needs = |field: &str, shown: &str, errors: &mut ErrorList| {
        if !is_set(object, &format!("/spec/{field}")) {
            errors.required(&path.child(shown));
        }
    };
    needs("attachRequired", "attachedRequired", &mut errors);
    needs("podInfoOnMount", "podInfoOnMount", &mut errors);
    needs("storageCapacity", "storageCapacity", &mut errors);
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    if let Some(policy) = object.pointer("/spec/fsGroupPolicy").and_then(Value::as_str)
        && !policies.contains(&policy)
    {
        errors.not_supported(&path.child("fsGroupPolicy"), policy, &policies);
    }
    validate_tokens(object, &path.child("tokenRequests"), &mut errors);
    for mode in items(object, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !matches!(mode, "Persistent" | "Ephemeral") {
            errors.not_supported(&path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
        }
    }
    needs("seLinuxMount", "seLinuxMount", &mut errors);
    if let Some(period) = integer(object, "/spec/nodeAllocatableUpdatePeriodSeconds").filter(|period| *period < 10) {
        let at = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&at, period, "must be greater than or equal to 10 seconds");
    }
    if let Some(inside) = boolean(object, "/spec/serviceAccountTokenInSecrets")
        && items(object, "/spec/tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&path.child("serviceAccountTokenInSecrets"), inside, detail);
    }
    errors
}

fn validate_tokens(object: &Value, path: &Path, errors: &mut ErrorList) {
    let mut audiences = BTreeSet::new();
    for (index, token) in items(object, "/spec/tokenRequests").iter().enumerate() {
        let path = path.index(index);
        let audience = text(token, "/audience");
        if !audiences.insert(audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        let Some(seconds) = integer(token, "/expirationSeconds") else { continue };
        let at = path.child("expirationSeconds");
        if seconds < 600 {
            errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

const COLUMNS: &[Column] = &[
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;

    fn driver(spec: Value) -> Value {
        json!({"metadata": {"name": "d"}, "spec": spec})
    }

    #[test]
    fn a_driver_is_defaulted() {
        let mut object = driver(json!({"preventPodSchedulingIfMissing": true}));
        CsiDriver.default(&mut object);
        CsiDriver.prepare_for_create(&mut object, &WriteContext::test());
        assert_eq!(
            object["spec"],
            json!({"attachRequired": true, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
                "storageCapacity": false, "requiresRepublish": false, "seLinuxMount": false, "volumeLifecycleModes": ["Persistent"]})
        );
        assert_eq!(CsiDriver.validate(&object), ErrorList::new());
    }

    #[test]
    fn every_field_is_checked() {
        let spec = json!({"fsGroupPolicy": "X", "volumeLifecycleModes": ["Eternal"], "nodeAllocatableUpdatePeriodSeconds": 1,
            "tokenRequests": [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}, {"audience": "b", "expirationSeconds": 5_000_000_000_i64}]});
        check_create(
            &CsiDriver,
            driver(spec),
            expect![[r#"
            spec.fsGroupPolicy: Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"
            spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
            spec.tokenRequests[1].audience: Duplicate value: "a"
            spec.tokenRequests[2].expirationSeconds: Invalid value: 5000000000: may not specify a duration larger than 2^32 seconds
            spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"
            spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 1: must be greater than or equal to 10 seconds
            warning: spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes
        "#]],
        );
        check_create(
            &CsiDriver,
            driver(json!({"serviceAccountTokenInSecrets": true})),
            expect![[r#"
            spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified
        "#]],
        );
        assert_eq!(CsiDriver.validate(&json!({})).len(), 4);
    }

    #[test]
    fn volume_lifecycle_modes_never_change() {
        let new =
            driver(json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": true}));
        check_update(
            &CsiDriver,
            new,
            driver(json!({})),
            expect![[r#"
            spec.attachedRequired: Invalid value: false: field is immutable
            spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable
        "#]],
        );
        let mut new = driver(json!({"podInfoOnMount": true}));
        CsiDriver.prepare_for_update(&mut new, &driver(json!({})), &WriteContext::test());
        assert_eq!(new["metadata"]["generation"], 1);
    }
}
