//! Rules for objects of a kind, as functions of the typed object.

use std::marker::PhantomData;

use async_trait::async_trait;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_apiserver::{
    status::{ApiError, Result},
    webhooks::ConversionFunction,
};

use crate::{Admission, Attributes, ErrorList, Operation};

type Check<K> = Box<dyn Fn(&K, Option<&K>) -> ErrorList + Send + Sync>;

/// An admission plugin that calls a function for every created or updated object of a kind.
pub(crate) struct Rule<K> {
    check: Check<K>,
    /// Converts objects to the version of the type; without it, all versions have the same fields.
    conversion: Option<ConversionFunction>,
    kind: PhantomData<fn(K)>,
}

impl<K> Rule<K> {
    pub(crate) fn new(
        check: impl Fn(&K, Option<&K>) -> ErrorList + Send + Sync + 'static,
        conversion: Option<ConversionFunction>,
    ) -> Self {
        Self { check: Box::new(check), conversion, kind: PhantomData }
    }
}

#[async_trait]
impl<K> Admission for Rule<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let resource = write.resource;
        let is_kind = *resource.group == *K::group(&()) && *resource.kind == *K::kind(&());
        let is_write = matches!(write.operation, Operation::Create | Operation::Update);
        if !is_kind || !is_write || !write.subresource.is_empty() {
            return Ok(());
        }
        let new = self.parse(write, object)?;
        let old = write.old.map(|old| self.parse(write, old)).transpose()?;
        let errors = (self.check)(&new, old.as_ref());
        if errors.is_empty() {
            return Ok(());
        }
        let name = new.meta().name.as_deref().unwrap_or_default();
        Err(ApiError::invalid(&resource.kind, &resource.group, name, &errors))
    }
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Rule<K> {
    /// Converts an object to the version of the type.
    fn parse(&self, write: &Attributes<'_>, object: &Value) -> Result<K> {
        let resource = write.resource;
        let mut object = object.clone();
        let api_version = K::api_version(&());
        if object["apiVersion"] != *api_version {
            match &self.conversion {
                Some(function) => {
                    object = function.convert(&object, &api_version).map_err(|why| {
                        let (kind, from) = (&resource.kind, &resource.version);
                        ApiError::bad_request(format!(
                            "the {kind} cannot be converted from {from} to {api_version}: {why}"
                        ))
                    })?;
                }
                None => object["apiVersion"] = api_version.as_ref().into(),
            }
        }
        serde_json::from_value(object)
            .map_err(|error| ApiError::bad_request(format!("the object is not a {}: {error}", resource.kind)))
    }
}
