//! Sources of CRDs: manifests and clusters.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use anyhow::Context as _;
use serde_json::Value;
use windlass_builtins::upgrade::{self, Note};
use windlass_schema::yaml;

use crate::{
    cluster::{ClusterArgs, documents},
    failure::ErrorWithHint,
    threads,
};

/// Path of CRDs on an API server.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Name of a CRD, or a substitute.
pub(super) fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name").to_owned()
}

/// Reads the CRDs of a manifest as v1. Other objects are skipped.
pub(super) fn from_file(file: &Path) -> anyhow::Result<Vec<Value>> {
    let address = file.to_str().filter(|text| ["http://", "https://"].iter().any(|begin| text.starts_with(begin)));
    if let Some(address) = address {
        let hint = format!("download it first: curl -sSfL {address} | windlass import crd -");
        let message = format!("cannot read {address}: only files and clusters are supported");
        return Err(ErrorWithHint { message, hint: hint.into() }.into());
    }
    let (name, text) = match file == Path::new("-") {
        true => {
            let mut text = String::new();
            ("standard input".to_owned(), io::stdin().read_to_string(&mut text).map(|_| text))
        }
        false => (file.display().to_string(), fs::read_to_string(file)),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let mut definitions = Vec::new();
    for object in documents::read(&text).with_context(|| name.clone())? {
        if object.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
            continue;
        }
        if !upgrade::is_old(&object) {
            definitions.push(object);
            continue;
        }
        let of = name_of(&object);
        let upgraded = upgrade::upgrade(&object).with_context(|| format!("{name}: {of}"))?;
        for Note(note) in &upgraded.notes {
            eprintln!("{of}: {note}");
        }
        definitions.push(upgraded.definition);
    }
    Ok(definitions)
}

/// Reads a CRD from a cluster.
pub(super) fn from_cluster(cluster: &ClusterArgs, name: &str) -> anyhow::Result<Value> {
    threads::block_on(async {
        let cluster = cluster.connect().await?;
        let ask = async |path: String| {
            let request =
                http::Request::get(path).body(Vec::new()).context("invalid name of a CustomResourceDefinition")?;
            parse(&cluster.client.request_text(request).await?)
        };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)) {
            return Err(unknown(name, &[]).into());
        }
        match ask(format!("{DEFINITIONS}/{name}")).await {
            Err(error) if is_not_found(&error) => {
                let all = ask(DEFINITIONS.to_owned()).await.context("failed to list CustomResourceDefinitions")?;
                let items = all.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
                Err(unknown(name, &items).into())
            }
            found => {
                let mut found = found.with_context(|| format!("cannot get {name} from {}", cluster.url))?;
                // Items of lists may lack these.
                found["apiVersion"] = "apiextensions.k8s.io/v1".into();
                found["kind"] = "CustomResourceDefinition".into();
                Ok(found)
            }
        }
    })
}

/// Parses a response. CRDs may nest deeper than serde_json allows; the YAML parser reads JSON, too.
fn parse(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text)
        .or_else(|_| yaml::to_json_value(text))
        .context("failed to parse the response of the server")
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 404)
}

/// The error for an unknown name, with similar names.
fn unknown(name: &str, items: &[Value]) -> ErrorWithHint {
    let word = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_like = |item: &&Value| {
        let names = ["/spec/names/plural", "/spec/names/singular", "/spec/names/kind"];
        names.iter().any(|path| {
            let known = item.pointer(path).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
            !word.is_empty() && known == word
        })
    };
    let like: Vec<String> = items.iter().filter(is_like).map(name_of).collect();
    let hint = match like.is_empty() {
        true => "use PLURAL.GROUP as listed by `kubectl get crds`".to_owned(),
        false => format!("did you mean {}?", like.join(", ")),
    };
    ErrorWithHint { message: format!("the cluster has no CustomResourceDefinition {name:?}"), hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_may_nest_deeply() {
        let text = format!("{}1{}", "{\"a\":[".repeat(100), "]}".repeat(100));
        let value = parse(&text).unwrap();
        assert_eq!(value.pointer(&"/a/0".repeat(100)), Some(&Value::from(1)));
        assert!(parse("{").is_err());
    }

    #[test]
    fn urls_are_rejected_with_a_hint() {
        let error = from_file(Path::new("https://example.com/crds.yaml")).unwrap_err();
        assert_eq!(
            crate::failure::hint(&error).unwrap(),
            "download it first: curl -sSfL https://example.com/crds.yaml | windlass import crd -"
        );
    }
}
