//! Quota usage of ResourceClaims: the devices of each class that a claim may be allocated.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::{quantity::Quantity, sorting::Gather as _};

use super::{Usage, pods, whole};
use crate::object::{boolean, integer, items, text};
use crate::resource_list::is_native;

/// The group of ResourceClaims and DeviceClasses.
pub const GROUP: &str = "resource.k8s.io";
const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// Follows the name of a DeviceClass.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Precedes the name of a DeviceClass in the name of its implicit extended resource.
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
const REQUESTS: &str = "requests.";
/// Marks claims that a scheduler creates for the extended resources of a pod.
const FOR_EXTENDED_RESOURCES: &str = "/metadata/annotations/resource.kubernetes.io~1extended-resource-claim";
/// The maximum number of devices of an allocation.
const MOST_DEVICES: i64 = 32;

/// The objects that the usage of ResourceClaims depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    /// The DeviceClasses, with the name of the extended resource that they provide, or an empty name.
    classes: BTreeMap<String, String>,
    /// The usage of pods, by the claim that was created for their extended resources.
    charged: BTreeMap<String, Usage>,
}

impl Devices {
    /// Reads the extended resources of DeviceClasses.
    pub fn of_classes<'a>(classes: impl Iterator<Item = &'a Value>) -> Self {
        let named = |class: &Value| {
            ["/metadata/name", "/spec/extendedResourceName"].map(|field| text(class, field).to_owned()).into()
        };
        Self { classes: classes.map(named).gather(), charged: BTreeMap::new() }
    }

    /// Records that the usage of a pod includes that of a claim. Does nothing unless the pod owns the claim for its
    /// extended resources. `claims` are those of the namespace.
    pub fn charge<'a>(&mut self, claim: &Value, pod: &Value, claims: impl Iterator<Item = &'a Value>, now: Timestamp) {
        let name = text(claim, "/metadata/name");
        let is_owned = pod_of(claim).is_some_and(|(pod_name, uid)| {
            pod_name == text(pod, "/metadata/name") && uid == text(pod, "/metadata/uid")
        });
        let is_used = match text(pod, "/status/extendedResourceClaimStatus/resourceClaimName") {
            "" => {
                // The pod does not say which claim it uses: the first one that was created.
                let age = |claim: &Value| {
                    let texts =
                        ["/metadata/creationTimestamp", "/metadata/name"].map(|field| text(claim, field).to_owned());
                    (texts[0].is_empty(), texts)
                };
                let owner = pod_of(claim);
                !claims.into_iter().any(|other| pod_of(other) == owner && age(other) < age(claim))
            }
            used => used == name,
        };
        if is_owned && is_used {
            self.charged.insert(name.to_owned(), pods::usage(pod, now));
        }
    }
}

/// Returns the name and the uid of the pod that a claim was created for, because the pod requests extended resources.
pub fn pod_of(claim: &Value) -> Option<(&str, &str)> {
    if text(claim, FOR_EXTENDED_RESOURCES) != "true" {
        return None;
    }
    let owners = items(claim, "/metadata/ownerReferences");
    let owner = owners.iter().find(|owner| boolean(owner, "/controller") == Some(true))?;
    let is_pod = text(owner, "/kind") == "Pod" && text(owner, "/apiVersion") == "v1";
    is_pod.then(|| (text(owner, "/name"), text(owner, "/uid")))
}

/// Returns whether a resource of this name depends on the DeviceClasses.
pub fn may_be_device(name: &str) -> bool {
    name.starts_with(IMPLICIT) || (name.starts_with(REQUESTS) && !is_native(name))
}

pub(super) fn knows(name: &str, devices: &Devices) -> bool {
    if name == COUNT || name.ends_with(OF_CLASS) {
        return true;
    }
    let implicit = || name.strip_prefix(IMPLICIT).is_some_and(|class| devices.classes.contains_key(class));
    let extended = || {
        let resource = name.strip_prefix(REQUESTS).filter(|_| may_be_device(name));
        resource.is_some_and(|resource| devices.classes.values().any(|have| have == resource))
    };
    implicit() || extended()
}

pub(super) fn usage(claim: &Value, devices: &Devices) -> Usage {
    let mut by_class = BTreeMap::<&str, i64>::new();
    for request in items(claim, "/spec/devices/requests") {
        let mut of_request = BTreeMap::<&str, i64>::new();
        let alternatives = items(request, "/firstAvailable");
        // One of the alternatives is allocated, which may be any.
        let exactly = request.get("exactly").filter(|exactly| exactly.is_object() && alternatives.is_empty());
        for one in alternatives.iter().chain(exactly) {
            let most = of_request.entry(text(one, "/deviceClassName")).or_default();
            *most = number(one).max(*most);
        }
        // Without devices, the class counts only if there is no alternative.
        of_request.retain(|_, number| *number > 0 || exactly.is_some());
        for (class, number) in of_request {
            let sum = by_class.entry(class).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    let mut usage = Usage::from([(COUNT.to_owned(), whole(1))]);
    usage.extend(by_class.iter().map(|(class, number)| (format!("{class}{OF_CLASS}"), whole(*number))));
    let none = Usage::new();
    let charged = devices.charged.get(text(claim, "/metadata/name")).unwrap_or(&none);
    for (class, number) in by_class.into_iter().filter(|(class, _)| !class.is_empty()) {
        let extended = devices.classes.get(class).filter(|resource| !resource.is_empty());
        let extended = extended.map(|resource| format!("{REQUESTS}{resource}"));
        for name in [Some(format!("{IMPLICIT}{class}")), extended].into_iter().flatten() {
            let quantity = uncharged(number, charged.get(&name));
            if quantity.sign() > 0 {
                usage.insert(name, quantity);
            }
        }
    }
    usage
}

/// Returns a number of devices without those that are charged to a pod.
fn uncharged(number: i64, charged: Option<&Quantity>) -> Quantity {
    let mut quantity = whole(number);
    if let Some(charged) = charged {
        quantity.sub(charged);
    }
    quantity
}

/// Returns the maximum number of devices that a request is allocated.
fn number(request: &Value) -> i64 {
    match text(request, "/allocationMode") {
        "ExactCount" => integer(request, "/count").unwrap_or_default(),
        "All" => MOST_DEVICES,
        _ => 0,
    }
}
