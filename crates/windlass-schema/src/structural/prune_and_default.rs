//! Pruning, dropping of nulls, and defaulting.
//!
//! A single walk does any combination of the three. Where there is nothing to do it only reads and does not allocate.

use serde_json::{Map, Value};

use super::{Additional, Structural};

/// The steps of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// Remove fields that are not in the schema.
    pub prune: bool,
    /// Remove nulls from fields that are not nullable and have no default.
    pub drop_nulls: bool,
    /// Apply defaults to absent fields, and to nulls where null is not allowed.
    pub default: bool,
}

impl Steps {
    /// All steps.
    pub const ALL: Self = Self { prune: true, drop_nulls: true, default: true };
}

/// PruneOptions of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneOptions {
    /// Whether the value is a whole object, whose `apiVersion`, `kind` and `metadata` are known regardless of the
    /// schema.
    pub resource_root: bool,
    /// Whether to return the paths of pruned fields.
    pub unknown_fields: bool,
}

/// Treatment of unknown fields.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pruning {
    /// Removed.
    On,
    /// Kept here, but not below a declared field.
    Preserve,
    /// Kept here and below.
    Off,
}

impl Structural {
    /// Removes fields that are not in the schema; returns their sorted paths if requested.
    pub fn prune(&self, value: &mut Value, options: PruneOptions) -> Vec<String> {
        self.prune_and_default(value, Steps { prune: true, ..Steps::default() }, options)
    }

    /// Applies defaults.
    ///
    /// # Errors
    /// Returns an error if they need too much memory; the remaining defaults are then not applied.
    pub fn apply_defaults(&self, value: &mut Value) -> Result<(), String> {
        let mut budget = DefaultsBudget::default();
        self.prune_and_default_within(&mut budget, value, DEFAULT, PruneOptions::default());
        budget.check()
    }

    /// Removes nulls from fields that are not nullable and have no default.
    pub fn drop_nulls(&self, value: &mut Value) {
        self.prune_and_default(value, Steps { drop_nulls: true, ..Steps::default() }, PruneOptions::default());
    }

    /// Performs the steps in one walk, with the same result as one walk per step in their order. Returns the sorted
    /// paths of pruned fields if requested.
    ///
    /// If defaults would need too much memory, the remaining ones are not applied.
    pub fn prune_and_default(&self, value: &mut Value, steps: Steps, options: PruneOptions) -> Vec<String> {
        self.prune_and_default_within(&mut DefaultsBudget::default(), value, steps, options)
    }

    /// Like [`Structural::prune_and_default`], with a given limit for defaults.
    pub(super) fn prune_and_default_within(
        &self,
        budget: &mut DefaultsBudget,
        value: &mut Value,
        steps: Steps,
        options: PruneOptions,
    ) -> Vec<String> {
        let mut walk = Walk { steps, path: String::new(), unknown: options.unknown_fields.then(Vec::new), budget };
        let pruning = if steps.prune { Pruning::On } else { Pruning::Off };
        let pruning = if self.preserve_unknown_fields { pruning.preserved() } else { pruning };
        match value {
            Value::Object(map) => {
                walk.fields(map, self, pruning, options.resource_root || self.embedded_resource);
            }
            other => walk.value(other, Some(self), pruning),
        }
        let mut unknown = walk.unknown.unwrap_or_default();
        unknown.sort_unstable();
        unknown
    }

    /// Looks up a field: `None` if it is unknown, `Some(None)` if it is known without a schema, or its schema.
    pub(super) fn field(&self, name: &str) -> Option<Option<&Structural>> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(Some(property)),
            (None, Additional::Schema(schema)) => Some(Some(schema)),
            (None, Additional::Bool(_)) => Some(None),
            (None, Additional::Absent) => None,
        }
    }
}

impl Pruning {
    pub(super) fn preserved(self) -> Self {
        if self == Self::On { Self::Preserve } else { self }
    }

    /// Returns the treatment below a field; `None` if the field is removed itself.
    pub(super) fn below(self, is_known: bool, is_meta: bool) -> Option<Self> {
        match (is_known, self) {
            _ if is_meta => Some(Self::Off),
            (_, Self::Off) | (false, Self::Preserve) => Some(Self::Off),
            (true, _) => Some(Self::On),
            (false, Self::On) => None,
        }
    }
}

/// Returns whether a field is one that every resource has.
pub(super) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

const DEFAULT: Steps = Steps { prune: false, drop_nulls: false, default: true };

/// Limit on the total size of defaults. Defaults within defaults, and defaults of list elements, multiply.
pub(super) struct DefaultsBudget {
    left: usize,
    exhausted: bool,
}

/// As large as the largest request.
const DEFAULTS_BUDGET: usize = 3 << 20;

/// The message for objects whose defaults need too much memory.
pub const TOO_MANY_DEFAULTS: &str = "defaults take more than 3145728 bytes";

impl Default for DefaultsBudget {
    fn default() -> Self {
        Self { left: DEFAULTS_BUDGET, exhausted: false }
    }
}

