//! Removes the items of a set from a value, or extracts them.

use serde_json::{Map, Value};

use super::field_set::to_field_set;
use super::item::path_element;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListType, MapType, TypeRef};
use crate::apply::set::Set;

/// Options of [`extract_items`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Whether to include the key fields of the list items that contain extracted items.
    pub key_fields: bool,
}

/// Returns the value without the fields and items of a set. As in kube-apiserver, a list or map that loses all of its
/// content becomes null, and so does an atomic one if a path of the set leads into it.
pub fn remove_items(value: &Value, ty: TypeRef<'_>, items: &Set) -> Value {
    Walker { extract: false }.value(value, ty, items)
}

/// Returns only the fields and items of a set.
pub fn extract_items(value: &Value, ty: TypeRef<'_>, items: &Set, options: ExtractOptions) -> Value {
    if options.key_fields
        && let Ok(present) = to_field_set(value, ty)
    {
        let items = items.union(&key_fields(items, &present));
        return Walker { extract: true }.value(value, ty, &items);
    }
    Walker { extract: true }.value(value, ty, items)
}

/// Returns the key fields of the list items that lead to members that are present.
fn key_fields(items: &Set, present: &Set) -> Set {
    let mut keys = Set::new();
    items.for_each(|path| {
        if !present.has(path) {
            return;
        }
        for (position, element) in path.iter().enumerate() {
            if let PathElement::Key(fields) = element {
                for (name, _) in fields {
                    let field = PathElement::Field(name.clone());
                    let mut path = path[..=position].to_vec();
                    path.push(&field);
                    keys.insert(&path);
                }
            }
        }
    });
    keys
}

struct Walker {
    extract: bool,
}

impl Walker {
    fn value(&self, value: &Value, ty: TypeRef<'_>, items: &Set) -> Value {
        let whole = || if self.extract { value.clone() } else { Value::Null };
        match (ty.form(Some(value)), value) {
            (Form::Scalar(_), _) => value.clone(),
            (Form::List(list), Value::Array(all)) if all.is_empty() || list.is_atomic() => whole(),
            (Form::Map(map), Value::Object(all)) if all.is_empty() || map.is_atomic() => whole(),
            (Form::List(list), Value::Array(all)) => self.list(all, list, items),
            (Form::Map(map), Value::Object(all)) => self.map(all, map, items),
            _ => Value::Null,
        }
    }

    fn list(&self, all: &[Value], ty: ListType<'_>, items: &Set) -> Value {
        let item_type = ty.element();
        let mut kept = Vec::with_capacity(all.len());
        for item in all {
            let node = path_element(ty, item).ok().and_then(|element| items.get(&element));
            let member = node.is_some_and(|node| node.is_member());
            let below = node.map(|node| node.children()).filter(|below| !below.is_empty());
            match below {
                _ if member && !self.extract => {}
                Some(below) => kept.push(self.value(item, item_type, below)),
                None if member || !self.extract => kept.push(item.clone()),
                None => {}
            }
        }
        if kept.is_empty() { Value::Null } else { Value::Array(kept) }
    }

    fn map(&self, all: &Map<String, Value>, ty: MapType<'_>, items: &Set) -> Value {
        let mut kept = Map::new();
        for (name, value) in all {
            let node = items.get_field(name);
            let below = node.map(|node| node.children()).filter(|below| !below.is_empty());
            let value = match (node, below) {
                (Some(node), _) if node.is_member() => {
                    if !self.extract {
                        continue;
                    }
                    // kube-apiserver continues with the set of this level, not with that of the field.
                    self.value(value, ty.any_field(name), items)
                }
                (_, Some(below)) => self.value(value, ty.any_field(name), below),
                _ if self.extract => continue,
                _ => value.clone(),
            };
            kept.insert(name.clone(), value);
        }
        if kept.is_empty() { Value::Null } else { Value::Object(kept) }
    }
}
