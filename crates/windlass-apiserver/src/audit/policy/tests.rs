use expect_test::expect;

use super::*;
use crate::authorization::ResourceAction;

fn parse(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
    Policy::parse(text.as_bytes()).unwrap()
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..User::default() }
}

fn resource<'a>(verb: &'a str, group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Action<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, name, ..Default::default() })
}

#[test]
fn a_rule_matches_requests_like_in_kube_apiserver() {
    let tim = user("tim", &["humans", "developers"]);
    let get = resource("get", "", "pods", "default", "busybox");
    let status = resource("patch", "", "pods/status", "default", "busybox");
    let log = resource("get", "", "pods/log", "default", "busybox");
    let node = resource("get", "", "nodes", "", "n");
    let scale = resource("update", "apps", "deployments/scale", "default", "d");
    let path = Action::Path { verb: "get", path: "/logs/some" };
    let none = Action::Path { verb: "get", path: "/logs" };
    for (rule, action, matches) in [
        ("", &get, true),
        ("users: [tim]", &get, true),
        ("users: [eve]", &get, false),
        ("userGroups: [developers]", &get, true),
        ("userGroups: [admins]", &get, false),
        ("verbs: [get]", &get, true),
        ("verbs: [create]", &get, false),
        ("verbs: [get]", &path, true),
        ("namespaces: [default]", &get, true),
        ("namespaces: [kube-system]", &get, false),
        ("namespaces: ['']", &get, false),
        ("namespaces: ['']", &node, true),
        ("namespaces: ['']", &path, false),
        ("resources: [{resources: [pods]}]", &get, true),
        ("resources: [{resources: [pods]}]", &log, false),
        ("resources: [{resources: [pods/log]}]", &log, true),
        ("resources: [{resources: [pods/log]}]", &get, false),
        ("resources: [{resources: ['pods/*']}]", &log, true),
        ("resources: [{resources: ['pods/*']}]", &status, true),
        ("resources: [{resources: ['pods/*']}]", &get, true),
        ("resources: [{resources: ['*/log']}]", &log, true),
        ("resources: [{resources: ['*/log']}]", &status, false),
        ("resources: [{resources: ['*/log']}]", &get, false),
        ("resources: [{resources: ['*']}]", &log, true),
        ("resources: [{resources: ['*']}]", &scale, false),
        ("resources: [{group: '*', resources: ['*/scale']}]", &scale, true),
        ("resources: [{group: apps}]", &scale, true),
        ("resources: [{group: ''}]", &scale, false),
        ("resources: [{resources: [pods], resourceNames: [busybox]}]", &get, true),
        ("resources: [{resources: [pods], resourceNames: [other]}]", &get, false),
        ("resources: [{resources: [nodes]}, {resources: [pods]}]", &get, true),
        ("resources: [{resources: [pods]}]", &path, false),
        ("nonResourceURLs: ['/logs*']", &path, true),
        ("nonResourceURLs: ['/logs/*']", &path, true),
        ("nonResourceURLs: ['/logs/*']", &none, false),
        ("nonResourceURLs: ['/logs']", &none, true),
        ("nonResourceURLs: ['*']", &none, true),
        ("nonResourceURLs: ['*']", &get, false),
    ] {
        let policy = parse(&format!("- level: Metadata\n  {rule}\n"));
        assert_eq!(policy.evaluate(Some(&tim), action).level == Level::Metadata, matches, "{rule} {action:?}");
    }
}

#[test]
fn a_request_without_a_user_matches_only_rules_without_users() {
    let get = resource("get", "", "pods", "default", "busybox");
    for (rule, matches) in
        [("", true), ("verbs: [get]", true), ("users: ['']", false), ("userGroups: ['system:unauthenticated']", false)]
    {
        let policy = parse(&format!("- level: Metadata\n  {rule}\n"));
        assert_eq!(policy.evaluate(None, &get).level == Level::Metadata, matches, "{rule}");
    }
}

