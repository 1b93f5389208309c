//! Compares the OpenAPI documents generated from the table with those that Kubernetes publishes.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value};
use windlass_builtins::{openapi, table};

/// Compares every v3 document. Descriptions, unions and CBOR, which ours do not have, are ignored.
pub(super) fn run(kubernetes: &Path) -> anyhow::Result<()> {
    let (mut documents, mut differences) = (0, Vec::new());
    for group in &table().groups {
        for version in &group.versions {
            let path = openapi::group_version_path(&group.name, version);
            let file = format!("api/openapi-spec/v3/{}_openapi.json", path.replace('/', "__"));
            let file = kubernetes.join(file);
            let published = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
            let published = plain(serde_json::from_slice(&published)?);
            let ours = openapi::v3_document(&group.name, version, openapi::Sources::plain(table()))
                .context("failed to generate the OpenAPI document")?;
            compare(&plain(ours), &published, &path, &mut differences);
            documents += 1;
        }
    }
    for difference in differences.iter().take(50) {
        println!("{difference}");
    }
    println!("{documents} documents, {} differences", differences.len());
    ensure!(differences.is_empty(), "the documents differ from the published ones");
    Ok(())
}

/// Removes the ignored parts of a document. A single reference in `allOf` becomes the reference.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let counts = |(name, value): &(String, Value)| {
                let prose = name == "description" && value.is_string();
                !prose && name != "x-kubernetes-unions" && !name.contains("cbor")
            };
            let mut object: Map<_, _> =
                object.into_iter().filter(counts).map(|(name, value)| (name, plain(value))).collect();
            match (object.len(), object.get_mut("allOf")) {
                (1, Some(Value::Array(one))) if one.len() == 1 => one.remove(0),
                _ => Value::Object(object),
            }
        }
        Value::Array(list) => list.into_iter().map(plain).collect(),
        other => other,
    }
}

fn compare(ours: &Value, published: &Value, path: &str, differences: &mut Vec<String>) {
    if let (Value::Object(ours), Value::Object(published)) = (ours, published) {
        for (name, value) in ours {
            match published.get(name) {
                Some(published) => compare(value, published, &format!("{path} {name}"), differences),
                None => differences.push(format!("{path} {name}: ours alone")),
            }
        }
        let missing = published.keys().filter(|name| !ours.contains_key(*name));
        differences.extend(missing.map(|name| format!("{path} {name}: missing")));
    } else if ours != published {
        differences.push(format!("{path}: {ours}, not {published}"));
    }
}
