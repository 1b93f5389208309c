//! Filters that restrict a set to the fields that a request may change, or exclude those it may not.

use super::Set;
use crate::apply::path::PathElement;

/// Selects the fields that a request changed and that the strategy does not reset.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Everything except these paths and the fields below them.
    Exclude(Set),
    /// Only the matching fields.
    Include(Matcher),
}

/// Prefixes of paths, with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// Matches everything.
    Any,
    /// Elements that match one of these patterns. The fields below an element are matched by the matcher of the first
    /// pattern that matches.
    Members(Vec<(Pattern, Matcher)>),
}

/// A pattern for one element. Wildcards come before elements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Matches every element.
    Any,
    /// Matches this element.
    Element(PathElement),
}

impl Filter {
    /// Returns a filter for the paths that begin with one of these.
    pub fn include(matchers: impl IntoIterator<Item = Matcher>) -> Self {
        Self::Include(matchers.into_iter().reduce(Matcher::merge).unwrap_or(Matcher::Any))
    }

    /// Applies the filter to a set.
    pub fn apply(&self, set: &Set) -> Set {
        match self {
            Self::Exclude(excluded) => set.recursive_difference(excluded),
            Self::Include(matcher) => set.matching(matcher),
        }
    }
}

impl Matcher {
    /// Matches all paths that begin with these patterns.
    pub fn prefix(patterns: impl IntoIterator<Item = Pattern, IntoIter: DoubleEndedIterator>) -> Self {
        patterns.into_iter().rfold(Self::Any, |below, pattern| Self::Members(vec![(pattern, below)]))
    }

    /// Matches what either matches; of two wildcards at the same place, only the first is used.
    pub fn merge(self, other: Self) -> Self {
        let (Self::Members(mut members), Self::Members(others)) = (self, other) else { return Self::Any };
        for (pattern, below) in others {
            // kube-apiserver does not find a wildcard among its existing members, so the first one takes precedence.
            match members.iter_mut().find(|(known, _)| *known == pattern && pattern != Pattern::Any) {
                Some((_, known)) => *known = std::mem::replace(known, Self::Any).merge(below),
                None => members.push((pattern, below)),
            }
        }
        members.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Members(members)
    }
}

impl Pattern {
    /// Returns a pattern for a field name.
    pub fn field(name: &str) -> Self {
        Self::Element(PathElement::field(name))
    }

    fn matches(&self, element: &PathElement) -> bool {
        match self {
            Self::Any => true,
            Self::Element(expected) => expected == element,
        }
    }
}

impl Set {
    /// Returns the matching members.
    pub fn matching(&self, matcher: &Matcher) -> Set {
        let Matcher::Members(members) = matcher else { return self.clone() };
        let mut out = Set::new();
        for node in &self.nodes {
            if let Some((_, below)) = members.iter().find(|(pattern, _)| pattern.matches(&node.element)) {
                out.push(|| node.element.clone(), node.member, node.children.matching(below));
            }
        }
        out
    }
}
