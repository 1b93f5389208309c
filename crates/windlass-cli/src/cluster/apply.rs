//! Bringing objects to a cluster, by server-side apply.

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
use crate::failure::Advised;

/// How objects are applied. The default writes, and takes no field from others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ApplyOptions {
    /// The server says what it would do, and does nothing.
    pub(crate) dry_run: bool,
    /// Fields that others have set are taken over.
    pub(crate) force_conflicts: bool,
}

/// What became of an object.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The object.
    pub(crate) reference: Reference,
    /// What was done.
    pub(crate) outcome: Outcome,
    /// Whether it would be so only.
    pub(crate) dry_run: bool,
}

/// What was done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was not there.
    Created,
    /// It was different: at these places.
    Changed(Vec<String>),
    /// It was as it should be.
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
    /// Applies objects one after the other, what others need first, and tells of each. Ends at the first that is
    /// refused. Objects of a definition among them wait until it is served.
    pub(crate) async fn apply(
        &self,
        objects: &[Value],
        options: ApplyOptions,
        tell: &mut (dyn FnMut(&Applied) + Send),
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
            tell(&applied);
            if order::is_definition(&applied.reference) && !options.dry_run {
                pending.push(applied.reference.clone());
                served += 1;
                // All are sent before one is waited for: they get ready side by side.
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
    /// Namespaces that would be made.
    namespaces: HashSet<String>,
    /// Group and kind of definitions that would be made.
    kinds: HashSet<(String, String)>,
}

impl Applying {
    async fn apply(&mut self, object: &Value) -> anyhow::Result<Applied> {
        let reference = Reference::of(object);
        let dry_run = self.options.dry_run;
        let found = self.resources.find(&reference).await.map_err(|error| failed(&reference, &error))?;
        let Some((api, reference)) = found else {
            // Nobody can say more of it while its definition is not there.
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

    /// What a dry run must know of earlier objects, since the server forgets them.
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

/// What the server said against it, and what to do.
fn failed(reference: &Reference, error: &kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = error else {
        let message = format!("cannot apply {reference}: {}", causes(error));
        return Advised { message, hint: "check that the cluster runs, then do it again".into() }.into();
    };
    let is_conflict = status.code == 409 && status.message.contains("conflict");
    let hint = match status.code {
        409 if is_conflict => "--force-conflicts takes these fields over",
        401 => "log in again, or use another context with --context",
        403 => "use a context whose user may do that, with --context",
        404 => "its namespace is missing: make it, or name another with --namespace",
        400 | 422 => "correct the object and do it again",
        _ => "what was applied before stays; do it again",
    };
    let why = status.message.trim();
    Advised { message: format!("cannot apply {reference}: {why}"), hint: hint.into() }.into()
}

/// Where two states of an object differ in what somebody said or meant.
fn differences(before: &DynamicObject, after: &DynamicObject) -> Vec<String> {
    let plain = |object: &DynamicObject| {
        let mut object = object.clone();
        let metadata = &mut object.metadata;
        (metadata.managed_fields, metadata.resource_version, metadata.generation) = (None, None, None);
        let mut value = serde_json::to_value(&object).unwrap_or_default();
        // What the cluster says about it is no part of what is applied.
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

/// Whether it is short enough for a line.
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
    fn differences_are_named_by_their_place() {
        let before = json!({"spec": {"a": 1, "gone": 2, "list": [{"x": 1}], "longer": [1]}, "same": true});
        let after = json!({"spec": {"a": 3, "new": {}, "list": [{"x": "y"}], "longer": [1, 2]}, "same": true});
        let mut places = Vec::new();
        compare(&before, &after, String::new(), &mut places);
        assert_eq!(places, ["spec.a: 1 -> 3", "spec.list[0].x: 1 -> \"y\"", "spec.longer", "+spec.new", "-spec.gone"]);
    }
}
