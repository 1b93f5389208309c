//! Manifests with several documents, some of which are CRDs to upgrade.

use anyhow::Context as _;
use serde_json::Value;
use windlass_builtins::upgrade::{self, NEW, Note, OLD};
use windlass_schema::yaml;

use crate::failure::ErrorWithHint;

/// Result of upgrading a manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    /// New text. Other documents are unchanged.
    pub(super) text: String,
    /// Number of upgraded CRDs.
    pub(super) upgraded: usize,
    /// Report of changes, one line each.
    pub(super) account: Vec<String>,
}

/// Upgrades the CRDs in a manifest.
pub(super) fn upgrade(text: &str) -> anyhow::Result<Manifest> {
    let mut manifest = Manifest { text: String::with_capacity(text.len() * 2), upgraded: 0, account: Vec::new() };
    let documents: Vec<&str> = yaml::documents(text).into_iter().map(|(_, document)| document).collect();
    let several = documents.iter().filter(|document| !yaml::is_blank(document)).count() > 1;
    let mut number = 0;
    for (index, document) in documents.into_iter().enumerate() {
        if index > 0 {
            manifest.text.push_str("---");
        }
        if yaml::is_blank(document) {
            manifest.text.push_str(document);
            continue;
        }
        number += 1;
        let parsed = match yaml::parse(document.as_bytes()) {
            Ok(parsed) => parsed,
            Err(error) => {
                let message = error.to_string();
                let hint = "use plain YAML or JSON; render templates first";
                let error = anyhow::Error::new(ErrorWithHint { message, hint: hint.into() });
                return if several { Err(error.context(format!("document {number}"))) } else { Err(error) };
            }
        };
        let before = manifest.upgraded;
        let twice = parsed.duplicates();
        let mut value = parsed.value;
        upgrade_value(&mut value, &mut manifest)?;
        if manifest.upgraded > before {
            let line = |message: String| message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            let line = |message| format!("for duplicate fields, the last one is used: {}", line(message));
            manifest.account.extend(twice.into_iter().map(line));
            manifest.text.push_str(comments(document));
            manifest.text.push_str(&yaml::to_yaml(&value));
        } else {
            manifest.text.push_str(document);
        }
    }
    Ok(manifest)
}

/// Joins documents into one manifest.
pub(super) fn join<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut all = String::new();
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        if !all.is_empty() {
            if !all.ends_with('\n') {
                all.push('\n');
            }
            if !text.starts_with("---") {
                all.push_str("---\n");
            }
        }
        all.push_str(text);
    }
    all
}

fn upgrade_value(value: &mut Value, manifest: &mut Manifest) -> anyhow::Result<()> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name").to_owned();
    if upgrade::is_old(value) {
        let upgraded = upgrade::upgrade(value).with_context(|| name.clone())?;
        *value = upgraded.definition;
        manifest.upgraded += 1;
        manifest.account.extend(upgraded.notes.iter().map(|Note(note)| format!("{name}: {note}")));
        return Ok(());
    }
    let items = value.get_mut("items").and_then(Value::as_array_mut).filter(|_| kind.ends_with("List"));
    if let Some(items) = items {
        for item in items {
            // Items of such a list may omit apiVersion and kind.
            if api_version == OLD
                && let Some(item) = item.as_object_mut()
            {
                item.entry("apiVersion").or_insert_with(|| OLD.into());
                item.entry("kind").or_insert_with(|| "CustomResourceDefinition".into());
            }
            upgrade_value(item, manifest)?;
        }
        if api_version == OLD {
            value["apiVersion"] = NEW.into();
        }
    } else if kind == "CustomResourceDefinition" {
        manifest.account.push(format!("{name}: already {api_version}, unchanged"));
    } else {
        let kind = if kind.is_empty() { "a document without a kind".to_owned() } else { format!("{kind} {name}") };
        manifest.account.push(format!("{kind}: not a CustomResourceDefinition, unchanged"));
    }
    Ok(())
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Returns the leading comments of a document, with the rest of its first line.
fn comments(document: &str) -> &str {
    let lines = document.split_inclusive('\n').take_while(|line| is_comment(line));
    &document[..lines.map(str::len).sum()]
}

#[cfg(test)]
mod tests;
