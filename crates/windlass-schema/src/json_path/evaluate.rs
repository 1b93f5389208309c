//! Evaluation of a path on a value.

use serde_json::Value;

use super::{Node, Slice, compare::compare};

/// Maximum number of values visited in one evaluation: a few milliseconds of work. Only a list of a hundred thousand
/// elements, or several `..` or unions in a row, can reach it.
const MAX_WORK: usize = 500_000;

/// Reason why a path could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluateError(pub String);

/// A result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item<'a> {
    /// A part of the object.
    Json(&'a Value),
    /// A string literal in the path.
    Text(&'a str),
    /// An integer literal in the path.
    Int(i64),
    /// A float literal in the path.
    Float(f64),
    /// `true` or `false` in the path.
    Bool(bool),
    /// A byte of a string, which is what a wildcard finds in it.
    Byte(u8),
}

/// Results of a step. With an error, the results before it, which `[?(...)]` uses.
type Found<'a> = (Vec<Item<'a>>, Option<EvaluateError>);

/// Evaluates a path. The work is subtracted from `left`.
pub(super) fn find<'a>(
    roots: &'a [Node],
    value: &'a Value,
    left: &mut usize,
) -> Result<Vec<Vec<Item<'a>>>, EvaluateError> {
    let may = MAX_WORK.min(*left);
    let mut walk = Walk { work: may };
    let found = find_all(&mut walk, roots, value);
    *left -= may - walk.work;
    found
}

fn find_all<'a>(walk: &mut Walk, roots: &'a [Node], value: &'a Value) -> Result<Vec<Vec<Item<'a>>>, EvaluateError> {
    let mut all = Vec::with_capacity(roots.len());
    for root in roots {
        match walk.step(vec![Item::Json(value)], root) {
            (found, None) => all.push(found),
            (_, Some(error)) => return Err(error),
        }
        walk.check()?;
    }
    Ok(all)
}

fn error(message: impl Into<String>) -> Option<EvaluateError> {
    Some(EvaluateError(message.into()))
}

struct Walk {
    work: usize,
}

impl Walk {
    /// Subtracts from the remaining work; returns false when it is used up.
    fn spend(&mut self, amount: usize) -> bool {
        self.work = self.work.saturating_sub(amount);
        self.work > 0
    }

    fn check(&self) -> Result<(), EvaluateError> {
        if self.work > 0 { Ok(()) } else { Err(EvaluateError("the path finds too many values".to_owned())) }
    }

    fn list<'a>(&mut self, input: Vec<Item<'a>>, steps: &'a [Node]) -> Found<'a> {
        let mut current = input;
        for step in steps {
            let (found, error) = self.step(current, step);
            if error.is_some() {
                return (found, error);
            }
            if let Err(error) = self.check() {
                return (found, Some(error));
            }
            current = found;
        }
        (current, None)
    }

