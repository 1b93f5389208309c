//! Conflicts: fields that an apply would change and that another manager owns.

use std::fmt;

use windlass_schema::field::quote;

use super::{
    managed_fields::{ManagerId, Operation},
    path::Path,
    set::Set,
};

/// A field and the manager that owns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The manager that owns the field.
    pub manager: ManagerId,
    /// The field.
    pub path: Path,
}

/// All conflicts of an apply, never empty: grouped by manager, the fields of each manager in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflicts(Vec<Conflict>);

/// A conflict as listed in `details.causes`, with the reason `FieldManagerConflict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Message, such as `conflict with "x" using v1`.
    pub message: String,
    /// Path of the field, such as `.spec.replicas`.
    pub field: String,
}

impl Conflict {
    /// Formats the owning manager: `"x" with subresource "status" using v1`.
    fn manager_description(&self) -> String {
        let ManagerId { manager, operation, api_version, subresource } = &self.manager;
        let mut text = quote(manager);
        if !subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quote(subresource)));
        }
        if *operation == Operation::Update {
            text.push_str(&format!(" using {api_version}"));
        }
        text
    }
}

impl Conflicts {
    /// Returns the conflicts with the managers of these sets, or `None` if the sets are empty.
    pub(crate) fn of(mut sets: Vec<(ManagerId, Set)>) -> Option<Self> {
        sets.sort_by(|(a, _), (b, _)| a.compare(b));
        let mut conflicts = Vec::new();
        for (manager, set) in sets {
            conflicts.extend(set.paths().into_iter().map(|path| Conflict { manager: manager.clone(), path }));
        }
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    /// Iterates over the conflicts.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// Returns the conflicts on fields outside a set.
    pub(crate) fn outside(self, allowed: &Set) -> Option<Self> {
        let rest: Vec<_> = self.0.into_iter().filter(|conflict| !allowed.has(&conflict.path[..])).collect();
        (!rest.is_empty()).then_some(Self(rest))
    }

    /// Returns the `details.causes` of the response.
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            message: format!("conflict with {}", conflict.manager_description()),
            field: conflict.path.to_string(),
        };
        self.0.iter().map(cause).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = &*self.0 {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                conflict.manager_description(),
                conflict.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for conflict in &self.0 {
            if last != Some(&conflict.manager) {
                let separator = if last.is_none() { "" } else { "\n" };
                write!(f, "{separator}conflicts with {}:", conflict.manager_description())?;
                last = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}
