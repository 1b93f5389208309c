use super::*;
use crate::rbac::needs::Recorded;

const USUAL: RuleOptions<'_> = RuleOptions { own: "system", namespaces: false, names: true };

fn needs(requests: &[&str]) -> Needs {
    let recorded: Vec<Recorded> = requests
        .iter()
        .map(|request| {
            let (method, uri) = request.split_once(' ').unwrap();
            let (method, uri) = (method.to_owned(), uri.to_owned());
            // The namespace of a test stands for any namespace.
            Recorded { method, uri, status: 200, any_namespace: Some("test".to_owned()), own_namespace: None }
        })
        .collect();
    Needs::of(&recorded, "system")
}

fn text(roles: &Roles) -> Vec<String> {
    let line = |scope: &str, rule: &Rule| {
        let Rule { groups, resources, names, urls, verbs } = rule;
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(",")) };
        let what =
            if urls.is_empty() { format!("{}: {}", groups.join(","), resources.join(",")) } else { urls.join(",") };
        format!("{scope} {what}{names} {}", verbs.join(","))
    };
    let cluster = roles.cluster.iter().map(|rule| line("*", rule));
    let namespaces = roles.namespaces.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| line(name, rule)));
    cluster.chain(namespaces).collect()
}

#[track_caller]
fn check(requests: &[&str], options: RuleOptions<'_>, expected: &[&str]) {
    let needs = needs(requests);
    let roles = Roles::of(&needs, options);
    assert_eq!(text(&roles), expected);
    assert!(needs.resources.iter().all(|need| roles.allows(need)));
}

#[test]
fn an_operator_needs_permissions_for_watches_and_writes() {
    check(
        &[
            "GET /apis/a.example.com/v1/foos?limit=500",
            "GET /apis/a.example.com/v1/foos?watch=true",
            "PATCH /apis/a.example.com/v1/namespaces/x/foos/one/status",
            "GET /apis/apps/v1/deployments",
            "GET /apis/apps/v1/deployments?watch=true",
            "PATCH /apis/apps/v1/namespaces/x/deployments/one",
            "GET /api/v1/secrets",
            "GET /api/v1/secrets?watch=1",
            "PATCH /api/v1/namespaces/y/secrets/one",
            "POST /apis/events.k8s.io/v1/namespaces/x/events",
            "POST /apis/events.k8s.io/v1/namespaces/y/events",
        ],
        USUAL,
        &[
            "* : secrets list,watch,patch",
            "* a.example.com: foos list,watch",
            "* a.example.com: foos/status patch",
            "* apps: deployments list,watch,patch",
            "* events.k8s.io: events create",
        ],
    );
}

#[test]
fn permissions_are_limited_to_one_namespace_and_fixed_names() {
    check(
        &[
            "POST /apis/coordination.k8s.io/v1/namespaces/system/leases",
            "GET /apis/coordination.k8s.io/v1/namespaces/system/leases/me",
            "PUT /apis/coordination.k8s.io/v1/namespaces/system/leases/me",
            "GET /api/v1/namespaces/system/configmaps?fieldSelector=metadata.name=settings&watch=true",
            "GET /api/v1/namespaces/system",
            "GET /metrics",
            "GET /logs/",
        ],
        USUAL,
        &[
            "* : namespaces get",
            "* /logs/,/metrics get",
            "system : configmaps (settings) watch",
            "system coordination.k8s.io: leases create",
            "system coordination.k8s.io: leases (me) get,update",
        ],
    );
}

#[test]
fn rules_are_as_narrow_as_requested() {
    let requests = &["GET /api/v1/namespaces/a/secrets/x", "GET /api/v1/namespaces/b/secrets/y"];
    check(requests, USUAL, &["* : secrets get"]);
    check(requests, RuleOptions { namespaces: true, ..USUAL }, &["a : secrets (x) get", "b : secrets (y) get"]);
    check(&requests[..1], USUAL, &["a : secrets (x) get"]);
    check(&requests[..1], RuleOptions { names: false, ..USUAL }, &["a : secrets get"]);
}

