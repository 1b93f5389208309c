//! The path to a value, formatted only if there is something to report.

use windlass_schema::field::Path;

/// The path from the start of a walk.
#[derive(Clone, Copy)]
pub(super) enum Trail<'a> {
    /// The start.
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
