//! Fields of a spec or a status as Rust code.

mod example;

use std::collections::BTreeMap;

use crate::{
    Field, FieldType, Number,
    field::{self, DURATION_PATTERN, QUANTITY_PATTERN},
    names,
};

pub(super) use example::Example;

/// The fields of a spec or a status, and the prefix of the types that they need.
#[derive(Clone, Copy)]
pub(super) struct FieldSet<'a> {
    pub(super) prefix: &'a str,
    pub(super) fields: &'a [Field],
}

impl<'a> FieldSet<'a> {
    fn children(self, parent: Option<&'a str>) -> impl Iterator<Item = &'a Field> {
        field::children(self.fields, parent)
    }

    /// The fields at the top, with their documentation and attributes.
    pub(super) fn members(self) -> String {
        self.members_of(None)
    }

    fn members_of(self, parent: Option<&'a str>) -> String {
        self.children(parent).map(|field| self.member(field)).collect::<Vec<_>>().join("\n")
    }

    fn member(self, field: &Field) -> String {
        let mut lines = vec![format!("/// {}", doc(field))];
        let serde = serde(field);
        if !serde.is_empty() {
            lines.push(format!("#[serde({})]", serde.join(", ")));
        }
        let schemars = schemars(field);
        if !schemars.is_empty() {
            lines.push(format!("#[schemars({})]", schemars.join(", ")));
        }
        lines.push(format!("pub {}: {},", field.ident(), self.rust_type(field)));
        lines.join("\n")
    }

    /// Functions and types that the fields need: those of an object follow it.
    pub(super) fn items(self) -> String {
        self.items_of(None)
    }

    fn items_of(self, parent: Option<&'a str>) -> String {
        let mut text = String::new();
        for field in self.children(parent) {
            match field.kind.item() {
                FieldType::Enum(words) => text.push_str(&self.enumeration(field, words)),
                FieldType::Object => text.push_str(&self.object(field)),
                _ => {}
            }
            if let Some(default) = field.default.as_ref().filter(|_| !matches!(field.kind, FieldType::Enum(_))) {
                let (name, kind) = (default_function(field), self.rust_type(field));
                let value = self.literal(field, &field.kind, default);
                text.push_str(&format!("\nfn {name}() -> {kind} {{\n    {value}\n}}\n"));
            }
        }
        text
    }

    fn object(self, field: &'a Field) -> String {
        let members = self.members_of(Some(&field.name));
        let body = match members.is_empty() {
            true => " {}\n".to_owned(),
            false => {
                let lines: String = members.lines().map(|line| format!("    {line}\n")).collect();
                format!(" {{\n{lines}}}\n")
            }
        };
        format!(
            "\n/// {}\n#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]\n\
             #[serde(rename_all = \"camelCase\")]\npub struct {}{body}{}",
            doc(field),
            field::type_name(self.prefix, field),
            self.items_of(Some(&field.name)),
        )
    }

    fn enumeration(self, field: &Field, words: &[String]) -> String {
        let default = field.default.as_deref();
        let derived = if default.is_some() { "Default, " } else { "" };
        let mut text = format!(
            "\n/// {}\n#[derive(Clone, Copy, Debug, {derived}PartialEq, Eq, Deserialize, Serialize, JsonSchema)]\npub enum {} {{\n",
            doc(field),
            field::type_name(self.prefix, field)
        );
        for (word, variant) in words.iter().zip(names::variants(words)) {
            if default == Some(word) {
                text.push_str("    #[default]\n");
            }
            if variant != *word {
                text.push_str(&format!("    #[serde(rename = \"{word}\")]\n"));
            }
            text.push_str(&format!("    {variant},\n"));
        }
        text + "}\n"
    }

    fn rust_type(self, field: &Field) -> String {
        let item = match field.kind.item() {
            FieldType::String | FieldType::Duration => "String".to_owned(),
            FieldType::Int32 => "i32".to_owned(),
            FieldType::Int64 => "i64".to_owned(),
            FieldType::Bool => "bool".to_owned(),
            FieldType::Number => "f64".to_owned(),
            FieldType::Quantity => "Quantity".to_owned(),
            FieldType::Time => "Time".to_owned(),
            // Items are not collections.
            FieldType::Enum(_) | FieldType::Object | FieldType::Map(_) | FieldType::List(_) => {
                field::type_name(self.prefix, field)
            }
        };
        match field.kind {
            FieldType::Map(_) => format!("BTreeMap<String, {item}>"),
            FieldType::List(_) => format!("Vec<{item}>"),
            _ if field.is_option() => format!("Option<{item}>"),
            _ => item,
        }
    }
}

/// Schema functions for types that do not implement `JsonSchema` as needed.
pub(super) fn schemas<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    let mut all: BTreeMap<SchemaFunction, String> = BTreeMap::new();
    for field in fields {
        let Some(function) = schema_function(field) else { continue };
        let item = match field.kind.item() {
            FieldType::Quantity => format!("\"pattern\": r\"{QUANTITY_PATTERN}\""),
            FieldType::Duration => format!("\"pattern\": r\"{DURATION_PATTERN}\""),
            _ => "\"format\": \"date-time\"".to_owned(),
        };
        let item = format!("\"type\": \"string\", {item}");
        let schema = match field.kind {
            FieldType::List(_) => format!("\"type\": \"array\", \"items\": {{{item}}}"),
            FieldType::Map(_) => format!("\"type\": \"object\", \"additionalProperties\": {{{item}}}"),
            _ if field.is_option() => format!("{item}, \"nullable\": true"),
            _ => item,
        };
        all.insert(function, schema);
    }
    let function = |(function, schema): (SchemaFunction, String)| {
        let name = function.name();
        format!("\nfn {name}(_: &mut SchemaGenerator) -> Schema {{\n    json_schema!({{{schema}}})\n}}\n")
    };
    all.into_iter().map(function).collect()
}

