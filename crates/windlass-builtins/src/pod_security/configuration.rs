//! Configuration of the admission plugin PodSecurity: the policy of namespaces without labels, and exemptions.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::{is_dns1123_label, is_dns1123_subdomain};

use super::{Level, LevelVersion, Policy, PolicyVersion};
use crate::field_errors::FieldErrors;
use crate::object::{items, text};

const GROUP: &str = "pod-security.admission.config.k8s.io";
const KIND: &str = "PodSecurityConfiguration";

/// A PodSecurityConfiguration. By default, namespaces without labels allow everything, and nothing is exempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    /// The policy of a namespace without labels.
    pub defaults: Policy,
    /// Users whose pods are not checked.
    pub usernames: Vec<String>,
    /// Namespaces whose pods are not checked.
    pub namespaces: Vec<String>,
    /// Runtime classes whose pods are not checked.
    pub runtime_classes: Vec<String>,
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Returns the errors of kube-apiserver.
    pub fn read(object: &Value) -> Result<Self, String> {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let version = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
        if !matches!(version, Some("v1" | "v1beta1" | "v1alpha1")) || kind != KIND {
            return Err(format!("no kind {kind:?} is registered for version {api_version:?}"));
        }
        let mut errors = ErrorList::new();
        let (mut defaults, exemptions) = (Policy::PRIVILEGED, Path::new("exemptions"));
        for (mode, setting) in
            [("enforce", &mut defaults.enforce), ("warn", &mut defaults.warn), ("audit", &mut defaults.audit)]
        {
            *setting = level(object, mode, &mut errors);
        }
        let configuration = Self {
            defaults,
            namespaces: names(object, "namespaces", &exemptions, is_dns1123_label, &mut errors),
            runtime_classes: names(object, "runtimeClasses", &exemptions, is_dns1123_subdomain, &mut errors),
            usernames: names(object, "usernames", &exemptions, nonempty, &mut errors),
        };
        match &errors[..] {
            [] => Ok(configuration),
            [error] => Err(error.to_string()),
            all => Err(format!("[{}]", all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))),
        }
    }
}

/// Returns the level and the version of a mode; both have defaults.
fn level(object: &Value, mode: &str, errors: &mut ErrorList) -> LevelVersion {
    let defaults = Path::new("defaults");
    let mut found = LevelVersion::PRIVILEGED;
    match text(object, &format!("/defaults/{mode}")) {
        "" => {}
        text => match Level::parse(text) {
            Some(level) => found.level = level,
            None => errors.invalid(&defaults.child(mode), text, Level::EXPECTED),
        },
    }
    let version = format!("{mode}-version");
    match text(object, &format!("/defaults/{version}")) {
        "" => {}
        text => match PolicyVersion::parse(text) {
            Some(version) => found.version = version,
            None => errors.invalid(&defaults.child(&version), text, PolicyVersion::EXPECTED),
        },
    }
    found
}

/// Returns the names in a list, each of them once.
fn names(
    object: &Value,
    field: &str,
    path: &Path,
    check: fn(&str) -> Vec<String>,
    errors: &mut ErrorList,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, name) in items(object, &format!("/exemptions/{field}")).iter().enumerate() {
        let (path, name) = (path.child(field).index(at), name.as_str().unwrap_or_default());
        let problems = check(name);
        if !problems.is_empty() {
            errors.invalid(&path, name, problems.join(", "));
        } else if found.iter().any(|have| have == name) {
            errors.duplicate(&path, name);
        } else {
            found.push(name.to_owned());
        }
    }
    found
}

fn nonempty(name: &str) -> Vec<String> {
    if name.is_empty() { vec!["username must not be empty".to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    fn configuration(defaults: Value, exemptions: Value) -> Value {
        let api_version = "pod-security.admission.config.k8s.io/v1";
        json!({"apiVersion": api_version, "kind": KIND, "defaults": defaults, "exemptions": exemptions})
    }

    #[test]
    fn defaults_and_exemptions_are_read() {
        let empty = Configuration::read(&configuration(json!(null), json!(null)));
        assert_eq!(empty, Ok(Configuration::default()));
        let defaults = json!({"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"});
        let exemptions = json!({"usernames": ["a"], "namespaces": ["b"], "runtimeClasses": ["c", "d"]});
        let read = Configuration::read(&configuration(defaults, exemptions)).unwrap();
        let Policy { enforce, audit, warn } = read.defaults;
        assert_eq!(format!("{enforce} {audit} {warn}"), "baseline:v1.30 privileged:latest restricted:latest");
        assert_eq!((read.usernames, read.namespaces), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert_eq!(read.runtime_classes, ["c", "d"]);
    }

    #[test]
    fn wrong_configurations_are_rejected_as_kube_apiserver_does() {
        let error = |object: Value| Configuration::read(&object).unwrap_err();
        let old = json!({"apiVersion": "pod-security.admission.config.k8s.io/v2", "kind": KIND});
        expect![[
            r#"no kind "PodSecurityConfiguration" is registered for version "pod-security.admission.config.k8s.io/v2""#
        ]]
        .assert_eq(&error(old));
        expect![[r#"defaults.warn-version: Invalid value: "1.30": must be "latest" or "v1.x""#]]
            .assert_eq(&error(configuration(json!({"warn-version": "1.30"}), json!({}))));
        let exemptions = json!({"usernames": ["", "a", "a"], "namespaces": ["A"], "runtimeClasses": ["x", "x"]});
        expect![[
            r#"[defaults.enforce: Invalid value: "strict": must be one of privileged, baseline, restricted, exemptions.namespaces[0]: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), exemptions.runtimeClasses[1]: Duplicate value: "x", exemptions.usernames[0]: Invalid value: "": username must not be empty, exemptions.usernames[2]: Duplicate value: "a"]"#
        ]]
        .assert_eq(&error(configuration(json!({"enforce": "strict"}), exemptions)));
    }
}
