//! Warnings about pods and templates that are valid but probably not intended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_schema::field::{Path, quote};
use windlass_schema::names;

use super::prepare::app_armor_of;
use super::validation::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, annotation};
use super::validation::each_container;
use crate::object::{entries, integer, is_set, items, text};
use crate::resource_list::quantity;

mod overlaps;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const USE_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const USE_APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Volume sources that no longer work, with their names in the warning.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Returns warnings about a new pod.
pub(super) fn of_pod(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let problems = names::is_dns1123_label(text(pod, "/metadata/name"));
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            problems.join(" ")
        ));
    }
    warnings.extend(of_any(pod, None));
    warnings
}

/// Returns warnings about a template at `path`.
pub(crate) fn of_template(template: &Value, path: &Path) -> Vec<String> {
    of_any(template, Some(path))
}

fn of_any(pod: &Value, template: Option<&Path>) -> Vec<String> {
    let mut warnings = Vec::new();
    let null = Value::Null;
    let (metadata, spec) = (pod.get("metadata").unwrap_or(&null), pod.get("spec").unwrap_or(&null));
    let root = template.cloned().unwrap_or_default();
    let (path, annotations) = (root.child("spec"), root.child("metadata").child("annotations"));
    about_nodes(spec, &path, &mut warnings);
    for (key, message) in OLD_ANNOTATIONS {
        if annotation(metadata, key).is_some() {
            warnings.push(format!("{}: {message}", annotations.key(key)));
        }
    }
    about_volumes(spec, &path, &mut warnings);
    about_lists(spec, &path, &mut warnings);
    for resource in ["memory", "ephemeral-storage"] {
        fraction(spec, "/overhead", resource, &path.child("overhead"), &mut warnings);
    }
    if !is_set(spec, "/securityContext/seccompProfile") && annotation(metadata, SECCOMP_POD).is_some() {
        warnings.push(format!("{}: {USE_SECCOMP}", annotations.key(SECCOMP_POD)));
    }
    each_container(spec, &path, |container, at| {
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "/name"));
        if !is_set(container, "/securityContext/seccompProfile") && annotation(metadata, &key).is_some() {
            warnings.push(format!("{}: {USE_SECCOMP}", annotations.key(&key)));
        }
        let key = format!("{APP_ARMOR}{}", text(container, "/name"));
        if let Some(profile) = annotation(metadata, &key)
            && is_app_armor_worth_a_warning(container, spec, profile, template.is_some())
        {
            warnings.push(format!("{}: {USE_APP_ARMOR}", annotations.key(&key)));
        }
        about_container(container, &at(), &mut warnings);
    });
    about_ports(spec, &path, &mut warnings);
    if integer(spec, "/terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    about_pod_affinity(spec, &path.child("affinity"), &mut warnings);
    about_addresses(spec, &path, &mut warnings);
    warnings
}

/// A template causes a warning about an annotation without a corresponding field; a pod, whose annotations have already
/// been copied to fields, about an annotation with one.
fn is_app_armor_worth_a_warning(container: &Value, spec: &Value, annotation: &str, is_template: bool) -> bool {
    let profile = app_armor_of(annotation);
    let own = container.pointer("/securityContext/appArmorProfile").filter(|own| !own.is_null());
    let of_pod = spec.pointer("/securityContext/appArmorProfile").filter(|of_pod| !of_pod.is_null());
    if is_template {
        own.is_none() && (of_pod.is_none() || of_pod != profile.as_ref())
    } else {
        profile.is_none() && own.is_none() || profile.is_some() && own == profile.as_ref()
    }
}

/// Returns the warning about a deprecated node label.
pub(crate) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

fn about_nodes(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (key, _) in entries(spec, "/nodeSelector") {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {message}", path.child("nodeSelector").key(key)));
        }
    }
    let affinity = spec.pointer("/affinity/nodeAffinity").unwrap_or(&Value::Null);
    let at = path.child("affinity").child("nodeAffinity");
    for (index, term) in items(affinity, &format!("/{REQUIRED}/nodeSelectorTerms")).iter().enumerate() {
        about_node_term(term, false, &at.child(REQUIRED).child("nodeSelectorTerms").index(index), warnings);
    }
    for (index, term) in items(affinity, &format!("/{PREFERRED}")).iter().enumerate() {
        let preference = term.get("preference").unwrap_or(&Value::Null);
        about_node_term(preference, true, &at.child(PREFERRED).index(index).child("preference"), warnings);
    }
    for (index, constraint) in items(spec, "/topologySpreadConstraints").iter().enumerate() {
        let at = path.child("topologySpreadConstraints").index(index);
        let key = text(constraint, "/topologyKey");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("topologyKey")));
        }
        if !is_set(constraint, "/labelSelector") {
            warnings.push(format!("{}: {NO_SELECTOR}", at.child("labelSelector")));
        }
    }
}

fn about_node_term(term: &Value, is_preferred: bool, path: &Path, warnings: &mut Vec<String>) {
    for (index, expression) in items(term, "/matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(index);
        let key = text(expression, "/key");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("key")));
        }
        let values = if is_preferred { items(expression, "/values") } else { &[] };
        for (value_index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            for problem in names::is_valid_label_value(value) {
                let at = at.child("values").index(value_index);
                warnings.push(format!("{at}: {value} is invalid, {problem}"));
            }
        }
    }
}

