//! FlowSchemas: the assignment of requests to priority levels.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use super::priority_level_configuration::{not_fixed, validate_conditions};
use crate::columns::{AGE, Column, NAME, Printer, age, column, count, name, text_or_none};
use crate::field_errors::FieldErrors;
use crate::go_type::{GoField, GoType};
use crate::object::{boolean, copy, integer, is_set, items, set, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate::go_struct;

/// Strategy of FlowSchemas.
#[derive(Debug, Clone, Copy)]
pub struct FlowSchema;

const MAX_PRECEDENCE: i64 = 10_000;
/// kube-apiserver's internal type of the spec.
const SPEC: GoType = GoType::Struct(&[
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", GoType::Struct(NAMED)),
    ("MatchingPrecedence", "matchingPrecedence", GoType::INT),
    ("DistinguisherMethod", "distinguisherMethod", GoType::Pointer(&[("Type", "type", GoType::STRING)])),
    ("Rules", "rules", GoType::List(&RULE)),
]);
const RULE: GoType = GoType::Struct(&[
    ("Subjects", "subjects", GoType::List(&SUBJECT)),
    ("ResourceRules", "resourceRules", GoType::List(&RESOURCE_RULE)),
    ("NonResourceRules", "nonResourceRules", GoType::List(&OTHER_RULE)),
]);
const SUBJECT: GoType = GoType::Struct(&[
    ("Kind", "kind", GoType::STRING),
    ("User", "user", GoType::Pointer(NAMED)),
    ("Group", "group", GoType::Pointer(NAMED)),
    ("ServiceAccount", "serviceAccount", GoType::Pointer(&[("Namespace", "namespace", GoType::STRING), NAMED[0]])),
]);
const RESOURCE_RULE: GoType = GoType::Struct(&[
    ("Verbs", "verbs", GoType::STRINGS),
    ("APIGroups", "apiGroups", GoType::STRINGS),
    ("Resources", "resources", GoType::STRINGS),
    ("ClusterScope", "clusterScope", GoType::BOOL),
    ("Namespaces", "namespaces", GoType::STRINGS),
]);
const OTHER_RULE: GoType =
    GoType::Struct(&[("Verbs", "verbs", GoType::STRINGS), ("NonResourceURLs", "nonResourceURLs", GoType::STRINGS)]);
const NAMED: &[GoField] = &[("Name", "name", GoType::STRING)];
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Kinds of subjects, each with its field.
const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for FlowSchema {
    fn default(&self, object: &mut Value) {
        if integer(object, "/spec/matchingPrecedence").unwrap_or_default() == 0 {
            set(object, "/spec/matchingPrecedence", 1000);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_spec(object, &Path::new("spec"), &mut errors);
        let name = text(object, "/metadata/name");
        if mandatory_spec(name).is_some_and(|spec| !SPEC.is_equal(&spec, &object["spec"])) {
            errors.push(not_fixed(&SPEC, object, &format!("spec of '{name}' must equal the fixed value")));
        }
        validate_conditions(object, &mut errors);
        errors
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource == "status" {
            validate_conditions(object, &mut errors);
        }
        errors
    }
}

/// Returns the spec of the FlowSchemas that every cluster has in the same form.
fn mandatory_spec(name: &str) -> Option<Value> {
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let all = |subjects: Value| {
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1,
            "rules": all(json!([group("system:masters")])),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": MAX_PRECEDENCE,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": all(json!([group("system:unauthenticated"), group("system:authenticated")])),
        })),
        _ => None,
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let conditions = items(object, "/status/conditions");
    let dangling = conditions.iter().find(|condition| text(condition, "/type") == "Dangling");
    vec![
        name(object),
        text(object, "/spec/priorityLevelConfiguration/name").into(),
        count(object, "/spec/matchingPrecedence"),
        text_or_none(object, "/spec/distinguisherMethod/type"),
        age(object, now),
        dangling.map_or("?", |condition| text(condition, "/status")).into(),
    ]
}