impl DefaultsBudget {
    /// Returns the default of a schema with the defaults nested in it, if it is within the limit.
    fn default_of(&mut self, schema: &Structural, default: &Value) -> Option<Value> {
        if self.exhausted || !spend(&mut self.left, default) {
            self.exhausted = true;
            return None;
        }
        let mut value = default.clone();
        if value.is_object() || value.is_array() {
            schema.prune_and_default_within(self, &mut value, DEFAULT, PruneOptions::default());
        }
        Some(value)
    }

    /// Checks that all defaults were within the limit.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.exhausted { Err(TOO_MANY_DEFAULTS.to_owned()) } else { Ok(()) }
    }
}

/// Subtracts the approximate size of a value from the limit; returns whether it was sufficient.
fn spend(left: &mut usize, value: &Value) -> bool {
    let own = match value {
        Value::String(text) => text.len() + 2,
        _ => 4,
    };
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| spend(left, item)),
        Value::Object(map) => map.iter().all(|(name, value)| {
            *left = left.saturating_sub(name.len() + 3);
            spend(left, value)
        }),
        _ => true,
    }
}

struct Walk<'r> {
    steps: Steps,
    /// Current path; maintained only if paths are requested.
    path: String,
    unknown: Option<Vec<String>>,
    budget: &'r mut DefaultsBudget,
}

impl Walk<'_> {
    fn value(&mut self, value: &mut Value, schema: Option<&Structural>, pruning: Pruning) {
        let pruning = if schema.is_some_and(|s| s.preserve_unknown_fields) { pruning.preserved() } else { pruning };
        match (value, schema) {
            (Value::Object(map), Some(schema)) => self.fields(map, schema, pruning, schema.embedded_resource),
            (Value::Object(map), None) if pruning == Pruning::On => {
                for name in map.keys() {
                    self.report(name);
                }
                map.clear();
            }
            (Value::Array(items), schema) => self.items(items, schema, pruning),
            _ => {}
        }
    }

    fn items(&mut self, items: &mut [Value], schema: Option<&Structural>, pruning: Pruning) {
        let element = schema.and_then(|schema| schema.items.as_deref());
        if element.is_none() && pruning != Pruning::On {
            return;
        }
        for (index, item) in items.iter_mut().enumerate() {
            if let Some(element) = element
                && self.steps.default
                && item.is_null()
                && !element.nullable
                && let Some(default) = &element.default
            {
                if let Some(value) = self.budget.default_of(element, default) {
                    *item = value;
                }
            } else {
                let length = self.enter_index(index);
                self.value(item, element, pruning);
                self.path.truncate(length);
            }
        }
    }

    fn fields(&mut self, map: &mut Map<String, Value>, schema: &Structural, pruning: Pruning, embedded: bool) {
        map.retain(|name, value| self.field(name, value, schema, pruning, embedded));
        if !self.steps.default {
            return;
        }
        match &schema.compiled.0 {
            Some(tables) => {
                for name in &tables.defaulted {
                    if let Some(property) = schema.properties.get(name) {
                        self.fill(map, name, property);
                    }
                }
            }
            None => {
                for (name, property) in &schema.properties {
                    self.fill(map, name, property);
                }
            }
        }
    }

    /// Processes a field and returns whether it is kept.
    fn field(&mut self, name: &str, value: &mut Value, schema: &Structural, pruning: Pruning, embedded: bool) -> bool {
        let known = schema.field(name);
        let Some(pruning) = pruning.below(known.is_some(), embedded && is_meta(name)) else {
            if !is_meta(name) || !self.path.is_empty() {
                self.report(name);
            }
            return false;
        };
        let child = known.flatten();
        if value.is_null() {
            return match child {
                Some(child) if !child.nullable => self.null(value, child),
                _ => true,
            };
        }
        if value.is_object() || value.is_array() {
            let length = self.enter(name);
            self.value(value, child, pruning);
            self.path.truncate(length);
        }
        true
    }

    /// Handles a null that is not allowed: replaced by the default, or removed.
    fn null(&mut self, value: &mut Value, schema: &Structural) -> bool {
        match &schema.default {
            None => !self.steps.drop_nulls,
            Some(default) => {
                if self.steps.default
                    && let Some(made) = self.budget.default_of(schema, default)
                {
                    *value = made;
                }
                true
            }
        }
    }

    fn report(&mut self, name: &str) {
        let length = self.enter(name);
        if let Some(unknown) = &mut self.unknown {
            unknown.push(self.path.clone());
        }
        self.path.truncate(length);
    }

    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if self.unknown.is_some() {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        length
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let length = self.path.len();
        if self.unknown.is_some() {
            self.path.push_str(&format!("[{index}]"));
        }
        length
    }

    /// Applies the default of an absent field.
    fn fill(&mut self, map: &mut Map<String, Value>, name: &str, property: &Structural) {
        if let Some(default) = &property.default
            && !map.contains_key(name)
            && let Some(value) = self.budget.default_of(property, default)
        {
            map.insert(name.to_owned(), value);
        }
    }
}
