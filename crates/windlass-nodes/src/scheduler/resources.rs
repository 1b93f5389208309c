//! Resource requests of pods and capacities of nodes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use windlass_schema::quantity;

/// Amounts of resources: CPU in millicores, all others in their base units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// CPU.
    pub(super) cpu: i64,
    /// Memory in bytes.
    pub(super) memory: i64,
    /// Ephemeral storage in bytes.
    pub(super) storage: i64,
    /// Number of pods.
    pub(super) pods: i64,
    /// Extended resources.
    pub(super) others: BTreeMap<String, i64>,
}

type Amounts = BTreeMap<String, Quantity>;

impl Resources {
    /// Parses a resource list; invalid quantities count as zero.
    pub(super) fn of(amounts: Option<&Amounts>) -> Self {
        let mut resources = Self::default();
        for (name, amount) in amounts.into_iter().flatten() {
            let Some(amount) = parse(&amount.0, name == "cpu") else { continue };
            match name.as_str() {
                "cpu" => resources.cpu = amount,
                "memory" => resources.memory = amount,
                "ephemeral-storage" => resources.storage = amount,
                "pods" => resources.pods = amount,
                _ => {
                    resources.others.insert(name.clone(), amount);
                }
            }
        }
        resources
    }

    /// The request of a pod: the sum over its containers and sidecars, or the request of an init container if that is
    /// higher, and one pod.
    pub(super) fn requested_by(spec: &PodSpec) -> Self {
        let requests = |container: &Container| {
            Self::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
        };
        let mut total = Self::default();
        for container in &spec.containers {
            total.add(&requests(container));
        }
        let (mut sidecars, mut peak) = (Self::default(), Self::default());
        for container in spec.init_containers.iter().flatten() {
            let mut wants = requests(container);
            if container.restart_policy.as_deref() == Some("Always") {
                sidecars.add(&wants);
                total.add(&wants);
                peak.raise(&sidecars);
            } else {
                wants.add(&sidecars);
                peak.raise(&wants);
            }
        }
        total.raise(&peak);
        // Pod-level requests override the sum over the containers.
        total.replace(spec.resources.as_ref());
        total.add(&Self::of(spec.overhead.as_ref()));
        total.pods = 1;
        total
    }

    fn replace(&mut self, whole: Option<&ResourceRequirements>) {
        let Some(requests) = whole.and_then(|whole| whole.requests.as_ref()) else { return };
        let whole = Self::of(Some(requests));
        if requests.contains_key("cpu") {
            self.cpu = whole.cpu;
        }
        if requests.contains_key("memory") {
            self.memory = whole.memory;
        }
        self.others.extend(whole.others);
    }

    /// Adds the other amounts.
    pub(super) fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts the other amounts.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to at least the other.
    fn raise(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, with: fn(i64, i64) -> i64) {
        self.cpu = with(self.cpu, other.cpu);
        self.memory = with(self.memory, other.memory);
        self.storage = with(self.storage, other.storage);
        self.pods = with(self.pods, other.pods);
        for (name, amount) in &other.others {
            let present = self.others.entry(name.clone()).or_default();
            *present = with(*present, *amount);
        }
    }

    /// Returns the reasons why a request does not fit, with the messages of kube-scheduler, and whether it would fit on an empty
    /// node.
    pub(super) fn lacking(&self, used: &Self, wanted: &Self) -> (Vec<String>, bool) {
        let mut reasons = Vec::new();
        let mut could = true;
        if used.pods.saturating_add(1) > self.pods {
            reasons.push("Too many pods".to_owned());
            could &= self.pods >= 1;
        }
        let mut check = |name: &str, wanted: i64, used: i64, all: i64| {
            if wanted > 0 && wanted > all.saturating_sub(used) {
                reasons.push(format!("Insufficient {name}"));
                could &= wanted <= all;
            }
        };
        check("cpu", wanted.cpu, used.cpu, self.cpu);
        check("memory", wanted.memory, used.memory, self.memory);
        check("ephemeral-storage", wanted.storage, used.storage, self.storage);
        for (name, wanted) in &wanted.others {
            let amount = |of: &Self| of.others.get(name).copied().unwrap_or_default();
            check(name, *wanted, amount(used), amount(self));
        }
        (reasons, could)
    }
}

/// Parses a quantity, rounding up.
fn parse(text: &str, thousandths: bool) -> Option<i64> {
    // Most quantities are plain numbers.
    if let Ok(number) = text.parse::<i64>() {
        return Some(if thousandths { number.saturating_mul(1000) } else { number });
    }
    let amount = quantity::Quantity::parse(text).ok()?;
    Some(if thousandths { amount.milli_value() } else { amount.value() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(spec: serde_json::Value) -> (i64, i64) {
        let resources = Resources::requested_by(&serde_json::from_value(spec).unwrap());
        assert_eq!(resources.pods, 1);
        (resources.cpu, resources.memory)
    }

    fn container(cpu: &str, memory: &str) -> serde_json::Value {
        json!({"name": "a", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn a_pod_requests_the_sum_of_its_containers_or_its_largest_init_container() {
        let mut sidecar = container("100m", "1Ki");
        sidecar["restartPolicy"] = "Always".into();
        for (spec, expected) in [
            (json!({"containers": [container("100m", "1Mi"), container("1", "1Mi")]}), (1100, 2 << 20)),
            (json!({"containers": [container("1", "1Ki")], "initContainers": [container("2", "1")]}), (2000, 1024)),
            (
                json!({"containers": [container("1", "0")], "initContainers": [sidecar, container("2", "1")]}),
                (2100, 1025),
            ),
            (json!({"containers": [container("1", "0")], "overhead": {"cpu": "250m"}}), (1250, 0)),
            (json!({"containers": [container("1", "5")], "resources": {"requests": {"cpu": "3"}}}), (3000, 5)),
            (json!({"containers": [{"name": "a"}]}), (0, 0)),
        ] {
            assert_eq!(asked(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn insufficient_resources_are_named() {
        let node = Resources { cpu: 1000, memory: 100, pods: 2, ..Resources::default() };
        let used = Resources { cpu: 500, pods: 2, ..Resources::default() };
        let wanted = Resources { cpu: 600, memory: 200, others: [("gpu".into(), 1)].into(), ..Resources::default() };
        let (reasons, could) = node.lacking(&used, &wanted);
        assert_eq!(reasons, ["Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient gpu"]);
        assert!(!could);
        let wanted = Resources { cpu: 501, ..Resources::default() };
        assert_eq!(
            node.lacking(&Resources { cpu: 500, ..Resources::default() }, &wanted),
            (vec!["Insufficient cpu".into()], true)
        );
    }
}
