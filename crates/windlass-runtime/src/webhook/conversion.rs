//! Conversion between the versions of a kind.

use std::{any::type_name, fmt::Display};

use kube::core::ApiResource;
use serde_json::{Map, Value};

use super::{
    CallOptions,
    describe::{Description, Endpoint},
};
use crate::object::{Object, resource_of};

/// Path of all conversions.
pub(super) const PATH: &str = "/convert";

/// The versions of a kind, converted through one of them, the hub.
///
/// Every other version, a spoke, can be converted to the hub and back, with `From` or, if that can fail, `TryFrom`.
/// Spokes are converted to each other through the hub.
///
/// ```
/// use windlass_runtime::webhook::Conversion;
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #[kube(group = "example.com", version = "v1", kind = "Foo", namespaced)]
/// struct FooSpec {
///     replicas: i32,
/// }
///
/// mod old {
/// #   use kube::CustomResource;
/// #   use schemars::JsonSchema;
/// #   use serde::{Deserialize, Serialize};
///     #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
///     #[kube(group = "example.com", version = "v1alpha1", kind = "Foo", namespaced)]
///     pub struct FooSpec {
///         pub count: String,
///     }
/// }
///
/// impl TryFrom<old::Foo> for Foo {
///     type Error = std::num::ParseIntError;
///     fn try_from(old: old::Foo) -> Result<Self, Self::Error> {
///         Ok(Foo { metadata: old.metadata, spec: FooSpec { replicas: old.spec.count.parse()? } })
///     }
/// }
///
/// impl From<Foo> for old::Foo {
///     fn from(foo: Foo) -> Self {
///         old::Foo { metadata: foo.metadata, spec: old::FooSpec { count: foo.spec.replicas.to_string() } }
///     }
/// }
///
/// let conversion = Conversion::<Foo>::new().spoke::<old::Foo>();
/// assert_eq!(conversion.describe().versions, ["v1", "v1alpha1"]);
/// ```
///
/// Kubernetes allows a conversion to change labels and annotations in the metadata, but nothing else. This is ensured
/// regardless of the conversion. A conversion that omits the metadata (no name) keeps all of it.
///
/// Fields that a type does not know are not carried over: the API server prunes fields that are not in the schema of a
/// version, and the schemas come from the types. Data that a version cannot express belongs in an annotation.
pub struct Conversion<H: Object> {
    hub: ApiResource,
    spokes: Vec<Spoke<H>>,
}

struct Spoke<H> {
    resource: ApiResource,
    to_hub: fn(&Value) -> Result<H, String>,
    from_hub: fn(H) -> Result<Value, String>,
}

impl<H: Object<DynamicType: Default>> Conversion<H> {
    /// Creates a conversion with only the hub.
    #[expect(clippy::new_without_default, reason = "a conversion without spokes has no use as a default")]
    pub fn new() -> Self {
        Self { hub: resource_of::<H>(&Default::default()), spokes: Vec::new() }
    }

    /// Adds a version.
    ///
    /// # Panics
    ///
    /// If its group or kind differs from the hub's, or if the version was already added.
    #[must_use]
    pub fn spoke<S>(mut self) -> Self
    where
        S: Object<DynamicType: Default> + TryInto<H, Error: Display>,
        H: TryInto<S, Error: Display>,
    {
        let resource = resource_of::<S>(&Default::default());
        assert!(
            (&resource.group, &resource.kind) == (&self.hub.group, &self.hub.kind),
            "{} must have the same group and kind as {}",
            type_name::<S>(),
            type_name::<H>()
        );
        assert!(
            !self.versions().any(|version| version == resource.version),
            "version {} was already added",
            resource.version
        );
        self.spokes.push(Spoke {
            resource,
            to_hub: |value| decode::<S>(value)?.try_into().map_err(|error| error.to_string()),
            from_hub: |hub| encode::<S>(&hub.try_into().map_err(|error| error.to_string())?),
        });
        self
    }

