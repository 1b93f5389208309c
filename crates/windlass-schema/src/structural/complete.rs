//! Making an object fit its schema: unknown fields and nulls go, defaults come.
//!
//! One walk does any of the three. Where there is nothing to do it only reads: no memory is taken.

use serde_json::{Map, Value};

use super::{Additional, Structural};

/// What a walk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// Remove fields that the schema does not name.
    pub prune: bool,
    /// Remove nulls from fields that are not nullable and have no default.
    pub drop_nulls: bool,
    /// Fill absent fields, and nulls where they are no value, with defaults.
    pub default: bool,
}

impl Steps {
    /// All of them.
    pub const ALL: Self = Self { prune: true, drop_nulls: true, default: true };
}

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether the value is a whole object: its apiVersion, kind and metadata are known whatever the schema says.
    pub resource_root: bool,
    /// Whether to answer the paths of the fields that were pruned.
    pub unknown_fields: bool,
}

/// What becomes of unknown fields at a place.
#[derive(Clone, Copy, PartialEq)]
enum Pruning {
    /// They are removed.
    On,
    /// They stay here, but not below a field that the schema names.
    Preserve,
    /// They stay, here and below.
    Off,
}

impl Structural {
    /// Removes fields that the schema does not name, and answers their paths, sorted, if asked.
    pub fn prune(&self, value: &mut Value, options: Options) -> Vec<String> {
        self.complete(value, Steps { prune: true, ..Steps::default() }, options)
    }

    /// Fills in defaults.
    ///
    /// # Errors
    /// If they take too much room; those that are left are not filled in then.
    pub fn apply_defaults(&self, value: &mut Value) -> Result<(), String> {
        let mut room = Room::default();
        self.complete_within(&mut room, value, DEFAULT, Options::default());
        room.check()
    }

    /// Removes nulls from fields that are not nullable and have no default.
    pub fn drop_nulls(&self, value: &mut Value) {
        self.complete(value, Steps { drop_nulls: true, ..Steps::default() }, Options::default());
    }

    /// Does the steps in one walk, with the result of one walk each in their order. Answers the paths of the fields that
    /// were pruned, sorted, if asked.
    ///
    /// When defaults would take too much room, those that are left are not filled in.
    pub fn complete(&self, value: &mut Value, steps: Steps, options: Options) -> Vec<String> {
        self.complete_within(&mut Room::default(), value, steps, options)
    }

    /// As [`Structural::complete`], with what is left for defaults.
    pub(super) fn complete_within(
        &self,
        room: &mut Room,
        value: &mut Value,
        steps: Steps,
        options: Options,
    ) -> Vec<String> {
        let mut walk = Walk { steps, path: String::new(), unknown: options.unknown_fields.then(Vec::new), room };
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

    /// What the schema says of a field: nothing, that there is one, or its schema.
    fn field(&self, name: &str) -> Option<Option<&Structural>> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(Some(property)),
            (None, Additional::Schema(schema)) => Some(Some(schema)),
            (None, Additional::Bool(_)) => Some(None),
            (None, Additional::Absent) => None,
        }
    }
}

impl Pruning {
    fn preserved(self) -> Self {
        if self == Self::On { Self::Preserve } else { self }
    }
}

/// Whether a field is one that every resource has.
pub(super) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

const DEFAULT: Steps = Steps { prune: false, drop_nulls: false, default: true };

/// What defaults may take together. Defaults within defaults, and defaults of the elements of lists, multiply.
pub(super) struct Room {
    left: usize,
    exhausted: bool,
}

/// As much as the largest request.
const ROOM: usize = 3 << 20;

/// What is said of objects whose defaults take too much room.
pub const TOO_MANY_DEFAULTS: &str = "defaults take more than 3145728 bytes";

impl Default for Room {
    fn default() -> Self {
        Self { left: ROOM, exhausted: false }
    }
}

impl Room {
    /// The default of a schema with the defaults within it, if there is room for it.
    fn take(&mut self, schema: &Structural, default: &Value) -> Option<Value> {
        if self.exhausted || !spend(&mut self.left, default) {
            self.exhausted = true;
            return None;
        }
        let mut value = default.clone();
        if value.is_object() || value.is_array() {
            schema.complete_within(self, &mut value, DEFAULT, Options::default());
        }
        Some(value)
    }

    /// Whether everything had room.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.exhausted { Err(TOO_MANY_DEFAULTS.to_owned()) } else { Ok(()) }
    }
}

/// Takes about what a value has in bytes from what is left; whether that was enough.
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
    /// Where the walk is; kept only if paths are wanted.
    path: String,
    unknown: Option<Vec<String>>,
    room: &'r mut Room,
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
                if let Some(value) = self.room.take(element, default) {
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

    /// Looks after a field and answers whether it stays.
    fn field(&mut self, name: &str, value: &mut Value, schema: &Structural, pruning: Pruning, embedded: bool) -> bool {
        let known = schema.field(name);
        let pruning = match (known, pruning) {
            _ if embedded && is_meta(name) => Pruning::Off,
            (_, Pruning::Off) | (None, Pruning::Preserve) => Pruning::Off,
            (Some(_), _) => Pruning::On,
            (None, Pruning::On) => {
                if !is_meta(name) || !self.path.is_empty() {
                    self.report(name);
                }
                return false;
            }
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

    /// A null that is no value: the default takes its place, or it goes.
    fn null(&mut self, value: &mut Value, schema: &Structural) -> bool {
        match &schema.default {
            None => !self.steps.drop_nulls,
            Some(default) => {
                if self.steps.default
                    && let Some(made) = self.room.take(schema, default)
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

    /// Puts the default of an absent field.
    fn fill(&mut self, map: &mut Map<String, Value>, name: &str, property: &Structural) {
        if let Some(default) = &property.default
            && !map.contains_key(name)
            && let Some(value) = self.room.take(property, default)
        {
            map.insert(name.to_owned(), value);
        }
    }
}
