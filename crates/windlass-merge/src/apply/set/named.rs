//! Adds the struct fields on the paths to members as members.

use super::{Node, Set};
use crate::apply::path::PathElement;
use crate::apply::schema::TypeRef;

impl Set {
    /// Adds every declared field that leads to a member: for `a.b.c` also `a` if it is a field of a struct, but not
    /// `a.b` if that is a key of a map.
    pub fn ensure_named_fields_are_members(&self, ty: TypeRef<'_>) -> Set {
        let nodes = self.nodes.iter().map(|node| {
            if node.children.is_empty() {
                return node.clone();
            }
            let (named, below) = match &node.element {
                PathElement::Field(name) => match ty.map() {
                    Some(map) => match map.field(name.as_str()) {
                        Some(field) => (true, field),
                        None => (false, map.element().unwrap_or(TypeRef::NOTHING)),
                    },
                    None => (false, TypeRef::NOTHING),
                },
                PathElement::Key(_) => (false, ty.list().map_or(TypeRef::NOTHING, |list| list.element())),
                _ => (false, TypeRef::NOTHING),
            };
            Node {
                element: node.element.clone(),
                member: node.member || named,
                children: node.children.ensure_named_fields_are_members(below),
            }
        });
        Set { nodes: nodes.collect() }
    }
}
