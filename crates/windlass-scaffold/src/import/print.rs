//! Types as source code.

use std::fmt::Write as _;

use super::{
    Object,
    idents::{is_found, written},
    literal,
    model::{Body, Item, Model, ModelField},
};

/// Width of comments.
const WIDTH: usize = 112;
/// Maximum width of attributes on one line.
const LONGEST: usize = 120;

/// Deserializes the unknown fields of an object. kube-derive writes the kind itself, so it must not appear twice.
const REST: &str = r#"
fn rest_of_object<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, serde_json::Value>, D::Error> {
    let mut rest = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    rest.retain(|name, _| name != "apiVersion" && name != "kind");
    Ok(rest)
}
"#;

/// The whole module.
pub(super) fn module(kind: &str, version: &str, group: &str, head: &[String], model: &Model) -> String {
    let mut text = format!(
        "//! {kind} {version}.\n//!\n//! Imported from the CustomResourceDefinition of `{group}`, including names and descriptions.\n\n\
         #![allow(clippy::all, rustdoc::all)]\n\n"
    );
    let (std, others): (Vec<&str>, Vec<&str>) = model.uses.iter().partition(|path| path.starts_with("std::"));
    for path in &std {
        let _ = writeln!(text, "use {path};");
    }
    if !std.is_empty() {
        text.push('\n');
    }
    for path in
        others.into_iter().chain(["kube::CustomResource", "schemars::JsonSchema", "serde::{Deserialize, Serialize}"])
    {
        let _ = writeln!(text, "use {path};");
    }
    for (place, item) in model.items.iter().enumerate() {
        text.push('\n');
        print_item(&mut text, item, (place == 0).then_some(head));
    }
    for function in &model.functions {
        let _ = write!(text, "\nfn {}() -> {} {{\n    {}\n}}\n", function.name, function.rust, function.value);
    }
    if model.items.iter().any(|item| matches!(&item.body, Body::Fields(_, Some(rest)) if rest.of_top)) {
        text.push_str(REST);
    }
    text
}

fn print_item(text: &mut String, item: &Item, head: Option<&[String]>) {
    doc(text, "", &item.doc);
    let mut derives = vec!["Clone", "Debug"];
    match &item.body {
        Body::Variants(_) => derives.insert(1, "Copy"),
        // If all fields are optional, the struct has a meaningful default.
        Body::Fields(fields, _) if fields.iter().all(|field| field.optional) => derives.push("Default"),
        Body::Json => derives.push("Default"),
        Body::Fields(..) => {}
    }
    derives.push("PartialEq");
    if matches!(item.body, Body::Variants(_)) {
        derives.push("Eq");
    }
    derives.extend(["Deserialize", "Serialize", "JsonSchema"]);
    if head.is_some() {
        derives.insert(0, "CustomResource");
    }
    let _ = writeln!(text, "#[derive({})]", derives.join(", "));
    if let Some(head) = head {
        text.push_str("#[kube(\n");
        for line in head {
            let _ = writeln!(text, "    {line},");
        }
        text.push_str(")]\n");
    }
    if matches!(item.body, Body::Fields(..)) {
        text.push_str("#[serde(rename_all = \"camelCase\")]\n");
    }
    attribute(text, "", None, &item.keywords);
    match &item.body {
        Body::Variants(variants) => {
            let _ = writeln!(text, "pub enum {} {{", item.name);
            for (variant, value) in variants {
                if variant != value {
                    let _ = writeln!(text, "    #[serde(rename = {})]", literal::text(value));
                }
                let _ = writeln!(text, "    {variant},");
            }
            text.push_str("}\n");
        }
        Body::Json => {
            let _ = writeln!(text, "pub struct {}(pub serde_json::Value);", item.name);
        }
        Body::Fields(fields, None) if fields.is_empty() => {
            let _ = writeln!(text, "pub struct {} {{}}", item.name);
        }
        Body::Fields(fields, rest) => {
            let _ = writeln!(text, "pub struct {} {{", item.name);
            fields.iter().for_each(|field| print_field(text, field));
            if let Some(rest) = rest {
                let without = if rest.of_top { ", deserialize_with = \"rest_of_object\"" } else { "" };
                let _ = write!(
                    text,
                    "    /// Fields that the schema does not specify.\n    #[serde(flatten{without})]\n    \
                     #[schemars(skip)]\n    pub {}: BTreeMap<String, serde_json::Value>,\n",
                    written(&rest.ident)
                );
            }
            text.push_str("}\n");
        }
    }
}

fn print_field(text: &mut String, field: &ModelField) {
    doc(text, "    ", &field.doc);
    let mut serde = Vec::new();
    if !is_found(&field.ident, &field.name) {
        serde.push(format!("rename = {}", literal::text(&field.name)));
    }
    if let Some(function) = &field.default {
        serde.push(format!("default = \"{function}\""));
    } else if field.optional {
        serde.push("default, skip_serializing_if = \"Option::is_none\"".to_owned());
    }
    if !serde.is_empty() {
        let _ = writeln!(text, "    #[serde({})]", serde.join(", "));
    }
    attribute(text, "    ", field.with.as_deref(), &field.keywords);
    let _ = writeln!(text, "    pub {}: {},", written(&field.ident), field.rust);
}

/// The `#[schemars(...)]` attribute with the schema type and keywords.
fn attribute(text: &mut String, indentation: &str, with: Option<&str>, keywords: &Object) {
    let with = with.map(|with| format!("with = \"{with}\""));
    let keywords: Vec<String> = keywords
        .iter()
        .map(|(keyword, value)| format!("{} = {}", literal::text(keyword), literal::json(value)))
        .collect();
    let extend = |before: &str, between: &str, after: &str| {
        (!keywords.is_empty()).then(|| format!("extend({before}{}{after})", keywords.join(between)))
    };
    let parts: Vec<String> = with.iter().cloned().chain(extend("", ", ", "")).collect();
    let line = format!("{indentation}#[schemars({})]", parts.join(", "));
    if parts.is_empty() {
        return;
    }
    if line.len() <= LONGEST {
        let _ = writeln!(text, "{line}");
        return;
    }
    // rustfmt does not reformat such attributes.
    let deeper = format!("\n{indentation}        ");
    let extend = extend(&deeper, &format!(",{deeper}"), &format!("\n{indentation}    "));
    let parts: Vec<String> = with.into_iter().chain(extend).map(|part| format!("{indentation}    {part}")).collect();
    let _ = write!(text, "{indentation}#[schemars(\n{}\n{indentation})]\n", parts.join(",\n"));
}

/// A description as a doc comment. Code in it is escaped, so that it is not compiled as a doctest.
fn doc(text: &mut String, indentation: &str, words: &str) {
    let mut within_code = false;
    for line in words.trim().lines() {
        let mut line: String =
            line.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        if line.starts_with("```") || line.starts_with("~~~") {
            within_code = !within_code;
            line = if within_code { "```text".to_owned() } else { "```".to_owned() };
        }
        for part in wrap(&line, WIDTH - indentation.len(), within_code) {
            let _ = writeln!(text, "{}", format!("{indentation}/// {part}").trim_end());
        }
    }
    if within_code {
        let _ = writeln!(text, "{indentation}/// ```");
    }
}

fn wrap(line: &str, width: usize, as_it_is: bool) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in line.split(' ') {
        let part = parts.last_mut().expect("parts is never empty");
        if !as_it_is && !part.is_empty() && part.chars().count() + 1 + word.chars().count() > width {
            parts.push(word.to_owned());
        } else {
            if !part.is_empty() {
                part.push(' ');
            }
            part.push_str(word);
        }
    }
    parts
}
