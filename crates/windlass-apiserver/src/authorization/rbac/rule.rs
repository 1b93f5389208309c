//! Matching requests with rules, and comparing rules with each other.

use std::collections::BTreeSet;

use windlass_schema::{go_format::quote, sorting::Gather as _};

use crate::authorization::{Action, PolicyRule, ResourceAction};

/// Matches any verb, group, resource or path.
const ALL: &str = "*";

impl PolicyRule {
    /// Returns whether the rule allows an action.
    pub(super) fn allows(&self, action: &Action<'_>) -> bool {
        match action {
            Action::Path { verb, path } => {
                has_or_all(&self.verbs, verb) && self.non_resource_urls.iter().any(|url| url_covers(url, path))
            }
            Action::Resource(action) => {
                has_or_all(&self.verbs, action.verb)
                    && has_or_all(&self.api_groups, action.group)
                    && self.resources.iter().any(|resource| resource_matches(resource, action))
                    && (self.resource_names.is_empty() || has(&self.resource_names, action.name))
            }
        }
    }

    /// Returns whether the rule allows everything that a part allows.
    fn covers(&self, part: &Part<'_>) -> bool {
        match part {
            Part::Path { verb, url } => {
                // As in kube-apiserver: a rule with names covers no paths.
                has_or_all(&self.verbs, verb)
                    && self.resource_names.is_empty()
                    && self.non_resource_urls.iter().any(|owner| url_covers(owner, url))
            }
            Part::Resource { verb, group, resource, name } => {
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, group)
                    && resource_covers(&self.resources, resource)
                    && (self.resource_names.is_empty() || name.is_some_and(|name| has(&self.resource_names, name)))
            }
        }
    }
}

fn has(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|entry| **entry == *wanted)
}

fn has_or_all(list: &[Box<str>], wanted: &str) -> bool {
    list.iter().any(|entry| **entry == *wanted || **entry == *ALL)
}

/// Returns whether `resource` of a rule is `*`, the requested resource with its subresource, or `*/` with the
/// subresource.
fn resource_matches(resource: &str, action: &ResourceAction<'_>) -> bool {
    if resource == ALL {
        return true;
    }
    if action.subresource.is_empty() {
        return resource == action.resource;
    }
    match resource.strip_suffix(action.subresource).and_then(|rest| rest.strip_suffix('/')) {
        Some(rest) => rest == action.resource || rest == ALL,
        None => false,
    }
}

fn resource_covers(owned: &[Box<str>], resource: &str) -> bool {
    if has_or_all(owned, resource) {
        return true;
    }
    let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
    subresource.is_some_and(|subresource| owned.iter().any(|owned| owned.strip_prefix("*/") == Some(subresource)))
}

fn url_covers(owner: &str, url: &str) -> bool {
    owner == url || (owner.ends_with('*') && url.starts_with(owner.trim_end_matches('*')))
}

/// The smallest part of a rule, which another rule covers completely or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path { verb: &'a str, url: &'a str },
}

/// Returns the parts of a rule.
fn parts(rule: &PolicyRule) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = |name| Part::Resource { verb, group, resource, name };
                match &rule.resource_names[..] {
                    [] => parts.push(part(None)),
                    names => parts.extend(names.iter().map(|name| part(Some(&**name)))),
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        parts.extend(rule.verbs.iter().map(|verb| Part::Path { verb, url }));
    }
    parts
}

/// Returns the parts of `wanted` that the owner's rules do not cover, each as a rule.
pub(crate) fn uncovered<'a>(owned: &[PolicyRule], wanted: impl IntoIterator<Item = &'a PolicyRule>) -> Vec<PolicyRule> {
    let parts = wanted.into_iter().flat_map(parts);
    let missing = parts.filter(|part| !owned.iter().any(|rule| rule.covers(part)));
    missing.map(|part| part.to_rule()).collect()
}

impl Part<'_> {
    fn to_rule(self) -> PolicyRule {
        let one = |text: &str| vec![text.into()];
        match self {
            Self::Path { verb, url } => {
                PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() }
            }
            Self::Resource { verb, group, resource, name } => PolicyRule {
                verbs: one(verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..PolicyRule::default()
            },
        }
    }
}

/// Describes missing rules for the message of a 403: rules of the same resource as one, in the order of their strings.
pub(crate) fn describe(missing: Vec<PolicyRule>) -> String {
    let mut compact: Vec<PolicyRule> = Vec::new();
    for rule in missing {
        let same = |known: &&mut PolicyRule| {
            rule.non_resource_urls.is_empty()
                && known.non_resource_urls.is_empty()
                && (&known.api_groups, &known.resources, &known.resource_names)
                    == (&rule.api_groups, &rule.resources, &rule.resource_names)
        };
        match compact.iter_mut().find(same) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => compact.push(rule),
        }
    }
    let lines: BTreeSet<String> = compact.iter().map(describe_one).gather();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn describe_one(rule: &PolicyRule) -> String {
    let fields = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let fields = fields.iter().filter(|(_, list)| !list.is_empty());
    let fields: Vec<String> = fields.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// Formats a list of strings as Go's `%q` does.
pub(crate) fn quoted<T: AsRef<str>>(list: &[T]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn rules_cover_their_parts_as_in_kube_apiserver() {
        let pods = |verbs: &[&str]| rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": verbs}));
        let named =
            rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", "b"]}));
        let scale = |resource: &str| rule(json!({"apiGroups": ["apps"], "resources": [resource], "verbs": ["get"]}));
        let url = |url: &str| rule(json!({"nonResourceURLs": [url], "verbs": ["get"]}));
        let all = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
        for (owned, wanted, missing) in [
            (pods(&["get", "list"]), pods(&["list"]), ""),
            (
                pods(&["get"]),
                pods(&["list", "get", "watch"]),
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            ),
            (pods(&["*"]), named.clone(), ""),
            (named.clone(), pods(&["get"]), r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#),
            (scale("*/scale"), scale("deployments/scale"), ""),
            (
                scale("deployments/*"),
                scale("deployments/scale"),
                r#"{APIGroups:["apps"], Resources:["deployments/scale"], Verbs:["get"]}"#,
            ),
            (all.clone(), scale("deployments/scale"), ""),
            (all.clone(), url("/x"), r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#),
            (scale("x"), all, r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#),
            (url("/a/*"), url("/a/b"), ""),
            (url("/a/*"), url("/a"), r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#),
            (url("*"), url("/a/*"), ""),
        ] {
            assert_eq!(describe(uncovered(std::slice::from_ref(&owned), [&wanted])), missing, "{owned:?} {wanted:?}");
        }
        assert_eq!(
            describe(uncovered(&[], [&named, &pods(&["get"])])),
            "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"
        );
    }
}
