//! Reads the JSON inside path elements without building a JSON value.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{ItemValue, Name};

/// kube-apiserver reads numbers in FieldsV1 as floats, which cannot represent all large integers.
pub(super) fn read_item(value: &Value) -> ItemValue {
    match ItemValue::new(value) {
        ItemValue::Int(int) if int.unsigned_abs() > 1 << f64::MANTISSA_DIGITS => ItemValue::Float(int as f64),
        item => item,
    }
}

/// Reads the key fields of a `k:` element.
pub(super) struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Vec<(Name, ItemValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of key fields")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(1);
        while let Some((Text(name), Item(value))) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(fields)
    }
}

struct Text(Name);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Name::new(text)))
            }
        }

        reader.deserialize_str(TextVisitor)
    }
}

/// A value inside an element.
pub(super) struct Item(pub(super) ItemValue);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct ItemVisitor;

        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Item, E> {
                Ok(Item(ItemValue::String(Name::new(text))))
            }

            fn visit_bool<E>(self, bool: bool) -> Result<Item, E> {
                Ok(Item(ItemValue::Bool(bool)))
            }

            fn visit_i64<E>(self, int: i64) -> Result<Item, E> {
                Ok(Item(read_item(&Value::from(int))))
            }

            fn visit_u64<E>(self, int: u64) -> Result<Item, E> {
                Ok(Item(read_item(&Value::from(int))))
            }

            fn visit_f64<E>(self, float: f64) -> Result<Item, E> {
                Ok(Item(ItemValue::Float(float)))
            }

            fn visit_unit<E>(self) -> Result<Item, E> {
                Ok(Item(ItemValue::Other(Box::new(Value::Null))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Item, A::Error> {
                let value = Value::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Item(ItemValue::Other(Box::new(value))))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                let value = Value::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Item(ItemValue::Other(Box::new(value))))
            }
        }

        reader.deserialize_any(ItemVisitor)
    }
}