fn validate_spec(object: &Value, path: &Path, errors: &mut ErrorList) {
    let precedence = integer(object, "/spec/matchingPrecedence").unwrap_or_default();
    let at = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(&at, precedence, "must be a positive value");
    }
    if precedence > MAX_PRECEDENCE {
        errors.invalid(&at, precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && text(object, "/metadata/name") != "exempt" {
        errors.invalid(&at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = text(object, "/spec/distinguisherMethod/type");
    if is_set(object, "/spec/distinguisherMethod") && !matches!(method, "ByNamespace" | "ByUser") {
        let shown = go_struct(&[("Type", &method.into())]);
        let error = FieldError::not_supported(
            &path.child("distinguisherMethod").child("type"),
            &Value::Null,
            &["ByNamespace", "ByUser"],
        );
        errors.push(FieldError { value: Some(shown), ..error });
    }
    let at = path.child("priorityLevelConfiguration").child("name");
    match text(object, "/spec/priorityLevelConfiguration/name") {
        "" => errors.required_because(&at, "must reference a priority level"),
        name => errors.dns_subdomain(&at, name),
    }
    for (index, rule) in items(object, "/spec/rules").iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), errors);
    }
}

fn validate_rule(rule: &Value, path: &Path, errors: &mut ErrorList) {
    let subjects = items(rule, "/subjects");
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &path.child("subjects").index(index), errors);
    }
    if subjects.is_empty() {
        errors.required_because(&path.child("subjects"), "subjects must contain at least one value");
    }
    let (resources, others) = (items(rule, "/resourceRules"), items(rule, "/nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        errors.required_because(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (index, rule) in resources.iter().enumerate() {
        validate_resource_rule(rule, &path.child("resourceRules").index(index), errors);
    }
    for (index, rule) in others.iter().enumerate() {
        validate_other_rule(rule, &path.child("nonResourceRules").index(index), errors);
    }
}

