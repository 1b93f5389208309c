//! The slices to write for a service's endpoints, with as few writes as possible.
//!
//! Endpoints stay in their slice. Slices that have to be written anyway are filled first, then one with room for all
//! the rest, and only then are new ones created. A service always has at least one slice, even if it is empty.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::Service,
        discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use windlass::objects::owner::{OwnerError, controller_reference, is_owned_by};
use windlass_schema::sorting;

use super::{MANAGED_BY, MANAGED_BY_LABEL, SERVICE_LABEL, endpoint::Reached};
use crate::{pods, services};

/// Maximum number of endpoints per slice.
pub(super) const MAX_ENDPOINTS: usize = 100;

/// The writes to make.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// The identity of an endpoint: addresses, host name, and namespace and name of its target.
type Identity = (Vec<String>, Option<String>, Option<String>, Option<String>);

/// Endpoints with the same ports.
struct Group {
    ports: Vec<EndpointPort>,
    endpoints: BTreeMap<Identity, Endpoint>,
}

/// Computes the changes for the slices of one address type.
pub(super) fn plan(
    service: &Service,
    address_type: &str,
    existing: &[Arc<EndpointSlice>],
    reached: Vec<Reached>,
) -> Result<Changes, OwnerError> {
    let mut changes = Changes::default();
    let (own, foreign): (Vec<_>, Vec<_>) = existing.iter().cloned().partition(|slice| is_owned_by(&**slice, service));
    changes.delete.extend(foreign);
    let mut rest = own;
    for group in grouped(reached) {
        let (slices, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|slice| slice.ports.as_deref().unwrap_or_default() == group.ports);
        rest = others;
        fill(service, address_type, slices, group, &mut changes)?;
    }
    changes.delete.extend(rest);
    if changes.delete.len() == existing.len() && changes.create.is_empty() {
        let placeholder = new_slice(service, address_type, Vec::new())?;
        match &changes.delete[..] {
            [only] if is_placeholder(only, &placeholder) => changes.delete.clear(),
            _ => changes.create.push(placeholder),
        }
    }
    reuse(service, &mut changes);
    Ok(changes)
}

/// Groups endpoints by their ports.
fn grouped(reached: Vec<Reached>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for Reached { ports, endpoint } in reached {
        let place = groups.iter().position(|group| group.ports == ports).unwrap_or_else(|| {
            groups.push(Group { ports, endpoints: BTreeMap::new() });
            groups.len() - 1
        });
        if let Some(endpoint) = endpoint {
            groups[place].endpoints.insert(identity(&endpoint), endpoint);
        }
    }
    groups
}

fn identity(endpoint: &Endpoint) -> Identity {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    let target = endpoint.target_ref.as_ref();
    let hostname = endpoint.hostname.clone().filter(|hostname| !hostname.is_empty());
    let part = |part: fn(&k8s_openapi::api::core::v1::ObjectReference) -> &Option<String>| {
        target.and_then(|target| part(target).clone())
    };
    (addresses, hostname, part(|target| &target.namespace), part(|target| &target.name))
}

/// Distributes endpoints over the slices with the same ports.
fn fill(
    service: &Service,
    address_type: &str,
    slices: Vec<Arc<EndpointSlice>>,
    group: Group,
    changes: &mut Changes,
) -> Result<(), OwnerError> {
    let Group { ports, endpoints: mut missing } = group;
    let (mut touched, mut untouched): (Vec<EndpointSlice>, Vec<Arc<EndpointSlice>>) = (Vec::new(), Vec::new());
    for slice in slices {
        let kept: Vec<Endpoint> =
            held(&slice).iter().filter_map(|endpoint| missing.remove(&identity(endpoint))).collect();
        let labels = labels(service);
        let same = kept == held(&slice) && slice.metadata.labels.as_ref() == Some(&labels);
        if same {
            untouched.push(slice);
        } else if kept.is_empty() && !held(&slice).is_empty() {
            changes.delete.push(slice);
        } else {
            let mut slice = EndpointSlice::clone(&slice);
            slice.endpoints = Some(kept);
            slice.metadata.labels = Some(labels);
            touched.push(slice);
        }
    }
    // Fullest first, so that few slices stay partly filled.
    sorting::sort_by_key(&mut touched, |slice| std::cmp::Reverse(held(slice).len()));
    for slice in &mut touched {
        move_into(&mut missing, slice);
    }
    while !missing.is_empty() {
        let room_for_all = |slice: &Arc<EndpointSlice>| MAX_ENDPOINTS.checked_sub(missing.len() + held(slice).len());
        let best = untouched.iter().enumerate().filter_map(|(place, slice)| Some((room_for_all(slice)?, place)));
        match best.min().filter(|_| missing.len() < MAX_ENDPOINTS) {
            Some((_, place)) => {
                let mut slice = EndpointSlice::clone(&untouched.swap_remove(place));
                move_into(&mut missing, &mut slice);
                touched.push(slice);
            }
            None => {
                let mut slice = new_slice(service, address_type, ports.clone())?;
                move_into(&mut missing, &mut slice);
                changes.create.push(slice);
            }
        }
    }
    changes.update.extend(touched);
    Ok(())
}

/// The endpoints of a slice.
fn held(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Moves endpoints into a slice while there is room.
fn move_into(missing: &mut BTreeMap<Identity, Endpoint>, slice: &mut EndpointSlice) {
    let held = slice.endpoints.get_or_insert_default();
    while held.len() < MAX_ENDPOINTS
        && let Some((_, endpoint)) = missing.pop_first()
    {
        held.push(endpoint);
    }
}

/// The labels of a service's slices: those of the service, and the managed-by label.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(services::HEADLESS_LABEL);
    if services::is_headless(service) {
        labels.insert(services::HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(SERVICE_LABEL.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels
}

fn new_slice(service: &Service, address_type: &str, ports: Vec<EndpointPort>) -> Result<EndpointSlice, OwnerError> {
    Ok(EndpointSlice {
        metadata: ObjectMeta {
            generate_name: service.metadata.name.as_deref().map(pods::name_prefix),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![controller_reference(service)?]),
            ..ObjectMeta::default()
        },
        address_type: address_type.to_owned(),
        endpoints: None,
        ports: (!ports.is_empty()).then_some(ports),
    })
}

/// Returns whether a slice is the expected empty one.
fn is_placeholder(slice: &EndpointSlice, placeholder: &EndpointSlice) -> bool {
    held(slice).is_empty()
        && slice.ports.as_ref().is_none_or(Vec::is_empty)
        && slice.address_type == placeholder.address_type
        && slice.metadata.labels == placeholder.metadata.labels
}

/// Reuses slices that would be deleted instead of creating new ones.
fn reuse(service: &Service, changes: &mut Changes) {
    let mut place = 0;
    while place < changes.delete.len() && !changes.create.is_empty() {
        if !is_owned_by(&*changes.delete[place], service) {
            place += 1;
            continue;
        }
        let old = changes.delete.remove(place);
        if let Some(mut slice) = changes.create.pop() {
            slice.metadata.name.clone_from(&old.metadata.name);
            slice.metadata.resource_version.clone_from(&old.metadata.resource_version);
            slice.metadata.uid.clone_from(&old.metadata.uid);
            changes.update.push(slice);
        }
    }
}

#[cfg(test)]
mod tests;
