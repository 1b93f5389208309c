//! The fewest rules that grant the needed permissions, and no more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_plane::Verb;
use windlass_schema::sorting::{self, Gather as _};

use super::needs::{Need, Needs};

/// Above this number, names are not considered fixed: they come from objects.
const MAX_NAMES: usize = 5;

/// Verbs in output order.
const VERBS: &[Verb] = &[
    Verb::Get,
    Verb::List,
    Verb::Watch,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    /// Names of objects; all objects if empty.
    pub(super) names: Vec<String>,
    pub(super) urls: Vec<String>,
    pub(super) verbs: Vec<String>,
}

/// Namespaced resources whose names programs know in advance; names of other resources come from objects.
const NAMED: &[Base<'static>] = &[("", "configmaps"), ("", "secrets"), ("coordination.k8s.io", "leases")];

/// Cluster-scoped resources whose names programs know in advance.
const NAMED_OF_CLUSTER: &[Base<'static>] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
];

/// Precision of the rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleOptions<'a> {
    /// Namespace of the program, whose objects are handled separately.
    pub(super) own: &'a str,
    /// Grant permissions only in the namespaces where they were used, even if there were several.
    pub(super) namespaces: bool,
    /// Grant permissions on few objects only for these.
    pub(super) names: bool,
}

/// Rules of roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    /// Rules for the whole cluster.
    pub(super) cluster: Vec<Rule>,
    /// Rules for namespaces.
    pub(super) namespaces: BTreeMap<String, Vec<Rule>>,
}

/// A resource without subresources, by group and plural.
type Base<'a> = (&'a str, &'a str);
/// Names of objects; `None` for all.
type Names<'a> = Option<BTreeSet<&'a str>>;

impl Roles {
    /// Returns rules that grant all needed permissions.
    ///
    /// Permissions on a resource are granted in one namespace if all requests were in it, or else cluster-wide;
    /// requests in the program's own namespace do not count for that, and are granted there. Events are granted
    /// wherever the program watches. Names are fixed for resources with known names, unless the resource was listed or
    /// watched as a whole.
    pub(super) fn of(needs: &Needs, options: RuleOptions<'_>) -> Self {
        let mut by_base: BTreeMap<(bool, Base<'_>), Vec<&Need>> = BTreeMap::new();
        for need in &needs.resources {
            let is_own = need.namespace.as_deref() == Some(options.own);
            by_base.entry((is_own, (&need.group, need.base()))).or_default().push(need);
        }
        let everywhere = needs.resources.iter().any(|need| need.namespace.is_none() && is_of_all(need));
        let mut scopes: BTreeMap<Option<&str>, Vec<Rule>> = BTreeMap::new();
        // The program's own namespace comes last.
        for ((_, base), needs) in by_base {
            let scope = if everywhere && base.1 == "events" { None } else { scope(&needs) };
            // By scope, resource and verb.
            let mut names: BTreeMap<(Option<&str>, &str, Verb), Names<'_>> = BTreeMap::new();
            for need in &needs {
                let scope = if options.namespaces { need.namespace.as_deref() } else { scope };
                let granted = scopes.get(&None).into_iter().flatten();
                if scope == Some(options.own) && granted.into_iter().any(|rule| rule.allows(need)) {
                    continue;
                }
                let named = options.names && has_fixed_names(base, scope, &needs);
                let entry = names.entry((scope, &need.resource, need.verb)).or_insert_with(|| Some(BTreeSet::new()));
                match (&need.name, &mut *entry) {
                    (Some(name), Some(names)) if named => {
                        names.insert(name);
                    }
                    _ => *entry = None,
                }
            }
            for ((scope, resource, verb), names) in names {
                scopes.entry(scope).or_default().push(Rule {
                    groups: vec![base.0.to_owned()],
                    resources: vec![resource.to_owned()],
                    names: names.into_iter().flatten().map(str::to_owned).collect(),
                    verbs: vec![verb.to_string()],
                    ..Rule::default()
                });
            }
        }
        let mut cluster = scopes.remove(&None).map(merge).unwrap_or_default();
        cluster.extend(path_rules(needs));
        let namespaces =
            scopes.into_iter().filter_map(|(scope, rules)| Some((scope?.to_owned(), merge(rules)))).gather();
        Self { cluster, namespaces }
    }

    /// Returns whether a permission is granted.
    #[cfg(test)]
    fn allows(&self, need: &Need) -> bool {
        let there = need.namespace.as_ref().and_then(|namespace| self.namespaces.get(namespace));
        self.cluster.iter().chain(there.into_iter().flatten()).any(|rule| rule.allows(need))
    }
}

/// The one namespace of all permissions.
fn scope<'a>(needs: &[&'a Need]) -> Option<&'a str> {
    let mut namespaces = needs.iter().map(|need| need.namespace.as_deref());
    let first = namespaces.next().flatten()?;
    namespaces.all(|namespace| namespace == Some(first)).then_some(first)
}