    /// Returns the description for the CRD.
    pub fn describe(&self) -> Description {
        Description {
            endpoint: Endpoint::Conversion,
            name: format!("{}.{}", self.hub.plural, self.hub.group),
            path: PATH.to_owned(),
            group: self.hub.group.clone(),
            versions: self.versions().map(str::to_owned).collect(),
            kind: self.hub.kind.clone(),
            rules: Vec::new(),
            calls: CallOptions::default().timeout_seconds(30),
        }
    }
}

impl<H: Object> Conversion<H> {
    fn versions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.hub).chain(self.spokes.iter().map(|spoke| &spoke.resource)).map(|of| of.version.as_str())
    }

    fn has(&self, api_version: &str) -> bool {
        api_version == self.hub.api_version || self.spoke_of(api_version).is_ok()
    }

    fn spoke_of(&self, api_version: &str) -> Result<&Spoke<H>, String> {
        let found = self.spokes.iter().find(|spoke| spoke.resource.api_version == api_version);
        found.ok_or_else(|| format!("{} has no version {api_version}", self.hub.kind))
    }

    fn to_hub(&self, object: &Value, from: &str) -> Result<H, String> {
        match from == self.hub.api_version {
            true => decode(object),
            false => (self.spoke_of(from)?.to_hub)(object),
        }
    }
}

fn decode<K: Object>(value: &Value) -> Result<K, String> {
    K::deserialize(value).map_err(|error| error.to_string())
}

fn encode<K: Object>(object: &K) -> Result<Value, String> {
    serde_json::to_value(object).map_err(|error| error.to_string())
}

impl<H: Object> std::fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversion").field("hub", &self.hub).finish_non_exhaustive()
    }
}

/// A type-erased [`Conversion`].
pub(super) trait Convert: Send + Sync {
    fn group_and_kind(&self) -> (&str, &str);

    /// Converts an object to another version.
    fn convert(&self, object: &Value, to: &str) -> Result<Value, String>;
}

impl<H: Object> Convert for Conversion<H> {
    fn group_and_kind(&self) -> (&str, &str) {
        (&self.hub.group, &self.hub.kind)
    }

    fn convert(&self, object: &Value, to: &str) -> Result<Value, String> {
        Self::convert(self, object, to)
    }
}

impl<H: Object> Conversion<H> {
    /// Converts an object to another apiVersion, as the webhook does.
    ///
    /// # Errors
    /// Returns an error if the kind does not have one of the versions, or the object cannot be converted.
    pub fn convert(&self, object: &Value, to: &str) -> Result<Value, String> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if from == to {
            return Ok(object.clone());
        }
        let hub = match self.to_hub(object, from) {
            // The remains of an object that was applied in one version and is now applied in another: there is nothing
            // to convert.
            Err(_) if object.get("spec").is_none() && self.has(from) && self.has(to) => {
                let mut bare = object.clone();
                bare["apiVersion"] = to.into();
                return Ok(bare);
            }
            hub => hub?,
        };
        let mut converted = match to == self.hub.api_version {
            true => encode(&hub)?,
            false => (self.spoke_of(to)?.from_hub)(hub)?,
        };
        let Value::Object(fields) = &mut converted else {
            return Err("the converted object is not a JSON object".to_owned());
        };
        fields.insert("apiVersion".to_owned(), to.into());
        fields.insert("kind".to_owned(), self.hub.kind.clone().into());
        let metadata = metadata(object.get("metadata"), fields.remove("metadata"));
        fields.insert("metadata".to_owned(), metadata);
        Ok(converted)
    }
}

/// Returns the original metadata, with labels and annotations from the conversion.
fn metadata(original: Option<&Value>, converted: Option<Value>) -> Value {
    let mut result = original.and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(Value::Object(mut converted)) = converted else { return Value::Object(result) };
    if !is_named(&converted) && is_named(&result) {
        return Value::Object(result);
    }
    for field in ["labels", "annotations"] {
        match converted.remove(field) {
            Some(Value::Object(entries)) => result.insert(field.to_owned(), Value::Object(entries)),
            _ => result.remove(field),
        };
    }
    Value::Object(result)
}

fn is_named(metadata: &Map<String, Value>) -> bool {
    let filled = |field| metadata.get(field).and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    filled("name") || filled("generateName")
}
