//! The APIServices of this server's own group versions: built-in ones at every start, those of custom resources as
//! their CustomResourceDefinitions come and go.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{join_all, try_join_all},
};
use http::{Method, StatusCode};
use serde_json::Value;
use tracing::warn;
use windlass_builtins::kinds::api_service::Availability;
use windlass_store::Error;

use super::{
    Aggregation, GROUP, PLURAL, PREFIX,
    priorities::{self, Priorities},
};
use crate::{
    bootstrap::request,
    definitions, meta,
    registry::Registry,
    server::Inner,
    status::{ApiError, Result},
    storage::StoredObject,
};

/// The label of APIServices that the server manages.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Conditions under which the server restores an APIService.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Managed {
    /// Once, when it starts.
    OnStart,
    /// Always.
    Always,
}

impl Managed {
    /// Returns the value of the label.
    fn label(self) -> &'static str {
        match self {
            Self::OnStart => "onstart",
            Self::Always => "true",
        }
    }

    fn manages(self, object: &StoredObject) -> bool {
        object.header.label(MANAGED) == Some(self.label())
    }
}

/// An APIService of this server.
struct Local<'a> {
    group: &'a str,
    version: &'a str,
    managed: Managed,
}

impl Local<'_> {
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    fn priorities(&self) -> Priorities {
        priorities::of(self.group, self.version)
    }

    /// Returns the object in the form in which a request to create it would store it.
    fn encode_for_storage(&self, now: &str, uid: &str) -> String {
        let Self { group, version, managed } = self;
        let Priorities { group: group_priority, version: version_priority } = self.priorities();
        let Availability { status, reason, message } = Availability::LOCAL;
        let (owned, spec) = match *group {
            "" => (String::new(), String::new()),
            group => (r#""f:group":{},"#.to_owned(), format!(r#""group":"{group}","#)),
        };
        format!(
            concat!(
                r#"{{"kind":"APIService","apiVersion":"{api}/v1","metadata":{{"creationTimestamp":"{now}","#,
                r#""labels":{{"{label}":"{value}"}},"managedFields":[{{"apiVersion":"{api}/v1","#,
                r#""fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:{label}":{{}}}}}},"#,
                r#""f:spec":{{{owned}"f:groupPriorityMinimum":{{}},"f:version":{{}},"f:versionPriority":{{}}}}}},"#,
                r#""manager":"kube-apiserver","operation":"Update","time":"{now}"}}],"name":"{name}","uid":"{uid}"}},"#,
                r#""spec":{{{spec}"groupPriorityMinimum":{group_priority},"version":"{version}","#,
                r#""versionPriority":{version_priority}}},"status":{{"conditions":[{{"lastTransitionTime":"{now}","#,
                r#""message":"{message}","reason":"{reason}","status":"{status}","type":"Available"}}]}}}}"#
            ),
            api = GROUP,
            now = now,
            label = MANAGED,
            value = managed.label(),
            owned = owned,
            name = self.name(),
            uid = uid,
            spec = spec,
            group_priority = group_priority,
            version = version,
            version_priority = version_priority,
            message = message,
            reason = reason,
            status = status,
        )
    }

    /// Returns the object with its desired spec; `None` if it is up to date.
    fn revised(&self, object: &StoredObject) -> Option<Value> {
        let mut object = object.to_value();
        let wanted: Value = serde_json::from_str(&self.encode_for_storage("", "")).unwrap_or_default();
        if object["spec"] == wanted["spec"] {
            return None;
        }
        object["spec"] = wanted["spec"].clone();
        Some(object)
    }
}

/// Returns the group versions that have APIServices from the start: built-in ones, and those whose objects are computed.
fn builtin(registry: &Registry) -> impl Iterator<Item = Local<'_>> {
    let computed = registry.custom_versions().filter(|(group, version)| registry.is_computed(group, version));
    let computed = computed.map(|(group, version)| Local { group, version, managed: Managed::OnStart });
    let builtin = registry.groups().flat_map(|group| {
        let versions = group.versions.iter().filter(|version| registry.has_builtin_version(&group.name, version));
        let registered = versions.filter(|version| priorities::builtin(&group.name, version).is_some());
        registered.map(|version| Local { group: &group.name, version, managed: Managed::OnStart })
    });
    builtin.chain(computed)
}

/// Returns whether an APIService names another server. A user may have registered one for a group version whose objects
/// this server computes.
fn is_remote(object: &StoredObject) -> bool {
    object.to_value()["spec"]["service"].is_object()
}

/// Returns whether a group version of this server is listed in discovery only while it has an APIService.
pub(super) fn is_required(registry: &Registry, group: &str, version: &str) -> bool {
    registry.has_builtin_version(group, version) && priorities::builtin(group, version).is_some()
}

