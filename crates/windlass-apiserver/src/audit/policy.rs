//! Audit policies: which requests are recorded, at which level and stages.

mod file;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_schema::{
    field::{ErrorList, FieldError, Path},
    names::is_dns1123_subdomain,
};

use super::event::{Level, Stage};
use crate::{authorization::Action, status::aggregate, user::User};

pub use self::file::PolicyError;

/// A compiled audit policy. The first rule that matches a request decides; a request that none matches is not recorded.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
    /// Complaints of a strict decoder: unknown and duplicate fields, which are ignored.
    complaints: Vec<String>,
}

#[derive(Debug, Clone)]
struct Rule {
    matches: Matches,
    recording: Recording,
}

/// Audit level and stages for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) level: Level,
    omitted: [bool; Stage::ALL.len()],
    pub(crate) omit_managed_fields: bool,
}

impl Recording {
    pub(crate) const NONE: Self = Self { level: Level::None, omitted: [false; 4], omit_managed_fields: false };

    /// Returns whether there is an event for a stage.
    pub(crate) fn has(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted[stage as usize]
    }
}

/// The fields of a policy file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PolicyFile {
    #[serde(deserialize_with = "file::nullable")]
    rules: Vec<RuleFile>,
    #[serde(deserialize_with = "file::nullable")]
    omit_stages: Vec<String>,
    #[serde(deserialize_with = "file::nullable")]
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuleFile {
    #[serde(deserialize_with = "file::nullable")]
    level: String,
    #[serde(deserialize_with = "file::nullable")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
    #[serde(flatten)]
    matches: Matches,
}

/// The requests that a rule matches; an empty list matches everything.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Matches {
    #[serde(deserialize_with = "file::nullable")]
    users: Vec<String>,
    #[serde(deserialize_with = "file::nullable")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "file::nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "file::nullable")]
    resources: Vec<GroupResources>,
    #[serde(deserialize_with = "file::nullable")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "file::nullable")]
    non_resource_urls: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupResources {
    #[serde(deserialize_with = "file::nullable")]
    group: String,
    #[serde(deserialize_with = "file::nullable")]
    resources: Vec<String>,
    #[serde(deserialize_with = "file::nullable")]
    resource_names: Vec<String>,
}

impl Policy {
    /// Parses and validates a policy in YAML or JSON.
    ///
    /// # Errors
    /// Returns an error if kube-apiserver would not start with this policy, with its message.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        let (file, complaints) = file::decode(text)?;
        let errors = validate(&file);
        if !errors.is_empty() {
            return Err(PolicyError::new(aggregate(&errors)));
        }
        if file.rules.is_empty() {
            return Err(PolicyError::new("loaded illegal policy with 0 rules"));
        }
        let rules = file.rules.into_iter().map(|rule| {
            let level = Level::ALL.into_iter().find(|level| level.as_str() == rule.level).unwrap_or(Level::None);
            let omits = |stage: Stage| {
                [&file.omit_stages, &rule.omit_stages].iter().any(|list| list.iter().any(|name| name == stage.as_str()))
            };
            let omit_managed_fields = rule.omit_managed_fields.unwrap_or(file.omit_managed_fields);
            let recording = Recording { level, omitted: Stage::ALL.map(omits), omit_managed_fields };
            Rule { matches: rule.matches, recording }
        });
        Ok(Self { rules: rules.collect(), complaints })
    }

    /// Returns the complaints of a strict decoder about fields that are ignored.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Returns how a request is recorded. `user` is `None` if authentication failed.
    pub(crate) fn evaluate(&self, user: Option<&User>, action: &Action<'_>) -> Recording {
        let rule = self.rules.iter().find(|rule| rule.matches.request(user, action));
        rule.map_or(Recording::NONE, |rule| rule.recording)
    }
}

