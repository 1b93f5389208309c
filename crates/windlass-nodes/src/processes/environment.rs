//! Environment variables and command lines of containers. Pure: references are resolved before.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Container, EnvVar, Pod, ResourceFieldSelector, Service},
};

use super::{downward, sources::Sources};

/// Variables by name.
pub(super) type Environment = BTreeMap<String, String>;

/// Inputs to a container's environment besides the container.
pub(super) struct EnvironmentSources<'a> {
    pub(super) pod: &'a Pod,
    pub(super) sources: &'a Sources,
    /// Variables of the image.
    pub(super) image: &'a Environment,
    /// Variables of every container.
    pub(super) base: &'a Environment,
}

/// Returns the environment of a container, or the reason why it is not available yet.
pub(super) fn environment(container: &Container, around: &EnvironmentSources<'_>) -> Result<Environment, String> {
    let mut all = around.base.clone();
    all.extend(around.image.clone());
    let spec = around.pod.spec.as_ref();
    if spec.and_then(|spec| spec.enable_service_links).unwrap_or(true) {
        all.extend(service_variables(&around.sources.services));
    }
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref
            && let Some(map) = around.sources.config_map(&reference.name, reference.optional)?
        {
            let data = map.data.iter().flatten();
            all.extend(data.map(|(name, value)| (format!("{prefix}{name}"), value.clone())));
        }
        if let Some(reference) = &source.secret_ref
            && let Some(secret) = around.sources.secret(&reference.name, reference.optional)?
        {
            let data = secret.data.iter().flatten();
            all.extend(data.map(|(name, value)| (format!("{prefix}{name}"), text(value))));
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variable, container, around, &all)? {
            all.insert(variable.name.clone(), value);
        }
    }
    Ok(all)
}

/// Returns the value of a variable, or `None` if it refers to something optional that does not exist.
fn value(
    variable: &EnvVar,
    container: &Container,
    around: &EnvironmentSources<'_>,
    before: &Environment,
) -> Result<Option<String>, String> {
    let Some(from) = &variable.value_from else {
        return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), before)));
    };
    let namespace = around.pod.metadata.namespace.as_deref().unwrap_or_default();
    let missing = |kind: &str, name: &str, key: &str, optional: Option<bool>| match optional {
        Some(true) => Ok(None),
        _ => Err(format!("couldn't find key {key} in {kind} {namespace}/{name}")),
    };
    if let Some(reference) = &from.config_map_key_ref {
        let map = around.sources.config_map(&reference.name, reference.optional)?;
        let Some(map) = map else { return Ok(None) };
        return match map.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(value.clone())),
            None => missing("ConfigMap", &reference.name, &reference.key, reference.optional),
        };
    }
    if let Some(reference) = &from.secret_key_ref {
        let secret = around.sources.secret(&reference.name, reference.optional)?;
        let Some(secret) = secret else { return Ok(None) };
        return match secret.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(text(value))),
            None => missing("Secret", &reference.name, &reference.key, reference.optional),
        };
    }
    if let Some(reference) = &from.field_ref {
        return downward::field(around.pod, &around.sources.addresses, &reference.field_path).map(Some);
    }
    if let Some(reference) = &from.resource_field_ref {
        return resource(around, container, reference).map(Some);
    }
    Ok(Some(String::new()))
}

fn resource(
    around: &EnvironmentSources<'_>,
    container: &Container,
    reference: &ResourceFieldSelector,
) -> Result<String, String> {
    let pod = around.pod;
    let named = reference.container_name.as_deref().filter(|name| !name.is_empty());
    let containers =
        pod.spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let container = match named {
        Some(name) => {
            containers.into_iter().find(|one| one.name == name).ok_or_else(|| format!("container {name} not found"))?
        }
        None => container,
    };
    let divisor = reference.divisor.as_ref().map_or("", |divisor| &divisor.0);
    downward::resource(container, &reference.resource, divisor, &around.sources.allocatable)
}

fn text(bytes: &ByteString) -> String {
    String::from_utf8_lossy(&bytes.0).into_owned()
}