fn validate_subject(subject: &Value, path: &Path, errors: &mut ErrorList) {
    let kind = text(subject, "/kind");
    let Some((_, field)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return errors.not_supported(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let at = path.child(field);
    if !is_set(subject, &format!("/{field}")) {
        errors.required_because(&at, format!("{field} is required when subject kind is '{kind}'"));
    } else {
        let name = text(subject, &format!("/{field}/name"));
        errors.nonempty(&at.child("name"), name);
        if kind == "ServiceAccount" {
            if !matches!(name, "" | "*") {
                errors.dns_subdomain(&at.child("name"), name);
            }
            match text(subject, "/serviceAccount/namespace") {
                "" => errors.required_because(&at.child("namespace"), "must specify namespace for service account"),
                namespace => errors.dns_label(&at.child("namespace"), namespace),
            }
        }
    }
    for (other, field) in SUBJECTS.iter().filter(|(other, _)| *other != kind) {
        if is_set(subject, &format!("/{field}")) {
            let detail = format!("{field} is forbidden when subject kind is not '{other}'");
            errors.forbidden(&path.child(field), detail);
        }
    }
}

fn has_wildcard(list: &[Value]) -> bool {
    list.iter().any(|item| item == "*")
}

fn validate_verbs(rule: &Value, path: &Path, errors: &mut ErrorList) {
    let (verbs, path) = (items(rule, "/verbs"), path.child("verbs"));
    if verbs.is_empty() {
        errors.required_because(&path, "verbs must contain at least one value");
    } else if has_wildcard(verbs) {
        if verbs.len() > 1 {
            errors.invalid(&path, verbs.to_vec(), "if '*' is present, must not specify other verbs");
        }
    } else if !verbs.iter().all(|verb| VERBS.contains(&verb.as_str().unwrap_or_default())) {
        errors.push(FieldError::not_supported(&path, &copy(rule, "/verbs"), &VERBS));
    }
}

fn validate_resource_rule(rule: &Value, path: &Path, errors: &mut ErrorList) {
    validate_verbs(rule, path, errors);
    for (field, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let (list, at) = (items(rule, &format!("/{field}")), path.child(field));
        if list.is_empty() {
            errors.required_because(&at, format!("resource rules must supply at least one {one}"));
        } else if list.len() > 1 && has_wildcard(list) {
            errors.invalid(&at, list.to_vec(), format!("if '*' is present, must not specify other {many}"));
        }
    }
    let (namespaces, at) = (items(rule, "/namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && boolean(rule, "/clusterScope") != Some(true) {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required_because(&at, detail);
    } else if has_wildcard(namespaces) {
        if namespaces.len() > 1 {
            errors.invalid(&at, namespaces.to_vec(), "if '*' is present, must not specify other namespaces");
        }
    } else {
        for (index, namespace) in namespaces.iter().map(|namespace| namespace.as_str().unwrap_or_default()).enumerate()
        {
            for problem in names::is_dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                errors.invalid(&at.index(index), namespace, detail);
            }
        }
    }
}

fn validate_other_rule(rule: &Value, path: &Path, errors: &mut ErrorList) {
    validate_verbs(rule, path, errors);
    let (urls, path) = (items(rule, "/nonResourceURLs"), path.child("nonResourceURLs"));
    if urls.is_empty() {
        errors.required_because(&path, "nonResourceURLs must contain at least one value");
    } else if has_wildcard(urls) {
        if urls.len() > 1 {
            errors.invalid(&path, urls.to_vec(), "if '*' is present, must not specify other non-resource URLs");
        }
    } else {
        for (index, url) in urls.iter().map(|url| url.as_str().unwrap_or_default()).enumerate() {
            if let Some(problem) = url_problem(url) {
                errors.invalid(&path.index(index), url, problem);
            }
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ => match url.matches('*').count() {
            0 => None,
            1 if url.ends_with("/*") => None,
            _ => Some("wildcard can only do suffix matching"),
        },
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "PriorityLevel",
        "string",
        "`name` is the name of the priority level configuration being referenced Required.",
    ),
    column(
        "MatchingPrecedence",
        "string",
        "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen FlowSchema is among those with the numerically lowest (which we take to be logically highest) MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that if the precedence is not specified, it will be set to 1000 as default.",
    ),
    column(
        "DistinguisherMethod",
        "string",
        "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty string.",
    ),
    AGE,
    column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status};
    use expect_test::expect;

    fn schema(spec: Value) -> Value {
        json!({"metadata": {"name": "f"}, "spec": spec})
    }

    #[test]
    fn a_flow_schema_has_a_priority_level_and_a_precedence() {
        check_create(&FlowSchema, schema(json!({"priorityLevelConfiguration": {"name": "p"}})), expect![[""]]);
        check_create(
            &FlowSchema,
            schema(json!({"matchingPrecedence": 1, "distinguisherMethod": {"type": "X"}})),
            expect![[r#"
                spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1
                spec.distinguisherMethod.type: Unsupported value: {"Type":"X"}: supported values: "ByNamespace", "ByUser"
                spec.priorityLevelConfiguration.name: Required value: must reference a priority level
            "#]],
        );
        let far = json!({"matchingPrecedence": 10001, "priorityLevelConfiguration": {"name": "A_"}});
        check_create(
            &FlowSchema,
            schema(far),
            expect![[r#"
            spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000
            spec.priorityLevelConfiguration.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
        );
    }

    #[test]
    fn the_specs_of_the_mandatory_schemas_are_fixed() {
        for name in ["exempt", "catch-all"] {
            let fixed = json!({"metadata": {"name": name}, "spec": mandatory_spec(name)});
            check_create(&FlowSchema, fixed.clone(), expect![[""]]);
            let mut changed = fixed;
            changed["spec"]["rules"][0]["resourceRules"][0]["verbs"] = json!(["get"]);
            assert_eq!(FlowSchema.validate(&changed).len(), 1, "{name}");
        }
        let mut exempt = json!({"metadata": {"name": "exempt"}, "spec": mandatory_spec("exempt")});
        exempt["spec"]["rules"] = json!([]);
        check_create(
            &FlowSchema,
            exempt,
            expect![[r#"
                spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"exempt"},"MatchingPrecedence":1,"DistinguisherMethod":null,"Rules":[]}: spec of 'exempt' must equal the fixed value
            "#]],
        );
        let mut all = json!({"metadata": {"name": "catch-all"}, "spec": mandatory_spec("catch-all")});
        all["spec"]["rules"][0]["subjects"] = json!([{"kind": "User", "user": {"name": "u"}}]);
        check_create(
            &FlowSchema,
            all,
            expect![[r#"
                spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"catch-all"},"MatchingPrecedence":10000,"DistinguisherMethod":{"Type":"ByUser"},"Rules":[{"Subjects":[{"Kind":"User","User":{"Name":"u"},"Group":null,"ServiceAccount":null}],"ResourceRules":[{"Verbs":["*"],"APIGroups":["*"],"Resources":["*"],"ClusterScope":true,"Namespaces":["*"]}],"NonResourceRules":[{"Verbs":["*"],"NonResourceURLs":["*"]}]}]}: spec of 'catch-all' must equal the fixed value
            "#]],
        );
    }

    #[test]
    fn rules_have_subjects_and_resources() {
        let subjects = json!([{"kind": "X"}, {"kind": "User"}, {"kind": "Group", "group": {}, "user": {"name": "u"}},
            {"kind": "ServiceAccount", "serviceAccount": {"name": "A_"}}]);
        let resources = json!([{}, {"verbs": ["*", "get"], "apiGroups": ["*", "a"], "resources": ["*", "b"], "namespaces": ["*", "c"]},
            {"verbs": ["look"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["A_"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"], "clusterScope": true}]);
        let others = json!([{}, {"verbs": ["get"], "nonResourceURLs": ["", "a", "/a b", "//", "/a*", "/a/*", "/"]},
            {"verbs": ["*"], "nonResourceURLs": ["*", "/a"]}]);
        let rules = json!([{}, {"subjects": subjects, "resourceRules": resources, "nonResourceRules": others}]);
        check_create(
            &FlowSchema,
            schema(json!({"priorityLevelConfiguration": {"name": "p"}, "rules": rules})),
            expect![[r#"
                spec.rules[0].subjects: Required value: subjects must contain at least one value
                spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty
                spec.rules[1].subjects[0].kind: Unsupported value: "X": supported values: "Group", "ServiceAccount", "User"
                spec.rules[1].subjects[1].user: Required value: user is required when subject kind is 'User'
                spec.rules[1].subjects[2].group.name: Required value
                spec.rules[1].subjects[2].user: Forbidden: user is forbidden when subject kind is not 'User'
                spec.rules[1].subjects[3].serviceAccount.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.rules[1].subjects[3].serviceAccount.namespace: Required value: must specify namespace for service account
                spec.rules[1].resourceRules[0].verbs: Required value: verbs must contain at least one value
                spec.rules[1].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group
                spec.rules[1].resourceRules[0].resources: Required value: resource rules must supply at least one resource
                spec.rules[1].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace
                spec.rules[1].resourceRules[1].verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs
                spec.rules[1].resourceRules[1].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other api groups
                spec.rules[1].resourceRules[1].resources: Invalid value: ["*","b"]: if '*' is present, must not specify other resources
                spec.rules[1].resourceRules[1].namespaces: Invalid value: ["*","c"]: if '*' is present, must not specify other namespaces
                spec.rules[1].resourceRules[2].verbs: Unsupported value: ["look"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"
                spec.rules[1].resourceRules[2].namespaces[0]: Invalid value: "A_": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.rules[1].nonResourceRules[0].verbs: Required value: verbs must contain at least one value
                spec.rules[1].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value
                spec.rules[1].nonResourceRules[1].nonResourceURLs[0]: Invalid value: "": must not be empty
                spec.rules[1].nonResourceRules[1].nonResourceURLs[1]: Invalid value: "a": must start with slash
                spec.rules[1].nonResourceRules[1].nonResourceURLs[2]: Invalid value: "/a b": must not contain white-space
                spec.rules[1].nonResourceRules[1].nonResourceURLs[3]: Invalid value: "//": must not contain double slash
                spec.rules[1].nonResourceRules[1].nonResourceURLs[4]: Invalid value: "/a*": wildcard can only do suffix matching
                spec.rules[1].nonResourceRules[2].nonResourceURLs: Invalid value: ["*","/a"]: if '*' is present, must not specify other non-resource URLs
            "#]],
        );
    }

    #[test]
    fn condition_types_are_unique() {
        let status = json!({"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}});
        check_status(
            &FlowSchema,
            status,
            json!({}),
            expect![[r#"
            status.conditions[1].type: Duplicate value: "A"
            status.conditions[2].type: Required value
        "#]],
        );
    }
}
