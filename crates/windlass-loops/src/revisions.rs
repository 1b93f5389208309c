//! Controller revisions: the past templates of stateful sets and daemon sets, for rollouts and rollbacks.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        runtime::RawExtension,
    },
};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass::{
    context::{Context, ContextError},
    key::ObjectKey,
    object::Object,
    objects::owner::{OwnerError, controller_reference},
};
use windlass_schema::sorting;

use crate::json_text;

/// Maximum length of the owner's name within a revision's name.
const LONGEST_PREFIX: usize = 223;

/// Changes of an owner's revisions for its current template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The latest revision has the template.
    Keep(usize),
    /// An older revision has the template and becomes the latest, with this number.
    Renumber(usize, i64),
    /// No revision has the template: create one with this number.
    Create(i64),
}

/// A revision to create.
pub(crate) struct Draft {
    pub(crate) namespace: String,
    /// The name of the owner, which is the prefix of the revision's name.
    pub(crate) owner_name: String,
    pub(crate) owner: OwnerReference,
    pub(crate) labels: BTreeMap<String, String>,
    /// The label for the hash.
    pub(crate) hash_label: &'static str,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) data: Value,
    pub(crate) number: i64,
}

impl Draft {
    /// A draft for a set, with the data of its template.
    pub(crate) fn of<K: Object<DynamicType: Default>>(
        set: &K,
        template: &PodTemplateSpec,
        hash_label: &'static str,
        data: Value,
        number: i64,
    ) -> Result<Self, OwnerError> {
        Ok(Self {
            namespace: set.namespace().unwrap_or_default(),
            owner_name: set.name_any(),
            owner: controller_reference(set)?,
            labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default(),
            hash_label,
            annotations: set.meta().annotations.clone(),
            data,
            number,
        })
    }
}

/// The data of a revision: a patch that restores the template.
pub(crate) fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = json_text::to_value(template).expect("a template must serialize to JSON");
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// The template in a revision.
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    json_text::from_value(&template).ok()
}

/// Returns whether a revision has this data.
pub(crate) fn holds(revision: &ControllerRevision, data: &Value) -> bool {
    revision.data.as_ref().is_some_and(|held| held.0 == *data)
}

/// The hash in the name of a revision, the same as on a cluster.
pub(crate) fn hash(data: &Value, collisions: i32) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = format!("{}{collisions}", escaped(&data.to_string()));
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| sum.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    // Each digit maps to a consonant, so no words can appear.
    sum.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// JSON as Go encodes it, which escapes HTML characters.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

