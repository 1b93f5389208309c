//! Metadata that decoding leaves as it is, recognized while it is read.

use std::{fmt, marker::PhantomData};

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::time;

/// Metadata of an object. Deserializing it fails if decoding would change it, or if it has fields that few objects have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NormalObjectMeta {
    #[serde(rename = "name")]
    _name: Text,
    #[serde(default, rename = "generateName")]
    _generate_name: Text,
    #[serde(default, rename = "namespace")]
    _namespace: Text,
    #[serde(default, rename = "uid")]
    _uid: Text,
    #[serde(default, rename = "resourceVersion")]
    _resource_version: Text,
    #[serde(default, rename = "generation")]
    _generation: Positive,
    #[serde(default, rename = "creationTimestamp")]
    _creation_timestamp: Time,
    #[serde(default, rename = "deletionTimestamp")]
    _deletion_timestamp: Time,
    #[serde(default, rename = "deletionGracePeriodSeconds")]
    _deletion_grace_period: Positive,
    #[serde(default, rename = "labels")]
    _labels: Texts,
    #[serde(default, rename = "annotations")]
    _annotations: Texts,
    #[serde(default, rename = "finalizers")]
    _finalizers: List<Text>,
    #[serde(default, rename = "ownerReferences")]
    _owner_references: List<OwnerReference>,
    #[serde(default, rename = "managedFields")]
    _managed_fields: List<ManagedFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerReference {
    #[serde(rename = "apiVersion")]
    _api_version: Text,
    #[serde(rename = "kind")]
    _kind: Text,
    #[serde(rename = "name")]
    _name: Text,
    #[serde(rename = "uid")]
    _uid: Text,
    #[serde(default, rename = "controller")]
    _controller: bool,
    #[serde(default, rename = "blockOwnerDeletion")]
    _block_owner_deletion: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagedFields {
    #[serde(default, rename = "manager")]
    _manager: Text,
    #[serde(default, rename = "operation")]
    _operation: Text,
    #[serde(default, rename = "apiVersion")]
    _api_version: Text,
    #[serde(default, rename = "time")]
    _time: Time,
    #[serde(default, rename = "fieldsType")]
    _fields_type: Text,
    #[serde(default, rename = "fieldsV1")]
    _fields: Fields,
    #[serde(default, rename = "subresource")]
    _subresource: Text,
}

/// A string that is not empty.
#[derive(Default)]
struct Text;

/// A time as the server writes it.
#[derive(Default)]
struct Time;

/// An integer above zero.
#[derive(Default)]
struct Positive;

/// Strings by name, at least one.
#[derive(Default)]
struct Texts;

/// Any object.
#[derive(Default)]
struct Fields;

/// At least one element.
struct List<T>(PhantomData<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Implements a visitor for a type without contents.
macro_rules! visited {
    ($type:ty, $expected:literal, $deserialize:ident, $($method:tt)*) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                json.$deserialize(Self::default())
            }
        }

        impl<'de> Visitor<'de> for $type {
            type Value = Self;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expected)
            }

            $($method)*
        }
    };
}

visited!(
    Text,
    "a string that is not empty",
    deserialize_str,
    fn visit_str<E: Error>(self, text: &str) -> Result<Self, E> {
        if text.is_empty() { Err(E::custom("it is empty")) } else { Ok(self) }
    }
);

visited!(
    Time,
    "a time",
    deserialize_str,
    fn visit_str<E: Error>(self, text: &str) -> Result<Self, E> {
        match time::parse_rfc3339(text) {
            Ok(time) if !time.is_zero() && time.to_rfc3339() == text => Ok(self),
            _ => Err(E::custom("it is written otherwise")),
        }
    }
);

visited!(
    Positive,
    "an integer above zero",
    deserialize_u64,
    fn visit_u64<E: Error>(self, number: u64) -> Result<Self, E> {
        if number == 0 || i64::try_from(number).is_err() { Err(E::custom("it is out of range")) } else { Ok(self) }
    }
);

visited!(
    Texts,
    "strings by name",
    deserialize_map,
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut is_empty = true;
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value::<AnyText>()?;
            is_empty = false;
        }
        if is_empty { Err(A::Error::custom("it is empty")) } else { Ok(self) }
    }
);

visited!(
    Fields,
    "an object",
    deserialize_map,
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
);

/// A string.
#[derive(Default)]
struct AnyText;

visited!(
    AnyText,
    "a string",
    deserialize_str,
    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_seq(Self(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list that is not empty")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        let mut is_empty = true;
        while items.next_element::<T>()?.is_some() {
            is_empty = false;
        }
        if is_empty { Err(A::Error::custom("it is empty")) } else { Ok(self) }
    }
}