/// Returns whether a permission applies to all objects of a resource.
fn is_of_all(need: &Need) -> bool {
    need.name.is_none() && matches!(need.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
}

fn has_fixed_names(base: Base<'_>, scope: Option<&str>, needs: &[&Need]) -> bool {
    let known = if scope.is_some() { NAMED } else { NAMED_OF_CLUSTER };
    let names: BTreeSet<&String> = needs.iter().filter_map(|need| need.name.as_ref()).gather();
    known.contains(&base) && !needs.iter().any(|need| is_of_all(need)) && names.len() <= MAX_NAMES
}

/// Merges rules: first verbs of a resource, then resources of a group, then groups.
fn merge(rules: Vec<Rule>) -> Vec<Rule> {
    let rules = merge_by(rules, |rule| &mut rule.verbs);
    let rules = merge_by(rules, |rule| &mut rule.resources);
    merge_by(rules, |rule| &mut rule.groups)
}

/// Merges rules that differ only in one list.
fn merge_by(rules: Vec<Rule>, list: impl Fn(&mut Rule) -> &mut Vec<String>) -> Vec<Rule> {
    let mut merged: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for mut rule in rules {
        let words = std::mem::take(list(&mut rule));
        merged.entry(rule).or_default().extend(words);
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(merged.len());
    for (mut rule, mut words) in merged {
        sorting::sort_by_key(&mut words, |word| (VERBS.iter().position(|verb| verb.as_str() == word), word.clone()));
        words.dedup();
        *list(&mut rule) = words;
        rules.push(rule);
    }
    rules.sort();
    rules
}

fn path_rules(needs: &Needs) -> Vec<Rule> {
    let rules = needs.paths.iter().map(|(verb, path)| Rule {
        urls: vec![path.clone()],
        verbs: vec![verb.clone()],
        ..Rule::default()
    });
    merge_by(merge_by(rules.collect(), |rule| &mut rule.verbs), |rule| &mut rule.urls)
}

impl Rule {
    /// Reads a rule of a manifest.
    pub(super) fn read(rule: &Value) -> Self {
        let list = |name: &str| {
            let words = rule.get(name).and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
            verbs: list("verbs"),
        }
    }

    /// Writes the rule for a manifest.
    pub(super) fn write(&self) -> Value {
        if !self.urls.is_empty() {
            return json!({"nonResourceURLs": self.urls, "verbs": self.verbs});
        }
        let mut rule = json!({"apiGroups": self.groups, "resources": self.resources, "verbs": self.verbs});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }

    /// Returns whether it grants a permission, with the semantics of Kubernetes.
    pub(super) fn allows(&self, need: &Need) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
        let resource = has(&self.resources, &need.resource)
            || need.resource.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")));
        let name = self.names.is_empty() || need.name.as_ref().is_some_and(|name| self.names.contains(name));
        has(&self.verbs, need.verb.as_str()) && has(&self.groups, &need.group) && resource && name
    }

    /// Returns whether it grants a path, with the semantics of Kubernetes.
    pub(super) fn allows_path(&self, verb: &str, path: &str) -> bool {
        let covers = |url: &String| match url.strip_suffix('*') {
            Some(begin) => path.starts_with(begin),
            None => url == path,
        };
        self.verbs.iter().any(|one| one == "*" || one == verb) && self.urls.iter().any(covers)
    }
}

#[cfg(test)]
mod tests;
