//! The downward API. Pure.

use std::{collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use windlass_schema::quantity::Quantity as Amount;

/// Addresses of a pod and its node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PodAddresses {
    pub(super) pod: Option<Ipv4Addr>,
    pub(super) host: Option<Ipv4Addr>,
}

/// Returns a field of a pod by its path.
pub(super) fn field(pod: &Pod, addresses: &PodAddresses, path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let address = |address: Option<Ipv4Addr>| Ok(address.map(|ip| ip.to_string()).unwrap_or_default());
    let owned = |text: Option<&String>| Ok(text.cloned().unwrap_or_default());
    let keyed = |name: &str| path.strip_prefix(name)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = keyed("metadata.labels") {
        return owned(meta.labels.as_ref().and_then(|labels| labels.get(key)));
    }
    if let Some(key) = keyed("metadata.annotations") {
        return owned(meta.annotations.as_ref().and_then(|annotations| annotations.get(key)));
    }
    match path {
        "metadata.name" => owned(meta.name.as_ref()),
        "metadata.namespace" => owned(meta.namespace.as_ref()),
        "metadata.uid" => owned(meta.uid.as_ref()),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        "spec.nodeName" => owned(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => owned(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.podIP" | "status.podIPs" => address(addresses.pod),
        "status.hostIP" | "status.hostIPs" => address(addresses.host),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

fn lines(map: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// Amounts of resources by name.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// Returns a request or limit of a container in units of `divisor`, rounded up. A container without a limit may use what
/// its node can allocate.
pub(super) fn resource(
    container: &Container,
    name: &str,
    divisor: &str,
    allocatable: &Amounts,
) -> Result<String, String> {
    let resources = container.resources.as_ref();
    let (list, name) = name.split_once('.').ok_or_else(|| format!("unsupported container resource : {name}"))?;
    let (list, default) = match list {
        "limits" => (resources.and_then(|resources| resources.limits.as_ref()), allocatable.get(name)),
        "requests" => (resources.and_then(|resources| resources.requests.as_ref()), None),
        _ => return Err(format!("unsupported container resource : {list}.{name}")),
    };
    let amount = |text: &str| Amount::parse(text).map_err(|error| error.to_string());
    let read = |quantity: Option<&Quantity>| quantity.map(|quantity| amount(&quantity.0)).transpose();
    let value = read(list.and_then(|list| list.get(name)))?.filter(|value| value.milli_value() != 0);
    let value = value.or(read(default)?).unwrap_or_else(Amount::zero);
    let divisor = match divisor {
        "" | "0" => Amount::new(1, value.format()),
        divisor => amount(divisor)?,
    };
    let (value, divisor) = match name {
        "cpu" => (value.milli_value(), divisor.milli_value()),
        _ => (value.value(), divisor.value()),
    };
    Ok((value.max(0) as u64).div_ceil(divisor.max(1) as u64).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_without_a_limit_may_use_what_its_node_can_allocate() {
        let allocatable =
            Amounts::from([("cpu".to_owned(), Quantity("32".into())), ("memory".to_owned(), Quantity("2Gi".into()))]);
        let container = |resources| serde_json::from_value(json!({"name": "c", "resources": resources})).unwrap();
        let limited = container(json!({"limits": {"cpu": "1500m", "memory": "0"}, "requests": {"cpu": "250m"}}));
        for (container, name, divisor, expected) in [
            (&limited, "limits.cpu", "", "2"),
            (&limited, "limits.cpu", "1m", "1500"),
            (&limited, "limits.memory", "1Mi", "2048"),
            (&limited, "requests.cpu", "1m", "250"),
            (&limited, "requests.memory", "", "0"),
            (&container(json!({})), "limits.cpu", "", "32"),
            (&container(json!({})), "limits.memory", "", "2147483648"),
            (&container(json!({})), "limits.ephemeral-storage", "", "0"),
        ] {
            assert_eq!(resource(container, name, divisor, &allocatable).unwrap(), expected, "{name} {divisor}");
        }
    }
}
