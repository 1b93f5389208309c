//! Manifests of the workspace, and licences and sources of its dependencies.
//!
//! A part of what `cargo deny` checks with `deny.toml`, for machines without it.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::{Metadata, Package};

/// Allowed licences; the same list as in `deny.toml`.
const LICENCES: &[&str] = &["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unicode-3.0", "Zlib"];

/// The only registry that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the manifests of the workspace and of all its dependencies.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let published: BTreeMap<&str, bool> =
        metadata.members().map(|package| (package.name.as_str(), package.is_published())).collect();
    let mut complaints: Vec<String> = metadata.members().flat_map(of_ours).collect();
    complaints.extend(metadata.members().filter(|package| package.is_published()).flat_map(of_published));
    complaints.extend(
        metadata
            .members()
            .filter(|package| package.is_published())
            .flat_map(|package| dependencies_of_published(package, &published)),
    );
    let theirs = metadata.packages.iter().filter(|package| !metadata.workspace_members.contains(&package.id));
    complaints.extend(theirs.flat_map(of_others));
    complaints
}

/// Checks that every dependency with several versions is listed under `skip` in `deny.toml`, and nothing else is.
pub(super) fn check_versions(metadata: &Metadata, deny: &str) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| package.source.is_some()) {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let mut skipped: BTreeSet<&str> = deny
        .lines()
        .filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split_once('"'))
        .map(|(name, _)| name)
        .filter(|name| name.contains('@'))
        .collect();
    let mut complaints = Vec::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let listed: Vec<&str> = versions
            .iter()
            .flat_map(|version| skipped.iter().copied().filter(move |skip| is_version_of(skip, name, version)))
            .collect();
        if listed.len() + 1 < versions.len() {
            let versions: Vec<&str> = versions.iter().copied().collect();
            complaints.push(format!(
                "{name}: versions {}: keep one, or list the others under `skip` in deny.toml with a reason",
                versions.join(" and ")
            ));
        }
        skipped.retain(|skip| !listed.contains(skip));
    }
    complaints
        .extend(skipped.iter().map(|skip| format!("deny.toml: {skip} is not a duplicate, remove it from `skip`")));
    complaints
}

/// Returns whether an entry such as `syn@2` stands for a version of a crate.
fn is_version_of(skip: &str, name: &str, version: &str) -> bool {
    skip.split_once('@').is_some_and(|(of, prefix)| of == name && version.starts_with(&format!("{prefix}.")))
}

fn of_ours(package: &Package) -> Vec<String> {
    let name = &package.name;
    let mut complaints = Vec::new();
    if package.description.as_deref().is_none_or(str::is_empty) {
        complaints.push(format!("{name}: has no description"));
    }
    if package.license.as_deref() != Some("Apache-2.0") {
        complaints.push(format!("{name}: the licence must be Apache-2.0, as in the workspace"));
    }
    complaints
}

/// Checks what crates.io and docs.rs show of a published crate.
fn of_published(package: &Package) -> Vec<String> {
    let name = &package.name;
    let docs = format!("https://docs.rs/{name}");
    [
        (package.readme.as_deref() == Some("README.md"), "set `readme = \"README.md\"`".to_owned()),
        (package.documentation.as_ref() == Some(&docs), format!("set `documentation = \"{docs}\"`")),
        (package.repository.is_some(), "set `repository.workspace = true`".to_owned()),
        (package.rust_version.is_some(), "set `rust-version.workspace = true`".to_owned()),
        ((1..=5).contains(&package.keywords.len()), "name one to five keywords".to_owned()),
        ((1..=5).contains(&package.categories.len()), "name one to five categories".to_owned()),
        (package.metadata["docs"]["rs"].is_object(), "add `[package.metadata.docs.rs]`".to_owned()),
    ]
    .into_iter()
    .filter(|(good, _)| !good)
    .map(|(_, fix)| format!("{name}: {fix}"))
    .collect()
}

/// Checks that a published crate depends on published crates of the workspace, and by version. Dev-dependencies without a
/// version are removed by `cargo publish`.
fn dependencies_of_published(package: &Package, published: &BTreeMap<&str, bool>) -> Vec<String> {
    let name = &package.name;
    let mut complaints = Vec::new();
    for dependency in &package.dependencies {
        let wanted = dependency.name.as_str();
        let Some(is_published) = published.get(wanted) else { continue };
        let has_version = dependency.req != "*";
        match (dependency.kind.as_deref() == Some("dev"), has_version, is_published) {
            (false, false, _) => complaints.push(format!("{name}: give its dependency {wanted} a version")),
            (_, true, false) => complaints.push(format!("{name}: {wanted} is not published")),
            _ => {}
        }
    }
    complaints
}

fn of_others(package: &Package) -> Vec<String> {
    let name = &package.name;
    let mut complaints = Vec::new();
    match &package.license {
        Some(expression) if is_allowed(expression) => {}
        Some(expression) => complaints.push(format!("{name}: licence {expression:?} is not allowed")),
        None if package.license_file.is_some() => complaints.push(format!("{name}: review its licence file")),
        None => complaints.push(format!("{name}: has no licence")),
    }
    if package.source.as_deref() != Some(REGISTRY) {
        complaints.push(format!("{name}: must come from crates.io"));
    }
    complaints
}

