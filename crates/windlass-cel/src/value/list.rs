//! Lists: arrays of the object seen through their schema, and computed lists.

use std::sync::Arc;

use serde_json::Value as Json;
use windlass_schema::structural::{ListType, Structural};

use super::{EvalError, Outcome, Value};

/// A list.
#[derive(Debug, Clone)]
pub struct List<'a> {
    items: Items<'a>,
    /// The schema of the array: this one, or the one that it was appended to.
    schema: Option<&'a Structural>,
}

#[derive(Debug, Clone)]
enum Items<'a> {
    Json(&'a [Json]),
    Values(Arc<Vec<Value<'a>>>),
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        List { items: Items::Values(Arc::new(items)), schema: None }
    }
}

impl<'a> List<'a> {
    /// Returns an array of the object, with its schema if it has one.
    pub fn json(items: &'a [Json], schema: Option<&'a Structural>) -> Self {
        List { items: Items::Json(items), schema }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match &self.items {
            Items::Json(items) => items.len(),
            Items::Values(items) => items.len(),
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is an array of the object that has a schema, or was built from one.
    pub fn is_typed(&self) -> bool {
        self.schema.is_some()
    }

    /// Returns how its elements are identified.
    pub fn list_type(&self) -> &'a ListType {
        self.schema.map_or(&ListType::Absent, |schema| &schema.list_type)
    }

    /// Returns an element; `None` past the end.
    pub fn get(&self, index: usize) -> Option<Outcome<'a>> {
        match &self.items {
            Items::Json(items) => items.get(index).map(|item| self.element(item)),
            Items::Values(items) => items.get(index).cloned().map(Ok),
        }
    }

    fn element(&self, item: &'a Json) -> Outcome<'a> {
        match self.schema {
            None => Ok(Value::untyped(item)),
            Some(schema) => match &schema.items {
                Some(items) => Value::typed(item, items),
                None => Err(EvalError::new("invalid array type, expected Items with a non-empty Schema")),
            },
        }
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> ListIter<'_, 'a> {
        ListIter { list: self, at: 0 }
    }

    /// Returns the same elements without the schema.
    pub fn untyped(&self) -> List<'a> {
        List { items: self.items.clone(), schema: None }
    }

    /// Returns a list of these elements that behaves like this one.
    pub(super) fn with_items(&self, items: Vec<Value<'a>>) -> List<'a> {
        List { items: Items::Values(Arc::new(items)), schema: self.schema }
    }

    /// Appends another list, in place if this one is not shared.
    pub(super) fn append(mut self, other: &List<'a>) -> Result<List<'a>, EvalError> {
        if let Items::Values(items) = &mut self.items
            && let Some(items) = Arc::get_mut(items)
        {
            for item in other.iter() {
                items.push(item?);
            }
            return Ok(self);
        }
        let mut items = Vec::with_capacity(self.len() + other.len());
        for item in self.iter().chain(other.iter()) {
            items.push(item?);
        }
        Ok(self.with_items(items))
    }
}

/// Iterator over the elements of a list.
#[derive(Debug)]
pub struct ListIter<'l, 'a> {
    list: &'l List<'a>,
    at: usize,
}

impl<'a> Iterator for ListIter<'_, 'a> {
    type Item = Outcome<'a>;

    fn next(&mut self) -> Option<Outcome<'a>> {
        let item = self.list.get(self.at)?;
        self.at += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len().saturating_sub(self.at);
        (left, Some(left))
    }
}
