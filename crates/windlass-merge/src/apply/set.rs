//! Sets of fields, such as the fields that a manager owns or that differ in a comparison.
//!
//! A set is a tree of sorted vectors. A node may be a member, a parent of members, or both; there are no empty nodes,
//! so two sets are equal exactly if they have the same members. The empty path, the whole object, is never a member.

use std::borrow::Borrow;
use std::fmt;

use super::path::{Path, PathElement, display};

mod algebra;
mod fields;
mod named;

pub use fields::FieldsError;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

/// An element at one level of a [`Set`], with the members below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    element: PathElement,
    member: bool,
    children: Set,
}

impl Set {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    pub(crate) fn with_capacity(nodes: usize) -> Self {
        Self { nodes: Vec::with_capacity(nodes) }
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds a path, but not its parents. The empty path adds nothing.
    pub fn insert<E: Borrow<PathElement>>(&mut self, path: &[E]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node_mut(first.borrow());
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Returns whether a path is a member.
    pub fn has<E: Borrow<PathElement>>(&self, path: &[E]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        match self.get(first.borrow()) {
            Some(node) if rest.is_empty() => node.member,
            Some(node) => node.children.has(rest),
            None => false,
        }
    }

    /// Returns the node of an element at this level.
    pub fn get(&self, element: &PathElement) -> Option<&Node> {
        let position = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[position])
    }

    /// Returns the node of a field at this level, without copying its name.
    pub fn get_field(&self, name: &str) -> Option<&Node> {
        let compare = |node: &Node| match &node.element {
            PathElement::Field(field) => field.as_bytes().cmp(name.as_bytes()),
            _ => std::cmp::Ordering::Greater,
        };
        let position = self.nodes.binary_search_by(compare).ok()?;
        Some(&self.nodes[position])
    }

    /// Returns the members below an element, without the element itself.
    pub fn with_prefix(&self, element: &PathElement) -> Option<&Set> {
        self.get(element).map(|node| &node.children).filter(|children| !children.is_empty())
    }

    /// Returns the sorted nodes of this level.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Calls `visit` with each member: those of a level first, then those below each of its nodes.
    pub fn for_each<'s>(&'s self, mut visit: impl FnMut(&[&'s PathElement])) {
        self.visit(&mut Vec::new(), &mut visit);
    }

    /// Returns the members in the order of [`Set::for_each`].
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.for_each(|path| paths.push(path.iter().map(|element| (*element).clone()).collect()));
        paths
    }

    fn visit<'s>(&'s self, prefix: &mut Vec<&'s PathElement>, visit: &mut impl FnMut(&[&'s PathElement])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(&node.element);
            visit(prefix);
            prefix.pop();
        }
        for node in &self.nodes {
            prefix.push(&node.element);
            node.children.visit(prefix, visit);
            prefix.pop();
        }
    }

    fn node_mut(&mut self, element: &PathElement) -> &mut Node {
        let position = match self.nodes.binary_search_by(|node| node.element.cmp(element)) {
            Ok(position) => position,
            Err(position) => {
                self.nodes.insert(position, Node { element: element.clone(), member: false, children: Set::new() });
                position
            }
        };
        &mut self.nodes[position]
    }

    /// Appends a node that is greater than all others at this level. A node without members is left out.
    pub(crate) fn push(&mut self, element: impl FnOnce() -> PathElement, member: bool, children: Set) {
        if member || !children.is_empty() {
            let node = Node { element: element(), member, children };
            debug_assert!(self.nodes.last().is_none_or(|last| last.element < node.element), "nodes must be sorted");
            self.nodes.push(node);
        }
    }
}

impl Node {
    /// Returns the element.
    pub fn element(&self) -> &PathElement {
        &self.element
    }

    /// Returns whether the path to this node is a member.
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// Returns the members below this node.
    pub fn children(&self) -> &Set {
        &self.children
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }
}

impl fmt::Display for Set {
    /// Writes one path per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.for_each(|path| lines.push(display(path)));
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests;
