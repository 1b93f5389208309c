//! The downward API. Pure.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Pod};
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

/// Returns a request or limit of a container in units of `divisor`, rounded up.
pub(super) fn resource(container: &Container, name: &str, divisor: &str) -> Result<String, String> {
    let resources = container.resources.as_ref();
    let (list, name) = name.split_once('.').ok_or_else(|| format!("unsupported container resource : {name}"))?;
    let list = match list {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(format!("unsupported container resource : {list}.{name}")),
    };
    let amount = |text: &str| Amount::parse(text).map_err(|error| error.to_string());
    let value = list.and_then(|list| list.get(name)).map(|quantity| amount(&quantity.0)).transpose()?;
    let value = value.unwrap_or_else(Amount::zero);
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