fn about_volumes(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        let at = path.child("volumes").index(index);
        for (field, shown, message) in OLD_VOLUMES {
            if volume.get(field).is_some_and(|source| !source.is_null()) {
                warnings.push(format!("{}: {message}", at.child(shown)));
            }
        }
        let claim = volume.pointer("/ephemeral/volumeClaimTemplate/spec").unwrap_or(&Value::Null);
        let at = at.child("ephemeral").child("volumeClaimTemplate").child("spec").child("resources");
        for list in ["requests", "limits"] {
            fraction(claim, &format!("/resources/{list}"), "storage", &at.child(list), warnings);
        }
    }
    warnings.extend(overlaps::warnings(items(spec, "/volumes")));
}

fn about_lists(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (index, item) in items(spec, &format!("/{list}")).iter().enumerate() {
            let value = item.get(field).and_then(Value::as_str).unwrap_or_default();
            if !seen.insert(value) {
                let at = path.child(list).index(index).child(field);
                warnings.push(format!("{at}: duplicate {field} {}", quote(value)));
            }
        }
    }
    for (index, secret) in items(spec, "/imagePullSecrets").iter().enumerate() {
        if text(secret, "/name").is_empty() {
            let at = path.child("imagePullSecrets").index(index).child("name");
            warnings.push(format!("{at}: invalid empty name \"\""));
        }
    }
}

fn fraction(value: &Value, pointer: &str, resource: &str, path: &Path, warnings: &mut Vec<String>) {
    let amount = value.pointer(pointer).and_then(|list| list.get(resource)).and_then(quantity);
    if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
        let shown = quote(&amount.to_string());
        warnings.push(format!("{}: fractional byte value {shown} is invalid, must be an integer", path.key(resource)));
    }
}

fn about_container(container: &Value, path: &Path, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let at = path.child("resources").child(list);
            fraction(container, &format!("/resources/{list}"), resource, &at, warnings);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "/env").iter().enumerate() {
        let (name, value) = (text(variable, "/name"), text(variable, "/value"));
        let reference = format!("$({name})");
        // A value that refers to the previous value of the variable is defined twice on purpose.
        let builds = !is_set(variable, "/valueFrom") && value != reference && value.contains(&reference);
        if !seen.insert(name) && !builds {
            let at = path.child("env").index(index);
            let name = quote(name);
            warnings.push(format!("{at}: hides previous definition of {name}, which may be dropped when using apply"));
        }
    }
}

fn about_ports(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    let mut by_number: BTreeMap<String, Vec<(Path, &Value)>> = BTreeMap::new();
    let mut all = Vec::new();
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, &format!("/{kind}")).iter().enumerate() {
            for (port_index, port) in items(container, "/ports").iter().enumerate() {
                all.push((path.child(kind).index(index).child("ports").index(port_index), port));
            }
        }
    }
    let host = |port: &Value| integer(port, "/hostPort").unwrap_or_default();
    for (at, port) in &all {
        let (ip, number) = (text(port, "/hostIP"), integer(port, "/containerPort").unwrap_or_default());
        if !ip.is_empty() && host(port) == 0 {
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{} HostIP:{ip}}}",
                text(port, "/name"),
                text(port, "/protocol"),
            ));
        }
        let others = by_number.entry(format!("{number}/{}", text(port, "/protocol"))).or_default();
        for (other_at, other) in others.iter() {
            let other_ip = text(other, "/hostIP");
            let what = if ip == other_ip && host(port) == host(other) {
                "duplicate"
            } else if host(port) == 0 || host(other) == 0 {
                "overlapping"
            } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{at}: {what} port definition with {other_at}"));
        }
        others.push((at.clone(), port));
    }
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    for (at, port) in &all {
        let name = text(port, "/name");
        if name.is_empty() {
            continue;
        }
        match names.get(name) {
            Some(other) => warnings.push(format!(
                "{at}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                quote(name)
            )),
            None => {
                names.insert(name, at);
            }
        }
    }
}

fn about_pod_affinity(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (list, selector) in [(REQUIRED, "/labelSelector"), (PREFERRED, "/podAffinityTerm/labelSelector")] {
            for (index, term) in items(spec, &format!("/affinity/{kind}/{list}")).iter().enumerate() {
                if !is_set(term, selector) {
                    let at = path.child(kind).child(list).index(index).child(&selector[1..].replace('/', "."));
                    warnings.push(format!("{at}: {NO_SELECTOR}"));
                }
            }
        }
    }
}

fn about_addresses(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (index, server) in items(spec, "/dnsConfig/nameservers").iter().filter_map(Value::as_str).enumerate() {
        let at = path.child("dnsConfig").child("nameservers").index(index);
        warnings.extend(names::ip_warnings(&at, server));
    }
    for (index, alias) in items(spec, "/hostAliases").iter().enumerate() {
        let at = path.child("hostAliases").index(index).child("ip");
        warnings.extend(names::ip_warnings(&at, text(alias, "/ip")));
    }
}