/// Stores the APIServices of built-in group versions that are missing, updates different ones, and deletes those of
/// versions that are no longer served.
pub(crate) async fn store_builtin(server: &Arc<Inner>) -> Result<()> {
    let registry = server.registry.load_full();
    let objects = &server.aggregation.objects;
    let (now, mut names) = (meta::format_time(server.now()), BTreeSet::new());
    let (mut missing, mut repairs) = (Vec::new(), Vec::new());
    for local in builtin(&registry) {
        match objects.get(&local.name()) {
            None => {
                missing.push(create(server, local.name(), local.encode_for_storage(&now, &meta::new_uid())).boxed());
            }
            Some(object) if registry.is_computed(local.group, local.version) && is_remote(&object) => {}
            Some(object) if [Managed::OnStart, Managed::Always].iter().any(|managed| managed.manages(&object)) => {
                repairs.extend(local.revised(&object).map(|object| (Method::PUT, local.name(), object)));
            }
            Some(_) => {}
        }
        names.insert(local.name());
    }
    let snapshot = objects.snapshot();
    let obsolete = snapshot.objects().filter(|object| Managed::OnStart.manages(object));
    let obsolete = obsolete.filter(|object| !names.contains(&*object.header.name) && !is_remote(object));
    repairs.extend(obsolete.map(|object| (Method::DELETE, object.header.name.to_string(), Value::Null)));
    // Concurrently, so that a durable store syncs only once.
    try_join_all(missing).await?;
    try_join_all(repairs.iter().map(|(method, name, object)| send(server, method, name, object).boxed())).await?;
    Ok(())
}

/// Registers the group versions of custom resources until the server is dropped.
pub(crate) async fn follow(server: Weak<Inner>) {
    let Some((objects, mut handled)) =
        server.upgrade().map(|server| (server.aggregation.objects.clone(), server.definitions.progress()))
    else {
        return;
    };
    loop {
        let mut changed = pin!(objects.changed());
        changed.as_mut().enable();
        handled.mark_unchanged();
        let Some(running) = server.upgrade() else { return };
        let outcome = register_custom(&running).await;
        drop(running);
        if let Err(error) = outcome {
            warn!(%error, "failed to register the APIServices of custom resources");
            tokio::time::sleep(RETRY).await;
            continue;
        }
        tokio::select! {
            () = changed => {}
            // An error means that the server was dropped.
            result = handled.changed() => if result.is_err() { return },
        }
    }
}

/// Creates, restores and deletes the APIServices of custom resources.
async fn register_custom(server: &Arc<Inner>) -> Result<()> {
    let Aggregation { objects, .. } = &server.aggregation;
    let snapshot = objects.snapshot();
    // Another server may have registered a version whose CustomResourceDefinition this one is about to serve.
    server.definitions.reached(server.storage.cache(definitions::PREFIX).snapshot().revision).await;
    let registry = server.registry.load_full();
    let routes = server.aggregation.routes();
    let now = meta::format_time(server.now());
    let (mut missing, mut repairs) = (Vec::new(), Vec::new());
    for (group, version) in registry.custom_versions() {
        if registry.has_builtin_version(group, version) || registry.is_computed(group, version) {
            continue;
        }
        let local = Local { group, version, managed: Managed::Always };
        let name = local.name();
        match snapshot.get(&name) {
            None => missing.push(create(server, name, local.encode_for_storage(&now, &meta::new_uid())).boxed()),
            // The routes contain only APIServices that differ from the default.
            Some(object) if Managed::Always.manages(object) && routes.entries.contains_key(&*name) => {
                repairs.extend(local.revised(object).map(|object| (Method::PUT, name, object)));
            }
            Some(_) => {}
        }
    }
    for object in snapshot.objects().filter(|object| Managed::Always.manages(object)) {
        let name = &*object.header.name;
        let served = name.split_once('.').is_some_and(|(version, group)| registry.has_version(group, version));
        if !served {
            repairs.push((Method::DELETE, name.to_owned(), Value::Null));
        }
    }
    let created = join_all(missing).await;
    let repairs = repairs.iter().map(|(method, name, object)| send(server, method, name, object).boxed());
    let repaired = join_all(repairs).await;
    created.into_iter().chain(repaired).collect()
}

async fn create(server: &Arc<Inner>, name: String, object: String) -> Result<()> {
    match server.storage.store().create(&format!("{PREFIX}{name}"), object.into()).await {
        // Another writer was faster.
        Ok(_) | Err(Error::Exists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn send(server: &Arc<Inner>, method: &Method, name: &str, object: &Value) -> Result<(), ApiError> {
    let path = format!("/apis/{GROUP}/v1/{PLURAL}/{name}");
    match request(server, method.clone(), &path, object).await {
        // Another writer was faster, and the change is noticed.
        Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        result => result,
    }
}
