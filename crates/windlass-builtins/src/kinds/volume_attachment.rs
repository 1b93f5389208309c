//! VolumeAttachments.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use super::persistent_volume::{default_spec, validate_inline};
use super::pod::validation::volumes::validate_driver_name;
use crate::columns::{AGE, Column, NAME, Printer, age, column, flag, name};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, integer, is_set, set, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate::go_struct;

/// Strategy of VolumeAttachments.
#[derive(Debug, Clone, Copy)]
pub struct VolumeAttachment;

const MAX_METADATA: usize = 256 << 10;
const MAX_MESSAGE: usize = 1024;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for VolumeAttachment {
    fn default(&self, object: &mut Value) {
        default_spec(object, "/spec/source/inlineVolumeSpec");
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({"attached": false}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate(object);
        let (new, old) = (copy(object, "/spec"), copy(old, "/spec"));
        if !same(&new, &old) {
            errors.invalid_shown(&Path::new("spec"), shown(&new), "field is immutable");
        }
        errors
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        if subresource == "status" { validate(object) } else { ErrorList::new() }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/attacher").into(),
        text(object, "/spec/source/persistentVolumeName").into(),
        text(object, "/spec/nodeName").into(),
        flag(object, "/status/attached"),
        age(object, now),
    ]
}

/// Formats the spec as kube-apiserver does, with the field names of its internal types.
fn shown(spec: &Value) -> String {
    let source = go_struct(&[
        ("PersistentVolumeName", &copy(spec, "/source/persistentVolumeName")),
        ("InlineVolumeSpec", &copy(spec, "/source/inlineVolumeSpec")),
    ]);
    let attacher = windlass_schema::go_format::marshal(&text(spec, "/attacher").into());
    let node = windlass_schema::go_format::marshal(&text(spec, "/nodeName").into());
    format!("{{\"Attacher\":{attacher},\"Source\":{source},\"NodeName\":{node}}}")
}

fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = Path::new("spec");
    validate_driver_name(text(object, "/spec/attacher"), &spec.child("attacher"), &mut errors);
    let path = spec.child("source");
    let volume = object.pointer("/spec/source/persistentVolumeName").and_then(Value::as_str);
    let inline = object.pointer("/spec/source/inlineVolumeSpec").filter(|inline| !inline.is_null());
    let one_of = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (volume, inline) {
        (None, None) => errors.required_because(&path, one_of),
        (Some(_), Some(_)) => errors.forbidden(&path, one_of),
        (Some(""), None) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.required_because(&path.child("persistentVolumeName"), detail);
        }
        (Some(_), None) => {}
        (None, Some(inline)) => validate_inline(inline, &path.child("inlineVolumeSpec"), &mut errors),
    }
    errors.dns_subdomain(&spec.child("nodeName"), text(object, "/spec/nodeName"));
    validate_status(object, &mut errors);
    if let Some(volume) = volume {
        let path = path.child("persistentVolumeName");
        errors.invalid_each(&path, volume, names::is_dns1123_subdomain(volume));
    }
    errors
}

fn validate_status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status");
    let size: usize = entries(object, "/status/attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_METADATA {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), MAX_METADATA));
    }
    for field in ["attachError", "detachError"] {
        let pointer = format!("/status/{field}");
        if !is_set(object, &pointer) {
            continue;
        }
        let path = path.child(field);
        if text(object, &format!("{pointer}/message")).len() > MAX_MESSAGE {
            // kube-apiserver reports the other limit.
            errors.push(FieldError::too_long(&path.child("message"), MAX_METADATA));
        }
        if let Some(code) = integer(object, &format!("{pointer}/errorCode")).filter(|code| *code < 0) {
            let detail = names::inclusive_range_error(0, i64::from(i32::MAX));
            errors.invalid(&path.child("errorCode"), code, detail);
        }
    }
}

const COLUMNS: &[Column] = &[
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status, check_update};
    use expect_test::expect;

    fn attachment(source: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"attacher": "a.b", "nodeName": "n", "source": source}})
    }

    #[test]
    fn exactly_one_volume_is_attached_to_a_node() {
        check_create(&VolumeAttachment, attachment(json!({"persistentVolumeName": "v"})), expect![[""]]);
        check_create(
            &VolumeAttachment,
            json!({"spec": {"attacher": "", "nodeName": "A_"}}),
            expect![[r#"
            spec.attacher: Required value
            spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName
            spec.nodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        );
        check_create(
            &VolumeAttachment,
            attachment(json!({"persistentVolumeName": ""})),
            expect![[r#"
            spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName
            spec.source.persistentVolumeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        );
        check_create(
            &VolumeAttachment,
            attachment(json!({"persistentVolumeName": "v", "inlineVolumeSpec": {}})),
            expect![[r#"
            spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName
        "#]],
        );
        let inline = json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}});
        check_create(&VolumeAttachment, attachment(json!({"inlineVolumeSpec": inline})), expect![[""]]);
        let inline = json!({"capacity": {"storage": "1"}, "claimRef": {}, "nodeAffinity": {}, "storageClassName": "c", "volumeMode": "Block",
            "persistentVolumeReclaimPolicy": "Delete"});
        check_create(
            &VolumeAttachment,
            attachment(json!({"inlineVolumeSpec": inline})),
            expect![[r#"
            spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes
            spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes
            spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes
            spec.source.inlineVolumeSpec.accessModes: Required value
            spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes
            spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes
            spec.source.inlineVolumeSpec: Required value: must specify a volume type
            spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes
            spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes
        "#]],
        );
    }

    #[test]
    fn the_spec_never_changes() {
        let of = |volume: &str| attachment(json!({"persistentVolumeName": volume}));
        check_update(
            &VolumeAttachment,
            of("w"),
            of("v"),
            expect![[r#"
            spec: Invalid value: {"Attacher":"a.b","Source":{"PersistentVolumeName":"w","InlineVolumeSpec":null},"NodeName":"n"}: field is immutable
        "#]],
        );
    }

    #[test]
    fn the_status_is_checked() {
        let mut new = attachment(json!({"persistentVolumeName": "v"}));
        new["status"] = json!({"attached": true, "attachError": {"message": "x".repeat(2000), "errorCode": -1}});
        check_status(
            &VolumeAttachment,
            new.clone(),
            new,
            expect![[r#"
            status.attachError.message: Too long: may not be more than 262144 bytes
            status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive
        "#]],
        );
    }
}
