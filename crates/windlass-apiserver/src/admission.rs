//! Admission: what may change or refuse a write between decoding and storing.
//!
//! Plugins run in order. A plugin that changes objects implements [`Admission::mutate`]; one that only refuses
//! implements [`Admission::validate`], which sees the object in its final form.

mod certificate_subject;
mod claim_resize;
mod default_ingress_class;
mod default_storage_class;
mod limit_ranger;
mod namespace_lifecycle;
mod pod_defaults;
mod quota;
mod service_accounts;
mod storage_protection;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::resource::Resource;

pub(crate) use self::{
    certificate_subject::CertificateSubject,
    claim_resize::ClaimResize,
    default_ingress_class::DefaultIngressClass,
    default_storage_class::DefaultStorageClass,
    limit_ranger::LimitRanger,
    namespace_lifecycle::NamespaceLifecycle,
    pod_defaults::PodDefaults,
    quota::{MANAGER, Turns},
    service_accounts::ServiceAccounts,
    storage_protection::StorageProtection,
};
use crate::{
    call::Call,
    meta,
    status::{ApiError, Result},
    storage::ResourceCache,
    user::User,
    webhooks::{Rounds, Subject},
};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Makes a new object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to what runs behind an object.
    Connect,
}

impl Operation {
    /// The name that rules and webhooks know it by.
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
    /// What the request does.
    pub operation: Operation,
    /// The resource.
    pub resource: &'a Resource,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name; may be empty on create.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The object before the write, for updates and deletions.
    pub old: Option<&'a Value>,
}

impl Attributes<'_> {
    /// Whether the write is about this resource.
    fn is(&self, group: &str, plural: &str) -> bool {
        &*self.resource.group == group && &*self.resource.plural == plural
    }

    /// A refusal. An object that has no name yet is called by the beginning of the one that it will get.
    fn forbidden(&self, object: &Value, why: &str) -> ApiError {
        let names = [self.name, meta::text(object, "name"), meta::text(object, "generateName")];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(&self.resource.plural, &self.resource.group, name, why)
    }
}

/// The newest of the objects that fit; of two as old as each other, the first by name.
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
    /// Changes the object, or refuses the write.
    async fn mutate(&self, _write: &Attributes<'_>, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses the write. For a deletion `object` is the object to be deleted.
    async fn validate(&self, _write: &Attributes<'_>, _object: &Value) -> Result<()> {
        Ok(())
    }
}

impl Call<'_> {
    /// Runs the mutating plugins, then asks the mutating webhooks. Says whether these have changed the object.
    pub(crate) async fn admit(&self, subject: &Subject<'_>, object: &mut Value, old: Option<&Value>) -> Result<bool> {
        self.run_mutating_plugins(subject, object, old).await?;
        let Some(hooks) = self.hooks() else { return Ok(false) };
        let mut rounds = Rounds::default();
        Box::pin(self.mutate(&hooks, subject, object, old, &mut rounds)).await?;
        if !rounds.begin_again() {
            return Ok(false);
        }
        // What the plugins or webhooks have seen may not be what is there now.
        self.run_mutating_plugins(subject, object, old).await?;
        Box::pin(self.mutate(&hooks, subject, object, old, &mut rounds)).await?;
        Ok(true)
    }

    async fn run_mutating_plugins(&self, subject: &Subject<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
        for plugin in &self.server.admission {
            let name = meta::text(object, "name").to_owned();
            plugin.mutate(&self.attributes(subject, &name, old), object).await?;
        }
        Ok(())
    }

    /// Runs the validating plugins, then asks the webhooks. For a deletion `object` is the object to be deleted.
    pub(crate) async fn validate_admission(
        &self,
        subject: &Subject<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        for plugin in &self.server.admission {
            let name = meta::text(object, "name");
            plugin.validate(&self.attributes(subject, name, old), object).await?;
        }
        let Some(hooks) = self.hooks() else { return Ok(()) };
        if subject.operation != Operation::Delete {
            return Box::pin(self.refuse(&hooks, subject, object, old)).await;
        }
        let mut nothing = Value::Null;
        Box::pin(self.mutate(&hooks, subject, &mut nothing, old, &mut Rounds::default())).await?;
        Box::pin(self.refuse(&hooks, subject, &Value::Null, old)).await
    }

    fn attributes<'a>(&'a self, subject: &Subject<'_>, name: &'a str, old: Option<&'a Value>) -> Attributes<'a> {
        Attributes {
            operation: subject.operation,
            resource: &self.endpoint.resource,
            subresource: self.target.subresource,
            namespace: self.target.namespace,
            name,
            user: self.user,
            dry_run: subject.is_dry_run(),
            old,
        }
    }
}
