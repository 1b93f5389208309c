//! The way to a value, which becomes a path only if there is something to say about it.

use windlass_schema::field::Path;

/// The way from where a walk began.
#[derive(Clone, Copy)]
pub(super) enum Trail<'a> {
    /// Where it began.
    Start(&'a Path),
    /// A field of an object.
    Field(&'a Trail<'a>, &'a str),
    /// An entry of a map.
    Key(&'a Trail<'a>, &'a str),
    /// An element of a list.
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    pub(super) fn path(&self) -> Path {
        match self {
            Self::Start(path) => (*path).clone(),
            Self::Field(above, name) => above.path().child(name),
            Self::Key(above, key) => above.path().key(key),
            Self::Index(above, index) => above.path().index(*index),
        }
    }
}