/// The name of a revision.
pub(crate) fn name(owner: &str, hash: &str) -> String {
    // Object names are ASCII.
    let prefix = owner.get(..LONGEST_PREFIX).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// Sorts revisions, latest last.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    let created = |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
    sorting::sort_by(revisions, |a, b| {
        let by_number = a.revision.cmp(&b.revision).then_with(|| created(a).cmp(&created(b)));
        by_number.then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// Decides what to do for a template, given the sorted revisions.
pub(crate) fn decide(sorted: &[Arc<ControllerRevision>], data: &Value) -> Decision {
    let next = sorted.last().map_or(1, |newest| newest.revision + 1);
    match sorted.iter().rposition(|revision| holds(revision, data)) {
        Some(place) if place + 1 == sorted.len() => Decision::Keep(place),
        Some(place) => Decision::Renumber(place, next),
        None => Decision::Create(next),
    }
}

/// The oldest unused revisions beyond the limit.
pub(crate) fn surplus(
    sorted: &[Arc<ControllerRevision>],
    is_live: impl Fn(&ControllerRevision) -> bool,
    limit: Option<i32>,
) -> Vec<Arc<ControllerRevision>> {
    let Ok(limit) = usize::try_from(limit.unwrap_or(10)) else { return Vec::new() };
    let history: Vec<_> = sorted.iter().filter(|revision| !is_live(revision)).cloned().collect();
    let surplus = history.len().saturating_sub(limit);
    history.into_iter().take(surplus).collect()
}

/// Creates a revision. If one with the same name has other data, the collision count changes, and with it the name.
pub(crate) async fn create(
    ctx: &Context,
    draft: Draft,
    collisions: &mut i32,
) -> Result<Arc<ControllerRevision>, ContextError> {
    loop {
        let hash = hash(&draft.data, *collisions);
        let name = name(&draft.owner_name, &hash);
        let mut labels = draft.labels.clone();
        labels.insert(draft.hash_label.to_owned(), hash);
        let revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(draft.namespace.clone()),
                labels: Some(labels),
                annotations: draft.annotations.clone(),
                owner_references: Some(vec![draft.owner.clone()]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(draft.data.clone())),
            revision: draft.number,
        };
        match ctx.create(revision).await {
            Err(error) if error.is_already_exists() => {
                let key = ObjectKey::namespaced(&draft.namespace, &name);
                match ctx.live().get::<ControllerRevision>(&key).await? {
                    Some(present) if holds(&present, &draft.data) => return Ok(Arc::new(present)),
                    Some(_) => *collisions += 1,
                    // It was deleted in the meantime: the name is free.
                    None => {}
                }
            }
            answer => return answer,
        }
    }
}

/// Makes a revision the latest.
pub(crate) async fn renumber(
    ctx: &Context,
    revision: &ControllerRevision,
    number: i64,
) -> Result<Arc<ControllerRevision>, ContextError> {
    ctx.update(ControllerRevision { revision: number, ..revision.clone() }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        let template = json!({ "metadata": { "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "c", "image": image, "resources": {} }] } });
        serde_json::from_value(template).unwrap()
    }

    fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let data = Some(RawExtension(data_of(&template(image))));
        Arc::new(ControllerRevision { metadata, data, revision: number })
    }

    #[test]
    fn a_template_is_restored_from_its_revision() {
        assert_eq!(template_of(&revision("a", 1, "x")), Some(template("x")));
        assert_eq!(template_of(&ControllerRevision::default()), None);
    }

    #[test]
    fn a_revision_is_kept_renumbered_or_created() {
        let revisions = [revision("a", 1, "one"), revision("b", 4, "two")];
        for (image, decision) in
            [("two", Decision::Keep(1)), ("one", Decision::Renumber(0, 5)), ("three", Decision::Create(5))]
        {
            assert_eq!(decide(&revisions, &data_of(&template(image))), decision, "{image}");
        }
        assert_eq!(decide(&[], &data_of(&template("one"))), Decision::Create(1));
    }

    #[test]
    fn the_oldest_unused_revisions_are_surplus() {
        let revisions = [revision("a", 1, "1"), revision("b", 2, "2"), revision("c", 3, "3"), revision("d", 4, "4")];
        let is_live = |revision: &ControllerRevision| matches!(revision.metadata.name.as_deref(), Some("a" | "d"));
        let names = |limit| {
            let surplus = surplus(&revisions, is_live, limit);
            surplus.iter().map(|revision| revision.metadata.name.clone().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(Some(0)), ["b", "c"]);
        assert_eq!(names(Some(1)), ["b"]);
        assert_eq!(names(Some(2)), [""; 0]);
        assert_eq!(names(None), [""; 0]);
    }

    #[test]
    fn a_hash_has_letters_for_digits_and_changes_with_collisions() {
        let data = data_of(&template("a<b"));
        assert_ne!(hash(&data, 0), hash(&data, 1));
        assert!(hash(&data, 0).bytes().all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter)));
        assert_eq!(escaped("a<b&\u{2028}"), "a\\u003cb\\u0026\\u2028");
        assert_eq!(name(&"x".repeat(300), "h").len(), 225);
    }

    #[test]
    fn revisions_are_sorted_by_number() {
        let mut revisions = [revision("c", 2, "1"), revision("b", 2, "2"), revision("a", 3, "3")];
        sort(&mut revisions);
        let names: Vec<_> = revisions.iter().map(|revision| revision.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }
}
