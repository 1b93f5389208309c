//! Resource quotas: what objects use, which quotas that concerns, and what a write would add to them.
//!
//! Pure: the API server charges writes with it, and the control loop counts what is there.

mod claims;
mod ledger;
mod pods;
mod scopes;
mod services;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::quantity::{Format, Quantity};

pub use self::ledger::{charged, concerns, cost, given_back, names};

/// Quantities by the name of the resource.
pub type Usage = BTreeMap<String, Quantity>;

/// Who knows what objects of a resource use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods, which use processors and memory.
    Pods,
    /// Services, which use node ports and load balancers.
    Services,
    /// Claims, which use storage.
    Claims,
    /// Anything else is only counted, under these names.
    Count(Vec<String>),
}

/// A write to an object, as far as quotas look at it.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The object as it will be.
    pub object: &'a Value,
    /// The object as it was; nothing if it is new.
    pub old: Option<&'a Value>,
}

/// Resources whose number a quota limits by their plain name, too.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

impl Evaluator {
    /// That of a resource; nothing for what no quota limits.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        Some(match (group, plural) {
            ("", "events" | "bindings" | "componentstatuses") | ("events.k8s.io", "events") => return None,
            ("authentication.k8s.io" | "authorization.k8s.io", _) => return None,
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", _) => {
                let alias = ALIASES.contains(&plural).then(|| plural.to_owned());
                Self::Count([format!("count/{plural}")].into_iter().chain(alias).collect())
            }
            _ => Self::Count(vec![format!("count/{plural}.{group}")]),
        })
    }

    /// Those that know more than how to count.
    pub fn special() -> [Self; 3] {
        [Self::Pods, Self::Services, Self::Claims]
    }

    /// Whether a write can change what is used.
    pub fn handles(&self, write: &Write<'_>) -> bool {
        match (self, write.subresource, write.old) {
            (Self::Pods, "", Some(old)) => pods::has_deadline(old) != pods::has_deadline(write.object),
            (Self::Pods, "resize", Some(_)) | (Self::Claims, "status", Some(_)) => true,
            (Self::Services | Self::Claims, "", Some(_)) | (_, "", None) => true,
            _ => false,
        }
    }

    /// Whether this is a name of something that the objects use.
    pub fn knows(&self, name: &str) -> bool {
        match self {
            Self::Pods => pods::knows(name),
            Self::Services => services::knows(name),
            Self::Claims => claims::knows(name),
            Self::Count(names) => names.iter().any(|have| have == name),
        }
    }

    /// What an object uses.
    pub fn usage(&self, object: &Value, now: Timestamp) -> Usage {
        match self {
            Self::Pods => pods::usage(object, now),
            Self::Services => services::usage(object),
            Self::Claims => claims::usage(object),
            Self::Count(names) => names.iter().map(|name| (name.clone(), whole(1))).collect(),
        }
    }

    /// Whether all scopes of a quota hold for an object.
    pub fn is_in_scope(&self, quota: &Value, object: &Value) -> bool {
        scopes::selectors(quota).all(|selector| match self {
            Self::Pods => scopes::selects_pod(&selector, object),
            Self::Claims => scopes::selects_claim(&selector, object),
            Self::Services | Self::Count(_) => false,
        })
    }

    /// What an object must say to be counted by a quota that limits these names.
    fn missing(&self, names: &[&str], object: &Value) -> Option<String> {
        match self {
            Self::Pods => pods::missing(names, object),
            _ => None,
        }
    }

    /// What all objects together use of what a quota limits: of everything that the evaluator knows, even if nothing.
    pub fn total<'a>(&self, quota: &Value, objects: impl Iterator<Item = &'a Value>, now: Timestamp) -> Usage {
        let limited = names(quota, "/spec/hard");
        let mut total: Usage =
            limited.into_iter().filter(|name| self.knows(name)).map(|name| (name.to_owned(), whole(0))).collect();
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

/// A number of things.
fn whole(number: i64) -> Quantity {
    Quantity::new(number, Format::DecimalSi)
}

#[cfg(test)]
mod tests;
