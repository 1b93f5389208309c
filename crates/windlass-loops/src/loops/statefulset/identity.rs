//! The identity of a stateful set's pod: ordinal, names, volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use windlass::objects::owner::{OwnerError, controller_reference};

use crate::pods;

pub(super) const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
pub(super) const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";

/// The valid ordinals of a set's pods.
pub(super) fn ordinals(set: &StatefulSet) -> std::ops::Range<i64> {
    let spec = set.spec.as_ref();
    let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0);
    i64::from(start)..i64::from(start) + i64::from(replicas(set))
}

/// The desired number of pods.
pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Splits a pod's name into the name of the set and the ordinal.
pub(super) fn parent_and_ordinal(pod: &Pod) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

/// The ordinal of a pod.
pub(super) fn ordinal(pod: &Pod) -> Option<i64> {
    parent_and_ordinal(pod)?.1
}

/// Returns whether a pod's name belongs to a set.
pub(super) fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, _)| Some(parent) == set.metadata.name.as_deref())
}

/// The name of a set's pod.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default())
}

/// The claim templates of a set.
pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// The name of a pod's claim.
pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i64) -> String {
    let template = template.metadata.name.as_deref().unwrap_or_default();
    format!("{template}-{}", pod_name(set, ordinal))
}

/// The revision of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL)).map_or("", String::as_str)
}

/// Creates a pod from a current or former template of a set.
pub(super) fn new_pod(
    set: &StatefulSet,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i64,
) -> Result<Pod, OwnerError> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let prefix = pods::name_prefix(set.metadata.name.as_deref().unwrap_or_default());
    let mut pod = pods::from_template(template, namespace, &prefix, controller_reference(set)?);
    let name = pod_name(set, ordinal);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    pod.metadata.name = Some(name);
    identify(&mut pod, ordinal);
    attach(set, &mut pod, ordinal);
    pod.metadata.labels.get_or_insert_default().insert(REVISION_LABEL.to_owned(), revision.to_owned());
    Ok(pod)
}

/// Sets the identity labels of a pod.
pub(super) fn identify(pod: &mut Pod, ordinal: i64) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let labels: &mut BTreeMap<_, _> = pod.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.to_owned(), name);
    labels.insert(INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// Adds the volumes of a pod's claims, before its own.
pub(super) fn attach(set: &StatefulSet, pod: &mut Pod, ordinal: i64) {
    let templates = claim_templates(set);
    if templates.is_empty() {
        return;
    }
    let claimed = |template: &PersistentVolumeClaim| Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    };
    let mut volumes: Vec<Volume> = templates.iter().map(claimed).collect();
    let spec = pod.spec.get_or_insert_default();
    let own = spec.volumes.take().unwrap_or_default();
    let claims = volumes.len();
    volumes.extend(own);
    let mut place = 0;
    volumes.retain(|volume| {
        place += 1;
        place <= claims || !templates.iter().any(|template| template.metadata.name.as_ref() == Some(&volume.name))
    });
    spec.volumes = Some(volumes);
}

/// Returns whether a pod has its identity labels.
pub(super) fn is_identified(set: &StatefulSet, pod: &Pod) -> bool {
    let name = pod.metadata.name.as_ref();
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(NAME_LABEL));
    let expected = ordinal(pod).map(|ordinal| pod_name(set, ordinal));
    expected.is_some() && expected.as_ref() == name && label == name
}

/// Returns whether a pod has the volumes of its claims.
pub(super) fn is_attached(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    claim_templates(set).iter().all(|template| {
        // Of several volumes with the same name, the last counts.
        let volume = volumes.iter().rfind(|volume| Some(&volume.name) == template.metadata.name.as_ref());
        let claim = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        claim.is_some_and(|claim| claim.claim_name == claim_name(set, template, ordinal))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_contains_set_and_ordinal() {
        let pod = |name: &str| -> Pod { serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap() };
        for (name, expected) in [
            ("db-0", Some(("db", Some(0)))),
            ("my-db-12", Some(("my-db", Some(12)))),
            ("db", None),
            ("db-", None),
            ("db-x", None),
            ("db-+1", None),
            ("db-99999999999", Some(("db", None))),
        ] {
            assert_eq!(parent_and_ordinal(&pod(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_new_pod_has_its_identity_and_its_claims() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": { "name": "db", "namespace": "ns", "uid": "u" },
            "spec": { "serviceName": "svc", "selector": {}, "template": {}, "ordinals": { "start": 3 }, "replicas": 2,
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] },
        }))
        .unwrap();
        let template =
            json!({ "spec": { "containers": [], "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "tmp" }] } });
        let pod = new_pod(&set, &serde_json::from_value(template).unwrap(), "db-abc", 4).unwrap();
        assert!(is_identified(&set, &pod) && is_attached(&set, &pod) && is_member(&set, &pod));
        assert_eq!(revision(&pod), "db-abc");
        assert_eq!(ordinals(&set), 3..5);
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-4"), Some("svc")));
        let volumes = serde_json::to_value(&spec.volumes).unwrap();
        let expected =
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-4" } }, { "name": "tmp" }]);
        assert_eq!(volumes, expected);
    }
}
