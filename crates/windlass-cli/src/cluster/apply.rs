//! Applying objects to a cluster with server-side apply.

use std::{collections::HashSet, fmt};

use kube::{
    Api,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::Value;

use super::{
    Cluster, MANAGER, Reference, order,
    resources::{Resources, unknown_kind},
    target::causes,
    wait,
};
use crate::failure::ErrorWithHint;

/// Options of an apply. The default writes, and does not take fields from other managers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApplyOptions {
    /// The server only reports what it would do.
    pub(crate) dry_run: bool,
    /// Takes ownership of fields that conflict with other field managers.
    pub(crate) force_conflicts: bool,
}

/// Result of applying an object.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The object.
    pub(crate) reference: Reference,
    /// Result of the apply.
    pub(crate) outcome: Outcome,
    /// Whether this is a dry run.
    pub(crate) dry_run: bool,
}

/// Effect of an apply on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did not exist.
    Created,
    /// It differed in these fields.
    Changed(Vec<String>),
    /// It was up to date.
    Unchanged,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, outcome, dry_run } = self;
        let would = if *dry_run { "would be " } else { "" };
        match outcome {
            Outcome::Created => write!(f, "{reference}: {would}created"),
            Outcome::Changed(places) => write!(f, "{reference}: {would}changed ({})", places.join(", ")),
            Outcome::Unchanged => write!(f, "{reference}: unchanged"),
        }
    }
}

impl Cluster {
    /// Applies objects one after the other, dependencies first, and reports each. Stops at the first that is rejected.
    /// Custom resources wait until their CRD is established.
    pub(crate) async fn apply(
        &self,
        objects: &[Value],
        options: ApplyOptions,
        report: &mut (dyn FnMut(&Applied) + Send),
    ) -> anyhow::Result<Vec<Applied>> {
        let mut applying = Applying {
            resources: Resources::new(self.client.clone(), self.namespace.clone()),
            options,
            namespaces: HashSet::new(),
            kinds: HashSet::new(),
        };
        let mut all = Vec::with_capacity(objects.len());
        let ordered = order::applied(objects);
        let definitions = ordered.iter().filter(|object| order::is_definition(&Reference::of(object))).count();
        let mut served = 0;
        let mut pending = Vec::new();
        for object in ordered {
            let applied = applying.apply(object).await?;
            report(&applied);
            if order::is_definition(&applied.reference) && !options.dry_run {
                pending.push(applied.reference.clone());
                served += 1;
                // All CRDs are sent before waiting for the first: they are established in parallel.
                if served == definitions {
                    applying.wait_for(std::mem::take(&mut pending)).await?;
                }
            }
            all.push(applied);
        }
        Ok(all)
    }
}

struct Applying {
    resources: Resources,
    options: ApplyOptions,
    /// Namespaces that would be created.
    namespaces: HashSet<String>,
    /// Group and kind of CRDs that would be created.
    kinds: HashSet<(String, String)>,
}

impl Applying {
    async fn apply(&mut self, object: &Value) -> anyhow::Result<Applied> {
        let reference = Reference::of(object);
        let dry_run = self.options.dry_run;
        let found = self.resources.find(&reference).await.map_err(|error| failed(&reference, &error))?;
        let Some((api, reference)) = found else {
            // A dry run cannot check custom resources whose CRD does not exist yet.
            return match dry_run && self.kinds.contains(&(reference.group().to_owned(), reference.kind.clone())) {
                true => Ok(Applied { reference, outcome: Outcome::Created, dry_run }),
                false => Err(unknown_kind(&reference)),
            };
        };
        let before = api.get_opt(&reference.name).await.map_err(|error| failed(&reference, &error))?;
        self.remember(object, &reference, before.is_none());
        let in_new_namespace = reference.namespace.as_ref().is_some_and(|name| self.namespaces.contains(name));
        if dry_run && in_new_namespace {
            return Ok(Applied { reference, outcome: Outcome::Created, dry_run });
        }
        let after = self.send(&api, &reference, object).await?;
        let outcome = match before {
            None => Outcome::Created,
            Some(before) => match differences(&before, &after) {
                places if places.is_empty() => Outcome::Unchanged,
                places => Outcome::Changed(places),
            },
        };
        Ok(Applied { reference, outcome, dry_run })
    }