/// Returns whether an SPDX expression can be satisfied with allowed licences: one alternative, all of its parts.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut words = Words::new(&expression);
    let allowed = any(&mut words);
    allowed && words.peek().is_none()
}

fn any(words: &mut Words<'_>) -> bool {
    let mut allowed = all(words);
    while words.peek() == Some("OR") {
        words.next();
        // Not short-circuited: the words must be consumed.
        allowed |= all(words);
    }
    allowed
}

fn all(words: &mut Words<'_>) -> bool {
    let mut allowed = one(words);
    while words.peek() == Some("AND") {
        words.next();
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => {
            let allowed = any(words);
            words.next() == Some(")") && allowed
        }
        // An exception only adds permissions.
        Some(licence) if words.peek() == Some("WITH") => {
            words.next();
            words.next().is_some() && LICENCES.contains(&licence)
        }
        // A plus means "or a later version".
        Some(licence) => LICENCES.contains(&licence.trim_end_matches('+')),
        None => false,
    }
}

/// The words and parentheses of an expression.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn new(expression: &'a str) -> Self {
        let mut words: Vec<&str> = expression
            .split_inclusive(['(', ')', ' '])
            .flat_map(|piece| match piece.char_indices().next_back() {
                Some((end, '(' | ')')) => [&piece[..end], &piece[end..]],
                _ => [piece, ""],
            })
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect();
        words.reverse();
        Self(words)
    }

    fn peek(&self) -> Option<&'a str> {
        self.0.last().copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn metadata(packages: &[Value], members: &[&str]) -> Metadata {
        let workspace = json!({"packages": packages, "workspace_members": members, "resolve": {"nodes": []}});
        serde_json::from_value(workspace).unwrap()
    }

    fn published(name: &str, dependencies: Value) -> Value {
        json!({
            "id": name, "name": name, "version": "0.1.0", "description": "x", "license": "Apache-2.0",
            "documentation": format!("https://docs.rs/{name}"), "readme": "README.md", "repository": "x",
            "rust_version": "1.95", "keywords": ["x"], "categories": ["x"], "metadata": {"docs": {"rs": {}}},
            "dependencies": dependencies,
        })
    }

    #[test]
    fn a_published_crate_without_metadata_is_found() {
        assert_eq!(check(&metadata(&[published("a", json!([]))], &["a"])), Vec::<String>::new());
        let mut bare = published("a", json!([]));
        bare["readme"] = Value::Null;
        bare["keywords"] = json!([]);
        let complaints = check(&metadata(&[bare.clone()], &["a"]));
        assert_eq!(complaints, ["a: set `readme = \"README.md\"`", "a: name one to five keywords"]);
        bare["publish"] = json!([]);
        assert_eq!(check(&metadata(&[bare], &["a"])), Vec::<String>::new());
    }

    #[test]
    fn a_published_crate_that_needs_an_unpublished_one_is_found() {
        let a = |dependency: Value| published("a", json!([dependency]));
        let mut b = published("b", json!([]));
        let of = |a: Value, b: &Value| check(&metadata(&[a, b.clone()], &["a", "b"]));
        assert_eq!(of(a(json!({"name": "b", "req": "^0.1.0"})), &b), Vec::<String>::new());
        assert_eq!(of(a(json!({"name": "b", "req": "*"})), &b), ["a: give its dependency b a version"]);
        b["publish"] = json!([]);
        assert_eq!(of(a(json!({"name": "b", "req": "^0.1.0"})), &b), ["a: b is not published"]);
        assert_eq!(of(a(json!({"name": "b", "req": "*", "kind": "dev"})), &b), Vec::<String>::new());
    }

    #[test]
    fn several_versions_of_a_crate_need_a_reason() {
        let package = |version: &str| json!({"id": version, "name": "syn", "version": version, "source": REGISTRY, "dependencies": []});
        let twice = metadata(&[package("2.0.1"), package("3.0.0")], &[]);
        assert_eq!(check_versions(&twice, "").len(), 1);
        let deny = "    { crate = \"syn@2\", reason = \"x\" },";
        assert_eq!(check_versions(&twice, deny), Vec::<String>::new());
        let once = metadata(&[package("3.0.0")], &[]);
        assert_eq!(check_versions(&once, deny), ["deny.toml: syn@2 is not a duplicate, remove it from `skip`"]);
    }

    #[test]
    fn a_licence_expression_is_allowed_if_one_of_its_choices_is() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("MPL-2.0+", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("GPL-3.0 WITH LLVM-exception", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), expected, "{expression}");
        }
    }

    #[test]
    fn the_licences_are_those_of_deny_toml() {
        let text = fs::read_to_string(super::super::root().join("deny.toml")).unwrap();
        let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
        let listed: Vec<&str> =
            list.split(',').map(|item| item.trim().trim_matches('"')).filter(|item| !item.is_empty()).collect();
        assert_eq!(listed, LICENCES);
    }
}
