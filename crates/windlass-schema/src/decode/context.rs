//! The decoder's position: a chain on the stack, formatted only for messages.

use crate::field::quote;
use crate::types::Struct;

/// One level of nesting.
pub(super) enum Segment<'a> {
    /// A field of a struct.
    Field { owner: &'a Struct, name: &'a str },
    /// An entry of a map.
    Key(&'a str),
    /// An element of a list.
    Index(usize),
}

/// The position of a value.
pub(super) enum Context<'a> {
    /// The whole body.
    Root,
    /// A position within another one.
    Inner { outer: &'a Context<'a>, segment: Segment<'a> },
}

impl Context<'_> {
    pub(super) fn then<'a>(&'a self, segment: Segment<'a>) -> Context<'a> {
        Context::Inner { outer: self, segment }
    }

    /// Formats a strict decoding error: `unknown field "spec.containers[0].imag"`.
    pub(super) fn strict(&self, sort: &str, key: &str) -> String {
        let mut path = String::new();
        self.write_strict(&mut path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        format!("{sort} field {}", quote(&path))
    }

    fn write_strict(&self, out: &mut String) {
        let Context::Inner { outer, segment } = self else { return };
        outer.write_strict(out);
        match segment {
            Segment::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
            Segment::Field { name, .. } | Segment::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
        }
    }

    /// Formats a type error: `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type
    /// int32`.
    pub(super) fn type_error(&self, what: &str, go_type: &str) -> String {
        let mut fields = Vec::new();
        let mut innermost = None;
        let mut at = self;
        while let Context::Inner { outer, segment } = at {
            if let Segment::Field { owner, name } = segment {
                innermost.get_or_insert(&owner.go_name);
                fields.push(*name);
                fields.extend(embedded_in(owner, name));
            }
            at = outer;
        }
        match innermost {
            None => format!("json: cannot unmarshal {what} into Go value of type {go_type}"),
            Some(owner) => {
                fields.reverse();
                let path = fields.join(".");
                format!("json: cannot unmarshal {what} into Go struct field {owner}.{path} of type {go_type}")
            }
        }
    }
}

/// Returns the embedded Go structs that a field comes from, which Go includes in the path although JSON does not.
fn embedded_in(owner: &Struct, field: &str) -> Option<&'static str> {
    Some(match (&*owner.go_name, field) {
        (_, "kind" | "apiVersion") if owner.field("metadata").is_some() => "TypeMeta",
        ("Volume", name) if name != "name" => "VolumeSource",
        ("Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => "ProbeHandler",
        ("EphemeralContainer", name) if name != "targetContainerName" => "EphemeralContainerCommon",
        ("IngressRule", "http") => "IngressRuleValue",
        ("NamedRuleWithOperations", "operations") => "RuleWithOperations",
        ("NamedRuleWithOperations", name) if name != "resourceNames" => "RuleWithOperations.Rule",
        ("RuleWithOperations", name) if name != "operations" => "Rule",
        (
            "PersistentVolumeSpec",
            "capacity"
            | "accessModes"
            | "claimRef"
            | "persistentVolumeReclaimPolicy"
            | "storageClassName"
            | "mountOptions"
            | "volumeMode"
            | "nodeAffinity"
            | "volumeAttributesClassName",
        ) => return None,
        ("PersistentVolumeSpec", _) => "PersistentVolumeSource",
        (
            "ConfigMapKeySelector"
            | "ConfigMapEnvSource"
            | "ConfigMapProjection"
            | "ConfigMapVolumeSource"
            | "SecretKeySelector"
            | "SecretEnvSource"
            | "SecretProjection",
            "name",
        ) => "LocalObjectReference",
        ("DeviceAllocationConfiguration" | "DeviceClaimConfiguration" | "DeviceClassConfiguration", "opaque") => {
            "DeviceConfiguration"
        }
        _ => return None,
    })
}
