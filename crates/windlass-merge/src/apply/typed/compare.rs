//! Comparison of two values.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::errors::ValidationErrors;
use super::item::{Group, Index, aligned, path_element};
use super::validate::scalar_problem;
use crate::apply::path::{PathElement, equal_values};
use crate::apply::schema::{Form, ListType, MapType, TypeRef};
use crate::apply::set::Set;

/// Differences between two values. No path is in two of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Paths that only the old value has.
    pub removed: Set,
    /// Paths that both values have, with different content.
    pub modified: Set,
    /// Paths that only the new value has.
    pub added: Set,
}

impl Comparison {
    /// Returns whether there are no differences.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Excludes these paths and the fields below them.
    pub fn exclude(self, paths: &Set) -> Self {
        if paths.is_empty() {
            return self;
        }
        self.map(|set| if set.is_empty() { set } else { set.recursive_difference(paths) })
    }

    fn map(self, narrow: impl Fn(Set) -> Set) -> Self {
        Self { removed: narrow(self.removed), modified: narrow(self.modified), added: narrow(self.added) }
    }
}

/// Returns the differences between two values of a type. Equal parts cost little.
pub fn compare(old: &Value, new: &Value, ty: TypeRef<'_>) -> Result<Comparison, ValidationErrors> {
    let mut walker = Walker::default();
    let difference = walker.both(old, new, ty);
    walker.errors.into_result().map(|()| difference.below)
}

/// Differences at a place and below it. A value that exists on one side only is added or removed as a whole, so a place
/// is itself in at most one set.
#[derive(Default)]
struct Difference {
    modified: bool,
    below: Comparison,
}

#[derive(Default)]
struct Walker {
    errors: ValidationErrors,
}

impl Walker {
    fn both(&mut self, old: &Value, new: &Value, ty: TypeRef<'_>) -> Difference {
        let (old_form, new_form) = (ty.form(Some(old)), ty.form(Some(new)));
        if std::mem::discriminant(&old_form) == std::mem::discriminant(&new_form) {
            return self.both_as(old, new, new_form);
        }
        // For a type that allows both forms: the fields removed with the old form, and those added with the new one.
        let leaving = self.both_as(old, new, old_form);
        let mut coming = self.both_as(old, new, new_form);
        coming.modified |= leaving.modified;
        coming.below.removed.extend(leaving.below.removed);
        coming.below.modified.extend(leaving.below.modified);
        coming.below.added.extend(leaving.below.added);
        coming
    }

    fn both_as(&mut self, old: &Value, new: &Value, form: Form<'_>) -> Difference {
        match form {
            Form::Nothing => self.errors.append(ValidationErrors::one(super::INVALID_TYPE)),
            Form::Scalar(scalar) => {
                let problems = (scalar_problem(scalar, Some(old), "lhs: "), scalar_problem(scalar, Some(new), "rhs: "));
                if let (Some(left), Some(right)) = problems {
                    self.errors.append(ValidationErrors::one(left));
                    self.errors.append(ValidationErrors::one(right));
                    return Difference::default();
                }
            }
            Form::List(list) => {
                let (old, new) = (items(old), items(new));
                let leaf = list.is_atomic() || (old.is_empty() && new.is_empty());
                if !leaf {
                    return Difference { modified: false, below: self.lists(old, new, list) };
                }
            }
            Form::Map(map) => {
                let (old, new) = (fields(old), fields(new));
                let leaf = map.is_atomic() || (old.is_none() && new.is_none());
                if !leaf {
                    return Difference { modified: false, below: self.maps(old, new, map) };
                }
            }
        }
        Difference { modified: !equal_values(old, new), below: Comparison::default() }
    }

