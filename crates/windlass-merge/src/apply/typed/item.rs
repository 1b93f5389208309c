//! Path elements of list items.

use serde_json::{Map, Value};
use windlass_schema::field::quote;

use crate::apply::path::{ItemValue, Name, PathElement, equal_values};
use crate::apply::schema::{Keys, ListTopology, ListType};

/// Returns the path element of an associative list's item, or an error if the item has none.
pub(super) fn path_element(list: ListType<'_>, item: &Value) -> Result<PathElement, String> {
    match (list.topology(), item) {
        (ListTopology::Atomic, _) => Err("invalid indexing of non-associative list".to_owned()),
        (ListTopology::Map(keys), Value::Object(map)) => keyed(list, keys, map),
        (ListTopology::Map(_), Value::Null) => Err("associative list with keys may not have a null element".to_owned()),
        (ListTopology::Map(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
        (ListTopology::Set, Value::Object(_)) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        (ListTopology::Set, Value::Array(_)) => {
            Err("not supported: associative list with lists as elements".to_owned())
        }
        (ListTopology::Set, Value::Null) => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        (ListTopology::Set, scalar) => Ok(PathElement::Value(ItemValue::new(scalar))),
    }
}

fn keyed(list: ListType<'_>, keys: Keys<'_>, item: &Map<String, Value>) -> Result<PathElement, String> {
    let mut fields = Vec::with_capacity(keys.len());
    for name in keys.iter() {
        let value = match item.get(name) {
            Some(value) => Some(value),
            None if list.element().map().is_none() => {
                let reason = "associative list may not have non-map types";
                return Err(format!("couldn't find default value for {name}: {reason}"));
            }
            // An item that lacks a key without a default differs from all items that have the key.
            None => list.key_default(name),
        };
        if let Some(value) = value {
            fields.push((Name::new(name), ItemValue::new(value)));
        }
    }
    if fields.is_empty() {
        let names = keys.iter().map(quote).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default \
             values for any key fields)"
        ));
    }
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(PathElement::Key(fields.into()))
}

/// Maximum length of the lists that [`aligned`] examines.
const ALIGNED: usize = 8;

/// Returns whether two short lists have the same elements in the same order, without duplicates and with all keys: the common
/// case, which needs no index. `false` means unknown.
pub(super) fn aligned(list: ListType<'_>, left: &[Value], right: &[Value]) -> bool {
    if left.len() != right.len() || left.len() > ALIGNED {
        return false;
    }
    let same: &dyn Fn(&Value, &Value) -> Option<bool> = match list.topology() {
        ListTopology::Atomic => return false,
        ListTopology::Set => &same_scalar,
        ListTopology::Map(keys) => &move |left, right| {
            let (left, right) = (left.as_object()?, right.as_object()?);
            keys.iter().try_fold(true, |same, name| Some(same_scalar(left.get(name)?, right.get(name)?)? && same))
        },
    };
    let unique =
        |(position, item): (usize, &Value)| left[..position].iter().all(|other| same(other, item) == Some(false));
    left.iter().zip(right).all(|(left, right)| same(left, right) == Some(true)) && left.iter().enumerate().all(unique)
}

/// Returns whether two scalars are equal; `None` if one of the values is not a scalar.
fn same_scalar(left: &Value, right: &Value) -> Option<bool> {
    let scalar = |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    (scalar(left) && scalar(right)).then(|| equal_values(left, right))
}

/// Items of a list, sorted by element.
pub(super) struct Index {
    entries: Vec<(PathElement, usize)>,
}

/// Items of a list that have the same element.
pub(super) struct Group {
    pub(super) element: PathElement,
    /// Position of the item, if there is only one.
    pub(super) only: Option<usize>,
    /// Positions of the items, if there are several.
    pub(super) positions: Vec<usize>,
}

impl Index {
    /// Indexes a list. Items without an element are skipped and reported to `invalid`.
    pub(super) fn new(list: ListType<'_>, items: &[Value], mut invalid: impl FnMut(usize, String)) -> Self {
        let mut entries: Vec<(PathElement, usize)> = Vec::with_capacity(items.len());
        let mut sorted = true;
        for (position, item) in items.iter().enumerate() {
            match path_element(list, item) {
                Ok(element) => {
                    sorted = sorted && entries.last().is_none_or(|last| last.0 <= element);
                    entries.push((element, position));
                }
                Err(message) => invalid(position, message),
            }
        }
        if !sorted {
            entries.sort();
        }
        Self { entries }
    }

    /// Returns the elements in order, each with its items.
    pub(super) fn into_groups(self) -> impl Iterator<Item = Group> {
        let mut entries = self.entries.into_iter().peekable();
        std::iter::from_fn(move || {
            let (element, first) = entries.next()?;
            let mut positions = Vec::new();
            while let Some((_, position)) = entries.next_if(|next| next.0 == element) {
                if positions.is_empty() {
                    positions.push(first);
                }
                positions.push(position);
            }
            Some(Group { only: positions.is_empty().then_some(first), element, positions })
        })
    }
}
