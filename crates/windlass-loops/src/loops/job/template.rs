//! The pods of a job.

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};

use super::view::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX, View, is_indexed, number};
use crate::pods::{from_template, name_prefix};

/// The variable with the completion index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Longest prefix that the server does not truncate when it generates a name.
const LONGEST_PREFIX: usize = 58;

/// Creates a pod of a job, with an index if the job is indexed.
pub(super) fn pod(view: &View, index: Option<i64>, owner: OwnerReference) -> Pod {
    let job = &view.job;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let prefix = index.map_or_else(|| name_prefix(name), |index| indexed_prefix(name, index));
    let mut pod = from_template(&view.spec().template, namespace, &prefix, owner);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    if is_indexed(view.spec())
        && let Some(spec) = &mut pod.spec
    {
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        containers.for_each(add_variable);
    }
    let Some(index) = index else { return pod };
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{name}-{index}"));
    }
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), index.to_string());
    if view.limits_each_index() {
        let (failures, ignored) = inherited(view, index);
        annotations.insert(FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    pod
}

/// The failure counts of an index: counted and ignored failures.
fn inherited(view: &View, index: i64) -> (i32, i32) {
    let Some(before) = view.indexed.as_ref().and_then(|indexed| indexed.replaced.get(&index)) else { return (0, 0) };
    let (failures, ignored) = (number(before, FAILURES), number(before, IGNORED_FAILURES));
    if view.judge(before).counts() {
        (failures.saturating_add(1), ignored)
    } else {
        (failures, ignored.saturating_add(1))
    }
}

fn add_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), ..Default::default() };
    variables.push(EnvVar {
        name: VARIABLE.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    });
}

/// The prefix of a pod's name, in which the index is never truncated.
fn indexed_prefix(name: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let most = LONGEST_PREFIX.saturating_sub(end.len());
    let name = name.get(..most).unwrap_or(name);
    format!("{name}{end}")
}

/// Returns whether another controller manages a job.
pub(super) fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != "kubernetes.io/job-controller")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_truncated_before_the_index() {
        assert_eq!(indexed_prefix("once", 3), "once-3-");
        let long = indexed_prefix(&"a".repeat(63), 12);
        assert_eq!((long.len(), long.ends_with("a-12-")), (58, true));
    }
}
