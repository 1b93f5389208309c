use expect_test::{Expect, expect};

use super::*;

fn status(message: &str) -> Status {
    Status::failure(message, "Forbidden").with_code(403)
}

fn denied(verb: &str, resource: &str, group: &str, scope: &str) -> Status {
    let user = "system:serviceaccount:task-system:task-operator";
    status(&format!(
        "{resource} \"one\" is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
    ))
}

fn sent(operation: Verb, kind: &str) -> Origin {
    Origin { controller: Some("task".into()), operation: Some((operation, kind.to_owned())) }
}

fn shows(status: &Status, origin: Origin, expected: Expect) {
    let denial = Denial::of(status).expect("the message must be understood");
    expected.assert_eq(&origin.of(denial).to_string());
}

#[test]
fn a_denial_shows_the_rule_and_the_line_to_add() {
    shows(
        &denied("create", "jobs", "batch", "in the namespace \"default\""),
        sent(Verb::Create, "Job"),
        expect![[r#"
            controller "task" may not create jobs.batch in namespace default
              missing rule:
                - apiGroups: ["batch"]
                  resources: ["jobs"]
                  verbs: ["create"]
              hint: add to controller "task": .creates::<Job>()"#]],
    );
    shows(
        &denied(
            "get",
            "nodes",
            "",
            "at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"x\" not found",
        ),
        Origin::default(),
        expect![[r#"
            may not get nodes
              missing rule:
                - apiGroups: [""]
                  resources: ["nodes"]
                  verbs: ["get"]
              hint: add to the operator, or to the controller that sent it: .permission(Permission::new("", "nodes", ["get"]))"#]],
    );
}

#[test]
fn subresources_have_methods_of_their_own() {
    let line = |verb: &str, resource: &str, operation| {
        let status = denied(verb, resource, "", "in the namespace \"default\"");
        sent(operation, "Pod").of(Denial::of(&status).unwrap()).line()
    };
    assert_eq!(line("patch", "pods/scale", Verb::Scale), ".scales::<Pod>()");
    assert_eq!(line("create", "pods/eviction", Verb::Evict), ".evicts()");
    assert_eq!(line("get", "pods/log", Verb::Logs), ".reads_logs()");
    assert_eq!(line("create", "pods/exec", Verb::Exec), ".execs()");
    assert_eq!(line("deletecollection", "pods", Verb::DeleteAll), ".deletes_all::<Pod>()");
    // The object itself, which is looked up after the write.
    assert_eq!(line("get", "pods", Verb::Evict), ".permission(Permission::new(\"\", \"pods\", [\"get\"]))");
}

#[test]
fn the_line_names_the_method_of_the_operation() {
    let line = |verb: &str, resource: &str, operation| {
        let status = denied(verb, resource, "", "in the namespace \"default\"");
        sent(operation, "Pod").of(Denial::of(&status).unwrap()).line()
    };
    assert_eq!(line("patch", "pods", Verb::Apply), ".applies::<Pod>()");
    assert_eq!(line("patch", "pods", Verb::Patch), ".updates::<Pod>()");
    assert_eq!(line("update", "pods", Verb::Update), ".updates::<Pod>()");
    assert_eq!(line("delete", "pods", Verb::Delete), ".deletes::<Pod>()");
    assert_eq!(line("list", "pods", Verb::List), ".reads::<Pod>()");
    assert_eq!(line("get", "pods", Verb::Get), ".reads::<Pod>()");
    let status = r#".permission(Permission::new("", "pods/status", ["patch"]))"#;
    assert_eq!(line("patch", "pods/status", Verb::SetStatus), status);
}

#[test]
fn other_rejections_are_not_denials() {
    for message in [
        "pods \"web\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1",
        "pods \"web\" is forbidden: unable to create new content in namespace a because it is being terminated",
        "admission webhook \"w.example.com\" denied the request: no",
        "forbidden: User \"a\" cannot get path \"/logs\"",
        "pods is forbidden: User \"a\" cannot create resource \"pods\" in API group \"\"",
    ] {
        assert_eq!(Denial::of(&status(message)), None, "{message}");
    }
    let mut other = denied("get", "pods", "", "at the cluster scope");
    assert!(Denial::of(&other).is_some());
    other.code = 401;
    assert_eq!(Denial::of(&other), None);
}

#[test]
fn a_missing_rule_is_reported_once() {
    let denials = Denials::default();
    let add = |verb: &str, scope: &str| denials.add(Denial::of(&denied(verb, "pods", "", scope)).unwrap()).is_some();
    assert!(add("create", "in the namespace \"a\""));
    assert!(!add("create", "in the namespace \"b\""));
    assert!(add("delete", "in the namespace \"a\""));
    assert_eq!(denials.all().len(), 2);
}

#[test]
fn a_rule_that_was_generated_is_not_suggested_again() {
    let rule = Permission::new("", "pods", ["create"]).in_namespace("a");
    let named = Permission::new("", "pods", ["delete"]).named("web");
    let denials = Denials::new([rule, named]);
    let hint = |verb: &str, namespace: &str| {
        let status = denied(verb, "pods", "", &format!("in the namespace \"{namespace}\""));
        let hint = denials.add(Denial::of(&status).unwrap()).unwrap().hint();
        denials.shared.lock().clear();
        hint
    };
    assert_eq!(hint("create", "a"), "the generated roles allow this: apply the current manifests");
    let elsewhere = hint("create", "b");
    assert!(
        elsewhere.ends_with(r#".permission(Permission::new("", "pods", ["create"]).in_namespace("b"))"#),
        "{elsewhere}"
    );
    let named = hint("delete", "a");
    assert!(named.ends_with(r#".permission(Permission::new("", "pods", ["delete"]))"#), "{named}");
}