/// The service discovery variables.
fn service_variables(services: &[Service]) -> Environment {
    let mut all = Environment::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else { continue };
        let Some(name) = service.metadata.name.as_deref() else { continue };
        let name = name.to_ascii_uppercase().replace('-', "_");
        let ports = spec.ports.as_deref().unwrap_or_default();
        let Some(first) = ports.first() else { continue };
        all.insert(format!("{name}_SERVICE_HOST"), ip.to_owned());
        all.insert(format!("{name}_SERVICE_PORT"), first.port.to_string());
        for port in ports.iter().filter(|port| port.name.as_deref().is_some_and(|name| !name.is_empty())) {
            let port_name = port.name.as_deref().unwrap_or_default().to_ascii_uppercase().replace('-', "_");
            all.insert(format!("{name}_SERVICE_PORT_{port_name}"), port.port.to_string());
        }
        for (index, port) in ports.iter().enumerate() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let lower = protocol.to_ascii_lowercase();
            let number = port.port;
            if index == 0 {
                all.insert(format!("{name}_PORT"), format!("{lower}://{ip}:{number}"));
            }
            let prefix = format!("{name}_PORT_{number}_{protocol}");
            all.insert(prefix.clone(), format!("{lower}://{ip}:{number}"));
            all.insert(format!("{prefix}_PROTO"), lower.clone());
            all.insert(format!("{prefix}_PORT"), number.to_string());
            all.insert(format!("{prefix}_ADDR"), ip.to_owned());
        }
    }
    all
}

/// Expands `$(NAME)`. Unknown names are kept, and `$$` is an escaped dollar sign.
pub(super) fn expand(text: &str, environment: &Environment) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match environment.get(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn references_to_variables_are_expanded_as_kubernetes_does() {
        let environment = Environment::from([("A".to_owned(), "one".to_owned()), ("B".to_owned(), "$(A)".to_owned())]);
        for (text, expected) in [
            ("$(A)", "one"),
            ("x$(A)y$(A)", "xoneyone"),
            ("$(B)", "$(A)"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &environment), expected, "{text}");
        }
    }

    #[test]
    fn variables_come_from_all_sources_and_later_ones_win() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app": "x"}},
            "spec": {"containers": [{
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "m"}, "prefix": "P_"}, {"secretRef": {"name": "none", "optional": true}}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "$(A)-$(P_k)"},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "resources": {"limits": {"cpu": "1500m"}},
            }]},
        }))
        .unwrap();
        let mut sources = Sources::default();
        sources.addresses.pod = Some("127.5.0.2".parse().unwrap());
        sources.config_maps.insert("m".into(), serde_json::from_value(json!({"data": {"k": "v"}})).unwrap());
        sources.secrets.insert("s".into(), serde_json::from_value(json!({"data": {"password": "aHVudGVy"}})).unwrap());
        sources.services = vec![
            serde_json::from_value(json!({
                "metadata": {"name": "my-db"}, "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 5432, "name": "sql"}]}
            }))
            .unwrap(),
        ];
        let nothing = Environment::new();
        let around = EnvironmentSources { pod: &pod, sources: &sources, image: &nothing, base: &nothing };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let all = environment(container, &around).unwrap();
        for (name, value) in [
            ("P_k", "v"),
            ("B", "1-v"),
            ("NAME", "p"),
            ("IP", "127.5.0.2"),
            ("KEY", "hunter"),
            ("CPU", "2"),
            ("MY_DB_SERVICE_HOST", "10.0.0.9"),
            ("MY_DB_SERVICE_PORT_SQL", "5432"),
            ("MY_DB_PORT_5432_TCP_ADDR", "10.0.0.9"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        sources.config_maps.clear();
        let around = EnvironmentSources { pod: &pod, sources: &sources, image: &nothing, base: &nothing };
        assert_eq!(environment(container, &around).unwrap_err(), "configmap \"m\" not found");
    }

    proptest! {
        #[test]
        fn no_text_panics_when_expanded(text in r"[$()A-Z é]{0,40}") {
            expand(&text, &Environment::from([("A".to_owned(), "B".to_owned())]));
        }
    }
}
