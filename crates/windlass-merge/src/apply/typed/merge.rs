//! Merging one value into another.

use serde_json::{Map, Value};

use super::errors::ValidationErrors;
use super::item::{aligned, path_element};
use super::validate::scalar_problem;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListType, MapType, TypeRef};

/// Returns the old value with all fields of the new one merged in. Nothing is removed. Merged lists keep the order of
/// the new value; items that only the old value has keep their place between their neighbors where possible.
pub fn merge(old: &Value, new: &Value, ty: TypeRef<'_>) -> Result<Value, ValidationErrors> {
    let mut merged = old.clone();
    merge_into(&mut merged, new, ty)?;
    Ok(merged)
}

/// Like [`merge`], in place. After an error the value is partly merged.
pub fn merge_into(old: &mut Value, new: &Value, ty: TypeRef<'_>) -> Result<(), ValidationErrors> {
    let mut errors = ValidationErrors::default();
    both(old, new, ty, &mut errors);
    errors.into_result()
}

fn both(old: &mut Value, new: &Value, ty: TypeRef<'_>, errors: &mut ValidationErrors) {
    match ty.form(Some(new)) {
        Form::Nothing => return errors.append(ValidationErrors::one(super::INVALID_TYPE)),
        Form::Scalar(scalar) => {
            let problems = (scalar_problem(scalar, Some(old), "lhs: "), scalar_problem(scalar, Some(new), "rhs: "));
            if let (Some(left), Some(right)) = problems {
                errors.append(ValidationErrors::one(left));
                return errors.append(ValidationErrors::one(right));
            }
        }
        Form::List(list) if !list.is_atomic() => match (&mut *old, new) {
            (Value::Array(old), Value::Array(new)) if !old.is_empty() => return lists(old, new, list, errors),
            // Null removes nothing.
            (Value::Array(old), _) if !old.is_empty() => return,
            _ => {}
        },
        Form::Map(map) if !map.is_atomic() => match (&mut *old, new) {
            (Value::Object(old), Value::Object(new)) if !old.is_empty() => return maps(old, new, map, errors),
            (Value::Object(old), _) if !old.is_empty() => return,
            _ => {}
        },
        Form::List(_) | Form::Map(_) => {}
    }
    old.clone_from(new);
}

fn maps(old: &mut Map<String, Value>, new: &Map<String, Value>, ty: MapType<'_>, errors: &mut ValidationErrors) {
    for (name, after) in new {
        match old.get_mut(name) {
            Some(before) => {
                let mut below = ValidationErrors::default();
                both(before, after, ty.any_field(name), &mut below);
                errors.append_below(|| PathElement::field(name), below);
            }
            None => {
                old.insert(name.clone(), after.clone());
            }
        }
    }
}

/// Positions of the items of an element in a list.
#[derive(Clone, Copy)]
enum Place {
    Nowhere,
    At(usize),
    /// In several places. Such items do not merge with a new one.
    Several,
}

/// Items of two lists, with numbers in place of elements: equal elements have equal numbers.
struct Items {
    old: Vec<usize>,
    new: Vec<usize>,
    /// Indexed by number.
    in_old: Vec<Place>,
    in_new: Vec<Option<usize>>,
}

fn lists(old: &mut Vec<Value>, new: &[Value], ty: ListType<'_>, errors: &mut ValidationErrors) {
    let item_type = ty.element();
    // Like kube-apiserver, ignore errors inside items.
    let ignored = &mut ValidationErrors::default();
    if aligned(ty, old, new) {
        old.iter_mut().zip(new).for_each(|(before, after)| both(before, after, item_type, ignored));
        return;
    }
    let Some(items) = number(old, new, ty, errors) else { return };
    let mut merge_item = |old: &mut [Value], number: usize, new: &Value| match items.in_old[number] {
        Place::Nowhere => new.clone(),
        Place::At(position) => {
            let mut merged = std::mem::take(&mut old[position]);
            both(&mut merged, new, item_type, ignored);
            merged
        }
        Place::Several => {
            let mut merged = Value::Null;
            both(&mut merged, new, item_type, ignored);
            merged
        }
    };
    let new_item = |number: usize| items.in_new[number].map(|position| &new[position]);

    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let mut done = vec![false; items.in_old.len()];
    let mut shared = items.new.iter().copied().filter(|number| !matches!(items.in_old[*number], Place::Nowhere));
    let mut next_shared = shared.next();
    let (mut left, mut right) = (0, 0);
    while left < items.old.len() || right < items.new.len() {
        if let (Some(&before), Some(&after)) = (items.old.get(left), items.new.get(right)) {
            if before == after {
                done[before] = true;
                merged.extend(new_item(after).map(|item| merge_item(old, after, item)));
                (left, right) = (left + 1, right + 1);
                next_shared = shared.next();
                continue;
            }
            if items.in_new[before].is_some() && next_shared.is_some_and(|next| next != before) {
                // This item is emitted later.
                left += 1;
                continue;
            }
        }
        if let Some(&before) = items.old.get(left) {
            if items.in_new[before].is_none() {
                merged.push(std::mem::take(&mut old[left]));
                left += 1;
                continue;
            }
            if done[before] {
                left += 1;
            }
        }
        if let Some(&after) = items.new.get(right) {
            done[after] = true;
            merged.extend(new_item(after).map(|item| merge_item(old, after, item)));
            right += 1;
            if next_shared == Some(after) {
                next_shared = shared.next();
            }
        }
    }
    *old = merged;
}
/// Numbers the items of both lists. Returns `None` and adds an error if items are invalid or the new list has
/// duplicates.
fn number(old: &[Value], new: &[Value], ty: ListType<'_>, errors: &mut ValidationErrors) -> Option<Items> {
    let mut elements: Vec<(PathElement, bool, usize)> = Vec::with_capacity(old.len() + new.len());
    let mut problems = ValidationErrors::default();
    for (is_new, items) in [(true, new), (false, old)] {
        for (position, item) in items.iter().enumerate() {
            match path_element(ty, item) {
                Ok(element) => elements.push((element, is_new, position)),
                Err(message) => {
                    problems.append(ValidationErrors::one(format!("element {position}: {message}")));
                }
            }
        }
    }
    elements.sort();
    let (mut old_numbers, mut new_numbers) = (vec![0; old.len()], vec![0; new.len()]);
    let (mut in_old, mut in_new) = (Vec::with_capacity(elements.len()), Vec::with_capacity(elements.len()));
    for group in elements.chunk_by(|left, right| left.0 == right.0) {
        let number = in_old.len();
        let (mut before, mut after) = (Place::Nowhere, None);
        for (element, is_new, position) in group {
            if *is_new {
                if after.replace(*position).is_some() {
                    problems.append(ValidationErrors::one(format!("duplicate entries for key {element}")));
                }
                new_numbers[*position] = number;
            } else {
                before = if matches!(before, Place::Nowhere) { Place::At(*position) } else { Place::Several };
                old_numbers[*position] = number;
            }
        }
        in_old.push(before);
        in_new.push(after);
    }
    if problems.is_empty() {
        return Some(Items { old: old_numbers, new: new_numbers, in_old, in_new });
    }
    errors.append(problems);
    None
}
