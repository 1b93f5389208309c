//! Fields of a spec as Rust code.

use crate::{
    Field, FieldType, Number,
    field::{DURATION_PATTERN, QUANTITY_PATTERN},
    names,
};

/// The field with its documentation and attributes.
pub(super) fn field(kind: &str, field: &Field) -> String {
    let mut lines = vec![format!("/// {}", doc(field))];
    let serde = serde(field);
    if !serde.is_empty() {
        lines.push(format!("#[serde({})]", serde.join(", ")));
    }
    let schemars = schemars(field);
    if !schemars.is_empty() {
        lines.push(format!("#[schemars({})]", schemars.join(", ")));
    }
    lines.push(format!("pub {}: {},", field.ident(), rust_type(kind, field)));
    lines.join("\n")
}

/// Functions and types that the field needs.
pub(super) fn items(kind: &str, field: &Field) -> String {
    let mut text = String::new();
    let words = match &field.kind {
        FieldType::Enum(words) => Some(words),
        FieldType::List(inner) => match &**inner {
            FieldType::Enum(words) => Some(words),
            _ => None,
        },
        _ => None,
    };
    if let Some(words) = words {
        text.push_str(&enumeration(kind, field, words));
    } else if let Some(default) = &field.default {
        let (name, kind) = (default_function(field), rust_type(kind, field));
        text.push_str(&format!("\nfn {name}() -> {kind} {{\n    {}\n}}\n", literal(field, &field.kind, default, "")));
    }
    text
}

/// Schema functions for types that do not implement `JsonSchema` as needed.
pub(super) fn schemas(fields: &[Field]) -> String {
    let mut text = String::new();
    for (kind, schema) in [
        (FieldType::Quantity, format!("\"pattern\": r\"{QUANTITY_PATTERN}\"")),
        (FieldType::Time, "\"format\": \"date-time\"".to_owned()),
    ] {
        for optional in [false, true] {
            let of_kind = |field: &&Field| field.kind == kind && field.is_option() == optional;
            if let Some(field) = fields.iter().find(of_kind) {
                let (name, nullable) = (schema_function(field), if optional { ", \"nullable\": true" } else { "" });
                text.push_str(&format!(
                    "\nfn {name}(_: &mut SchemaGenerator) -> Schema {{\n    \
                     json_schema!({{\"type\": \"string\", {schema}{nullable}}})\n}}\n"
                ));
            }
        }
    }
    text
}

/// Converts `configMapName` to `Config map name`.
pub(super) fn title(name: &str) -> String {
    let words = names::snake(name).replace('_', " ");
    words[..1].to_ascii_uppercase() + &words[1..]
}

fn doc(field: &Field) -> String {
    field.doc.clone().unwrap_or_else(|| format!("The {}.", names::snake(&field.name).replace('_', " ")))
}

