//! Comparison of granted and used permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::Value;

use super::{
    needs::{Need, Needs},
    rules::Rule,
};
use crate::{cluster::documents, failure::ErrorWithHint};

/// A rule and its scope.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// Description of the role that contains it.
    role: String,
    /// `None` for the whole cluster.
    namespace: Option<String>,
    rule: Rule,
}

/// Granted permissions and their subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    all: Vec<Grant>,
    /// Namespace of the service account, if known.
    account: Option<String>,
}

/// The difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Used, but not granted.
    pub(super) missing: Vec<String>,
    /// Granted, but never used.
    pub(super) unused: Vec<String>,
}

/// Reads the roles of a file or of all files in a directory.
pub(super) fn read(path: &Path) -> anyhow::Result<Grants> {
    let mut objects = Vec::new();
    for file in files(path).with_context(|| format!("cannot read {}", path.display()))? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        // Not every file in such a directory is a manifest: kustomizations have no name.
        match documents::read(&text) {
            Ok(read) => objects.extend(read),
            Err(error) if file != path => tracing::debug!(file = %file.display(), "skipped: {error:#}"),
            Err(error) => return Err(error.context(file.display().to_string())),
        }
    }
    let grants = grants(&objects);
    if grants.all.is_empty() {
        let message = format!("no roles found in {}", path.display());
        return Err(ErrorWithHint { message, hint: "use a file or directory with ClusterRoles or Roles".into() }.into());
    }
    Ok(grants)
}

fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        let is_manifest = entry.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|one| end == *one));
        if entry.is_dir() {
            found.extend(files(&entry)?);
        } else if is_manifest {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// Rules that are bound to service accounts; all rules if there are no bindings.
pub(super) fn grants(objects: &[Value]) -> Grants {
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let role = |kind: &'static str, name: &str, namespace: &str| {
        of_kind(kind).find(|role| {
            text(role, "/metadata/name") == name
                && (kind == "ClusterRole" || text(role, "/metadata/namespace") == namespace)
        })
    };
    let mut grants = Vec::new();
    let mut add = |role: &Value, namespace: Option<String>| {
        let name = format!("{} {}", text(role, "/kind"), text(role, "/metadata/name"));
        for rule in role["rules"].as_array().into_iter().flatten() {
            grants.push(Grant { role: name.clone(), namespace: namespace.clone(), rule: Rule::read(rule) });
        }
    };
    let (mut bound, mut account) = (false, None);
    for (kind, is_cluster) in [("ClusterRoleBinding", true), ("RoleBinding", false)] {
        for binding in of_kind(kind) {
            let mut subjects = binding["subjects"].as_array().into_iter().flatten();
            let Some(subject) = subjects.find(|subject| subject["kind"] == "ServiceAccount") else { continue };
            bound = true;
            account = account.or(subject["namespace"].as_str().map(str::to_owned));
            let namespace = text(binding, "/metadata/namespace");
            let name = text(binding, "/roleRef/name");
            let kind = if text(binding, "/roleRef/kind") == "Role" { "Role" } else { "ClusterRole" };
            if let Some(role) = role(kind, &name, &namespace) {
                add(role, (!is_cluster).then_some(namespace));
            }
        }
    }
    if !bound {
        of_kind("ClusterRole").for_each(|role| add(role, None));
        of_kind("Role").for_each(|role| add(role, Some(text(role, "/metadata/namespace"))));
    }
    Grants { all: grants, account }
}

