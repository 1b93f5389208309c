//! Admission: plugins that may change or reject a write between decoding and storing it.
//!
//! Plugins run in order. A plugin that changes objects implements [`Admission::mutate`]; a plugin that only rejects
//! writes implements [`Admission::validate`], which sees the object in its final form. Both can read other objects
//! through [`Attributes::objects`].

mod always_pull_images;
mod anti_affinity_topology;
mod builtin;
mod certificate_authority;
mod certificate_subject;
mod claim_resize;
mod claim_status;
mod configuration;
mod default_ingress_class;
mod default_storage_class;
mod default_tolerations;
mod device_admin_access;
mod event_rate_limit;
mod extended_resource_toleration;
mod external_ips;
mod limit_ranger;
mod namespace_exists;
mod namespace_lifecycle;
mod node_features;
pub(crate) mod node_restriction;
mod node_taint;
mod objects;
mod owner_permission;
mod pod_node_selector;
mod pod_resize;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology;
mod priority;
mod role_escalation;
mod runtime_class;
mod service_accounts;
mod storage_protection;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use kube::core::GroupVersionResource;
use serde_json::Value;
pub use windlass_builtins::kinds::pod::admission::TolerationSeconds;
use windlass_builtins::resource::Resource;
pub use windlass_schema::field::{ErrorList, FieldError, Path};

pub(crate) use self::builtin::builtin;
pub use self::{
    builtin::{DISABLEABLE_PLUGINS, OPTIONAL_PLUGINS},
    configuration::{AdmissionConfiguration, EventLimit, EventLimitType, NO_EVENT_LIMITS, Tolerations},
    objects::Objects,
};
use crate::{
    audit::RequestAudit,
    authorization::{self, Action, Decision, ResourceAction},
    call::{Call, Warnings},
    meta,
    status::{ApiError, Result},
    storage::ResourceCache,
    user::User,
    verb::Verb,
    webhooks::Subject,
};

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to a running pod, or through a proxy.
    Connect,
}

impl Operation {
    /// The name of the operation in rules and webhook reviews.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write, as plugins see it.
pub struct Attributes<'a> {
    /// The operation of the request.
    pub operation: Operation,
    /// The resource.
    pub resource: &'a Resource,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name; may be empty on create.
    pub name: &'a str,
    /// The name in the path; empty if the object is created in its collection.
    pub requested_name: &'a str,
    /// The user that sent the request.
    pub user: &'a User,
    /// The verb of the request.
    pub verb: Verb,
    /// Whether this is a dry run, which stores nothing.
    pub dry_run: bool,
    /// The object before the write, for updates and deletions.
    pub old: Option<&'a Value>,
    /// Read access to the objects of the server.
    pub objects: Objects<'a>,
    warnings: &'a Warnings,
    audit: Option<&'a dyn Annotate>,
}

/// The audit event of a request, as a trait object for the same reason as the server in [`Objects`].
trait Annotate: Send + Sync {
    fn annotate(&self, key: &str, value: &str);
}

impl Annotate for RequestAudit {
    fn annotate(&self, key: &str, value: &str) {
        Self::annotate(self, key, value);
    }
}

impl<'a> Attributes<'a> {
    /// Describes the write of a request.
    pub(crate) fn of(call: &'a Call<'_>, subject: &Subject<'_>, name: &'a str, old: Option<&'a Value>) -> Self {
        Self {
            operation: subject.operation,
            resource: &call.endpoint.resource,
            subresource: call.target.subresource,
            namespace: call.target.namespace,
            name,
            requested_name: call.target.name,
            user: call.user,
            verb: call.verb,
            dry_run: subject.is_dry_run(),
            old,
            objects: Objects::of(call.server),
            warnings: &call.warnings,
            audit: call.audit.map(|audit| &**audit as _),
        }
    }

    /// Adds a warning for the client. Repeated warnings are sent once.
    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.add(warning);
    }

    /// Returns whether annotations are recorded.
    pub fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// Adds an annotation to the audit event of the request. The first value of a key wins.
    pub fn annotate(&self, key: &str, value: &str) {
        if let Some(audit) = self.audit {
            audit.annotate(key, value);
        }
    }

    /// Returns whether the user of the write may do something else.
    pub async fn authorize(&self, action: ResourceAction<'_>) -> Decision {
        let request = authorization::Attributes { user: self.user, action: Action::Resource(action) };
        self.objects.server().authorizer.authorize(&request).decide().await
    }

    /// Returns another object; `None` if it does not exist.
    async fn find(
        &self,
        group: &str,
        version: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>> {
        let resource = GroupVersionResource::gvr(group, version, resource);
        self.objects.get(&resource, namespace, name).await
    }

    /// Returns whether this resource is written.
    fn is(&self, group: &str, plural: &str) -> bool {
        &*self.resource.group == group && &*self.resource.plural == plural
    }

    /// Returns whether a pod is written, not a subresource of one.
    fn is_pod(&self) -> bool {
        self.subresource.is_empty() && self.is("", "pods")
    }

    /// 403 for this write.
    fn forbidden(&self, object: &Value, why: &str) -> ApiError {
        let name = if self.name.is_empty() { self.requested_name } else { self.name };
        forbidden(self.resource, name, object, why)
    }
}

/// 403 for a write. An object without a name is identified by its `generateName`.
pub(crate) fn forbidden(resource: &Resource, name: &str, object: &Value, why: &str) -> ApiError {
    let names = [name, meta::text(object, "name"), meta::text(object, "generateName")];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
    ApiError::forbidden(&resource.plural, &resource.group, name, why)
}

/// Returns the newest object that fits; of several with the same age, the first by name.
fn newest(cache: &ResourceCache, fits: fn(&Value) -> bool) -> Option<Value> {
    let objects = cache.snapshot();
    let fitting = objects.objects().map(|object| object.to_value()).filter(fits);
    fitting.min_by_key(|object| {
        let text = |field| meta::text(object, field).to_owned();
        (std::cmp::Reverse(text("creationTimestamp")), text("name"))
    })
}

/// An admission plugin.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Changes the object, or rejects the write.
    async fn mutate(&self, _write: &Attributes<'_>, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Checks whether the user may write this object, after plugins and webhooks have changed it and before it is
    /// validated; not called for deletions. Returns `None` if the plugin is not concerned.
    fn check_permission<'a>(
        &'a self,
        _write: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Option<BoxFuture<'a, Result<()>>> {
        None
    }

    /// Returns the fields that the user may not set to their values in the object; validation reports them with its own
    /// errors. Not called for deletions. Returns `None` if the plugin is not concerned.
    fn forbidden_fields<'a>(
        &'a self,
        _write: &'a Attributes<'a>,
        _object: &'a Value,
    ) -> Option<BoxFuture<'a, ErrorList>> {
        None
    }

    /// Rejects the write, or accepts it. For a deletion `object` is the object to be deleted.
    async fn validate(&self, _write: &Attributes<'_>, _object: &Value) -> Result<()> {
        Ok(())
    }
}
