//! Compiled rules as a tree in the shape of the schema, with only the branches that have rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_schema::structural::{Additional, Structural};

use super::compiled::{CompiledRule, Scope};
use crate::declared::DeclType;
use crate::value::escape;

/// Rules of a schema and its subschemas.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) rules: Vec<CompiledRule>,
    /// Whether there are rules although expressions cannot see the value.
    pub(super) hidden: bool,
    /// Whether this is the root of a custom resource or an embedded one.
    pub(super) resource_root: bool,
    pub(super) items: Option<Box<Node>>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Box<Node>>,
    /// Rules in `allOf`, which apply to the same value.
    pub(super) all_of: Vec<Node>,
}

impl Node {
    pub(super) fn root(schema: &Structural, resource_root: bool) -> Option<Self> {
        let declared = DeclType::of(schema, resource_root).map(Arc::new);
        Self::of(schema, schema, resource_root, declared.as_ref())
    }

    pub(super) fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// Returns the rules of `source`, which is the schema itself or part of its `allOf`.
    fn of(
        source: &Structural,
        schema: &Structural,
        resource_root: bool,
        declared: Option<&Arc<DeclType>>,
    ) -> Option<Self> {
        if !may_have_rules(source) {
            return None;
        }
        let mut node = Self { resource_root, ..Self::default() };
        if !source.rules.is_empty() {
            match declared {
                Some(declared) => {
                    let scope = Scope::new(declared, &source.rules);
                    node.rules = source.rules.iter().map(|rule| scope.compile(rule, schema)).collect();
                }
                None => node.hidden = true,
            }
        }
        let element = declared.and_then(|declared| declared.element());
        if let (Some(source), Some(items)) = (&source.items, &schema.items) {
            node.items = Self::of(source, items, items.embedded_resource, element).map(Box::new);
        }
        for (name, source) in &source.properties {
            let Some(property) = schema.properties.get(name) else { continue };
            let apart;
            let field = match escape(name) {
                Some(escaped) => declared.and_then(|declared| declared.field(&escaped)),
                None => {
                    apart = DeclType::of(property, property.embedded_resource).map(Arc::new);
                    apart.as_ref()
                }
            };
            // Fields that expressions cannot see have no rules.
            if field.is_some()
                && let Some(child) = Self::of(source, property, property.embedded_resource, field)
            {
                node.properties.insert(name.clone(), child);
            }
        }
        if let (Additional::Schema(source), Additional::Schema(values)) = (&source.additional, &schema.additional) {
            node.additional = Self::of(source, values, values.embedded_resource, element).map(Box::new);
        }
        node.all_of = source
            .validation
            .all_of
            .iter()
            .filter_map(|part| Self::of(part, schema, resource_root, declared))
            .collect();
        let empty = node.rules.is_empty()
            && !node.hidden
            && node.items.is_none()
            && node.additional.is_none()
            && node.properties.is_empty()
            && node.all_of.is_empty();
        if empty { None } else { Some(node) }
    }
}

/// Returns whether a schema or a subschema has rules, except for `allOf`.
pub(super) fn has_rules(schema: &Structural) -> bool {
    !schema.rules.is_empty() || children(schema).any(has_rules)
}

fn may_have_rules(schema: &Structural) -> bool {
    !schema.rules.is_empty() || children(schema).chain(&schema.validation.all_of).any(may_have_rules)
}

fn children(schema: &Structural) -> impl Iterator<Item = &Structural> {
    let values = match &schema.additional {
        Additional::Schema(values) => Some(&**values),
        _ => None,
    };
    schema.items.as_deref().into_iter().chain(values).chain(schema.properties.values())
}
