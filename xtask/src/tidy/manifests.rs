//! Manifests of the workspace, and licences and sources of its dependencies.
//!
//! A part of what `cargo deny` checks with `deny.toml`, for machines without it.

use super::dependencies::{Metadata, Package};

/// Allowed licences; the same list as in `deny.toml`.
const LICENCES: &[&str] = &["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unicode-3.0", "Zlib"];

/// The only registry that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the manifests of the workspace and of all its dependencies.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let mut complaints: Vec<String> = metadata.members().flat_map(of_ours).collect();
    let theirs = metadata.packages.iter().filter(|package| !metadata.workspace_members.contains(&package.id));
    complaints.extend(theirs.flat_map(of_others));
    complaints
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

    use super::*;

    #[test]
    fn licence_expressions_are_judged_by_what_can_be_chosen() {
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
