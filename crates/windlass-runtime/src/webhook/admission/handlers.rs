//! Handlers as traits, for those who have state to keep.

use std::future::Future;

use crate::webhook::{Denied, Operation, Request, Warnings};

/// Fills in what clients leave out. See [`Webhook::default_with`](super::Webhook::default_with).
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
    /// Changes the object, or refuses it.
    fn default(&self, object: &mut K, request: &Request<K>) -> impl Future<Output = Result<(), Denied>> + Send;
}

/// Accepts or refuses requests. What is not implemented is accepted.
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
    /// An object is made.
    fn validate_create(&self, new: &K, request: &Request<K>) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (new, request);
        async { Ok(Warnings::none()) }
    }

    /// An object is changed.
    fn validate_update(
        &self,
        old: &K,
        new: &K,
        request: &Request<K>,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (old, new, request);
        async { Ok(Warnings::none()) }
    }

    /// An object is deleted. Only asked after [`Webhook::also_on_delete`](super::Webhook::also_on_delete).
    fn validate_delete(&self, old: &K, request: &Request<K>) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (old, request);
        async { Ok(Warnings::none()) }
    }
}

/// Asks the method for the operation.
pub(super) async fn validate<K: Sync>(validator: &impl Validator<K>, request: &Request<K>) -> Result<Warnings, Denied> {
    match (request.operation, &request.old_object, &request.object) {
        (Operation::Create, _, Some(new)) => validator.validate_create(new, request).await,
        (Operation::Update, Some(old), Some(new)) => validator.validate_update(old, new, request).await,
        (Operation::Delete, Some(old), _) => validator.validate_delete(old, request).await,
        (Operation::Connect, ..) => Ok(Warnings::none()),
        (operation, ..) => Err(Denied::bad_request(format!("{} without its object", operation.as_str()))),
    }
}
