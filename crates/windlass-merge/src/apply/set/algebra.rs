//! Union, intersection and differences of sets, in one pass over both.

use std::cmp::Ordering;

use super::{Node, Set};

impl Set {
    /// Returns the members of either set.
    pub fn union(&self, other: &Set) -> Set {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        for pair in zip(&self.nodes, &other.nodes) {
            nodes.push(match pair {
                (Some(left), Some(right)) => Node {
                    element: left.element.clone(),
                    member: left.member || right.member,
                    children: left.children.union(&right.children),
                },
                (Some(node), None) | (None, Some(node)) => node.clone(),
                (None, None) => continue,
            });
        }
        Set { nodes }
    }

    /// Adds the members of another set. Like [`Set::union`], but reuses the nodes of both.
    pub fn extend(&mut self, other: Set) {
        if other.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.nodes);
        let mut left = old.into_iter().peekable();
        self.nodes.reserve(left.len().max(other.nodes.len()));
        for mut node in other.nodes {
            while let Some(smaller) = left.next_if(|next| next.element < node.element) {
                self.nodes.push(smaller);
            }
            if let Some(same) = left.next_if(|next| next.element == node.element) {
                node.member |= same.member;
                node.children.extend(same.children);
            }
            self.nodes.push(node);
        }
        self.nodes.extend(left);
    }

    /// Returns the members of both sets.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut out = Set::new();
        for pair in zip(&self.nodes, &other.nodes) {
            if let (Some(left), Some(right)) = pair {
                let children = left.children.intersection(&right.children);
                out.push(|| left.element.clone(), left.member && right.member, children);
            }
        }
        out
    }

    /// Returns the members that the other set does not have. Members below a member of the other set remain.
    pub fn difference(&self, other: &Set) -> Set {
        self.subtract(other, false)
    }

    /// Returns the members that the other set does not have and that are not below one of its members.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.subtract(other, true)
    }

    /// Returns the members that have no member below them.
    pub fn leaves(&self) -> Set {
        let mut out = Set::new();
        for node in &self.nodes {
            out.push(|| node.element.clone(), node.member && node.children.is_empty(), node.children.leaves());
        }
        out
    }

    /// Returns whether the sets have a member in common.
    pub fn intersects(&self, other: &Set) -> bool {
        zip(&self.nodes, &other.nodes).any(|pair| match pair {
            (Some(left), Some(right)) => left.member && right.member || left.children.intersects(&right.children),
            _ => false,
        })
    }

    fn subtract(&self, other: &Set, recursive: bool) -> Set {
        let mut out = Set::new();
        for pair in zip(&self.nodes, &other.nodes) {
            match pair {
                (Some(_), Some(right)) if recursive && right.member => {}
                (Some(left), Some(right)) => {
                    let children = left.children.subtract(&right.children, recursive);
                    out.push(|| left.element.clone(), left.member && !right.member, children);
                }
                (Some(left), None) => out.nodes.push(left.clone()),
                (None, _) => {}
            }
        }
        out
    }
}

/// Iterates over the nodes of two levels in parallel, pairing those of the same element.
fn zip<'s>(left: &'s [Node], right: &'s [Node]) -> impl Iterator<Item = (Option<&'s Node>, Option<&'s Node>)> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => left.element.cmp(&right.element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        Some(match order {
            Ordering::Less => (left.next(), None),
            Ordering::Greater => (None, right.next()),
            Ordering::Equal => (left.next(), right.next()),
        })
    })
}
