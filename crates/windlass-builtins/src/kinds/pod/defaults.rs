//! Defaults of pods and pod templates.
//!
//! [`pod`] is for pods, [`pod_spec`] for the spec of a template: a few defaults are only applied to pods, so that a
//! template stays as its author wrote it.

use serde_json::{Map, Value, json};

use super::image;
use super::resources;
use crate::object::{boolean, integer, is_set, items, list_mut, remove, set, set_default, set_default_text, text};
use crate::resource_list;

/// Default mode of files in volumes made from API objects.
const FILE_MODE: i64 = 0o644;

/// Annotations of early releases that contained init containers; they are dropped from pods and templates.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Applies the defaults of a pod.
pub fn pod(pod: &mut Value) {
    drop_init_container_annotations(pod);
    if let Some(spec) = object_at(pod, "spec") {
        for kind in ["containers", "initContainers"] {
            for container in list_mut(spec, kind) {
                request_what_is_limited(container);
            }
        }
        resources::default_pod_level(spec);
        set_default(spec, "/enableServiceLinks", true);
        if boolean(spec, "/hostNetwork") == Some(true) {
            for kind in ["containers", "initContainers"] {
                list_mut(spec, kind).iter_mut().for_each(default_host_ports);
            }
        }
        pod_spec(spec);
        if integer(spec, "/terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
            set(spec, "/terminationGracePeriodSeconds", 1);
        }
    }
    agree_on_pod_ips(pod);
}

/// Applies the defaults of a pod template.
pub fn template(template: &mut Value) {
    drop_init_container_annotations(template);
    if let Some(spec) = object_at(template, "spec") {
        pod_spec(spec);
    }
}

/// Applies the defaults of the spec of a pod or template.
pub fn pod_spec(spec: &mut Value) {
    set_default_text(spec, "/dnsPolicy", "ClusterFirst");
    set_default_text(spec, "/restartPolicy", "Always");
    set_default(spec, "/securityContext", json!({}));
    set_default(spec, "/terminationGracePeriodSeconds", 30);
    set_default_text(spec, "/schedulerName", "default-scheduler");
    agree_on_service_account(spec);
    for volume in list_mut(spec, "volumes") {
        default_volume(volume);
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, kind) {
            default_container(container);
        }
    }
    resource_list::round_up(spec, "/overhead");
    resource_list::round_up(spec, "/resources/limits");
    resource_list::round_up(spec, "/resources/requests");
}

/// Synchronizes `serviceAccount`, the deprecated name, with `serviceAccountName`, which takes precedence.
fn agree_on_service_account(spec: &mut Value) {
    let name = match text(spec, "/serviceAccountName") {
        "" => text(spec, "/serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !name.is_empty() {
        set(spec, "/serviceAccountName", name.clone());
        set(spec, "/serviceAccount", name);
    }
}

/// Synchronizes `podIP`, which takes precedence, with the first of `podIPs`.
fn agree_on_pod_ips(pod: &mut Value) {
    let ip = text(pod, "/status/podIP").to_owned();
    let first = items(pod, "/status/podIPs").first().map(|ip| text(ip, "/ip").to_owned());
    match first {
        Some(first) if ip.is_empty() || ip == first => set(pod, "/status/podIP", first),
        None if ip.is_empty() => {}
        _ => set(pod, "/status/podIPs", json!([{"ip": ip}])),
    }
}

fn drop_init_container_annotations(object: &mut Value) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    let before = annotations.len();
    annotations.retain(|key, _| !INIT_CONTAINER_ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() && before > 0 {
        remove(object, "/metadata/annotations");
    }
}

fn default_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if !fields.iter().any(|(name, source)| name != "name" && !source.is_null()) {
        fields.insert("emptyDir".to_owned(), json!({}));
        return;
    }
    for (name, source) in fields.iter_mut() {
        if source.is_object() {
            default_volume_source(name, source);
        }
    }
}

