//! A deserializer that adjusts an object while it is read.
//!
//! It sits between a parser and a type. Only the maps of the object itself and of its `metadata` pass through it;
//! everything below is passed on directly.

use std::{borrow::Cow, fmt, iter::Flatten, option};

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor, value::CowStrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::Adjust;

/// A change to a map.
pub(super) trait Change: Copy {
    /// Passes the changed map to a visitor.
    fn visit<'de, A: MapAccess<'de>, V: Visitor<'de>>(self, map: A, visitor: V) -> Result<V::Value, A::Error>;
}

/// An object: types are set, and managed fields are removed from its metadata unless they are kept.
#[derive(Clone, Copy)]
pub(super) struct Top<'a>(pub(super) &'a Adjust);

/// Metadata, without managed fields.
#[derive(Clone, Copy)]
struct Metadata;

/// A deserializer, visitor or seed whose maps are changed.
pub(super) struct Adjusted<T, C> {
    inner: T,
    change: C,
}

impl<T, C> Adjusted<T, C> {
    pub(super) fn new(inner: T, change: C) -> Self {
        Self { inner, change }
    }
}

impl Change for Top<'_> {
    fn visit<'de, A: MapAccess<'de>, V: Visitor<'de>>(self, map: A, visitor: V) -> Result<V::Value, A::Error> {
        let Adjust { types, keep_managed_fields } = self.0;
        let given = types.as_ref().map(|[version, kind]| [("apiVersion", version.as_str()), ("kind", kind.as_str())]);
        visitor.visit_map(ObjectMap {
            inner: map,
            keep_types: given.is_none(),
            types: given.into_iter().flatten(),
            keep_managed_fields: *keep_managed_fields,
            value: Value::Other,
        })
    }
}

impl Change for Metadata {
    fn visit<'de, A: MapAccess<'de>, V: Visitor<'de>>(self, map: A, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(MetadataMap { inner: map })
    }
}

/// Entries of an object.
struct ObjectMap<'a, A> {
    inner: A,
    /// Types that are still to be added.
    types: Flatten<option::IntoIter<[(&'static str, &'a str); 2]>>,
    keep_types: bool,
    keep_managed_fields: bool,
    /// Value of the last key.
    value: Value<'a>,
}

enum Value<'a> {
    Given(&'a str),
    Metadata,
    Other,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ObjectMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        if let Some((name, value)) = self.types.next() {
            self.value = Value::Given(value);
            return seed.deserialize(name.into_deserializer()).map(Some);
        }
        while let Some(key) = self.inner.next_key_seed(Key)? {
            self.value = match &*key {
                "apiVersion" | "kind" if !self.keep_types => {
                    self.inner.next_value::<IgnoredAny>()?;
                    continue;
                }
                "metadata" if !self.keep_managed_fields => Value::Metadata,
                _ => Value::Other,
            };
            return seed.deserialize(CowStrDeserializer::new(key)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value {
            Value::Given(text) => seed.deserialize(text.into_deserializer()),
            Value::Metadata => self.inner.next_value_seed(Adjusted::new(seed, Metadata)),
            Value::Other => self.inner.next_value_seed(seed),
        }
    }
}

/// Entries of metadata.
struct MetadataMap<A> {
    inner: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MetadataMap<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(key) = self.inner.next_key_seed(Key)? {
            if key == "managedFields" {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            return seed.deserialize(CowStrDeserializer::new(key)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

/// A key, borrowed from the input if possible.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

impl<'de, S: DeserializeSeed<'de>, C: Change> DeserializeSeed<'de> for Adjusted<S, C> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Adjusted::new(deserializer, self.change))
    }
}

/// JSON is self-describing, so every request for a type may be answered with the value at hand. Only options and
/// newtypes must be passed on.
impl<'de, D: Deserializer<'de>, C: Change> Deserializer<'de> for Adjusted<D, C> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Adjusted::new(visitor, self.change))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Adjusted::new(visitor, self.change))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, Adjusted::new(visitor, self.change))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

macro_rules! hand_on {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>, C: Change> Visitor<'de> for Adjusted<V, C> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.change.visit(map, self.inner)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Adjusted::new(deserializer, self.change))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Adjusted::new(deserializer, self.change))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(seq)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    hand_on! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) visit_borrowed_str(&'de str)
        visit_string(String)
    }
}