#[test]
fn the_first_matching_rule_decides_and_none_means_no_events() {
    let policy = parse(
        "- {level: None, users: [tim]}
- {level: Request, verbs: [get]}
- {level: RequestResponse, verbs: [get, list]}
",
    );
    let level = |name: &str, verb: &str| {
        policy.evaluate(Some(&user(name, &[])), &resource(verb, "", "pods", "default", "")).level
    };
    assert_eq!(level("tim", "get"), Level::None);
    assert_eq!(level("eve", "get"), Level::Request);
    assert_eq!(level("eve", "list"), Level::RequestResponse);
    assert_eq!(level("eve", "delete"), Level::None);
}

#[test]
fn omitted_stages_add_up_and_a_rule_overrides_omitted_managed_fields() {
    let text = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Metadata, verbs: [get], omitStages: [Panic]}
- {level: Metadata, omitManagedFields: false}
";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let recording = |verb| policy.evaluate(None, &resource(verb, "", "pods", "", ""));
    let stages = |recording: Recording| Stage::ALL.map(|stage| recording.has(stage));
    assert_eq!(stages(recording("get")), [false, true, true, false]);
    assert_eq!(stages(recording("list")), [false, true, true, true]);
    assert!(recording("get").omit_managed_fields);
    assert!(!recording("list").omit_managed_fields);
}

#[test]
fn invalid_policies_are_rejected_with_the_messages_of_kube_apiserver() {
    let error = |text: &str| Policy::parse(text.as_bytes()).err().map_or("none".to_owned(), |error| error.to_string());
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    let errors = [
        error("rules: [{level: Metadata}]"),
        error("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: Metadata}]"),
        error("apiVersion: v1\nkind: Pod"),
        error("apiVersion: audit.k8s.io/v1\nrules: [{level: Metadata}]"),
        error(head),
        error(&format!("{head}rules: []")),
        error(&format!("{head}rules: [{{}}]")),
        error(&format!("{head}rules: [{{level: all}}]")),
        error(&format!("{head}omitStages: [Begin]\nrules: [{{level: None, omitStages: [Panic, End]}}]")),
        error(&format!("{head}rules: [{{level: None, nonResourceURLs: [logs, '/*s', '/a*', '']}}]")),
        error(&format!("{head}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]")),
        error(&format!("{head}rules: [{{level: None, resources: [{{group: a/v1}}]}}]")),
        error(&format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]")),
        error("a: b: c"),
    ];
    expect![[r#"
        unknown group version field audit.k8s.io/__internal, Kind=Policy in policy
        failed decoding: no kind "Policy" is registered for version "audit.k8s.io/v1beta1" in scheme "pkg/runtime/scheme.go:111"
        failed decoding: no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"
        none
        loaded illegal policy with 0 rules
        loaded illegal policy with 0 rules
        rules[0].level: Required value
        rules[0].level: Unsupported value: "all": supported values: "None", "Metadata", "Request", "RequestResponse"
        [omitStages[0]: Invalid value: "Begin": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, rules[0].omitStages[1]: Invalid value: "End": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic]
        [rules[0].nonResourceURLs[0]: Invalid value: "logs": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: "/*s": non-resource URL wildcards '*' must be the final character of the rule, rules[0].nonResourceURLs[3]: Invalid value: "": non-resource URL rules must begin with a '/' character]
        rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs
        rules[0].resources.group: Invalid value: "a/v1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        rules[0].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least one resource
        failed decoding: yaml: mapping values are not allowed in this context
    "#]]
    .assert_eq(&(errors.join("\n") + "\n"));
}

#[test]
fn unknown_and_duplicate_fields_are_ignored_with_a_complaint() {
    let text = "
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: mine}
rule: []
rules:
- {level: Metadata, levels: [], resources: [{names: []}]}
- {level: Metadata, level: None}
";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    expect![[r#"
        yaml: unmarshal errors:
          line 8: key "level" already set in map
        unknown field "rule"
        unknown field "rules[0].levels"
        unknown field "rules[0].resources[0].names""#]]
    .assert_eq(&policy.complaints().join("\n"));
    assert_eq!(policy.evaluate(None, &resource("get", "", "pods", "", "")).level, Level::Metadata);
}