fn serde(field: &Field) -> Vec<String> {
    let mut parts = Vec::new();
    if field.needs_rename() {
        parts.push(format!("rename = \"{}\"", field.name));
    }
    match &field.default {
        Some(_) if matches!(field.kind, FieldType::Enum(_)) => parts.push("default".to_owned()),
        Some(_) => parts.push(format!("default = \"{}\"", default_function(field))),
        None if field.optional => {
            let empty = match field.kind {
                FieldType::List(_) => "Vec::is_empty",
                FieldType::Map => "BTreeMap::is_empty",
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
    match &field.kind {
        FieldType::Int32 | FieldType::Int64 | FieldType::Number => parts.extend(range("range")),
        FieldType::String | FieldType::List(_) => parts.extend(range("length")),
        FieldType::Map => {
            // schemars has no attribute for the size of maps.
            for (name, number) in [("minProperties", &field.min), ("maxProperties", &field.max)] {
                parts.extend(number.as_ref().map(|number| format!("extend(\"{name}\" = {})", number.text)));
            }
        }
        FieldType::Duration => parts.push(format!("regex(pattern = r\"{DURATION_PATTERN}\")")),
        FieldType::Quantity | FieldType::Time => parts.push(format!("schema_with = \"{}\"", schema_function(field))),
        FieldType::Bool | FieldType::Enum(_) => {}
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

fn rust_type(kind: &str, field: &Field) -> String {
    let name = type_name(kind, field, &field.kind);
    if field.is_option() { format!("Option<{name}>") } else { name }
}

fn type_name(kind: &str, field: &Field, of: &FieldType) -> String {
    match of {
        FieldType::String | FieldType::Duration => "String".to_owned(),
        FieldType::Int32 => "i32".to_owned(),
        FieldType::Int64 => "i64".to_owned(),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Number => "f64".to_owned(),
        FieldType::Quantity => "Quantity".to_owned(),
        FieldType::Time => "Time".to_owned(),
        FieldType::Enum(_) => enum_name(kind, field),
        FieldType::Map => "BTreeMap<String, String>".to_owned(),
        FieldType::List(inner) => format!("Vec<{}>", type_name(kind, field, inner)),
    }
}

/// Name of the enum of a field; must not collide with the spec or status type.
pub(super) fn enum_name(kind: &str, field: &Field) -> String {
    let name = names::upper_camel(&names::snake(&field.name));
    match name.as_str() {
        "Spec" | "Status" => format!("{kind}{name}Value"),
        _ => format!("{kind}{name}"),
    }
}

fn variant(words: &[String], word: &str) -> String {
    let place = words.iter().position(|one| one == word).unwrap_or_default();
    names::variants(words).into_iter().nth(place).unwrap_or_default()
}

fn enumeration(kind: &str, field: &Field, words: &[String]) -> String {
    let default = field.default.as_deref();
    let derived = if default.is_some() { "Default, " } else { "" };
    let mut text = format!(
        "\n/// {}\n#[derive(Clone, Copy, Debug, {derived}PartialEq, Eq, Deserialize, Serialize, JsonSchema)]\npub enum {} {{\n",
        doc(field),
        enum_name(kind, field)
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

fn default_function(field: &Field) -> String {
    format!("default_{}", field.ident().trim_start_matches("r#"))
}

fn schema_function(field: &Field) -> String {
    let kind = if field.kind == FieldType::Time { "time" } else { "quantity" };
    if field.is_option() { format!("optional_{kind}_schema") } else { format!("{kind}_schema") }
}

/// A value as a Rust expression. `enumeration` is the path of the enum type.
fn literal(field: &Field, of: &FieldType, value: &str, enumeration: &str) -> String {
    match of {
        FieldType::String | FieldType::Duration => format!("{value:?}.to_owned()"),
        FieldType::Int32 | FieldType::Int64 | FieldType::Bool => value.to_owned(),
        FieldType::Number if value.contains('.') => value.to_owned(),
        FieldType::Number => format!("{value}.0"),
        FieldType::Quantity => format!("Quantity({value:?}.to_owned())"),
        FieldType::Time => format!("Time({value:?}.parse().expect(\"the default must be a valid time\"))"),
        FieldType::Enum(words) => format!("{enumeration}::{}", variant(words, value)),
        FieldType::Map => {
            let entry = |key: String| format!("(\"{key}\".to_owned(), \"example\".to_owned())");
            let entries: Vec<String> = map_keys(field).map(entry).collect();
            format!("[{}].into()", entries.join(", "))
        }
        FieldType::List(inner) => {
            let item = literal(field, inner, &field.sample_of(inner), enumeration);
            format!("vec![{}]", vec![item; field.sample_count()].join(", "))
        }
    }
}

fn map_keys(field: &Field) -> impl Iterator<Item = String> {
    (1..=field.sample_count())
        .map(|number| if number == 1 { "example".to_owned() } else { format!("example-{number}") })
}

/// An example value of the field as a Rust expression.
pub(super) fn example(kind: &str, field: &Field) -> String {
    if !field.is_required() && field.example.is_none() && field.default.is_none() {
        return if field.is_option() { "None".to_owned() } else { "Default::default()".to_owned() };
    }
    let value = literal(field, &field.kind, &field.sample(), &enum_name(kind, field));
    if field.is_option() { format!("Some({value})") } else { value }
}

/// Returns whether the example uses the enum, which then has to be imported.
pub(super) fn names_enum(field: &Field) -> bool {
    let is_enum = match &field.kind {
        FieldType::Enum(_) => true,
        FieldType::List(inner) => matches!(**inner, FieldType::Enum(_)),
        _ => false,
    };
    is_enum && (field.is_required() || field.example.is_some() || field.default.is_some())
}

/// Lines of the field in a manifest.
pub(super) fn yaml(field: &Field) -> Option<String> {
    if !field.is_required() && field.example.is_none() && field.default.is_none() {
        return None;
    }
    let name = &field.name;
    let scalar = |kind: &FieldType, value: &str| match kind {
        FieldType::Int32 | FieldType::Int64 | FieldType::Number | FieldType::Bool => value.to_owned(),
        // JSON strings are valid YAML.
        _ if is_plain(value) => value.to_owned(),
        _ => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    Some(match &field.kind {
        FieldType::Map => {
            let entries: String = map_keys(field).map(|key| format!("\n  {key}: example")).collect();
            format!("{name}:{entries}")
        }
        FieldType::List(inner) => {
            let item = format!("\n  - {}", scalar(inner, &field.sample_of(inner)));
            format!("{name}:{}", item.repeat(field.sample_count()))
        }
        kind => format!("{name}: {}", scalar(kind, &field.sample())),
    })
}

/// Returns whether a string needs no quotes in YAML 1.1 and 1.2.
fn is_plain(value: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    value.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        && !words.contains(&value.to_ascii_lowercase().as_str())
}