/// Compares the granted permissions with those used by a program in namespace `own`, regardless of the namespace of the
/// service account.
pub(super) fn compare(grants: &Grants, needs: &Needs, own: &str) -> Difference {
    let Grants { all: grants, account } = grants;
    let reaches = |grant: &Grant, need: &Need| {
        let is_own = need.namespace.as_deref() == Some(own) && account.is_some();
        grant.namespace.is_none() || grant.namespace == *if is_own { account } else { &need.namespace }
    };
    let mut missing: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for need in &needs.resources {
        if !grants.iter().any(|grant| reaches(grant, need) && grant.rule.allows(need)) {
            let name = need.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            let place = need.namespace.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
            missing
                .entry(format!("{}{name}{place}", called(&need.group, &need.resource)))
                .or_default()
                .insert(need.verb.as_str());
        }
    }
    let mut difference = Difference { missing: lines(&missing), unused: Vec::new() };
    for (verb, path) in &needs.paths {
        if !grants.iter().any(|grant| grant.namespace.is_none() && grant.rule.allows_path(verb, path)) {
            difference.missing.push(format!("{path}: {verb}"));
        }
    }
    let mut unused: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for grant in grants {
        let rule = &grant.rule;
        for (group, resource) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one)))
        {
            for verb in &rule.verbs {
                let atom = Rule {
                    groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    names: rule.names.clone(),
                    verbs: vec![verb.clone()],
                    ..Rule::default()
                };
                if !needs.resources.iter().any(|need| reaches(grant, need) && atom.allows(need)) {
                    unused.entry(format!("{}: {}", grant.role, called(group, resource))).or_default().insert(verb);
                }
            }
        }
        for url in &rule.urls {
            let atom = Rule { urls: vec![url.clone()], ..rule.clone() };
            if !needs.paths.iter().any(|(verb, path)| atom.allows_path(verb, path)) {
                unused
                    .entry(format!("{}: {url}", grant.role))
                    .or_default()
                    .extend(rule.verbs.iter().map(String::as_str));
            }
        }
    }
    difference.unused = lines(&unused);
    difference
}

fn lines(verbs: &BTreeMap<String, BTreeSet<&str>>) -> Vec<String> {
    verbs
        .iter()
        .map(|(what, verbs)| format!("{what}: {}", verbs.iter().copied().collect::<Vec<_>>().join(", ")))
        .collect()
}

/// Formats a resource like kubectl: `deployments.apps`.
fn called(group: &str, resource: &str) -> String {
    match (group, resource.split_once('/')) {
        ("", _) => resource.to_owned(),
        (group, Some((base, sub))) => format!("{base}.{group}/{sub}"),
        (group, None) => format!("{resource}.{group}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_plane::Verb;

    use super::*;

    fn need(group: &str, resource: &str, verb: Verb, namespace: Option<&str>) -> Need {
        Need {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb,
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    #[test]
    fn missing_and_unused_permissions_are_reported() {
        let role = |kind: &str, name: &str, rules: Value| json!({"kind": kind, "metadata": {"name": name, "namespace": "s"}, "rules": rules});
        let binding = |kind: &str, of: &str, name: &str| {
            json!({"kind": kind, "metadata": {"name": "b", "namespace": "s"}, "roleRef": {"kind": of, "name": name},
                   "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "s"}]})
        };
        let objects = [
            role(
                "ClusterRole",
                "mine",
                json!([
                    {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["list", "watch"]},
                    {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
                ]),
            ),
            role("ClusterRole", "for-people", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])),
            role(
                "Role",
                "lease",
                json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]),
            ),
            binding("ClusterRoleBinding", "ClusterRole", "mine"),
            binding("RoleBinding", "Role", "lease"),
        ];
        let needs = Needs {
            resources: [
                need("", "pods", Verb::List, None),
                need("apps", "deployments/scale", Verb::Patch, Some("x")),
                need("coordination.k8s.io", "leases", Verb::Update, Some("mine")),
                need("coordination.k8s.io", "leases", Verb::Update, Some("elsewhere")),
            ]
            .into(),
            paths: [("get".to_owned(), "/logs".to_owned())].into(),
        };
        let difference = compare(&grants(&objects), &needs, "mine");
        assert_eq!(
            difference.missing,
            ["deployments.apps/scale in x: patch", "leases.coordination.k8s.io in elsewhere: update", "/logs: get"]
        );
        assert_eq!(
            difference.unused,
            [
                "ClusterRole mine: /metrics: get",
                "ClusterRole mine: pods: watch",
                "ClusterRole mine: secrets: list, watch"
            ]
        );
        // Without bindings, all roles count.
        assert_eq!(grants(&objects[..3]).all.len(), 4);
    }
}
