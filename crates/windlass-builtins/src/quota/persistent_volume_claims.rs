//! Quota usage of PersistentVolumeClaims.

use serde_json::Value;
use windlass_schema::quantity::Quantity;

use super::{Usage, whole};
use crate::kinds::persistent_volume_claim::class_name;
use crate::resource_list::quantity;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Separates the name of a StorageClass from the resource that is limited for it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

pub(super) fn knows(name: &str) -> bool {
    let of_class = || name.split_once(OF_CLASS).is_some_and(|(_, what)| matches!(what, CLAIMS | STORAGE));
    matches!(name, COUNT | CLAIMS | STORAGE) || of_class()
}

pub(super) fn usage(claim: &Value) -> Usage {
    let class = class_name(claim);
    let mut usage = Usage::from([(CLAIMS.to_owned(), whole(1)), (COUNT.to_owned(), whole(1))]);
    if !class.is_empty() {
        usage.insert(format!("{class}{OF_CLASS}{CLAIMS}"), whole(1));
    }
    if let Some(storage) = storage(claim) {
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
        }
        usage.insert(STORAGE.to_owned(), storage);
    }
    usage
}

/// Returns the requested storage, or the allocated storage if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let requested = claim.pointer("/spec/resources/requests/storage").and_then(quantity)?;
    let allocated = claim.pointer("/status/allocatedResources/storage").and_then(quantity);
    Some(rounded(match allocated {
        Some(allocated) if allocated > requested => allocated,
        _ => requested,
    }))
}

/// Rounds up to whole bytes.
fn rounded(quantity: Quantity) -> Quantity {
    if quantity.milli_value() % 1000 == 0 { quantity } else { Quantity::new(quantity.value(), quantity.format()) }
}
