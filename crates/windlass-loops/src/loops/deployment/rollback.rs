//! Rollback to a revision requested by annotation, as old clients do. (`kubectl rollout undo` writes the old template
//! itself, which is an ordinary rollout.)

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::{
    annotations::{self, ROLLBACK_TO},
    template::{self, HASH_LABEL},
};

/// The outcome of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) deployment: Deployment,
    /// Whether it succeeded, and reason and message of the event.
    pub(super) event: (bool, &'static str, String),
}

/// The requested revision; 0 for the previous one.
pub(super) fn asked_for(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotations.as_ref()?.get(ROLLBACK_TO)?.parse().ok()
}

/// Sets the template of a revision in the deployment, and removes the annotation.
pub(super) fn outcome(deployment: &Deployment, sets: &[ReplicaSet], revision: i64) -> Outcome {
    const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
    let mut wanted = deployment.clone();
    if let Some(annotations) = &mut wanted.metadata.annotations {
        annotations.remove(ROLLBACK_TO);
    }
    let revision = if revision == 0 { last(sets) } else { revision };
    if revision == 0 {
        return Outcome { deployment: wanted, event: (false, NOT_FOUND, "Unable to find last revision.".to_owned()) };
    }
    let found = sets.iter().find(|set| annotations::revision(set) == Some(revision));
    let template = found.and_then(|set| set.spec.as_ref()?.template.as_ref());
    let (Some(set), Some(template), Some(spec)) = (found, template, &mut wanted.spec) else {
        let note = "Unable to find the revision to rollback to.".to_owned();
        return Outcome { deployment: wanted, event: (false, NOT_FOUND, note) };
    };
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    if template::same(&spec.template, template) {
        let note = format!("The rollback revision contains the same template as current deployment \"{name}\"");
        return Outcome { deployment: wanted, event: (false, "DeploymentRollbackTemplateUnchanged", note) };
    }
    spec.template = template.clone();
    if let Some(labels) = spec.template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    annotations::restore(&mut wanted, set);
    let note = format!("Rolled back deployment \"{name}\" to revision {revision}");
    Outcome { deployment: wanted, event: (true, "DeploymentRollback", note) }
}

/// The revision before the highest.
fn last(sets: &[ReplicaSet]) -> i64 {
    let mut revisions: Vec<i64> = sets.iter().filter_map(annotations::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(revision: i64, image: &str) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"annotations": {"deployment.kubernetes.io/revision": revision.to_string(), "why": image}},
            "spec": {"selector": {}, "template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": image}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            }},
        }))
        .unwrap()
    }

    fn deployment() -> Deployment {
        let mut deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": {
                ROLLBACK_TO: "0", "why": "three", "deployment.kubernetes.io/revision": "3",
            }},
            "spec": {"selector": {}, "template": {}},
        }))
        .unwrap();
        deployment.spec.as_mut().unwrap().template = set(3, "three").spec.unwrap().template.unwrap();
        deployment
    }

    #[test]
    fn a_rollback_restores_the_template_and_its_annotations() {
        let sets = [set(1, "one"), set(2, "two"), set(3, "three")];
        for (revision, image) in [(0, "two"), (1, "one"), (2, "two")] {
            let outcome = outcome(&deployment(), &sets, revision);
            assert_eq!(outcome.event.1, "DeploymentRollback");
            let annotations = outcome.deployment.metadata.annotations.unwrap();
            assert_eq!(annotations["why"], image);
            assert_eq!(annotations["deployment.kubernetes.io/revision"], "3", "the rollout gives it the next");
            assert!(!annotations.contains_key(ROLLBACK_TO));
            let template = serde_json::to_value(outcome.deployment.spec.unwrap().template).unwrap();
            assert_eq!(template["spec"]["containers"][0]["image"], image);
            assert_eq!(template["metadata"]["labels"], json!({"app": "web"}));
        }
    }

    #[test]
    fn an_impossible_rollback_is_reported_and_removed() {
        let sets = [set(3, "three")];
        for (revision, reason) in [
            (0, "DeploymentRollbackRevisionNotFound"),
            (7, "DeploymentRollbackRevisionNotFound"),
            (3, "DeploymentRollbackTemplateUnchanged"),
        ] {
            let outcome = outcome(&deployment(), &sets, revision);
            assert_eq!((outcome.event.0, outcome.event.1), (false, reason));
            assert_eq!(asked_for(&outcome.deployment), None);
            assert_eq!(outcome.deployment.spec, deployment().spec);
        }
    }
}
