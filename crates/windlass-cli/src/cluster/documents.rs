//! Manifests with several documents.

use anyhow::Context as _;
use serde_json::Value;
use windlass_schema::yaml;

use crate::failure::ErrorWithHint;

/// Reads all objects of a YAML or JSON text. Lists are flattened; empty documents are skipped.
pub(crate) fn read(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (line, document) in yaml::documents(text).into_iter().filter(|(_, document)| !yaml::is_blank(document)) {
        let place = || format!("document at line {line}");
        let value = match yaml::to_json_value(document) {
            Ok(value) => value,
            Err(error) => {
                let hint = "use plain YAML or JSON; render templates first";
                let error = ErrorWithHint { message: error.to_string(), hint: hint.into() };
                return Err(anyhow::Error::new(error).context(place()));
            }
        };
        add(value, &mut objects).with_context(place)?;
    }
    Ok(objects)
}

fn add(value: Value, objects: &mut Vec<Value>) -> anyhow::Result<()> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/kind").ends_with("List") && value.get("items").is_some_and(Value::is_array) {
        let Value::Object(mut list) = value else { return Ok(()) };
        let Some(Value::Array(items)) = list.remove("items") else { return Ok(()) };
        return items.into_iter().try_for_each(|item| add(item, objects));
    }
    let missing = ["/apiVersion", "/kind", "/metadata/name"].into_iter().find(|path| text(path).is_empty());
    if value.is_null() {
        return Ok(());
    }
    if let Some(path) = missing {
        let message = format!("missing {}: not a Kubernetes object", path[1..].replace('/', "."));
        return Err(
            ErrorWithHint { message, hint: "each manifest needs apiVersion, kind and metadata.name".into() }.into()
        );
    }
    objects.push(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_flattened_and_empty_documents_skipped() {
        let text = "# nothing\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n---\n\
                    {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\
                    {\"apiVersion\": \"v1\", \"kind\": \"B\", \"metadata\": {\"name\": \"b\"}}]}\n";
        let kinds: Vec<Value> = read(text).unwrap().into_iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn errors_have_a_line_number() {
        let said = |text: &str| format!("{:#}", read(text).unwrap_err());
        let broken = said("apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n{{ if }}\n");
        assert!(broken.starts_with("document at line 4: yaml: "), "{broken}");
        let nameless = said("apiVersion: v1\nkind: A\n");
        assert_eq!(nameless, "document at line 1: missing metadata.name: not a Kubernetes object");
        assert!(said("- a\n").contains("missing apiVersion"));
    }
}
