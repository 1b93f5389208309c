//! CRDs like those of large projects: nested objects and lists, a description for each field.

use serde_json::{Map, Value, json};

use crate::definition::GROUP;

/// Number of CRDs per group, as in large projects.
const IN_A_GROUP: usize = 10;
/// Lines of YAML that a field takes on average, with its description.
const LINES_PER_FIELD: usize = 5;
/// The least and greatest number of lines of a schema.
const LINES: (usize, usize) = (1_000, 10_000);
/// Number of fields of an object.
const FIELDS: usize = 8;
/// Words of names and descriptions.
const WORDS: [&str; 24] = [
    "certificate",
    "issuer",
    "reference",
    "namespace",
    "selector",
    "template",
    "policy",
    "endpoint",
    "interval",
    "secret",
    "backend",
    "timeout",
    "retry",
    "weight",
    "cluster",
    "region",
    "volume",
    "provider",
    "schedule",
    "replica",
    "header",
    "route",
    "match",
    "the",
];

/// One of many CRDs.
#[derive(Debug, Clone)]
pub(super) struct LargeDefinition {
    pub(super) group: String,
    number: usize,
}

impl LargeDefinition {
    pub(super) fn numbered(number: usize) -> Self {
        Self { group: format!("p{:03}.{GROUP}", number / IN_A_GROUP), number }
    }

    /// Returns the number of lines of its schema: most CRDs are small, a few are ten times as large.
    fn lines(&self) -> usize {
        let (least, most) = LINES;
        let part = (self.number * 7 % 20) as f64 / 19.0;
        least + ((most - least) as f64 * part.powi(6)) as usize
    }

    pub(super) fn manifest(&self) -> Value {
        let (number, group) = (self.number, &self.group);
        let (plural, kind) = (format!("things{number:03}"), format!("Thing{number:03}"));
        let mut fields = Fields { left: self.lines() / LINES_PER_FIELD, next: number * 31 };
        let mut properties = Map::new();
        // Objects nest a few levels deep, so a large schema has several such trees.
        while fields.left > 0 {
            let name = fields.name(properties.len());
            properties.insert(name, fields.object(0));
        }
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "description": fields.description(), "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                        "spec": {"type": "object", "properties": properties},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
    }
}

/// The fields of a schema.
struct Fields {
    /// The number of fields that are missing.
    left: usize,
    /// Distinguishes names and descriptions.
    next: usize,
}

impl Fields {
    fn word(&mut self) -> &'static str {
        self.next = self.next.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        WORDS[self.next / 65_536 % WORDS.len()]
    }

    fn name(&mut self, index: usize) -> String {
        format!("{}{}{index}", self.word(), capital(self.word()))
    }

    fn description(&mut self) -> String {
        let words: Vec<&str> = (0..18).map(|_| self.word()).collect();
        format!("{}.", words.join(" "))
    }

    fn object(&mut self, depth: usize) -> Value {
        self.left = self.left.saturating_sub(1);
        let mut properties = Map::new();
        for index in 0..FIELDS {
            let field = match index % 4 {
                _ if self.left == 0 => break,
                0 if depth < 3 => self.object(depth + 1),
                1 if depth < 3 => {
                    json!({"type": "array", "description": self.description(), "items": self.object(depth + 1)})
                }
                2 => self.scalar(json!({"type": "integer", "format": "int32", "minimum": 0})),
                _ => self.scalar(json!({"type": "string", "maxLength": 253})),
            };
            properties.insert(self.name(index), field);
        }
        json!({"type": "object", "description": self.description(), "properties": properties})
    }

    fn scalar(&mut self, mut schema: Value) -> Value {
        self.left = self.left.saturating_sub(1);
        schema["description"] = self.description().into();
        schema
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_as_long_as_those_of_projects() {
        let all: Vec<LargeDefinition> = (0..20).map(LargeDefinition::numbered).collect();
        assert_eq!(all.iter().map(LargeDefinition::lines).min(), Some(LINES.0));
        assert_eq!(all.iter().map(LargeDefinition::lines).max(), Some(LINES.1));
        for definition in all {
            let lines = serde_json::to_string_pretty(&definition.manifest()).unwrap().lines().count();
            // JSON has a line more than YAML for each object.
            assert!((definition.lines()..definition.lines() * 2).contains(&lines), "{} {lines}", definition.lines());
        }
    }

    #[test]
    fn no_two_definitions_are_equal() {
        let (one, other) = (LargeDefinition::numbered(0), LargeDefinition::numbered(20));
        assert_eq!(one.lines(), other.lines());
        assert_ne!(one.manifest()["spec"]["versions"], other.manifest()["spec"]["versions"]);
    }
}
