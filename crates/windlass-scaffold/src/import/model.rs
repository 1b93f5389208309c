//! Rust types derived from a schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{
    Object,
    idents::{Idents, camel, is_found},
    literal,
    schema::{PRESERVE, is_int_or_string, is_set, without_words},
    text_of,
};

/// Any JSON value.
const ANY: &str = "serde_json::Value";

/// Fields that kube-derive adds to the top level of an object itself.
const OF_TOP: &[&str] = &["apiVersion", "kind", "metadata", "status"];

/// Contents of a module.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) kind: String,
    pub(super) items: Vec<Item>,
    pub(super) functions: Vec<Function>,
    /// Types to import.
    pub(super) uses: BTreeSet<&'static str>,
    pub(super) notes: Vec<String>,
    types: Idents,
    function_names: Idents,
}

/// A type of the module.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) doc: String,
    /// Schema keywords that the type does not imply.
    pub(super) keywords: Object,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// Named fields, and the flattened rest if unknown fields are preserved.
    Fields(Vec<ModelField>, Option<Rest>),
    /// Identifiers and values.
    Variants(Vec<(String, String)>),
    /// Any JSON value.
    Json,
}

/// The flattened field for unknown fields.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) ident: String,
    /// Whether it belongs to the top-level object, where some fields are handled by kube-derive.
    pub(super) of_top: bool,
}

/// A field of a struct.
#[derive(Debug)]
pub(super) struct ModelField {
    pub(super) name: String,
    pub(super) ident: String,
    pub(super) doc: String,
    pub(super) rust: String,
    /// Whether the field is an `Option`.
    pub(super) optional: bool,
    /// Function that returns the default.
    pub(super) default: Option<String>,
    /// Type that provides the schema, if it is not the type of the field.
    pub(super) with: Option<String>,
    pub(super) keywords: Object,
}

/// A function that returns a default.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) rust: String,
    pub(super) value: String,
}

/// Rust representation of a schema.
struct Typed {
    rust: String,
    /// Type that provides the schema.
    schema: String,
    /// Keywords that the type does not imply.
    keywords: Object,
}

impl Typed {
    fn of(rust: impl Into<String>, schema: &Object, implied: &[&str]) -> Self {
        let rust = rust.into();
        Self { schema: rust.clone(), rust, keywords: keywords(schema, implied) }
    }

    fn with(mut self, schema: &str) -> Self {
        self.schema = schema.to_owned();
        self
    }
}

impl Model {
    pub(super) fn new(kind: &str, notes: Vec<String>) -> Self {
        let mut types = Idents::of_types();
        types.unique(kind, "");
        let (items, functions, uses) = (Vec::new(), Vec::new(), BTreeSet::new());
        let kind = kind.to_owned();
        Self { kind, items, functions, uses, notes, types, function_names: Idents::default() }
    }

    /// Reserves a unique type name.
    pub(super) fn reserve(&mut self, name: &str) -> String {
        self.types.unique(name, "")
    }

    /// Adds a struct for an object, even if its fields are unknown. Nested types are named after `base`.
    pub(super) fn structure(&mut self, name: &str, base: &str, schema: &Object) {
        self.fields(name, base, schema, false);
    }

    /// Adds the struct of fields at the top level of an object, next to those that every object has.
    pub(super) fn top(&mut self, name: &str, base: &str, schema: &Object) {
        self.fields(name, base, schema, true);
    }

    /// Adds a struct that wraps any JSON value.
    pub(super) fn json(&mut self, name: &str, schema: &Object) {
        let doc = text_of(schema, "description").to_owned();
        self.items.push(Item { name: name.to_owned(), doc, keywords: keywords(schema, &[]), body: Body::Json });
    }

