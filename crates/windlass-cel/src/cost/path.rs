//! Paths through declared types.
//!
//! kube-apiserver's estimator keeps these in slices that may share memory: appending two different elements to one
//! variable's path can change a path that was built before. Estimates depend on this, so this type shares memory in the
//! same way.

use std::cell::RefCell;
use std::rc::Rc;

/// A path through declared types: a variable, then fields, `@items`, `@keys`, `@values` or `@indices`.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    shared: Rc<RefCell<Vec<Rc<str>>>>,
    length: usize,
    capacity: usize,
}

impl Path {
    /// Returns the path of a variable.
    pub(super) fn of(variable: &str) -> Self {
        Self { shared: Rc::new(RefCell::new(vec![variable.into()])), length: 1, capacity: 1 }
    }

    /// Returns the path with an additional element, possibly in shared memory.
    pub(super) fn append(&self, step: &str) -> Self {
        let step = Rc::from(step);
        if self.length < self.capacity {
            let mut steps = self.shared.borrow_mut();
            if steps.len() > self.length {
                steps[self.length] = step;
            } else {
                steps.push(step);
            }
            drop(steps);
            return Self { shared: self.shared.clone(), length: self.length + 1, capacity: self.capacity };
        }
        let mut steps = self.steps();
        steps.push(step);
        let capacity = (self.capacity * 2).max(1);
        Self { shared: Rc::new(RefCell::new(steps)), length: self.length + 1, capacity }
    }

    /// Returns the path with an additional element, in separate memory.
    pub(super) fn extended(&self, step: &str) -> Self {
        let mut steps = self.steps();
        steps.push(step.into());
        let length = steps.len();
        Self { shared: Rc::new(RefCell::new(steps)), length, capacity: length }
    }

    /// Returns the variable.
    pub(super) fn first(&self) -> Option<Rc<str>> {
        if self.length == 0 { None } else { self.shared.borrow().first().cloned() }
    }

    /// Returns all elements, starting with the variable.
    pub(super) fn steps(&self) -> Vec<Rc<str>> {
        self.shared.borrow().iter().take(self.length).cloned().collect()
    }
}
