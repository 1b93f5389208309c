//! Resource usage of simulated containers. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};
use windlass_schema::quantity::Quantity;

/// The annotation for CPU usage, of all containers or by name: `250m`, `90%` of the request, `app=250m,sidecar=90%`.
const CPU: &str = "windlass.dev/cpu-usage";
/// The annotation for memory usage.
const MEMORY: &str = "windlass.dev/memory-usage";
/// The share of the request that a container uses by default, in percent.
const SHARE: u64 = 50;
/// The usage of a container without a request: billionths of a core.
const IDLE_CPU: u64 = 10_000_000;
/// The usage of a container without a request: bytes.
const IDLE_MEMORY: u64 = 32 << 20;

/// Returns the used cores in billionths, and the used memory in bytes.
pub(super) fn usage(pod: &Pod, container: &str) -> (u64, u64) {
    let request = |resource: &str| {
        let spec = pod.spec.as_ref()?;
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let found = containers.into_iter().find(|one: &&Container| one.name == container)?;
        let resources = found.resources.as_ref()?;
        let amounts = resources.requests.as_ref().and_then(|requests| requests.get(resource));
        Quantity::parse(&amounts?.0).ok()
    };
    let annotation = |name: &str| {
        let annotations = pod.metadata.annotations.as_ref()?;
        said(annotations.get(name)?, container)
    };
    let cpu = |quantity: &Quantity| u64::try_from(quantity.scaled_value(-9)).unwrap_or_default();
    let memory = |quantity: &Quantity| u64::try_from(quantity.value()).unwrap_or_default();
    let used = |annotation: Option<Said>, request: Option<u64>, idle: u64, amount: fn(&Quantity) -> u64| {
        let share = |percent: u64| request.map_or(idle, |request| percentage(request, percent));
        match annotation {
            Some(Said::Amount(quantity)) => amount(&quantity),
            Some(Said::Percent(percent)) => share(percent),
            None => share(SHARE),
        }
    };
    (
        used(annotation(CPU), request("cpu").as_ref().map(cpu), IDLE_CPU, cpu),
        used(annotation(MEMORY), request("memory").as_ref().map(memory), IDLE_MEMORY, memory),
    )
}

fn percentage(of: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Usage of a container according to an annotation.
#[derive(Debug, PartialEq)]
enum Said {
    Amount(Quantity),
    /// A share of the request.
    Percent(u64),
}

/// Reads an annotation. Invalid values are ignored.
fn said(text: &str, container: &str) -> Option<Said> {
    let value = text.split(',').find_map(|part| match part.split_once('=') {
        Some((name, value)) => (name.trim() == container).then_some(value),
        None => Some(part),
    })?;
    match value.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(Said::Percent),
        None => Quantity::parse(value.trim()).ok().map(Said::Amount),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value) -> Pod {
        let requests = json!({"requests": {"cpu": "200m", "memory": "100Mi"}});
        serde_json::from_value(json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "app", "resources": requests}, {"name": "idle"}]},
        }))
        .unwrap()
    }

    #[test]
    fn containers_use_half_of_their_requests_unless_annotations_say_otherwise() {
        const MILLI: u64 = 1_000_000;
        const MEBI: u64 = 1 << 20;
        for (annotations, app, idle) in [
            (json!({}), (100 * MILLI, 50 * MEBI), (10 * MILLI, 32 * MEBI)),
            (json!({CPU: "1"}), (1000 * MILLI, 50 * MEBI), (1000 * MILLI, 32 * MEBI)),
            (json!({CPU: "90%", MEMORY: "150%"}), (180 * MILLI, 150 * MEBI), (10 * MILLI, 32 * MEBI)),
            (json!({CPU: "app=250m, idle=1m", MEMORY: "idle=1Gi"}), (250 * MILLI, 50 * MEBI), (MILLI, 1024 * MEBI)),
            (json!({CPU: "much", MEMORY: "-1"}), (100 * MILLI, 0), (10 * MILLI, 0)),
        ] {
            let pod = pod(annotations.clone());
            assert_eq!((usage(&pod, "app"), usage(&pod, "idle")), (app, idle), "{annotations}");
        }
    }
}
