//! Updates field sets that were written when a type had a different topology.

use super::errors::ValidationErrors;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, TypeRef};
use crate::apply::set::{Node, Set};

/// Returns a manager's set after a type has become atomic: a manager that owned part of the value now owns all of it.
/// Returns `None` if nothing changes. A type that has become granular needs no change.
pub fn reconcile_field_set(set: &Set, ty: TypeRef<'_>) -> Result<Option<Set>, ValidationErrors> {
    let mut walker = Walker::default();
    walker.visit(Some(set), false, ty)?;
    if walker.atomic.is_empty() {
        return Ok(None);
    }
    let mut reconciled = set.recursive_difference(&walker.atomic);
    reconciled.extend(walker.atomic);
    Ok(Some(reconciled))
}

#[derive(Default)]
struct Walker<'s> {
    path: Vec<&'s PathElement>,
    /// Paths that have become atomic.
    atomic: Set,
}

impl<'s> Walker<'s> {
    /// `leaf`: whether the place is owned, but nothing below it.
    fn visit(&mut self, below: Option<&'s Set>, leaf: bool, ty: TypeRef<'_>) -> Result<(), ValidationErrors> {
        match ty.form(None) {
            Form::Nothing => return Err(ValidationErrors::one(super::INVALID_TYPE)),
            Form::Scalar(_) => {}
            Form::Map(map) if map.is_deduced() => {}
            Form::Map(map) if map.is_atomic() && !leaf => {
                if below.is_some_and(|below| !below.is_empty()) {
                    self.atomic.insert(&self.path);
                }
            }
            Form::List(list) if list.is_atomic() && !leaf => self.atomic.insert(&self.path),
            Form::Map(map) => {
                for node in below.into_iter().flat_map(Set::nodes) {
                    let field = match node.element() {
                        PathElement::Field(name) => map.any_field(name.as_str()),
                        _ => map.element().unwrap_or(TypeRef::NOTHING),
                    };
                    if !field.is_nothing() {
                        self.descend(node, field)?;
                    }
                }
            }
            Form::List(list) => {
                for node in below.into_iter().flat_map(Set::nodes) {
                    self.descend(node, list.element())?;
                }
            }
        }
        Ok(())
    }

    fn descend(&mut self, node: &'s Node, ty: TypeRef<'_>) -> Result<(), ValidationErrors> {
        let below = Some(node.children()).filter(|below| !below.is_empty());
        self.path.push(node.element());
        let visited = self.visit(below, node.is_member() && below.is_none(), ty);
        self.path.pop();
        visited
    }
}
