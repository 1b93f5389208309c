//! The objects that a list, watch or deletecollection selects.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;
use windlass_schema::selector::{FieldSelector, LabelSelector, Operator, Requirement};

use crate::{
    call::Call,
    registry::Endpoint,
    status::{ApiError, Result},
    storage::{LabelBits, Snapshot, StoredObject},
    write::convert,
};

/// Parsed selectors.
pub(crate) struct Selection {
    /// The prefix of all selected keys: `namespace/`, or empty.
    pub(crate) prefix: String,
    labels: LabelSelector,
    /// The labels that every selected object has.
    label_bits: LabelBits,
    fields: FieldSelector,
    /// Whether a field other than name and namespace is selected, so that the object itself must be parsed.
    needs_object: bool,
}

impl Selection {
    pub(crate) fn of(call: &Call<'_>) -> Result<Self> {
        let endpoint = call.endpoint;
        let labels = LabelSelector::parse(call.query.text("labelSelector"))
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut fields = FieldSelector::parse(call.query.text("fieldSelector"))
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        // A watch in the old form on a named path is a watch on that name.
        if call.target.old_watch && !call.target.name.is_empty() {
            fields = FieldSelector::parse(&format!("metadata.name={}", call.target.name))
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
        }
        let needs_object = check_fields(endpoint, &fields)?;
        let namespace = call.target.namespace;
        let scoped = endpoint.resource.namespaced && !namespace.is_empty();
        let prefix = if scoped { format!("{namespace}/") } else { String::new() };
        let label_bits = LabelBits::of(labels.requirements().iter().filter_map(exact));
        Ok(Self { prefix, labels, label_bits, fields, needs_object })
    }

    /// Returns whether everything under the prefix is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns whether the selectors name a single object.
    pub(crate) fn names_one(&self, endpoint: &Endpoint) -> bool {
        let is_scoped = !self.prefix.is_empty() || !endpoint.resource.namespaced;
        is_scoped && self.fields.requires_exact_match("metadata.name").is_some()
    }

    /// Returns whether an object is selected; its key must have the prefix.
    pub(crate) fn matches(&self, endpoint: &Endpoint, object: &StoredObject) -> bool {
        let header = &object.header;
        if !self.labels.is_empty() && !self.labels.matches(|key| header.label(key)) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let own = if self.needs_object { own_fields(endpoint, &endpoint.to_served_value(object)) } else { Vec::new() };
        self.fields.matches(|field| match field {
            "metadata.name" => Some(&*header.name),
            "metadata.namespace" => Some(&*header.namespace),
            _ => own.iter().find(|(have, _)| *have == field).map(|(_, value)| value.as_str()),
        })
    }

    /// Returns whether an object that is not stored is selected.
    pub(crate) fn matches_value(&self, endpoint: &Endpoint, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let own = if self.needs_object { own_fields(endpoint, object) } else { Vec::new() };
        self.labels.matches(|key| metadata["labels"][key].as_str())
            && self.fields.matches(|field| match field {
                "metadata.name" => metadata["name"].as_str(),
                "metadata.namespace" => Some(metadata["namespace"].as_str().unwrap_or_default()),
                _ => own.iter().find(|(have, _)| *have == field).map(|(_, value)| value.as_str()),
            })
    }

    /// Returns whether the object is in the selected namespace.
    pub(crate) fn in_scope(&self, object: &StoredObject) -> bool {
        self.prefix.is_empty() || self.prefix.strip_suffix('/') == Some(&*object.header.namespace)
    }

    /// Returns the selected ones of the objects of a snapshot, or of the first `limit`, with their keys, converted by the
    /// webhook to the version of the endpoint.
    pub(crate) async fn select_served(
        &self,
        call: &Call<'_>,
        snapshot: &Snapshot,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Vec<(String, Arc<StoredObject>)>> {
        let all = snapshot.range(&self.prefix, after).take(limit.unwrap_or(usize::MAX));
        let (keys, objects): (Vec<String>, Vec<_>) =
            all.map(|(key, cached)| (key.to_owned(), cached.object.clone())).unzip();
        let objects = convert::to_served_objects(call.server, call.endpoint, objects).boxed().await?;
        let selected = |(_, object): &(String, Arc<StoredObject>)| self.matches(call.endpoint, object);
        Ok(keys.into_iter().zip(objects).filter(selected).collect())
    }

    /// Returns the selected objects of a snapshot with their keys, after a key if one is given.
    pub(crate) fn select<'s>(
        &'s self,
        endpoint: &'s Endpoint,
        snapshot: &'s Snapshot,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'s str, &'s Arc<StoredObject>)> {
        let perhaps = snapshot.range(&self.prefix, after).filter(|(_, cached)| cached.labels.may_have(self.label_bits));
        let everything = self.is_everything();
        perhaps
            .filter(move |(_, cached)| everything || self.matches(endpoint, &cached.object))
            .map(|(key, cached)| (key, &cached.object))
    }
}

/// Returns the label that a requirement demands; `None` if it is not an equality.
fn exact(requirement: &Requirement) -> Option<(&str, &str)> {
    let equal = matches!(requirement.operator(), Operator::Equals | Operator::DoubleEquals | Operator::In);
    match requirement.values() {
        [value] if equal => Some((requirement.key(), value)),
        _ => None,
    }
}

/// Returns the selectable fields of a kind beyond name and namespace, with their values in an object.
fn own_fields<'a>(endpoint: &'a Endpoint, object: &Value) -> Vec<(&'a str, String)> {
    let Some(custom) = endpoint.custom() else { return endpoint.strategy.selectable_fields(object) };
    let fields = custom.compiled().selectable.iter();
    fields.map(|field| (field.name.as_str(), field.value(object).unwrap_or_default())).collect()
}

/// Rejects fields that the kind does not offer; returns whether any but name and namespace are used.
fn check_fields(endpoint: &Endpoint, fields: &FieldSelector) -> Result<bool> {
    let mut offered: Option<Vec<&str>> = None;
    let mut needs_object = false;
    for field in fields.fields() {
        if matches!(field, "metadata.name" | "metadata.namespace") {
            continue;
        }
        let offered = offered.get_or_insert_with(|| {
            own_fields(endpoint, crate::meta::nothing()).into_iter().map(|(field, _)| field).collect()
        });
        if offered.is_empty() && endpoint.custom().is_none() {
            let why =
                format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
            return Err(ApiError::bad_request(why));
        }
        if !offered.contains(&field) {
            let resource = &*endpoint.resource;
            return Err(ApiError::bad_request(match &*resource.kind {
                "Job" => format!("field label \"{field}\" not supported for Job"),
                "ResourceSlice" => {
                    format!("field label not supported for {}, Kind=ResourceSlice: {field}", resource.api_version())
                }
                _ => format!("field label not supported: {field}"),
            }));
        }
        needs_object = true;
    }
    Ok(needs_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_is_looked_up_in_the_filter_first() {
        let bits = |selector: &str| {
            let labels = LabelSelector::parse(selector).expect("the selector must be valid");
            LabelBits::of(labels.requirements().iter().filter_map(exact))
        };
        let object = LabelBits::of([("app", "bench"), ("shard", "3")]);
        assert!(object.may_have(bits("shard=3,app in (bench)")));
        assert!(!object.may_have(bits("shard=4")));
        // Requirements other than equalities are decided by the object itself.
        assert!(object.may_have(bits("shard!=3,app notin (bench),!x,y in (a,b)")));
    }
}
