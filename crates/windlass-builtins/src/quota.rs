//! Resource quotas: the usage of objects, the quotas that apply to a write, and what the write adds to them.
//!
//! Pure functions: the API server charges writes with them, and the resourcequota control loop recalculates the usage.

mod charge;
mod persistent_volume_claims;
mod pods;
mod resource_claims;
mod scopes;
mod services;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::quantity::{Format, Quantity};
use windlass_schema::sorting::Gather as _;

pub use self::{
    charge::{applies_to, charged, cost, names, reverted},
    resource_claims::{Devices, GROUP as DEVICE_GROUP, may_be_device, pod_of},
};

/// Quantities by resource name.
pub type Usage = BTreeMap<String, Quantity>;

/// Computes the quota usage of the objects of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods, which use CPU and memory.
    Pods,
    /// Services, which use node ports and load balancers.
    Services,
    /// PersistentVolumeClaims, which use storage.
    Claims,
    /// ResourceClaims, which use devices.
    ResourceClaims(Devices),
    /// Other objects, which are only counted, under these resource names.
    Count(Vec<String>),
}

/// A write to an object, as seen by quotas.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The new object.
    pub object: &'a Value,
    /// The old object; `None` on create.
    pub old: Option<&'a Value>,
}

/// Resources whose count a quota also limits by their plain name.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

impl Evaluator {
    /// Returns the evaluator of a resource; `None` if no quota limits it.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        Some(match (group, plural) {
            ("", "events" | "bindings" | "componentstatuses") | ("events.k8s.io", "events") => return None,
            ("authentication.k8s.io" | "authorization.k8s.io", _) => return None,
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            (DEVICE_GROUP, "resourceclaims") => Self::ResourceClaims(Devices::default()),
            ("", _) => {
                let alias = ALIASES.contains(&plural).then(|| plural.to_owned());
                Self::Count([format!("count/{plural}")].into_iter().chain(alias).collect())
            }
            _ => Self::Count(vec![format!("count/{plural}.{group}")]),
        })
    }

    /// Returns the evaluators of the core group that do more than count.
    pub fn special() -> [Self; 3] {
        [Self::Pods, Self::Services, Self::Claims]
    }

    /// Returns whether a write can change the usage.
    pub fn handles(&self, write: &Write<'_>) -> bool {
        match (self, write.subresource, write.old) {
            (Self::Pods, "", Some(old)) => pods::has_deadline(old) != pods::has_deadline(write.object),
            (Self::Pods, "resize", Some(_)) | (Self::Claims, "status", Some(_)) => true,
            (Self::Services | Self::Claims | Self::ResourceClaims(_), "", Some(_)) | (_, "", None) => true,
            _ => false,
        }
    }

    /// Returns whether the objects use a resource of this name.
    pub fn knows(&self, name: &str) -> bool {
        match self {
            Self::Pods => pods::knows(name),
            Self::Services => services::knows(name),
            Self::Claims => persistent_volume_claims::knows(name),
            Self::ResourceClaims(devices) => resource_claims::knows(name, devices),
            Self::Count(names) => names.iter().any(|have| have == name),
        }
    }

    /// Returns the usage of an object.
    pub fn usage(&self, object: &Value, now: Timestamp) -> Usage {
        match self {
            Self::Pods => pods::usage(object, now),
            Self::Services => services::usage(object),
            Self::Claims => persistent_volume_claims::usage(object),
            Self::ResourceClaims(devices) => resource_claims::usage(object, devices),
            Self::Count(names) => names.iter().map(|name| (name.clone(), whole(1))).gather(),
        }
    }

    /// Returns whether an object is in all scopes of a quota.
    pub fn is_in_scope(&self, quota: &Value, object: &Value) -> bool {
        scopes::selectors(quota).all(|selector| match self {
            Self::Pods => scopes::selects_pod(&selector, object),
            Self::Claims => scopes::selects_claim(&selector, object),
            Self::Services | Self::ResourceClaims(_) | Self::Count(_) => false,
        })
    }

    /// Returns a message if the object does not specify a resource that a quota limits.
    fn missing(&self, names: &[&str], object: &Value) -> Option<String> {
        match self {
            Self::Pods => pods::missing(names, object),
            _ => None,
        }
    }

    /// Returns the total usage of all objects, for every limited resource that the evaluator knows, including unused
    /// ones.
    pub fn total<'a>(&self, quota: &Value, objects: impl Iterator<Item = &'a Value>, now: Timestamp) -> Usage {
        let limited = names(quota, "/spec/hard");
        let mut total: Usage =
            limited.into_iter().filter(|name| self.knows(name)).map(|name| (name.to_owned(), whole(0))).gather();
        for object in objects.filter(|object| self.is_in_scope(quota, object)) {
            for (name, quantity) in self.usage(object, now) {
                if let Some(sum) = total.get_mut(&name) {
                    sum.add(&quantity);
                }
            }
        }
        total
    }
}

/// Returns a count as a quantity.
fn whole(number: i64) -> Quantity {
    Quantity::new(number, Format::DecimalSi)
}

#[cfg(test)]
mod tests;