    fn maps(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        ty: MapType<'_>,
    ) -> Comparison {
        let mut out = Comparison::default();
        let mut old = old.into_iter().flatten().peekable();
        let mut new = new.into_iter().flatten().peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(left), Some(right)) => left.0.cmp(right.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return out,
            };
            let left = if order.is_le() { old.next() } else { None };
            let right = if order.is_ge() { new.next() } else { None };
            match (left, right) {
                (Some((_, left)), Some((_, right))) if left == right => {}
                (Some((name, left)), Some((_, right))) => {
                    let difference = self.both(left, right, ty.any_field(name));
                    push(&mut out, || PathElement::field(name), difference);
                }
                (Some((name, left)), None) => {
                    let below = self.one(left, ty.any_field(name));
                    out.removed.push(|| PathElement::field(name), true, below);
                }
                (None, Some((name, right))) => {
                    let below = self.one(right, ty.any_field(name));
                    out.added.push(|| PathElement::field(name), true, below);
                }
                (None, None) => {}
            }
        }
    }

    fn lists(&mut self, old: &[Value], new: &[Value], ty: ListType<'_>) -> Comparison {
        let mut out = Comparison::default();
        let item_type = ty.element();
        if aligned(ty, old, new) {
            return self.aligned_lists(old, new, ty);
        }
        let left = self.index(old, ty);
        let right = self.index(new, ty);
        let (mut left, mut right) = (left.into_groups().peekable(), right.into_groups().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.element.cmp(&right.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return out,
            };
            let before = if order.is_le() { left.next() } else { None };
            let after = if order.is_ge() { right.next() } else { None };
            match (before, after) {
                (Some(before), Some(after)) => self.same_element(&mut out, (old, before), (new, after), item_type),
                (Some(Group { element, only, .. }), None) => {
                    let below = only.map_or_else(Set::new, |position| self.one(&old[position], item_type));
                    out.removed.push(|| element, true, below);
                }
                (None, Some(Group { element, only, .. })) => {
                    let below = only.map_or_else(Set::new, |position| self.one(&new[position], item_type));
                    out.added.push(|| element, true, below);
                }
                (None, None) => {}
            }
        }
    }

    fn aligned_lists(&mut self, old: &[Value], new: &[Value], ty: ListType<'_>) -> Comparison {
        let mut out = Comparison::default();
        let item_type = ty.element();
        let mut differing: Vec<_> = old
            .iter()
            .zip(new)
            .filter(|(left, right)| left != right)
            .filter_map(|(left, right)| Some((path_element(ty, left).ok()?, left, right)))
            .collect();
        differing.sort_by(|left, right| left.0.cmp(&right.0));
        for (element, left, right) in differing {
            let difference = self.both(left, right, item_type);
            push(&mut out, || element.clone(), difference);
        }
        out
    }

    /// Compares items with the same element. Duplicates are compared as one value, which always differs from a single
    /// item.
    fn same_element(
        &mut self,
        out: &mut Comparison,
        (old, before): (&[Value], Group),
        (new, after): (&[Value], Group),
        ty: TypeRef<'_>,
    ) {
        let element = before.element;
        match (before.only, after.only) {
            (Some(left), Some(right)) => {
                if old[left] != new[right] {
                    let difference = self.both(&old[left], &new[right], ty);
                    push(out, || element.clone(), difference);
                }
            }
            (None, None) => {
                let same = before.positions.len() == after.positions.len()
                    && before
                        .positions
                        .iter()
                        .zip(&after.positions)
                        .all(|(left, right)| equal_values(&old[*left], &new[*right]));
                out.modified.push(|| element, !same, Set::new());
            }
            (None, Some(right)) => {
                let below = self.one(&new[right], ty);
                out.added.push(|| element.clone(), true, below);
                out.removed.push(|| element, true, Set::new());
            }
            (Some(left), None) => {
                let below = self.one(&old[left], ty);
                out.removed.push(|| element.clone(), true, below);
                out.added.push(|| element, true, Set::new());
            }
        }
    }

    /// Returns the fields below a value that only one side has.
    fn one(&mut self, value: &Value, ty: TypeRef<'_>) -> Set {
        let mut out = Set::new();
        match (ty.form(Some(value)), value) {
            (Form::Nothing, _) => self.errors.append(ValidationErrors::one(super::INVALID_TYPE)),
            (Form::List(list), Value::Array(items)) if !list.is_atomic() => {
                let item_type = list.element();
                for Group { element, only, .. } in self.index(items, list).into_groups() {
                    let below = only.map_or_else(Set::new, |position| self.one(&items[position], item_type));
                    out.push(|| element, true, below);
                }
            }
            (Form::Map(map), Value::Object(fields)) if !map.is_atomic() => {
                out = Set::with_capacity(fields.len());
                for (name, value) in fields {
                    let below = self.one(value, map.any_field(name));
                    out.push(|| PathElement::field(name), true, below);
                }
            }
            _ => {}
        }
        out
    }

    fn index(&mut self, items: &[Value], ty: ListType<'_>) -> Index {
        Index::new(ty, items, |position, message| {
            self.errors.append(ValidationErrors::one(format!("element {position}: {message}")));
        })
    }
}

fn push(out: &mut Comparison, element: impl Fn() -> PathElement, difference: Difference) {
    let Difference { modified, below } = difference;
    out.removed.push(&element, false, below.removed);
    out.modified.push(&element, modified, below.modified);
    out.added.push(&element, false, below.added);
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the fields of a map that is not empty.
fn fields(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|fields| !fields.is_empty())
}