impl Matches {
    fn request(&self, user: Option<&User>, action: &Action<'_>) -> bool {
        let has = |list: &[String], value: &str| list.iter().any(|have| have == value);
        if !self.users.is_empty() && !user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        let verb = match action {
            Action::Resource(action) => action.verb,
            Action::Path { verb, .. } => verb,
        };
        if !self.verbs.is_empty() && !has(&self.verbs, verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.resource(action);
        }
        match action {
            _ if self.non_resource_urls.is_empty() => true,
            Action::Path { path, .. } => self.non_resource_urls.iter().any(|pattern| path_matches(path, pattern)),
            Action::Resource(_) => false,
        }
    }

    fn resource(&self, action: &Action<'_>) -> bool {
        let Action::Resource(action) = action else { return false };
        if !self.namespaces.is_empty() && !self.namespaces.iter().any(|namespace| namespace == action.namespace) {
            return false;
        }
        self.resources.is_empty()
            || self.resources.iter().filter(|of| of.group == action.group || of.group == "*").any(|of| {
                let named = || of.resource_names.is_empty() || of.resource_names.iter().any(|name| name == action.name);
                of.resources.is_empty()
                    || (named()
                        && of
                            .resources
                            .iter()
                            .any(|pattern| resource_matches(action.resource, action.subresource, pattern)))
            })
    }
}

/// Returns whether a pattern such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*` matches.
fn resource_matches(resource: &str, subresource: &str, pattern: &str) -> bool {
    match pattern.split_once('/') {
        _ if pattern == "*" => true,
        None => pattern == resource && subresource.is_empty(),
        Some((of, "*")) if of == resource => true,
        Some(("*", of)) if !subresource.is_empty() && of == subresource => true,
        Some((of, sub)) => of == resource && sub == subresource && !subresource.is_empty(),
    }
}

fn path_matches(path: &str, pattern: &str) -> bool {
    pattern == "*" || pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

fn validate(policy: &PolicyFile) -> ErrorList {
    let mut errors = validate_stages(&policy.omit_stages, &Path::new("omitStages"));
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_rule(rule, &Path::new("rules").index(index), &mut errors);
    }
    errors
}

fn validate_rule(rule: &RuleFile, path: &Path, errors: &mut ErrorList) {
    let level = path.child("level");
    if rule.level.is_empty() {
        errors.push(FieldError::required(&level, ""));
    } else if !Level::ALL.iter().any(|known| known.as_str() == rule.level) {
        errors.push(FieldError::not_supported(&level, &json!(rule.level), &Level::ALL.map(Level::as_str)));
    }
    let urls = path.child("nonResourceURLs");
    for (index, url) in rule.matches.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let mut invalid = |why: &str| errors.push(FieldError::invalid(&urls.index(index), &json!(url), why));
        if !url.starts_with('/') {
            invalid("non-resource URL rules must begin with a '/' character");
        }
        if url.find('*').is_some_and(|star| star + 1 < url.len()) {
            invalid("non-resource URL wildcards '*' must be the final character of the rule");
        }
    }
    let resources = path.child("resources");
    for of in &rule.matches.resources {
        if !of.group.is_empty() && of.group != "*" {
            let why = is_dns1123_subdomain(&of.group);
            if !why.is_empty() {
                errors.push(FieldError::invalid(&resources.child("group"), &json!(of.group), why.join(",")));
            }
        }
        if !of.resource_names.is_empty() && of.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(&resources.child("resourceNames"), &list(&of.resource_names), why));
        }
    }
    errors.extend(validate_stages(&rule.omit_stages, &path.child("omitStages")));
    let matches = &rule.matches;
    let about_resources = !matches.resources.is_empty() || !matches.namespaces.is_empty();
    if about_resources && !matches.non_resource_urls.is_empty() {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&urls, &list(&matches.non_resource_urls), why));
    }
}

fn validate_stages(stages: &[String], path: &Path) -> ErrorList {
    let names = Stage::ALL.map(Stage::as_str);
    let unknown = stages.iter().enumerate().filter(|(_, stage)| !names.contains(&stage.as_str()));
    let invalid = |(index, stage): (usize, &String)| {
        FieldError::invalid(&path.index(index), &json!(stage), format!("allowed stages are {}", names.join(",")))
    };
    unknown.map(invalid).collect()
}

fn list(texts: &[String]) -> Value {
    json!(texts)
}