    async fn send(
        &self,
        api: &Api<DynamicObject>,
        reference: &Reference,
        object: &Value,
    ) -> anyhow::Result<DynamicObject> {
        let mut parameters = PatchParams::apply(MANAGER);
        parameters.dry_run = self.options.dry_run;
        parameters.force = self.options.force_conflicts;
        let sent = api.patch(&reference.name, &parameters, &Patch::Apply(object)).await;
        sent.map_err(|error| failed(reference, &error))
    }

    /// Records objects of a dry run that later ones depend on, since the server does not store them.
    fn remember(&mut self, object: &Value, reference: &Reference, is_new: bool) {
        if order::is_definition(reference) {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let group = text("/spec/group");
            match self.options.dry_run {
                true => {
                    self.kinds.insert((group, text("/spec/names/kind")));
                }
                false => self.resources.expected.push(group),
            }
        }
        if self.options.dry_run && is_new && reference.kind == "Namespace" && reference.api_version == "v1" {
            self.namespaces.insert(reference.name.clone());
        }
    }

    async fn wait_for(&mut self, definitions: Vec<Reference>) -> anyhow::Result<()> {
        for definition in definitions {
            if let Some((api, definition)) = self.resources.find(&definition).await? {
                wait::established(&api, &definition).await?;
            }
        }
        Ok(())
    }
}

/// Converts an error of the server, with a hint.
fn failed(reference: &Reference, error: &kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = error else {
        let message = format!("cannot apply {reference}: {}", causes(error));
        return ErrorWithHint { message, hint: "check that the cluster is running, then try again".into() }.into();
    };
    let is_conflict = status.code == 409 && status.message.contains("conflict");
    let hint = match status.code {
        409 if is_conflict => "use --force-conflicts to take ownership of these fields",
        401 => "log in again, or use another context with --context",
        403 => "choose a context with sufficient permissions with --context",
        404 => "its namespace does not exist: create it, or choose another with --namespace",
        400 | 422 => "fix the object and try again",
        _ => "objects applied so far are kept; try again",
    };
    let why = status.message.trim();
    ErrorWithHint { message: format!("cannot apply {reference}: {why}"), hint: hint.into() }.into()
}

/// Returns where two states of an object differ in fields that users set.
fn differences(before: &DynamicObject, after: &DynamicObject) -> Vec<String> {
    let plain = |object: &DynamicObject| {
        let mut object = object.clone();
        let metadata = &mut object.metadata;
        (metadata.managed_fields, metadata.resource_version, metadata.generation) = (None, None, None);
        let mut value = serde_json::to_value(&object).unwrap_or_default();
        // Fields set by the cluster are not part of the applied object.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        value
    };
    let mut places = Vec::new();
    compare(&plain(before), &plain(after), String::new(), &mut places);
    places
}

fn compare(before: &Value, after: &Value, path: String, places: &mut Vec<String>) {
    let joined = |name: &str| match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    };
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in new {
                match old.get(name) {
                    Some(before) => compare(before, value, joined(name), places),
                    None => places.push(format!("+{}", joined(name))),
                }
            }
            places.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("-{}", joined(name))));
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(old, new, format!("{path}[{index}]"), places);
            }
        }
        (old, new) if old != new => places.push(match is_plain(old) && is_plain(new) {
            true => format!("{path}: {old} -> {new}"),
            false => path,
        }),
        _ => {}
    }
}

/// Returns whether a value is short enough for a line.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= 80,
        Value::Number(_) | Value::Bool(_) | Value::Null => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_reported_with_their_path() {
        let before = json!({"spec": {"a": 1, "gone": 2, "list": [{"x": 1}], "longer": [1]}, "same": true});
        let after = json!({"spec": {"a": 3, "new": {}, "list": [{"x": "y"}], "longer": [1, 2]}, "same": true});
        let mut places = Vec::new();
        compare(&before, &after, String::new(), &mut places);
        assert_eq!(places, ["spec.a: 1 -> 3", "spec.list[0].x: 1 -> \"y\"", "spec.longer", "+spec.new", "-spec.gone"]);
    }
}
