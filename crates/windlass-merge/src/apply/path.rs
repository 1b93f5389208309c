//! Paths to fields: which field of a map, which item of a list, step by step.
//!
//! Elements are small owned values: names up to 22 bytes are kept in place. Their order and equality are those of the
//! real server, because sets of fields are kept, merged and written in that order.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

mod item;
mod name;
mod reading;
mod syntax;

pub use item::{ItemValue, compare as compare_values, equal as equal_values};
pub use name::Name;
pub use syntax::ElementError;
pub(crate) use syntax::write_string;

/// One step of a path.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a map or struct: `f:name`.
    Field(Name),
    /// The item of an associative list with these keys, sorted by name: `k:{"name":"x"}`.
    Key(Box<[(Name, ItemValue)]>),
    /// The item of a set: `v:"x"`.
    Value(ItemValue),
    /// The item at a position: `i:0`.
    Index(i64),
}

/// A path of any length; the empty one is the whole object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<PathElement>);

impl PathElement {
    /// A field by name.
    pub fn field(name: &str) -> Self {
        Self::Field(Name::new(name))
    }

    /// A list item by its keys, in any order.
    pub fn key<'k>(fields: impl IntoIterator<Item = (&'k str, ItemValue)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (Name::new(name), value)).collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields.into())
    }

    /// The name, if the element is a field.
    pub fn as_field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name.as_str()),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathElement {
    /// Fields by name, then keys, then items of sets, then positions.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => left.cmp(right),
            (Self::Value(left), Self::Value(right)) => left.cmp(right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl fmt::Display for PathElement {
    /// As errors show it: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (position, (name, value)) in fields.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path as errors show it: `.spec.containers[name="x"].image`.
pub fn display<E: Borrow<PathElement>>(path: &[E]) -> String {
    path.iter().map(|element| element.borrow().to_string()).collect()
}

impl Path {
    /// A path of fields by name.
    pub fn fields<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        names.into_iter().map(PathElement::field).collect()
    }
}

impl Deref for Path {
    type Target = [PathElement];

    fn deref(&self) -> &[PathElement] {
        &self.0
    }
}

impl From<Vec<PathElement>> for Path {
    fn from(elements: Vec<PathElement>) -> Self {
        Self(elements)
    }
}

impl FromIterator<PathElement> for Path {
    fn from_iter<I: IntoIterator<Item = PathElement>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

#[cfg(test)]
mod tests;