/// Applies the defaults of a volume source.
pub(crate) fn default_volume_source(name: &str, source: &mut Value) {
    match name {
        "hostPath" => set_default(source, "/type", ""),
        "secret" | "configMap" => set_default(source, "/defaultMode", FILE_MODE),
        "downwardAPI" => {
            set_default(source, "/defaultMode", FILE_MODE);
            default_downward_files(source);
        }
        "projected" => {
            set_default(source, "/defaultMode", FILE_MODE);
            for part in list_mut(source, "sources") {
                if let Some(files) = object_at(part, "downwardAPI") {
                    default_downward_files(files);
                }
                if let Some(token) = object_at(part, "serviceAccountToken") {
                    set_default(token, "/expirationSeconds", 3600);
                }
            }
        }
        "image" if text(source, "/pullPolicy").is_empty() => {
            let policy = image::pull_policy(text(source, "/reference"));
            set(source, "/pullPolicy", policy);
        }
        "iscsi" => set_default_text(source, "/iscsiInterface", "default"),
        "rbd" => {
            set_default_text(source, "/pool", "rbd");
            set_default_text(source, "/user", "admin");
            set_default_text(source, "/keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            set_default(source, "/cachingMode", "ReadWrite");
            set_default(source, "/fsType", "ext4");
            set_default(source, "/readOnly", false);
            set_default(source, "/kind", "Shared");
        }
        "scaleIO" => {
            set_default_text(source, "/storageMode", "ThinProvisioned");
            set_default_text(source, "/fsType", "xfs");
        }
        "ephemeral" if is_set(source, "/volumeClaimTemplate") => {
            set_default(source, "/volumeClaimTemplate/spec/volumeMode", "Filesystem");
            resource_list::round_up(source, "/volumeClaimTemplate/spec/resources/limits");
            resource_list::round_up(source, "/volumeClaimTemplate/spec/resources/requests");
        }
        _ => {}
    }
}

fn default_downward_files(source: &mut Value) {
    for file in list_mut(source, "items") {
        if let Some(field) = object_at(file, "fieldRef") {
            set_default_text(field, "/apiVersion", "v1");
        }
    }
}

fn default_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    if text(container, "/imagePullPolicy").is_empty() {
        let policy = image::pull_policy(text(container, "/image"));
        set(container, "/imagePullPolicy", policy);
    }
    set_default_text(container, "/terminationMessagePath", "/dev/termination-log");
    set_default_text(container, "/terminationMessagePolicy", "File");
    for port in list_mut(container, "ports") {
        set_default_text(port, "/protocol", "TCP");
    }
    for variable in list_mut(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef").filter(|field| field.is_object()) {
            set_default_text(field, "/apiVersion", "v1");
        }
        if let Some(file) = variable.pointer_mut("/valueFrom/fileKeyRef").filter(|file| file.is_object()) {
            set_default(file, "/optional", false);
        }
    }
    resource_list::round_up(container, "/resources/limits");
    resource_list::round_up(container, "/resources/requests");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object_at(container, probe) {
            default_probe(probe);
        }
    }
    for hook in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(action) = container.pointer_mut(hook).filter(|action| action.is_object()) {
            default_http_get(action);
        }
    }
}

fn default_probe(probe: &mut Value) {
    for (field, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if integer(probe, &format!("/{field}")).unwrap_or_default() == 0 {
            set(probe, &format!("/{field}"), default);
        }
    }
    if let Some(action) = object_at(probe, "httpGet") {
        default_http_get(action);
    }
    if let Some(action) = object_at(probe, "grpc") {
        set_default(action, "/service", "");
    }
}

fn default_http_get(action: &mut Value) {
    set_default_text(action, "/path", "/");
    set_default_text(action, "/scheme", "HTTP");
}

fn default_host_ports(container: &mut Value) {
    for port in list_mut(container, "ports") {
        if let (None | Some(0), Some(number)) = (integer(port, "/hostPort"), integer(port, "/containerPort")) {
            set(port, "/hostPort", number);
        }
    }
}

/// Sets the request of a limited resource to its limit, unless it is set.
fn request_what_is_limited(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else { return };
    for (name, limit) in limits {
        let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
        let requests = resources.entry("requests").or_insert_with(|| Value::Object(Map::new()));
        if requests.is_null() {
            *requests = Value::Object(Map::new());
        }
        if let Some(requests) = requests.as_object_mut() {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Returns a field that is an object, for modification.
fn object_at<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    value.get_mut(field).filter(|child| child.is_object())
}
