//! Formatting of pod templates as in kube-apiserver's messages.
//!
//! `pod_template.txt` lists kube-apiserver's internal types of a template, one per line: the name of the type, then its
//! fields in order. A field consists of its name, its JSON name in parentheses unless that differs only in the case of
//! the first letter, and its type: `=` and the text shown if it is absent, or `:` and another type of the list,
//! prefixed with `*` for a pointer or `[]` for a list. `@meta` is the metadata of an object.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::{Value, json};
use windlass_schema::go_format::marshal;

use crate::kinds::pod_template::show_selector;
use crate::object::{carry_over, is_set};

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let read = |line: &'static str| {
        let mut words = line.split(' ');
        (words.next().unwrap_or_default(), words.map(field).collect())
    };
    include_str!("pod_template.txt").lines().map(read).collect()
});

/// The fields of an object's metadata, in the order of the API.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// Fields of a pod spec that belong to the security context in the internal type.
const HOST: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

struct Field {
    name: &'static str,
    json: String,
    holds: Holds,
}

enum Holds {
    /// A value that is shown as is, or as this string if it is absent.
    Plain(&'static str),
    Struct(&'static str),
    Pointer(&'static str),
    List(&'static str),
    Metadata,
}

fn field(word: &'static str) -> Field {
    let Some(end) = word.find([':', '=']) else {
        return Field { name: word, json: "metadata".to_owned(), holds: Holds::Metadata };
    };
    let (names, rest) = word.split_at(end);
    let holds = match rest.strip_prefix(':') {
        None => Holds::Plain(&rest[1..]),
        Some(rest) => match (rest.strip_prefix('*'), rest.strip_prefix("[]")) {
            (Some(name), _) => Holds::Pointer(name),
            (_, Some(name)) => Holds::List(name),
            _ => Holds::Struct(rest),
        },
    };
    let (name, json) = match names.split_once('(') {
        Some((name, json)) => (name, json.trim_end_matches(')').to_owned()),
        None => {
            let mut letters = names.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            (names, first.into_iter().chain(letters).collect())
        }
    };
    Field { name, json, holds }
}

/// Formats a pod template.
pub(in crate::kinds) fn show_template(template: &Value) -> String {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec") {
        move_host_fields(spec);
    }
    show("PodTemplateSpec", &template)
}

/// Formats a pod spec.
pub(in crate::kinds) fn show_pod_spec(spec: &Value) -> String {
    let mut spec = spec.clone();
    move_host_fields(&mut spec);
    show("PodSpec", &spec)
}

/// Formats an ephemeral container.
pub(in crate::kinds) fn show_ephemeral_container(container: &Value) -> String {
    show("EphemeralContainer", container)
}

/// Formats the spec of a PersistentVolumeClaim.
pub(in crate::kinds) fn show_claim_spec(spec: &Value) -> String {
    show("PersistentVolumeClaimSpec", spec)
}

/// Formats the source of a PersistentVolume.
pub(in crate::kinds) fn show_volume_source(source: &Value) -> String {
    show("PersistentVolumeSource", source)
}

fn move_host_fields(spec: &mut Value) {
    let mut host = json!({"securityContext": spec.get("securityContext").cloned().unwrap_or(Value::Null)});
    for field in HOST {
        if is_set(spec, &format!("/{field}")) {
            let value = json!({"securityContext": {field: spec[field].clone()}});
            carry_over(&mut host, &value, &format!("/securityContext/{field}"));
        }
    }
    carry_over(spec, &host, "/securityContext");
}

fn show(name: &str, value: &Value) -> String {
    let mut out = String::from("{");
    let separate = |out: &mut String| {
        if out.len() > 1 {
            out.push(',');
        }
    };
    for Field { name, json, holds } in TYPES.get(name).into_iter().flatten() {
        let field = value.get(json).filter(|field| !field.is_null());
        let shown = match (holds, field) {
            (Holds::Metadata, _) => {
                for (name, value) in METADATA.iter().filter_map(|name| Some((name, field?.get(name)?))) {
                    if !value.is_null() && *value != json!({}) && *value != json!([]) && *value != "" {
                        separate(&mut out);
                        let _ = write!(out, "\"{name}\":{}", marshal(value));
                    }
                }
                continue;
            }
            (Holds::Plain(absent), None) => (*absent).to_owned(),
            (Holds::Plain(_), Some(value)) => marshal(value),
            (Holds::Pointer(_) | Holds::List(_), None) => "null".to_owned(),
            (Holds::Pointer("LabelSelector"), Some(value)) => show_selector(value),
            (Holds::List(name), Some(value)) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                format!("[{}]", items.iter().map(|item| show(name, item)).collect::<Vec<_>>().join(","))
            }
            (Holds::Struct(name) | Holds::Pointer(name), value) => show(name, value.unwrap_or(&Value::Null)),
        };
        separate(&mut out);
        let _ = write!(out, "\"{name}\":{shown}");
    }
    out + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_listed() {
        for (name, fields) in TYPES.iter() {
            for field in fields {
                if let Holds::Struct(inner) | Holds::Pointer(inner) | Holds::List(inner) = field.holds {
                    assert!(inner == "LabelSelector" || TYPES.contains_key(inner), "{name}.{}: {inner}", field.name);
                }
            }
        }
    }

    #[test]
    fn a_template_is_shown_as_in_kube_apiserver() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostPID": true, "securityContext": {},
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}, "readinessProbe": {"exec": {"command": ["x"]}}}]}});
        let shown = show_template(&template);
        for part in [
            r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","Image":"","Command":null,"Args":null,"WorkingDir":"","Ports":null,"#,
            r#""Resources":{"Limits":{"cpu":"1"},"Requests":null,"Claims":null},"ResizePolicy":null,"#,
            r#""ReadinessProbe":{"Exec":{"Command":["x"]},"HTTPGet":null,"TCPSocket":null,"GRPC":null,"InitialDelaySeconds":0,"#,
            r#""NodeName":"","SecurityContext":{"HostNetwork":false,"HostPID":true,"HostIPC":false,"ShareProcessNamespace":null,"#,
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