    fn fields(&mut self, name: &str, base: &str, schema: &Object, of_top: bool) {
        let without = if of_top { OF_TOP } else { &[] };
        let place = self.items.len();
        let doc = text_of(schema, "description").to_owned();
        let keywords = keywords(schema, &["type", "properties", "required"]);
        let body = Body::Fields(Vec::new(), None);
        // Before its nested types.
        self.items.push(Item { name: name.to_owned(), doc, keywords, body });
        let required: BTreeSet<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).gather();
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(Object::keys);
        let mut names: Vec<&String> = names.filter(|name| !without.contains(&name.as_str())).collect();
        names.sort();
        let mut idents = Idents::default();
        for name in without {
            idents.field(name);
        }
        // Names that serde maps without a rename get their identifier first.
        let (plain, odd): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| is_found(&crate::names::snake(name), name));
        let named: BTreeMap<&String, String> =
            plain.into_iter().chain(odd).map(|name| (name, idents.field(name))).gather();
        let mut fields = Vec::new();
        for property in names {
            let empty = Object::new();
            let inner = properties.and_then(|all| all.get(property)).and_then(Value::as_object).unwrap_or(&empty);
            let ident = named.get(property).cloned().unwrap_or_default();
            fields.push(self.field(property, ident, base, inner, required.contains(property.as_str())));
        }
        let open = is_set(schema, PRESERVE);
        if open {
            self.uses.insert("std::collections::BTreeMap");
        }
        self.items[place].body = Body::Fields(fields, open.then(|| Rest { ident: idents.field("rest"), of_top }));
    }

    fn field(&mut self, name: &str, ident: String, base: &str, schema: &Object, required: bool) -> ModelField {
        let part = match camel(name) {
            part if part.is_empty() => "Field".to_owned(),
            part => part,
        };
        let Typed { rust, schema: of, mut keywords } = self.typed(&format!("{base}{part}"), schema);
        let nullable = is_set(schema, "nullable");
        let mut field = ModelField {
            name: name.to_owned(),
            doc: text_of(schema, "description").to_owned(),
            with: (of != rust).then(|| of.clone()),
            rust,
            optional: false,
            default: None,
            keywords: Object::new(),
            ident,
        };
        if !required && !nullable {
            field.default = keywords.get("default").and_then(|value| self.default(base, &field, value));
        }
        if field.default.is_some() {
            keywords.remove("default");
        } else if !required || nullable {
            field.rust = format!("Option<{}>", field.rust);
            field.with = Some(of);
            field.optional = !required;
        }
        field.keywords = keywords;
        field
    }

    /// Adds a function that returns the default of a field, if there is an expression for it.
    fn default(&mut self, base: &str, field: &ModelField, value: &Value) -> Option<String> {
        let value = match (field.rust.as_str(), value) {
            ("String", Value::String(value)) => format!("{}.to_owned()", literal::text(value)),
            ("bool", Value::Bool(value)) => value.to_string(),
            ("i32", Value::Number(value)) => i32::try_from(value.as_i64()?).ok()?.to_string(),
            ("i64", Value::Number(value)) => value.as_i64()?.to_string(),
            ("f64", Value::Number(value)) if value.is_f64() => format!("{:?}", value.as_f64()?),
            (rust, Value::String(value)) => {
                let item = self.items.iter().find(|item| item.name == rust)?;
                let Body::Variants(variants) = &item.body else { return None };
                let (variant, _) = variants.iter().find(|(_, one)| one == value)?;
                format!("{rust}::{variant}")
            }
            _ => return None,
        };
        let name = format!("default_{}_{}", crate::names::snake(base), field.ident);
        let name = self.function_names.unique(&name, "_");
        self.functions.push(Function { name: name.clone(), rust: field.rust.clone(), value });
        Some(name)
    }

    fn typed(&mut self, name: &str, schema: &Object) -> Typed {
        let open = is_set(schema, PRESERVE);
        if is_set(schema, "x-kubernetes-embedded-resource") {
            return Typed::of(ANY, schema, &[]);
        }
        if is_int_or_string(schema) {
            self.uses.insert("k8s_openapi::apimachinery::pkg::util::intstr::IntOrString");
            return Typed::of("IntOrString", schema, &[]).with(ANY);
        }
        let has = |keyword: &str| schema.get(keyword).and_then(Value::as_object).is_some_and(|inner| !inner.is_empty());
        match text_of(schema, "type") {
            "object" if has("properties") => self.structured(name, schema),
            "object" if has("additionalProperties") => {
                self.uses.insert("std::collections::BTreeMap");
                self.container("BTreeMap<String, ", "additionalProperties", name, schema)
            }
            "object" if is_set(schema, "additionalProperties") && !open => {
                self.uses.insert("std::collections::BTreeMap");
                Typed::of(format!("BTreeMap<String, {ANY}>"), schema, &["type", "additionalProperties"])
            }
            "object" if !open && !schema.contains_key("additionalProperties") => self.structured(name, schema),
            "array" if has("items") => self.container("Vec<", "items", name, schema),
            "string" => self.string(name, schema),
            "integer" => match text_of(schema, "format") {
                "int32" => Typed::of("i32", schema, &["type", "format"]),
                "int64" => Typed::of("i64", schema, &["type", "format"]),
                _ => Typed::of("i64", schema, &["type"]),
            },
            "number" => match text_of(schema, "format") {
                "double" => Typed::of("f64", schema, &["type", "format"]),
                _ => Typed::of("f64", schema, &["type"]),
            },
            "boolean" => Typed::of("bool", schema, &["type"]),
            _ => Typed::of(ANY, schema, &[]),
        }
    }

    fn structured(&mut self, name: &str, schema: &Object) -> Typed {
        let name = self.reserve(name);
        self.structure(&name, &name, schema);
        // The type carries all keywords itself.
        Typed { schema: name.clone(), rust: name, keywords: Object::new() }
    }

    /// A list or map. Keywords of its items that their type does not imply are added here.
    fn container(&mut self, begin: &str, keyword: &str, name: &str, schema: &Object) -> Typed {
        let empty = Object::new();
        let inner = schema.get(keyword).and_then(Value::as_object).unwrap_or(&empty);
        let typed = self.typed(name, inner);
        let mut keywords = keywords(schema, &["type", keyword]);
        if !typed.keywords.is_empty() {
            keywords.insert(keyword.to_owned(), without_words(&Value::Object(inner.clone())));
        }
        Typed { rust: format!("{begin}{}>", typed.rust), schema: format!("{begin}{}>", typed.schema), keywords }
    }

    fn string(&mut self, name: &str, schema: &Object) -> Typed {
        let values = schema.get("enum").and_then(Value::as_array);
        let words: Option<Vec<&str>> = values.and_then(|values| values.iter().map(Value::as_str).collect());
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            let name = self.reserve(name);
            let mut idents = Idents::default();
            let mut seen = BTreeSet::new();
            let variants: Vec<(String, String)> = words
                .into_iter()
                .filter(|word| seen.insert(*word))
                .map(|word| (idents.variant(word), word.to_owned()))
                .gather();
            let doc = text_of(schema, "description").to_owned();
            let mut keywords = keywords(schema, &["type", "enum"]);
            let default = keywords.remove("default");
            self.items.push(Item { name: name.clone(), doc, keywords, body: Body::Variants(variants) });
            let keywords = default.map(|value| ("default".to_owned(), value)).into_iter().gather();
            return Typed { schema: name.clone(), rust: name, keywords };
        }
        match text_of(schema, "format") {
            "date-time" if values.is_none() => {
                self.uses.insert("k8s_openapi::apimachinery::pkg::apis::meta::v1::Time");
                Typed::of("Time", schema, &["type"]).with("String")
            }
            "byte" if values.is_none() => {
                self.uses.insert("k8s_openapi::ByteString");
                Typed::of("ByteString", schema, &["type"]).with("String")
            }
            _ => Typed::of("String", schema, &["type"]),
        }
    }
}

/// Keywords of a schema that are not implied, without descriptions.
fn keywords(schema: &Object, implied: &[&str]) -> Object {
    let Value::Object(bare) = without_words(&Value::Object(schema.clone())) else { return Object::new() };
    let is_said = |keyword: &str, value: &Value| {
        let says_nothing = keyword == "required" && value.as_array().is_some_and(Vec::is_empty);
        !implied.contains(&keyword) && !says_nothing
    };
    bare.into_iter().filter(|(keyword, value)| is_said(keyword, value)).gather()
}
