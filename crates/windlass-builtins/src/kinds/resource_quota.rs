//! ResourceQuotas: limits per namespace.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::{go_format, sorting::Gather as _};

use super::pod::validation::resources::{validate_quantity, validate_resource_name};
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, is_set, items, set, text};
use crate::resource_list::{is_standard_for_quotas, list, quantity, round_up};
use crate::strategy::{Strategy, WriteContext};
use crate::validate::go_struct;

/// Strategy of ResourceQuotas.
#[derive(Debug, Clone, Copy)]
pub struct ResourceQuota;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ResourceQuota {
    fn default(&self, object: &mut Value) {
        for list in ["/spec/hard", "/status/hard", "/status/used"] {
            round_up(object, list);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = validate_spec(object);
        validate_status(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_spec(object);
        let scopes = |object| -> BTreeSet<String> {
            items(object, "/spec/scopes").iter().filter_map(Value::as_str).map(str::to_owned).gather()
        };
        if scopes(object) != scopes(old) {
            errors.invalid(&Path::new("spec").child("scopes"), copy(object, "/spec/scopes"), "field is immutable");
        }
        errors
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource == "status" {
            validate_status(object, &mut errors);
        }
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = |name: &str| object.pointer("/spec/hard").and_then(|hard| quantity(hard.get(name)?));
        let warning = |resource: &str| {
            let full = format!("requests.{resource}");
            let (name, request) = match hard(&full) {
                Some(request) => (full, request),
                None if matches!(resource, "cpu" | "memory") => (resource.to_owned(), hard(resource)?),
                None => return None,
            };
            let limit_name = format!("limits.{resource}");
            let limit = hard(&limit_name)?;
            (request > limit)
                .then(|| format!("ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})"))
        };
        ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(warning).collect()
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in entries(object, "/status/hard") {
        let used = object.pointer("/status/used").and_then(|used| used.get(resource)).and_then(Value::as_str);
        let shown = format!("{resource}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { &mut limits } else { &mut requests }.push(shown);
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age(object, now)]
}

/// Returns whether a scope can apply to a resource.
fn fits(scope: &str, resource: &str) -> bool {
    let is_computed = matches!(
        resource,
        "pods" | "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
    );
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            is_computed
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn validate_list(object: &Value, pointer: &str, path: &Path, errors: &mut ErrorList) {
    for (name, quantity) in list(object, pointer) {
        let at = path.key(&name);
        validate_resource_name(&name, &at, errors);
        if !name.contains('/') && !is_standard_for_quotas(&name) {
            errors.invalid(&at, name.as_str(), "must be a standard resource for quota");
        }
        validate_quantity(&name, &quantity, &at, errors);
    }
}

fn validate_status(object: &Value, errors: &mut ErrorList) {
    for field in ["hard", "used"] {
        validate_list(object, &format!("/status/{field}"), &Path::new("status").child(field), errors);
    }
}

fn validate_spec(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    validate_list(object, "/spec/hard", &path.child("hard"), &mut errors);
    let unfit = |scope: &str| {
        entries(object, "/spec/hard").filter(|(name, _)| is_standard_for_quotas(name) && !fits(scope, name)).count()
    };
    let scopes: Vec<&str> = items(object, "/spec/scopes").iter().filter_map(Value::as_str).collect();
    let at = path.child("scopes");
    let shown = || copy(object, "/spec/scopes");
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(&at, shown(), "unsupported scope");
        }
        (0..unfit(scope)).for_each(|_| errors.invalid(&at, shown(), "unsupported scope applied to resource"));
    }
    for _ in conflicts(&scopes) {
        errors.invalid(&at, shown(), "conflicting scopes");
    }
    if is_set(object, "/spec/scopeSelector") {
        validate_selector(object, &path.child("scopeSelector").child("matchExpressions"), unfit, &mut errors);
    }
    errors
}

/// Returns the pairs of scopes that exclude each other.
fn conflicts<'a>(scopes: &'a [&str]) -> impl Iterator<Item = [&'static str; 2]> + 'a {
    let pairs = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
    pairs.into_iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

fn validate_selector(object: &Value, path: &Path, unfit: impl Fn(&str) -> usize, errors: &mut ErrorList) {
    let rules = items(object, "/spec/scopeSelector/matchExpressions");
    for rule in rules {
        let (scope, operator) = (text(rule, "/scopeName"), text(rule, "/operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unfit(scope) {
            errors.invalid_shown(path, shown_selector(rules), "unsupported scope applied to resource");
        }
        if SCOPES.contains(&scope)
            && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && operator != "Exists"
        {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&path.child("operator"), operator, detail);
        }
        let values = items(rule, "/values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required_because(&path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&path.child("values"), values.to_vec(), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
    }
    let scopes: Vec<&str> = rules.iter().map(|rule| text(rule, "/scopeName")).collect();
    for _ in conflicts(&scopes) {
        errors.invalid(path, copy(object, "/spec/scopes"), "conflicting scopes");
    }
}

/// Formats the scope selector as kube-apiserver does, with the field names of its internal types.
fn shown_selector(rules: &[Value]) -> String {
    let show = |rule: &Value| {
        let (scope, operator) = (copy(rule, "/scopeName"), copy(rule, "/operator"));
        go_struct(&[("ScopeName", &scope), ("Operator", &operator), ("Values", &copy(rule, "/values"))])
    };
    let rules: Vec<_> = rules.iter().map(show).collect();
    format!("{{{}:[{}]}}", go_format::marshal(&json!("MatchExpressions")), rules.join(","))
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume."),
    column(
        "Limit",
        "string",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status, check_update};
    use expect_test::expect;

    fn quota(hard: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
    }

    #[test]
    fn resources_must_be_known_and_counts_must_be_integers() {
        let hard = json!({"pods": "10", "requests.cpu": "500m", "count/things.example.com": "1", "requests.nvidia.com/gpu": "2",
            "hugepages-2Mi": "4Mi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"});
        check_create(&ResourceQuota, quota(hard), expect![[""]]);
        let hard = json!({"pods": "1.5", "memory": "-1", "things": "1", "storage": "1", "a b": "1"});
        check_create(
            &ResourceQuota,
            quota(hard),
            expect![[r#"
            spec.hard[a b]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.hard[a b]: Invalid value: "a b": must be a standard resource for quota
            spec.hard[memory]: Invalid value: "-1": must be greater than or equal to 0
            spec.hard[pods]: Invalid value: "1500m": must be an integer
            spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota
            spec.hard[things]: Invalid value: "things": must be a standard resource type or fully qualified
            spec.hard[things]: Invalid value: "things": must be a standard resource for quota
        "#]],
        );
        let status = json!({"status": {"hard": {"things": "1"}, "used": {"pods": "-1"}}});
        check_status(
            &ResourceQuota,
            status,
            json!({}),
            expect![[r#"
            status.hard[things]: Invalid value: "things": must be a standard resource type or fully qualified
            status.hard[things]: Invalid value: "things": must be a standard resource for quota
            status.used[pods]: Invalid value: "-1": must be greater than or equal to 0
        "#]],
        );
    }

    #[test]
    fn scopes_must_match_the_resources_and_each_other() {
        let mut scoped = quota(json!({"pods": "1", "services": "1"}));
        scoped["spec"]["scopes"] = json!(["BestEffort", "NotBestEffort", "Odd"]);
        check_create(
            &ResourceQuota,
            scoped,
            expect![[r#"
            spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope applied to resource
            spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope applied to resource
            spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope
            spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: conflicting scopes
        "#]],
        );
        let mut scoped = quota(json!({"pods": "1", "secrets": "1"}));
        scoped["spec"]["scopeSelector"] = json!({"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In"},
            {"scopeName": "Terminating", "operator": "In", "values": ["x"]},
            {"scopeName": "NotTerminating", "operator": "Exists", "values": ["x"]},
            {"scopeName": "Odd", "operator": "Is"}]});
        check_create(
            &ResourceQuota,
            scoped,
            expect![[r#"
            spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"PriorityClass","Operator":"In","Values":null},{"ScopeName":"Terminating","Operator":"In","Values":["x"]},{"ScopeName":"NotTerminating","Operator":"Exists","Values":["x"]},{"ScopeName":"Odd","Operator":"Is","Values":null}]}: unsupported scope applied to resource
            spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector
            spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"PriorityClass","Operator":"In","Values":null},{"ScopeName":"Terminating","Operator":"In","Values":["x"]},{"ScopeName":"NotTerminating","Operator":"Exists","Values":["x"]},{"ScopeName":"Odd","Operator":"Is","Values":null}]}: unsupported scope applied to resource
            spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity
            spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"PriorityClass","Operator":"In","Values":null},{"ScopeName":"Terminating","Operator":"In","Values":["x"]},{"ScopeName":"NotTerminating","Operator":"Exists","Values":["x"]},{"ScopeName":"Odd","Operator":"Is","Values":null}]}: unsupported scope applied to resource
            spec.scopeSelector.matchExpressions.values: Invalid value: ["x"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector
            spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Odd": unsupported scope
            spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator
            spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes
        "#]],
        );
    }

    #[test]
    fn scopes_never_change() {
        let mut scoped = quota(json!({"pods": "1"}));
        scoped["spec"]["scopes"] = json!(["BestEffort"]);
        check_update(
            &ResourceQuota,
            scoped.clone(),
            quota(json!({"pods": "1"})),
            expect![[r#"
            spec.scopes: Invalid value: ["BestEffort"]: field is immutable
        "#]],
        );
        check_update(&ResourceQuota, scoped.clone(), scoped, expect![[""]]);
    }

    #[test]
    fn requests_above_limits_cause_warnings() {
        let hard = json!({"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi"});
        check_create(
            &ResourceQuota,
            quota(hard),
            expect![[r#"
            warning: ResourceQuota cpu (2) should be less than limits.cpu (1)
        "#]],
        );
    }
}