/// Converts `configMapName` to `Config map name`.
pub(super) fn title(name: &str) -> String {
    let words = names::snake(name).replace('_', " ");
    words[..1].to_ascii_uppercase() + &words[1..]
}

fn doc(field: &Field) -> String {
    field.doc.clone().unwrap_or_else(|| format!("The {}.", names::snake(field.leaf()).replace('_', " ")))
}

fn serde(field: &Field) -> Vec<String> {
    let mut parts = Vec::new();
    if field.needs_rename() {
        parts.push(format!("rename = \"{}\"", field.leaf()));
    }
    match &field.default {
        Some(_) if matches!(field.kind, FieldType::Enum(_)) => parts.push("default".to_owned()),
        Some(_) => parts.push(format!("default = \"{}\"", default_function(field))),
        None if field.optional => {
            let empty = match field.kind {
                FieldType::List(_) => "Vec::is_empty",
                FieldType::Map(_) => "BTreeMap::is_empty",
                _ => "Option::is_none",
            };
            parts.push(format!("default, skip_serializing_if = \"{empty}\""));
        }
        None => {}
    }
    parts
}

fn schemars(field: &Field) -> Vec<String> {
    let range = |word: &str| {
        let bound = |name: &str, number: &Option<Number>| {
            number.as_ref().map(|number| format!("{name} = {}", literal_number(field, number)))
        };
        let bounds: Vec<String> = [bound("min", &field.min), bound("max", &field.max)].into_iter().flatten().collect();
        (!bounds.is_empty()).then(|| format!("{word}({})", bounds.join(", ")))
    };
    let mut parts = Vec::new();
    if let Some(function) = schema_function(field) {
        parts.push(format!("schema_with = \"{}\"", function.name()));
    }
    match &field.kind {
        FieldType::Int32 | FieldType::Int64 | FieldType::Number => parts.extend(range("range")),
        FieldType::String | FieldType::List(_) => parts.extend(range("length")),
        FieldType::Map(_) => {
            // schemars has no attribute for the size of maps.
            for (name, number) in [("minProperties", &field.min), ("maxProperties", &field.max)] {
                parts.extend(number.as_ref().map(|number| format!("extend(\"{name}\" = {})", number.text)));
            }
        }
        FieldType::Duration => parts.push(format!("regex(pattern = r\"{DURATION_PATTERN}\")")),
        FieldType::Quantity | FieldType::Time | FieldType::Bool | FieldType::Enum(_) | FieldType::Object => {}
    }
    if let FieldType::List(inner) = &field.kind
        && **inner == FieldType::Duration
    {
        parts.push(format!("inner(regex(pattern = r\"{DURATION_PATTERN}\"))"));
    }
    if let Some(pattern) = &field.pattern {
        parts.push(format!("regex(pattern = {})", raw(pattern)));
    }
    parts
}

fn literal_number(field: &Field, number: &Number) -> String {
    match field.kind {
        FieldType::Number if !number.text.contains('.') => format!("{}.0", number.text),
        _ => number.text.clone(),
    }
}

/// A raw string literal with as many `#` as it needs.
fn raw(text: &str) -> String {
    let mut signs = String::new();
    while text.contains(&format!("\"{signs}")) {
        signs.push('#');
    }
    format!("r{signs}\"{text}\"{signs}")
}

fn default_function(field: &Field) -> String {
    let parts: Vec<String> = field.name.split('.').map(names::snake).collect();
    format!("default_{}", parts.join("_"))
}

/// A function with a schema; sorted as they are generated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SchemaFunction {
    item: SchemaItem,
    form: SchemaForm,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SchemaItem {
    Quantity,
    Time,
    Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SchemaForm {
    Single,
    Optional,
    List,
    Map,
}

impl SchemaFunction {
    fn name(self) -> String {
        let item = match self.item {
            SchemaItem::Quantity => "quantity",
            SchemaItem::Time => "time",
            SchemaItem::Duration => "duration",
        };
        match self.form {
            SchemaForm::Single => format!("{item}_schema"),
            SchemaForm::Optional => format!("optional_{item}_schema"),
            SchemaForm::List => format!("{item}_list_schema"),
            SchemaForm::Map => format!("{item}_map_schema"),
        }
    }
}

/// Function with the schema of a field, if its type does not have the right one.
fn schema_function(field: &Field) -> Option<SchemaFunction> {
    let item = match field.kind.item() {
        FieldType::Quantity => SchemaItem::Quantity,
        FieldType::Time => SchemaItem::Time,
        // schemars has no attribute for the values of maps.
        FieldType::Duration if field.kind.is_map() => SchemaItem::Duration,
        _ => return None,
    };
    let form = match field.kind {
        FieldType::List(_) => SchemaForm::List,
        FieldType::Map(_) => SchemaForm::Map,
        _ if field.is_option() => SchemaForm::Optional,
        _ => SchemaForm::Single,
    };
    Some(SchemaFunction { item, form })
}
