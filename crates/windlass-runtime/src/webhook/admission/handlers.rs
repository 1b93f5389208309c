//! Handlers as traits, for handlers with state.

use std::future::Future;

use crate::webhook::{Denied, Operation, Request, Warnings};

/// Sets fields that clients leave out. See [`Webhook::default_with`](super::Webhook::default_with).
///
/// ```
/// use windlass_runtime::webhook::{Defaulter, Denied, Request, Webhook};
/// # use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Immutable(bool);
///
/// impl Defaulter<ConfigMap> for Immutable {
///     async fn default(&self, map: &mut ConfigMap, _: &Request<ConfigMap>) -> Result<(), Denied> {
///         map.immutable.get_or_insert(self.0);
///         Ok(())
///     }
/// }
///
/// Webhook::new().defaulter(Immutable(true));
/// ```
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object, or denies the request.
    fn default(&self, object: &mut K, request: &Request<K>) -> impl Future<Output = Result<(), Denied>> + Send;
}

/// Allows or denies requests. Methods that are not implemented allow them.
///
/// ```
/// use windlass_runtime::webhook::{Denied, Request, Validator, Warnings, Webhook};
/// # use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Frozen;
///
/// impl Validator<ConfigMap> for Frozen {
///     async fn validate_update(
///         &self,
///         old: &ConfigMap,
///         new: &ConfigMap,
///         _: &Request<ConfigMap>,
///     ) -> Result<Warnings, Denied> {
///         match old.data == new.data {
///             true => Ok(Warnings::none()),
///             false => Err(Denied::field("data", "must not change")),
///         }
///     }
/// }
///
/// Webhook::new().validator(Frozen);
/// ```
pub trait Validator<K: Sync>: Send + Sync + 'static {
    /// Validates a create.
    fn validate_create(&self, new: &K, request: &Request<K>) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (new, request);
        async { Ok(Warnings::none()) }
    }

    /// Validates an update.
    fn validate_update(
        &self,
        old: &K,
        new: &K,
        request: &Request<K>,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (old, new, request);
        async { Ok(Warnings::none()) }
    }

    /// Validates a delete. Called only after [`Webhook::also_on_delete`](super::Webhook::also_on_delete).
    fn validate_delete(&self, old: &K, request: &Request<K>) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (old, request);
        async { Ok(Warnings::none()) }
    }
}

/// Calls the method of the operation.
pub(super) async fn validate<K: Sync>(validator: &impl Validator<K>, request: &Request<K>) -> Result<Warnings, Denied> {
    match (request.operation, &request.old_object, &request.object) {
        (Operation::Create, _, Some(new)) => validator.validate_create(new, request).await,
        (Operation::Update, Some(old), Some(new)) => validator.validate_update(old, new, request).await,
        (Operation::Delete, Some(old), _) => validator.validate_delete(old, request).await,
        (Operation::Connect, ..) => Ok(Warnings::none()),
        (operation, ..) => Err(Denied::bad_request(format!("{} without an object", operation.as_str()))),
    }
}
