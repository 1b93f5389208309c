//! Permissions of a controller: derived from its wiring, and declared.

use k8s_openapi::api::core::v1::Pod;

use super::{AnyController, Controller};
use crate::{context::any_kind::ResourceScope, manifests::Permission, object::Object};

/// Permissions that are declared, because they do not follow from the watches.
#[derive(Default)]
pub(super) struct DeclaredPermissions(Vec<Declared>);

struct Declared {
    permission: Permission,
    /// Whether it is limited to the namespaces that the operator is restricted to.
    follows_namespaces: bool,
}

impl DeclaredPermissions {
    /// Limits permissions for namespaced kinds to these namespaces.
    pub(super) fn restrict_to(&mut self, namespaces: &[String]) {
        if namespaces.is_empty() {
            return;
        }
        let narrow = |Declared { permission, follows_namespaces }: Declared| {
            let namespaces = if follows_namespaces { namespaces } else { &[] };
            let mut narrowed: Vec<_> =
                namespaces.iter().map(|namespace| permission.clone().in_namespace(namespace)).collect();
            if narrowed.is_empty() {
                narrowed.push(permission);
            }
            narrowed.into_iter().map(|permission| Declared { permission, follows_namespaces: false })
        };
        self.0 = std::mem::take(&mut self.0).into_iter().flat_map(narrow).collect();
    }
}

/// Permissions. What a controller does with its own kind, and with the kinds that it [owns](Controller::owns), follows
/// from its wiring. Other writes are declared here, so that the generated role allows them. A request of the context that it
/// does not allow is logged with the line to add, once per rule, and fails a test that runs the operator with
/// `windlass-testing`.
///
/// Permissions are for all namespaces, or for those that the operator is
/// [restricted](crate::operator::Operator::namespaces) to. Those of [`permission`](Controller::permission) are for the
/// whole cluster unless they name a namespace.
///
/// ```
/// use k8s_openapi::api::{batch::v1::Job, core::v1::{ConfigMap, Pod}};
/// use windlass_runtime::{controller::{Action, Controller}, key::ObjectKey, manifests::Permission};
///
/// let controller = Controller::<ConfigMap>::new("restarter", async |_config, _ctx| Ok(Action::done()))
///     .watches::<Pod>(|pod, _ctx| vec![ObjectKey::of(pod)])
///     .deletes::<Pod>()
///     .creates::<Job>()
///     .permission(Permission::new("", "pods/eviction", ["create"]));
/// ```
impl<K: Object> Controller<K> {
    /// Declares that the controller creates objects of this kind that it does not own: the verb `create`.
    #[must_use]
    pub fn creates<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["create"])
    }

    /// Declares that the controller applies objects of this kind that it does not own: the verbs `create` and `patch`.
    #[must_use]
    pub fn applies<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["create", "patch"])
    }

    /// Declares that the controller changes objects of this kind, which it does not own: the verbs `get` (for another
    /// attempt after a conflict), `update` and `patch`.
    #[must_use]
    pub fn updates<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["get", "update", "patch"])
    }

    /// Declares that the controller deletes objects of this kind that it does not own, or of its own kind: the verb
    /// `delete`.
    #[must_use]
    pub fn deletes<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["delete"])
    }

    /// Declares that the controller reads objects of this kind without watching them, with
    /// [`ctx.live()`](crate::context::Context::live): the verbs `get` and `list`.
    #[must_use]
    pub fn reads<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["get", "list"])
    }

    /// Declares that the controller deletes many objects of this kind by one request, with
    /// [`ctx.delete_all()`](crate::context::Context::delete_all): the verb `deletecollection`.
    #[must_use]
    pub fn deletes_all<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["deletecollection"])
    }

    /// Declares that the controller reads and sets the [scale](crate::context::Context::set_scale) of objects of this
    /// kind: the verbs `get`, `update` and `patch` of the subresource, and `get` of the object.
    #[must_use]
    pub fn scales<W: Object<DynamicType: Default>>(self) -> Self {
        self.declares::<W>(&["get"]).declares_subresource::<W>("scale", &["get", "update", "patch"])
    }

    /// Declares that the controller [evicts](crate::context::Context::evict) pods.
    #[must_use]
    pub fn evicts(self) -> Self {
        self.declares::<Pod>(&["get"]).declares_subresource::<Pod>("eviction", &["create"])
    }

    /// Declares that the controller reads the [logs](crate::context::Context::logs) of pods.
    #[must_use]
    pub fn reads_logs(self) -> Self {
        self.declares_subresource::<Pod>("log", &["get"])
    }

    /// Declares that the controller runs commands in containers of pods, with `ctx.exec()`. API servers check `get` or
    /// `create`, depending on their version and the protocol.
    #[must_use]
    pub fn execs(self) -> Self {
        self.declares_subresource::<Pod>("exec", &["create", "get"])
    }

    /// Adds any other permission: for a subresource, for objects of a name, or in a namespace.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.any.declared.0.push(Declared { permission, follows_namespaces: false });
        self
    }

    /// Returns the permissions that the controller needs, as they appear in the [manifests](crate::manifests).
    pub fn permissions(&self) -> Vec<Permission> {
        self.any.permissions()
    }

    fn declares<W: Object<DynamicType: Default>>(self, verbs: &[&'static str]) -> Self {
        self.declares_permission::<W>(Permission::of::<W>(verbs.iter().copied()))
    }

    fn declares_subresource<W: Object<DynamicType: Default>>(self, name: &str, verbs: &[&'static str]) -> Self {
        let mut permission = Permission::of::<W>(verbs.iter().copied());
        permission.resource = format!("{}/{name}", permission.resource);
        self.declares_permission::<W>(permission)
    }

    fn declares_permission<W: Object>(mut self, permission: Permission) -> Self {
        let follows_namespaces = ResourceScope::of::<W>() == ResourceScope::Namespaced;
        self.any.declared.0.push(Declared { permission, follows_namespaces });
        self
    }
}

impl AnyController {
    /// See [`Controller::permissions`].
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        // Also for finalizers.
        let mut permissions = self.primary.permissions("", &["get", "list", "watch", "update", "patch"]);
        permissions.extend(self.primary.permissions("/status", &["get", "update", "patch"]));
        // Clusters may require this of those who set `blockOwnerDeletion` in owner references.
        permissions.extend(self.primary.permissions("/finalizers", &["update"]));
        permissions.extend(self.sources.iter().flat_map(|source| source.permissions()));
        permissions.extend(self.declared.0.iter().map(|declared| declared.permission.clone()));
        permissions
    }
}

#[cfg(test)]
mod tests;
