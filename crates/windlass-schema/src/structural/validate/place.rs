//! Where a check is, kept on the stack: only an error writes it out.

use std::fmt::Write;

/// A place below the value that is checked.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    segment: Segment<'a>,
}

/// The last step to a place.
#[derive(Clone, Copy)]
pub(super) enum Segment<'a> {
    Root,
    Property(&'a str),
    /// A field that `additionalProperties` describes, or one that is missing: named with a dot even at the root.
    Additional(&'a str),
    Index(usize),
}

impl Place<'_> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, segment: Segment::Root };

    pub(super) fn then<'a>(&'a self, segment: Segment<'a>) -> Place<'a> {
        Place { parent: Some(self), segment }
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// The place as messages name it.
    pub(super) fn name(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.segment {
            Segment::Root => {}
            Segment::Property(name) if out.is_empty() => out.push_str(name),
            Segment::Property(name) | Segment::Additional(name) => {
                out.push('.');
                out.push_str(name);
            }
            Segment::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
}
