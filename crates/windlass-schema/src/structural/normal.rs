//! Objects that normalizing leaves as they are, recognized by reading their text once.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Structural;
use super::normal_meta::NormalObjectMeta;
use super::prune_and_default::{Pruning, is_meta};

/// The maximum number of defaults in an object that is looked at.
const MAX_DEFAULTS: usize = u64::BITS as usize;

impl Structural {
    /// Returns whether [`Structural::normalize`] with defaults certainly leaves an object as it is. This takes a small part
    /// of the time of parsing the object, and allocates nothing.
    ///
    /// If it returns false, the object may nevertheless stay as it is. Objects with embedded resources or unusual metadata
    /// are not examined.
    pub fn is_normal(&self, object: &[u8]) -> bool {
        let metadata = self.properties.get("metadata");
        if self.may_embed() || metadata.is_some_and(|schema| schema.structure().next().is_some()) {
            return false;
        }
        let mut json = serde_json::Deserializer::from_slice(object);
        let pruning = if self.preserve_unknown_fields { Pruning::On.preserved() } else { Pruning::On };
        Node { schema: Some(self), pruning, is_root: true }.deserialize(&mut json).is_ok() && json.end().is_ok()
    }
}

/// A value and its schema. Deserializing it fails if the value has to be changed.
#[derive(Clone, Copy)]
struct Node<'s> {
    schema: Option<&'s Structural>,
    pruning: Pruning,
    is_root: bool,
}

/// Reason of a failure.
const CHANGES: &str = "the value has to be changed";

impl Node<'_> {
    fn scalar<E: Error>(self) -> Result<(), E> {
        if self.is_root { Err(E::custom(CHANGES)) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that stays as it is")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.scalar()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.scalar()
    }

    /// Null stays where it is allowed, and where no schema says anything.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.schema.is_some_and(|schema| !schema.nullable) { Err(E::custom(CHANGES)) } else { self.scalar() }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.scalar()?;
        let Self { schema, pruning, .. } = self.preserving();
        let element = schema.and_then(|schema| schema.items.as_deref());
        let node = Node { schema: element, pruning, is_root: false };
        while items.next_element_seed(node)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let node = self.preserving();
        let Some(schema) = node.schema else {
            while fields.next_key_seed(Key(node))?.is_some() {
                fields.next_value::<IgnoredAny>()?;
            }
            return Ok(());
        };
        let mut defaults = Defaults::of(schema);
        while let Some(field) = fields.next_key_seed(Known { parent: node, schema, defaults: &mut defaults })? {
            match field {
                Found::Metadata => {
                    let NormalObjectMeta { .. } = fields.next_value()?;
                }
                Found::Field(field) => fields.next_value_seed(field)?,
            }
        }
        if defaults.are_complete() { Ok(()) } else { Err(A::Error::custom(CHANGES)) }
    }
}

impl Node<'_> {
    fn preserving(self) -> Self {
        let preserves = self.schema.is_some_and(|schema| schema.preserve_unknown_fields);
        Self { pruning: if preserves { self.pruning.preserved() } else { self.pruning }, ..self }
    }
}

/// A name in an object without a schema, which is not kept where unknown fields are pruned.
struct Key<'s>(Node<'s>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(json)?;
        if self.0.pruning == Pruning::On { Err(D::Error::custom(CHANGES)) } else { Ok(()) }
    }
}

/// The defaults of the fields of an object.
struct Defaults<'s> {
    schema: &'s Structural,
    /// A bit for each field with a default that the object does not have, in the order of their names.
    absent: u64,
    too_many: bool,
}

impl<'s> Defaults<'s> {
    fn of(schema: &'s Structural) -> Self {
        let count = Self::names(schema).count();
        let too_many = count > MAX_DEFAULTS;
        let absent = if count == 0 || too_many { 0 } else { u64::MAX >> (MAX_DEFAULTS - count) };
        Self { schema, absent, too_many }
    }

    fn names(schema: &Structural) -> impl Iterator<Item = &str> {
        let tables = schema.compiled.0.as_ref();
        let known = tables.into_iter().flat_map(|tables| tables.defaulted.iter().map(String::as_str));
        let all = schema.properties.iter().filter(move |(_, schema)| tables.is_none() && schema.default.is_some());
        known.chain(all.map(|(name, _)| name.as_str()))
    }

    fn found(&mut self, name: &str) {
        if self.absent != 0
            && let Some(at) = Self::names(self.schema).position(|defaulted| defaulted == name)
        {
            self.absent &= !(1 << at);
        }
    }

    fn are_complete(&self) -> bool {
        self.absent == 0 && !self.too_many
    }
}

/// A name in an object with a schema.
struct Known<'s, 'd> {
    parent: Node<'s>,
    schema: &'s Structural,
    defaults: &'d mut Defaults<'s>,
}

/// The value after a name.
enum Found<'s> {
    /// The metadata of the object.
    Metadata,
    /// A field.
    Field(Node<'s>),
}

impl<'de, 's> DeserializeSeed<'de> for Known<'s, '_> {
    type Value = Found<'s>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Found<'s>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de, 's> Visitor<'de> for Known<'s, '_> {
    type Value = Found<'s>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Found<'s>, E> {
        self.defaults.found(name);
        if self.parent.is_root && name == "metadata" {
            return Ok(Found::Metadata);
        }
        let known = self.schema.field(name);
        let pruning = self.parent.pruning.below(known.is_some(), self.parent.is_root && is_meta(name));
        let pruning = pruning.ok_or_else(|| E::custom(CHANGES))?;
        Ok(Found::Field(Node { schema: known.flatten(), pruning, is_root: false }))
    }
}
