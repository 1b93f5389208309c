//! Paths to fields: the fields of maps and items of lists that lead to a value.
//!
//! Elements are small owned values; names up to 22 bytes are stored inline. Their order and equality are those of
//! kube-apiserver, because field sets are kept, merged and written in that order.

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

/// One element of a path.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a map or struct: `f:name`.
    Field(Name),
    /// The item of an associative list with these keys, sorted by name: `k:{"name":"x"}`.
    Key(Box<[(Name, ItemValue)]>),
    /// The item of a set with this value: `v:"x"`.
    Value(ItemValue),
    /// The item at an index: `i:0`.
    Index(i64),
}

/// A path of any length; the empty path is the whole object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<PathElement>);

impl PathElement {
    /// Returns the element for a field name.
    pub fn field(name: &str) -> Self {
        Self::Field(Name::new(name))
    }

    /// Returns the element for a list item with these keys, in any order.
    pub fn key<'k>(fields: impl IntoIterator<Item = (&'k str, ItemValue)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (Name::new(name), value)).collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields.into())
    }

    /// Returns the name if the element is a field.
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
    /// Orders fields by name, then keys, then items of sets, then indexes.
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
    /// Formats the element for errors: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
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

/// Formats a path for errors: `.spec.containers[name="x"].image`.
pub fn display<E: Borrow<PathElement>>(path: &[E]) -> String {
    path.iter().map(|element| element.borrow().to_string()).collect()
}

impl Path {
    /// Returns a path of field names.
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
