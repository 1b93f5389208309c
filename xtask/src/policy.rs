//! `cargo xtask policy`: reads the roles and bindings that kube-apiserver creates at its first start, and writes them
//! for the API server.
//!
//! They are read with kubectl from a kube-apiserver that has not been used before; flags such as `--kubeconfig` are passed
//! on. A line has the key of an object, the labels that not all of them have, and everything but the metadata. The
//! aggregated roles have the rules that the control loop would give them.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use crate::peers;

const KINDS: [(&str, &str); 4] = [
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
];
const OUTPUT: &str = "crates/windlass-apiserver/data/bootstrap-policy.txt";

pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let (folder, flags) = match args {
        ["--peers", folder, flags @ ..] => (PathBuf::from(folder), flags),
        flags => (peers::folder(), flags),
    };
    let mut command = Command::new(peers::find(&folder, "kubectl")?);
    command.args(["get", "--all-namespaces", "-o", "json", &KINDS.map(|(_, plural)| plural).join(",")]).args(flags);
    let output = command.output().context("cannot run kubectl")?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).context("failed to read the output of kubectl")?;
    let objects = list["items"].as_array().context("kubectl returned no list")?;
    let lines = render(objects)?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask must be in the workspace")?;
    fs::write(workspace.join(OUTPUT), &lines)?;
    println!("wrote {} objects to {OUTPUT}", objects.len());
    Ok(())
}

/// Returns the lines of the file, in the order of kinds and names.
fn render(objects: &[Value]) -> anyhow::Result<String> {
    let mut lines = String::new();
    for (kind, plural) in KINDS {
        let mut some: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
        some.sort_by_key(|object| key(object));
        for object in some {
            let metadata = &object["metadata"];
            let common = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
            ensure!(metadata["annotations"] == common, "{} has other annotations", key(object));
            let mut labels = metadata["labels"].as_object().cloned().unwrap_or_default();
            let label = labels.remove("kubernetes.io/bootstrapping");
            ensure!(label == Some("rbac-defaults".into()), "{} has other labels", key(object));
            let mut body = object.as_object().cloned().unwrap_or_default();
            body.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
            if object.get("aggregationRule").is_some() {
                body.insert("rules".to_owned(), aggregated(object, objects));
            }
            writeln!(lines, "{plural}/{} {} {}", key(object), Value::Object(labels), Value::Object(body))?;
        }
    }
    Ok(lines)
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Returns the rules that the control loop would aggregate: the rules of the selected roles in order of name,
/// without duplicates. Selected roles may be aggregated, too.
pub(crate) fn aggregated(role: &Value, objects: &[Value]) -> Value {
    let mut rules: Vec<Value> = Vec::new();
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for selector in selectors {
        let wanted = selector["matchLabels"].as_object().cloned().unwrap_or_else(Map::new);
        let selects = |other: &&Value| wanted.iter().all(|(name, value)| other["metadata"]["labels"][name] == *value);
        let mut others: Vec<&Value> = objects.iter().filter(|other| other["kind"] == "ClusterRole").collect();
        others.retain(|other| key(other) != key(role));
        others.sort_by_key(|other| key(other));
        for other in others.into_iter().filter(selects) {
            let own = match other.get("aggregationRule") {
                Some(_) => aggregated(other, objects),
                None => other["rules"].clone(),
            };
            for rule in own.as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_roles_have_the_rules_of_others_once() {
        let role = |name: &str, label: &str, rest: Value| {
            let mut role = json!({"kind": "ClusterRole", "metadata": {
                "name": name, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", label: "true"},
            }});
            for (field, value) in rest.as_object().unwrap() {
                role[field] = value.clone();
            }
            role
        };
        let selects =
            |label: &str| json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}});
        let objects = [
            role("view", "edit", selects("view")),
            role("edit", "-", selects("edit")),
            role("b", "view", json!({"rules": [1, 2]})),
            role("a", "edit", json!({"rules": [3, 2]})),
        ];
        let lines = render(&objects).unwrap();
        let expected = [
            r#"clusterroles/a {"edit":"true"} {"rules":[3,2]}"#,
            r#"clusterroles/b {"view":"true"} {"rules":[1,2]}"#,
            r#"clusterroles/edit {"-":"true"} {"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"edit":"true"}}]},"rules":[3,2,1]}"#,
            r#"clusterroles/view {"edit":"true"} {"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"view":"true"}}]},"rules":[1,2]}"#,
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        assert!(render(&[json!({"kind": "Role", "metadata": {"name": "own"}})]).is_err());
    }
}
