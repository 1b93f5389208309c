//! PodSecurity: pods meet the level of the Pod Security Standards that the labels of their namespace state.
//!
//! Pods are rejected; the templates of workloads are only warned about and audited. A namespace whose level becomes
//! stricter is warned about its existing pods.

use std::{collections::HashSet, fmt::Display, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use windlass_builtins::pod_security::{
    Configuration, ExistingPods, Level, LevelVersion, Policy, controller_uid, details, is_significant_update,
    template_pointer, violations,
};
use windlass_schema::field::ErrorList;

use super::{Admission, Attributes, Operation};
use crate::{
    meta,
    status::{ApiError, Result, aggregate},
    storage::{ResourceCache, Storage, StoredObject},
};

/// The prefix of labels and annotations.
const PREFIX: &str = "pod-security.kubernetes.io/";
/// Maximum number of pods of a namespace that are checked against a new level, and the time limit for it.
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
    /// The policy of namespaces without labels, and exemptions.
    pub(crate) configuration: Arc<Configuration>,
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
        let (policy, errors) = self.policy_of(namespace);
        let (had, old_errors) = match write.old {
            Some(old) => self.policy_of(old),
            None => (policy, ErrorList::new()),
        };
        if !errors.is_empty() && errors != old_errors {
            return Err(ApiError::invalid("Namespace", "", write.name, &errors));
        }
        if write.old.is_none() || !policy.enforce.tightens(had.enforce) {
            return Ok(());
        }
        if self.configuration.namespaces.iter().any(|exempt| exempt == write.name) {
            self.ignored_policy(namespace, policy).into_iter().for_each(|warning| write.warn(warning));
        } else {
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

    /// Returns the warning that a namespace is exempt from its policy, if the policy is its own.
    fn ignored_policy(&self, namespace: &Value, policy: Policy) -> Option<String> {
        let defaults = self.configuration.defaults;
        if policy.is_privileged() || policy.is_equivalent(defaults) {
            return None;
        }
        let has = |label: String| namespace["metadata"]["labels"].get(label).is_some();
        let is_own = |mode: &str| has(format!("{PREFIX}{mode}")) || has(format!("{PREFIX}{mode}-version"));
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
        let stated = modes.iter().filter(|(mode, setting)| setting.level != Level::Privileged && is_own(mode));
        let stated: Vec<_> = stated.map(|(mode, setting)| format!("{mode}={setting}")).collect();
        Some(format!(
            "namespace {:?} is exempt from Pod Security, and the policy ({}) will be ignored",
            meta::text(namespace, "name"),
            stated.join(", ")
        ))
    }

    /// Returns whether pods of the namespace, or of the user, are not checked.
    fn is_exempt(&self, write: &Attributes<'_>) -> bool {
        let has = |names: &[String], name: &str| !name.is_empty() && names.iter().any(|exempt| exempt == name);
        let why = if has(&self.configuration.namespaces, write.namespace) {
            "namespace"
        } else if has(&self.configuration.usernames, &write.user.name) {
            "user"
        } else {
            return false;
        };
        annotate(write, "exempt", why);
        true
    }

    /// Returns whether pods of the runtime class are not checked.
    fn is_exempt_class(&self, write: &Attributes<'_>, spec: &Value) -> bool {
        let class = spec["runtimeClassName"].as_str().unwrap_or_default();
        let exempt = self.configuration.runtime_classes.iter().any(|exempt| exempt == class);
        if exempt {
            annotate(write, "exempt", "runtimeClass");
        }
        exempt
    }

    async fn pod(&self, write: &Attributes<'_>, pod: &Value) -> Result<()> {
        if self.is_exempt(write) {
            return Ok(());
        }
        let Some(namespace) = self.find_namespace(write.namespace).await? else {
            let why = format!("failed to lookup namespace {:?}", write.namespace);
            annotate(write, "error", &why);
            return Err(ApiError::internal(why));
        };
        let (policy, errors) = self.policy_of_stored(&namespace);
        if errors.is_empty() && policy.is_privileged() {
            annotate(write, "enforce-policy", LevelVersion::PRIVILEGED);
            return Ok(());
        }
        if write.old.is_some_and(|old| !is_significant_update(pod, old)) {
            return Ok(());
        }
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        if self.is_exempt_class(write, spec) {
            return Ok(());
        }
        record_errors(write, &errors);
        annotate(write, "enforce-policy", policy.enforce);
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
        if self.is_exempt(write) {
            return Ok(());
        }
        let Some(namespace) = self.find_namespace(write.namespace).await? else {
            let name = write.namespace;
            let why = format!("failed to lookup namespace {name:?}: namespaces {name:?} not found");
            annotate(write, "error", why);
            return Ok(());
        };
        let (policy, errors) = self.policy_of_stored(&namespace);
        if errors.is_empty() && [policy.audit, policy.warn].iter().all(|mode| mode.level == Level::Privileged) {
            return Ok(());
        }
        let (metadata, spec) = (&template["metadata"], &template["spec"]);
        if self.is_exempt_class(write, spec) {
            return Ok(());
        }
        record_errors(write, &errors);
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

    /// Returns the policy of a stored namespace. Most namespaces have no labels for it.
    fn policy_of_stored(&self, namespace: &StoredObject) -> (Policy, ErrorList) {
        let defaults = self.configuration.defaults;
        if !namespace.header.labels().any(|(key, _)| key.starts_with(PREFIX)) {
            return (defaults, ErrorList::new());
        }
        Policy::of_labels(defaults, |label| namespace.header.label(label))
    }

    /// Returns the policy of a namespace.
    fn policy_of(&self, namespace: &Value) -> (Policy, ErrorList) {
        Policy::of_labels(self.configuration.defaults, |label| namespace["metadata"]["labels"][label].as_str())
    }
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
