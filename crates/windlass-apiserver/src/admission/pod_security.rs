//! PodSecurity: pods meet the level of the Pod Security Standards that the labels of their namespace state.
//!
//! Pods are rejected; the templates of workloads are only warned about and audited. A namespace whose level becomes
//! stricter is warned about its existing pods.

use std::{collections::HashSet, fmt::Display, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use windlass_builtins::pod_security::{
    ExistingPods, Level, LevelVersion, Policy, controller_uid, details, is_significant_update, template_pointer,
    violations,
};
use windlass_schema::field::ErrorList;

use super::{Admission, Attributes, Operation};
use crate::{
    status::{ApiError, Result, aggregate},
    storage::{ResourceCache, Storage, StoredObject},
};

/// The prefix of labels and annotations.
const PREFIX: &str = "pod-security.kubernetes.io/";
/// The number of pods of a namespace that are compared with a new level, and the time that this may take.
const EXISTING_PODS: usize = 3000;
const EXISTING_PODS_TIME: Duration = Duration::from_secs(1);
/// The number of pods after which other requests get their turn.
const PIECE: usize = 64;

/// Subresources of pods that do not change fields which the standards restrict.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

pub(crate) struct PodSecurity {
    pub(crate) storage: Arc<Storage>,
    pub(crate) namespaces: Arc<ResourceCache>,
    pub(crate) pods: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for PodSecurity {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        if !matches!(write.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        match (&*write.resource.group, &*write.resource.plural) {
            ("", "namespaces") if write.subresource.is_empty() => self.namespace(write, object).await,
            ("", "pods") if !IGNORED.contains(&write.subresource) => self.pod(write, object).await,
            (group, resource) if write.subresource.is_empty() => match template_pointer(group, resource) {
                Some(pointer) => self.template(write, object.pointer(pointer)).await,
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl PodSecurity {
    /// Checks the labels of a namespace, and warns about pods that violate its new level.
    async fn namespace(&self, write: &Attributes<'_>, namespace: &Value) -> Result<()> {
        let (policy, errors) = policy_of(namespace);
        let (had, old_errors) = match write.old {
            Some(old) => policy_of(old),
            None => (policy, ErrorList::new()),
        };
        if !errors.is_empty() && errors != old_errors {
            return Err(ApiError::invalid("Namespace", "", write.name, &errors));
        }
        if policy.enforce.tightens(had.enforce) {
            self.existing_pods(write.name, policy.enforce).await.into_iter().for_each(|warning| write.warn(warning));
        }
        Ok(())
    }

    /// Returns the warnings about the pods of a namespace.
    async fn existing_pods(&self, namespace: &str, enforce: LevelVersion) -> Vec<String> {
        let deadline = Instant::now() + EXISTING_PODS_TIME;
        let snapshot = self.pods.snapshot();
        let prefix = format!("{namespace}/");
        let pods: Vec<_> = snapshot.range(&prefix, None).map(|(_, cached)| cached.object.clone()).collect();
        let total = pods.len();
        let mut checked = ExistingPods::new(enforce);
        for piece in prioritized(pods).chunks(PIECE) {
            piece.iter().for_each(|pod| checked.check(&pod.to_value()));
            if Instant::now() >= deadline {
                break;
            }
            tokio::task::yield_now().await;
        }
        checked.warnings(namespace, total)
    }

    async fn pod(&self, write: &Attributes<'_>, pod: &Value) -> Result<()> {
        let Some(namespace) = self.find_namespace(write.namespace).await? else {
            let why = format!("failed to lookup namespace {:?}", write.namespace);
            annotate(write, "error", &why);
            return Err(ApiError::internal(why));
        };
        let (policy, errors) = policy_of_stored(&namespace);
        if errors.is_empty() && policy == Policy::PRIVILEGED {
            annotate(write, "enforce-policy", LevelVersion::PRIVILEGED);
            return Ok(());
        }
        if write.old.is_some_and(|old| !is_significant_update(pod, old)) {
            return Ok(());
        }
        record_errors(write, &errors);
        annotate(write, "enforce-policy", policy.enforce);
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        let found = violations(policy.enforce, metadata, spec);
        audit(write, policy.audit, metadata, spec);
        if !found.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&found));
            return Err(write.forbidden(pod, &why));
        }
        warn(write, policy.warn, metadata, spec);
        Ok(())
    }

    /// Warns about the template of a workload.
    async fn template(&self, write: &Attributes<'_>, template: Option<&Value>) -> Result<()> {
        let Some(template) = template.filter(|template| !template.is_null()) else { return Ok(()) };
        let Some(namespace) = self.find_namespace(write.namespace).await? else {
            let name = write.namespace;
            let why = format!("failed to lookup namespace {name:?}: namespaces {name:?} not found");
            annotate(write, "error", why);
            return Ok(());
        };
        let (policy, errors) = policy_of_stored(&namespace);
        if errors.is_empty() && [policy.audit, policy.warn].iter().all(|mode| mode.level == Level::Privileged) {
            return Ok(());
        }
        record_errors(write, &errors);
        let (metadata, spec) = (&template["metadata"], &template["spec"]);
        audit(write, policy.audit, metadata, spec);
        warn(write, policy.warn, metadata, spec);
        Ok(())
    }

    /// Returns a namespace. Earlier stages have waited until the caches have every acknowledged write.
    async fn find_namespace(&self, name: &str) -> Result<Option<Arc<StoredObject>>> {
        if let Some(namespace) = self.namespaces.get(name) {
            return Ok(Some(namespace));
        }
        self.storage.fresh().await?;
        Ok(self.namespaces.get(name))
    }
}

/// Returns the policy of a stored namespace. Most namespaces have no labels for it.
fn policy_of_stored(namespace: &StoredObject) -> (Policy, ErrorList) {
    if !namespace.header.labels().any(|(key, _)| key.starts_with(PREFIX)) {
        return (Policy::PRIVILEGED, ErrorList::new());
    }
    Policy::of_labels(|label| namespace.header.label(label))
}

/// Returns the policy in the labels of a namespace.
fn policy_of(namespace: &Value) -> (Policy, ErrorList) {
    Policy::of_labels(|label| namespace["metadata"]["labels"][label].as_str())
}

/// Returns the pods in the order in which they are checked: if there are too many, one per controller first.
fn prioritized(mut pods: Vec<Arc<StoredObject>>) -> Vec<Arc<StoredObject>> {
    if pods.len() > EXISTING_PODS {
        let mut controllers = HashSet::new();
        pods.sort_by_cached_key(|pod| {
            let metadata = serde_json::from_slice::<Value>(pod.metadata()).unwrap_or_default();
            controller_uid(&metadata).is_some_and(|uid| !controllers.insert(uid.to_owned()))
        });
        pods.truncate(EXISTING_PODS);
    }
    pods
}

/// Adds an annotation to the audit event of the request, if there is one.
fn annotate(write: &Attributes<'_>, key: &str, value: impl Display) {
    if write.is_audited() {
        write.annotate(&format!("{PREFIX}{key}"), &value.to_string());
    }
}

fn record_errors(write: &Attributes<'_>, errors: &ErrorList) {
    if !errors.is_empty() {
        annotate(write, "error", format!("Failed to parse policy: {}", aggregate(errors)));
    }
}

fn audit(write: &Attributes<'_>, policy: LevelVersion, metadata: &Value, spec: &Value) {
    if !write.is_audited() {
        return;
    }
    if let Some(message) = would_violate(policy, metadata, spec) {
        annotate(write, "audit-violations", message);
    }
}

fn warn(write: &Attributes<'_>, policy: LevelVersion, metadata: &Value, spec: &Value) {
    would_violate(policy, metadata, spec).into_iter().for_each(|warning| write.warn(warning));
}

fn would_violate(policy: LevelVersion, metadata: &Value, spec: &Value) -> Option<String> {
    let found = violations(policy, metadata, spec);
    (!found.is_empty()).then(|| format!("would violate PodSecurity \"{policy}\": {}", details(&found)))
}
