//! The current path of a validation, kept on the stack and formatted only for errors.

use std::fmt::Write;

/// A path below the validated value.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    segment: Segment<'a>,
}

/// The last element of a path.
#[derive(Clone, Copy)]
pub(super) enum Segment<'a> {
    Root,
    Property(&'a str),
    /// A field described by `additionalProperties`, or a missing one: written with a dot even at the root.
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

    /// Formats the path for messages.
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