    fn step<'a>(&mut self, input: Vec<Item<'a>>, node: &'a Node) -> Found<'a> {
        if !self.spend(input.len() + 1) {
            return (input, self.check().err());
        }
        let literal = |item: Item<'a>| (vec![item; input.len()], None);
        match node {
            Node::List(steps) => self.list(input, steps),
            Node::Text(text) => (vec![Item::Text(text)], None),
            Node::Int(int) => literal(Item::Int(*int)),
            Node::Float(float) => literal(Item::Float(*float)),
            Node::Bool(value) => literal(Item::Bool(*value)),
            Node::Identifier(name) => match name.as_str() {
                "range" => (input, error("loops are not supported")),
                "end" => (Vec::new(), error("not in range, nothing to end")),
                _ => (input, error(format!("unrecognized identifier {name}"))),
            },
            Node::Field(name) => {
                let field = |item: Item<'a>| match item {
                    Item::Json(value) => value.as_object()?.get(name).map(Item::Json),
                    _ => None,
                };
                (input.into_iter().filter_map(field).collect(), None)
            }
            Node::Wildcard => {
                let mut found = Vec::new();
                for item in input {
                    let before = found.len();
                    children(item, &mut found);
                    if !self.spend(found.len() - before) {
                        break;
                    }
                }
                (found, None)
            }
            Node::Recursive => (self.descend(input), None),
            Node::Slice(slice) => self.slice(input, slice),
            Node::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    let (found, error) = self.list(input.clone(), part);
                    if error.is_some() {
                        return (input, error);
                    }
                    all.extend(found);
                }
                (all, None)
            }
            Node::Filter { left, operator, right } => self.filter(input, left, operator, right),
        }
    }

    /// Returns the values and all of their descendants, except for those without children.
    fn descend<'a>(&mut self, input: Vec<Item<'a>>) -> Vec<Item<'a>> {
        let mut found = Vec::new();
        let mut waiting = input;
        waiting.reverse();
        while let Some(item) = waiting.pop() {
            let before = waiting.len();
            children(item, &mut waiting);
            if waiting.len() > before {
                waiting[before..].reverse();
                found.push(item);
            }
            if !self.spend(waiting.len() - before + 1) {
                break;
            }
        }
        found
    }

    fn slice<'a>(&mut self, input: Vec<Item<'a>>, slice: &Slice) -> Found<'a> {
        let mut found = Vec::new();
        for item in &input {
            let list = match item {
                Item::Json(Value::Null) => continue,
                Item::Json(Value::Array(list)) => list,
                _ => return (input, error("value is not array or slice")),
            };
            match range(slice, list.len()) {
                // A range that selects nothing ends the evaluation with the results so far.
                Ok(None) => return (found, None),
                Ok(Some((range, step))) => {
                    let before = found.len();
                    found.extend(list[range].iter().step_by(step).map(Item::Json));
                    if !self.spend(found.len() - before) {
                        return (found, None);
                    }
                }
                Err(message) => return (input, error(message)),
            }
        }
        (found, None)
    }

    fn filter<'a>(&mut self, input: Vec<Item<'a>>, left: &'a [Node], operator: &str, right: &'a [Node]) -> Found<'a> {
        const ONE: &str = "can only compare one element at a time";
        let mut found = Vec::new();
        for item in &input {
            let Item::Json(Value::Array(list)) = item else {
                return (input, error("value is not array or slice and cannot be filtered"));
            };
            for element in list.iter().map(Item::Json) {
                if !self.spend(1) {
                    return (found, None);
                }
                let (lefts, failed) = self.list(vec![element], left);
                if operator.is_empty() {
                    if !lefts.is_empty() {
                        found.push(element);
                    }
                    continue;
                }
                if failed.is_some() {
                    return (input, failed);
                }
                let left = match lefts.as_slice() {
                    [] => continue,
                    [one] => one,
                    _ => return (input, error(ONE)),
                };
                let (rights, failed) = self.list(vec![element], right);
                if failed.is_some() {
                    return (input, failed);
                }
                let right = match rights.as_slice() {
                    [] => continue,
                    [one] => one,
                    _ => return (input, error(ONE)),
                };
                match compare(left, operator, right) {
                    Ok(true) => found.push(element),
                    Ok(false) => {}
                    Err(message) => return (found, error(message)),
                }
            }
        }
        (found, None)
    }
}

/// Adds the direct children.
fn children<'a>(item: Item<'a>, into: &mut Vec<Item<'a>>) {
    match item {
        Item::Json(Value::Object(object)) => into.extend(object.values().map(Item::Json)),
        Item::Json(Value::Array(list)) => into.extend(list.iter().map(Item::Json)),
        Item::Json(Value::String(text)) => into.extend(text.bytes().map(Item::Byte)),
        Item::Text(text) => into.extend(text.bytes().map(Item::Byte)),
        _ => {}
    }
}

/// Returns the positions of a slice in a list of this length; `None` if it selects none.
fn range(slice: &Slice, length: usize) -> Result<Option<(std::ops::Range<usize>, usize)>, String> {
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    let mut start = slice.start.unwrap_or(0);
    if start < 0 {
        start += size;
    }
    let mut end = slice.end.unwrap_or(size);
    if end < 0 || (end == 0 && slice.single) {
        end += size;
    }
    if start == end {
        return Ok(None);
    }
    let outside = |index: i64| Err(format!("array index out of bounds: index {index}, length {size}"));
    let bounded = |index: i64| usize::try_from(index).ok().filter(|index| *index <= length);
    let (Some(from), true) = (bounded(start), start < size) else { return outside(start) };
    let Some(to) = bounded(end) else { return outside(end.wrapping_sub(1)) };
    if from > to {
        return Err(format!("starting index {start} is greater than ending index {end}"));
    }
    match slice.step {
        Some(step) if step <= 0 => Err("step must be > 0".to_owned()),
        step => Ok(Some((from..to, step.and_then(|step| usize::try_from(step).ok()).unwrap_or(1)))),
    }
}
