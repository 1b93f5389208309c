//! Tests the protobuf codec with the vectors that Kubernetes publishes with its Go modules.
//!
//! Every kind has a `.json` and a `.pb` of the same object with all fields set. The vectors stay in the module cache.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use windlass_builtins::{protobuf, table};

/// The modules with vectors, and the directories of these.
const FOLDERS: [(&str, &str); 2] =
    [("k8s.io/api@v0.36.4", "testdata/HEAD"), ("k8s.io/apiextensions-apiserver@v0.36.4", "pkg/apis/testdata/HEAD")];

/// Runs every vector of a kind in the table: decoding must yield the JSON, encoding the bytes. Without directories,
/// uses those of the published modules.
pub(super) fn run(go: &Path, folders: &[&str]) -> anyhow::Result<()> {
    let (mut good, mut bad, mut skipped) = (0, 0, 0);
    let mut folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    if folders.is_empty() {
        for (module, folder) in FOLDERS {
            folders.push(super::module_folder(go, module)?.join(folder));
        }
    }
    for folder in folders {
        let mut paths: Vec<_> = std::fs::read_dir(&folder)
            .with_context(|| format!("list {}", folder.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        for path in paths {
            let json: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            let name = format!("{} {}", json["apiVersion"], json["kind"]).replace('"', "");
            let known = json["apiVersion"].as_str().zip(json["kind"].as_str());
            if known.is_none_or(|(api_version, kind)| table().kind(api_version, kind).is_none()) {
                skipped += 1;
                continue;
            }
            match check(&json, &std::fs::read(path.with_extension("pb"))?) {
                Ok(()) => good += 1,
                Err(error) => {
                    bad += 1;
                    println!("{name}: {error:#}");
                }
            }
        }
    }
    println!("{good} vectors match, {bad} do not, {skipped} skipped (kinds that are not in the table)");
    ensure!(bad == 0 && good > 60, "the codec does not match the published vectors");
    Ok(())
}

fn check(json: &Value, bytes: &[u8]) -> anyhow::Result<()> {
    let decoded = protobuf::decode(bytes, table()).context("decode")?;
    if let Some(path) = difference(&decoded.value, json, String::new()) {
        anyhow::bail!("decoded object differs at {path}");
    }
    let encoded = protobuf::encode_object(json, table()).context("encode")?;
    let at = encoded.iter().zip(bytes).position(|(ours, theirs)| ours != theirs);
    ensure!(
        encoded == bytes,
        "encoded object differs at byte {at:?} ({} bytes instead of {})",
        encoded.len(),
        bytes.len()
    );
    Ok(())
}

/// Returns the path at which two values first differ.
fn difference(ours: &Value, theirs: &Value, path: String) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).find_map(|key| {
            let path = format!("{path}.{key}");
            match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(a, b, path),
                (a, b) => Some(format!("{path}: {a:?}, not {b:?}")),
            }
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| difference(a, b, format!("{path}[{index}]")))
        }
        (a, b) => (a != b).then(|| format!("{path}: {a}, not {b}")),
    }
}
