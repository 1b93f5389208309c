//! The expected number of pods, from the scale of their controllers. Pure.

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::OwnerReference, util::intstr::IntOrString},
};
use serde_json::Value;
use windlass::objects::owner::controller_of;

use super::budget::{Counts, scaled};

/// The bound of a budget, which determines the expected number of pods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound<'a> {
    /// There is no bound.
    None,
    /// The selected pods are expected.
    MinAvailable(i32),
    /// The expected number of pods is the scale of their controllers.
    MinAvailableOfScale(&'a IntOrString),
    /// The same.
    MaxUnavailableOfScale(&'a IntOrString),
}

impl<'a> Bound<'a> {
    pub(super) fn of(spec: Option<&'a PodDisruptionBudgetSpec>) -> Self {
        let max = spec.and_then(|spec| spec.max_unavailable.as_ref());
        let min = spec.and_then(|spec| spec.min_available.as_ref());
        match (max, min) {
            (Some(bound), _) => Self::MaxUnavailableOfScale(bound),
            (None, Some(IntOrString::Int(desired))) => Self::MinAvailable(*desired),
            (None, Some(bound)) => Self::MinAvailableOfScale(bound),
            (None, None) => Self::None,
        }
    }

    /// Returns whether the scales of the pods' controllers are needed.
    pub(super) fn needs_scales(self) -> bool {
        matches!(self, Self::MinAvailableOfScale(_) | Self::MaxUnavailableOfScale(_))
    }

    /// Returns the expected and desired numbers of pods. An error is the message for the budget's condition.
    pub(super) fn counts(self, selected: usize, scales: i32) -> Result<Counts, String> {
        let selected = i32::try_from(selected).unwrap_or(i32::MAX);
        let (expected, desired) = match self {
            Self::None => return Ok(Counts::default()),
            Self::MinAvailable(desired) => (selected, desired),
            Self::MinAvailableOfScale(bound) => (scales, scaled(bound, scales)?),
            Self::MaxUnavailableOfScale(bound) => (scales, scales.saturating_sub(scaled(bound, scales)?).max(0)),
        };
        Ok(Counts { expected, desired, healthy: 0 })
    }
}

/// The controllers of pods.
#[derive(Debug, Default)]
pub(super) struct Controllers<'a> {
    /// Each controller once, with the name of one of its pods.
    pub(super) owners: Vec<(&'a OwnerReference, &'a str)>,
    /// The names of pods without a controller.
    pub(super) unmanaged: Vec<String>,
}

impl<'a> Controllers<'a> {
    pub(super) fn of(pods: &'a [Arc<Pod>]) -> Self {
        let (mut controllers, mut seen) = (Self::default(), HashSet::new());
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match controller_of(&pod.metadata) {
                None => controllers.unmanaged.push(name.to_owned()),
                Some(owner) if seen.insert(owner.uid.as_str()) => controllers.owners.push((owner, name)),
                Some(_) => {}
            }
        }
        controllers
    }
}

/// Returns the plural name of a kind that has the scale subresource. `served` is the discovery document of its version.
pub(super) fn scalable(served: &Value, group: &str, kind: &str) -> Option<Result<String, String>> {
    let resources = || served["resources"].as_array().into_iter().flatten();
    let plural = resources().find_map(|one| {
        one["name"].as_str().filter(|plural| one["kind"].as_str() == Some(kind) && !plural.contains('/'))
    })?;
    let subresource = format!("{plural}/scale");
    Some(match resources().any(|one| one["name"].as_str() == Some(subresource.as_str())) {
        true => Ok(plural.to_owned()),
        false => {
            let dot = if group.is_empty() { "" } else { "." };
            Err(format!("{plural}{dot}{group} does not implement the scale subresource"))
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_follow_from_the_bound_of_a_budget() {
        for (spec, expected, desired) in [
            (json!({}), 0, 0),
            (json!({"minAvailable": 2}), 3, 2),
            (json!({"minAvailable": "25%"}), 10, 3),
            (json!({"maxUnavailable": 4}), 10, 6),
            (json!({"maxUnavailable": 11}), 10, 0),
            (json!({"maxUnavailable": "100%"}), 10, 0),
        ] {
            let budget: PodDisruptionBudgetSpec = serde_json::from_value(spec.clone()).unwrap();
            let counts = Bound::of(Some(&budget)).counts(3, 10);
            assert_eq!(counts, Ok(Counts { expected, desired, healthy: 0 }), "{spec}");
        }
    }

    #[test]
    fn only_resources_with_a_scale_are_scalable() {
        let served = json!({"resources": [
            {"name": "foos/status", "kind": "Foo"}, {"name": "foos", "kind": "Foo"}, {"name": "foos/scale", "kind": "Scale"},
            {"name": "bars", "kind": "Bar"},
        ]});
        let scalable = |group, kind| scalable(&served, group, kind);
        assert_eq!(scalable("example.com", "Foo"), Some(Ok("foos".to_owned())));
        let missing = "bars.example.com does not implement the scale subresource";
        assert_eq!(scalable("example.com", "Bar"), Some(Err(missing.to_owned())));
        assert_eq!(scalable("", "Bar"), Some(Err("bars does not implement the scale subresource".to_owned())));
        assert_eq!(scalable("example.com", "Baz"), None);
    }
}