#[test]
fn generated_names_are_not_fixed() {
    check(
        &[
            "GET /apis/a.example.com/v1/namespaces/test/foos",
            "POST /apis/events.k8s.io/v1/namespaces/test/events",
            "PATCH /apis/events.k8s.io/v1/namespaces/test/events/example.18e879d2f04a35b2",
            "PATCH /api/v1/namespaces/test/secrets/example",
            "PATCH /api/v1/namespaces/default/services/example",
            "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.a.example.com",
        ],
        USUAL,
        &[
            "* : secrets patch",
            "* a.example.com: foos list",
            "* apiextensions.k8s.io: customresourcedefinitions (foos.a.example.com) patch",
            "* events.k8s.io: events create,patch",
            "default : services patch",
        ],
    );
}

#[test]
fn permissions_in_the_namespace_of_the_operator_are_limited_to_it() {
    let own = [
        "POST /api/v1/namespaces/system/secrets",
        "GET /api/v1/namespaces/system/secrets/certificates",
        "PUT /api/v1/namespaces/system/secrets/certificates",
    ];
    check(&own, USUAL, &["system : secrets create", "system : secrets (certificates) get,update"]);
    let others = ["GET /api/v1/namespaces/test/secrets/one", "PATCH /api/v1/namespaces/default/secrets/one"];
    // Permissions that are granted cluster-wide are not repeated there.
    let expected = ["* : secrets get,patch", "system : secrets create", "system : secrets (certificates) update"];
    check(&[&own[..], &others].concat(), USUAL, &expected);
}

#[test]
fn events_go_wherever_the_program_watches() {
    let event = "POST /apis/events.k8s.io/v1/namespaces/default/events";
    check(&[event], USUAL, &["default events.k8s.io: events create"]);
    let watch = "GET /apis/a.example.com/v1/foos?watch=true";
    check(&[watch, event], USUAL, &["* a.example.com: foos watch", "* events.k8s.io: events create"]);
}

#[test]
fn rules_have_the_semantics_of_kubernetes() {
    let rule = |value: Value| Rule::read(&value);
    let need = &needs(&["GET /api/v1/namespaces/a/pods/b/log"]).resources.pop_first().unwrap();
    for (allowed, value) in [
        (true, json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]})),
        (true, json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})),
        (true, json!({"apiGroups": [""], "resources": ["*/log"], "verbs": ["get"]})),
        (true, json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": ["b"]})),
        (false, json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})),
        (false, json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": ["c"]})),
        (false, json!({"apiGroups": ["apps"], "resources": ["pods/log"], "verbs": ["get"]})),
        (false, json!({})),
    ] {
        assert_eq!(rule(value.clone()).allows(need), allowed, "{value}");
    }
    assert!(rule(json!({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]})).allows_path("get", "/logs/a"));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_need() -> impl Strategy<Value = Need> {
        let word = |words: &'static [&'static str]| prop::sample::select(words);
        (
            word(&["", "apps"]),
            word(&["pods", "pods/log", "secrets", "foos", "foos/status"]),
            prop::sample::select(VERBS),
            prop::option::of(word(&["a", "b"])),
            prop::option::of(word(&["x", "y", "z", "1", "2", "3", "4"])),
        )
            .prop_map(|(group, resource, verb, namespace, name)| Need {
                group: group.to_owned(),
                resource: resource.to_owned(),
                verb,
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Everything requested is granted, and nothing on other resources or verbs.
        #[test]
        fn all_needed_permissions_are_granted_and_no_other_verb(
            needed in prop::collection::btree_set(any_need(), 0..30),
            other in any_need(),
            namespaces: bool,
            names: bool,
        ) {
            let needs = Needs { resources: needed, ..Needs::default() };
            let roles = Roles::of(&needs, RuleOptions { own: "a", namespaces, names });
            for need in &needs.resources {
                prop_assert!(roles.allows(need), "{need:?} in {roles:?}");
            }
            let same = |need: &Need| {
                (&need.group, &need.resource, need.verb) == (&other.group, &other.resource, other.verb)
            };
            if !needs.resources.iter().any(same) {
                prop_assert!(!roles.allows(&other), "{other:?} in {roles:?}");
            }
        }
    }
}
