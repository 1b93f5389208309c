//! StatefulSets.

mod validation;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::pod_template;
use crate::columns::{self, Column, Printer, column};
use crate::object::{integer, is_set, items, list_mut, remove, set, set_default, set_default_text, text};
use crate::resource_list;
use crate::strategy::{Strategy, WriteContext};

/// Strategy of StatefulSets.
#[derive(Debug, Clone, Copy)]
pub struct StatefulSet;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Ready", "string", "Number of the pod with ready state"),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for StatefulSet {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/spec/podManagementPolicy", "OrderedReady");
        let is_set_up = !text(object, "/spec/updateStrategy/type").is_empty();
        set_default_text(object, "/spec/updateStrategy/type", "RollingUpdate");
        let rolls = text(object, "/spec/updateStrategy/type") == "RollingUpdate";
        if rolls && (!is_set_up || is_set(object, "/spec/updateStrategy/rollingUpdate")) {
            set_default(object, "/spec/updateStrategy/rollingUpdate/partition", 0);
        }
        for field in ["whenDeleted", "whenScaled"] {
            set_default_text(object, &format!("/spec/persistentVolumeClaimRetentionPolicy/{field}"), "Retain");
        }
        set_default(object, "/spec/replicas", 1);
        set_default(object, "/spec/revisionHistoryLimit", 10);
        pod_template::default(object);
        if let Some(spec) = object.get_mut("spec") {
            list_mut(spec, "volumeClaimTemplates").iter_mut().for_each(default_claim);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        drop_disabled(object, None);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        drop_disabled(object, Some(old));
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old)
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none_or(|old| !pod_template::same_generation(object, old)) {
            warnings.extend(pod_template::template_warnings(object));
        }
        for (index, claim) in items(object, "/spec/volumeClaimTemplates").iter().enumerate() {
            let path = Path::new("spec").child("volumeClaimTemplates").index(index);
            // On updates, kube-apiserver reports a field that does not exist.
            let path = if old.is_some() { path.child("Spec") } else { path };
            claim_warnings(claim, &path, &mut warnings);
        }
        if integer(object, "/spec/revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let message = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {message}"));
        }
        warnings
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let number = |pointer| integer(object, pointer).unwrap_or_default();
    let (names, images) = columns::containers(object, "/spec/template/spec/containers");
    let ready = format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"));
    vec![columns::name(object), ready.into(), columns::age(object, now), names.into(), images.into()]
}

/// Claims in a StatefulSet are complete objects, with the defaults of a PersistentVolumeClaim.
fn default_claim(claim: &mut Value) {
    if !claim.is_object() {
        return;
    }
    set(claim, "/apiVersion", "v1");
    set(claim, "/kind", "PersistentVolumeClaim");
    set_default_text(claim, "/status/phase", "Pending");
    set_default(claim, "/spec/volumeMode", "Filesystem");
    for list in ["/spec/resources/limits", "/spec/resources/requests", "/status/capacity", "/status/allocatedResources"]
    {
        resource_list::round_up(claim, list);
    }
}

fn drop_disabled(object: &mut Value, old: Option<&Value>) {
    pod_template::drop_disabled(object);
    const FIELD: &str = "/spec/updateStrategy/rollingUpdate/maxUnavailable";
    if !old.is_some_and(|old| is_set(old, FIELD)) {
        remove(object, FIELD);
    }
}

fn claim_warnings(claim: &Value, path: &Path, warnings: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        let amount = claim.pointer(&format!("/spec/resources/{list}/storage")).and_then(resource_list::quantity);
        if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
            let path = path.child("resources").child(list).key("storage");
            warnings.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
        }
    }
}

#[cfg(test)]
mod tests;
