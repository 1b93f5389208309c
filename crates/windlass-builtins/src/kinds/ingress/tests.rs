use expect_test::expect;

use super::*;
use crate::kinds::tests::expectations::{check_create, check_status, check_update};

fn backend() -> Value {
    json!({"service": {"name": "s", "port": {"number": 80}}})
}

fn ingress(spec: Value) -> Value {
    json!({"metadata": {"name": "i"}, "spec": spec})
}

fn at_path(path: Value) -> Value {
    ingress(json!({"rules": [{"http": {"paths": [path]}}]}))
}

#[test]
fn an_ingress_needs_a_backend() {
    check_create(
        &Ingress,
        ingress(json!({})),
        expect![[r#"
        spec: Invalid value: null: either `defaultBackend` or `rules` must be specified
    "#]],
    );
    check_create(&Ingress, ingress(json!({"defaultBackend": backend()})), expect![[""]]);
    check_create(&Ingress, ingress(json!({"rules": [{"host": "a.b"}]})), expect![[""]]);
    check_create(
        &Ingress,
        ingress(json!({"rules": [{"http": {"paths": []}}]})),
        expect![[r#"
        spec.rules[0].http.paths: Required value
    "#]],
    );
}

#[test]
fn hosts_are_names() {
    let rules = json!([{"host": "1.2.3.4"}, {"host": "*.a.b"}, {"host": "*.*.b"}, {"host": "A_"}]);
    let tls = json!([{"hosts": ["*.a", "*", "A_"], "secretName": "B_"}]);
    let bad = ingress(json!({"rules": rules, "tls": tls, "ingressClassName": "C_"}));
    check_create(
        &Ingress,
        bad,
        expect![[r#"
        spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
        spec.rules[2].host: Invalid value: "*.*.b": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.rules[3].host: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.tls[0].hosts[1]: Invalid value: "*": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.tls[0].hosts[2]: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.tls[0].secretName: Invalid value: "B_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        spec.ingressClassName: Invalid value: "C_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
}

#[test]
fn paths_are_absolute_and_plain() {
    for (path, kind, expected) in [
        ("/a", "Prefix", expect![[""]]),
        (
            "a//b/./c%2F/..",
            "Exact",
            expect![[r#"
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c%2F/..": must be an absolute path
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c%2F/..": must not contain '//'
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c%2F/..": must not contain '/./'
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c%2F/..": must not contain '%2F'
            spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c%2F/..": cannot end with '/..'
        "#]],
        ),
        ("", "ImplementationSpecific", expect![[""]]),
        (
            "x",
            "ImplementationSpecific",
            expect![[r#"
            spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path
        "#]],
        ),
        (
            "/a",
            "Regex",
            expect![[r#"
            spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"
        "#]],
        ),
    ] {
        check_create(&Ingress, at_path(json!({"path": path, "pathType": kind, "backend": backend()})), expected);
    }
    check_create(
        &Ingress,
        at_path(json!({"path": "/"})),
        expect![[r#"
        spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified
    "#]],
    );
}

#[test]
fn a_backend_is_a_port_of_a_service_or_a_resource() {
    for (backend, expected) in [
        (
            json!({}),
            expect![[r#"
            spec.defaultBackend: Invalid value: "": resource or service backend is required
        "#]],
        ),
        (
            json!({"service": {"name": "s"}, "resource": {"kind": "K", "name": "n"}}),
            expect![[r#"
            spec.defaultBackend: Invalid value: "": cannot set both resource and service backends
        "#]],
        ),
        (
            json!({"service": {"port": {"name": "web", "number": 1}}}),
            expect![[r#"
            spec.defaultBackend.service.name: Required value
            spec.defaultBackend: Invalid value: "": cannot set both port name & port number
        "#]],
        ),
        (
            json!({"service": {"name": "S", "port": {"name": "-"}}}),
            expect![[r#"
            spec.defaultBackend.service.name: Invalid value: "S": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.defaultBackend.service.port.name: Invalid value: "-": must contain at least one letter (a-z)
            spec.defaultBackend.service.port.name: Invalid value: "-": must not begin or end with a hyphen
        "#]],
        ),
        (
            json!({"service": {"name": "s", "port": {"number": 70000}}}),
            expect![[r#"
            spec.defaultBackend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive
        "#]],
        ),
        (
            json!({"service": {"name": "1s", "port": {}}}),
            expect![[r#"
            spec.defaultBackend: Required value: port name or number is required
        "#]],
        ),
        (
            json!({"resource": {"apiGroup": "A_", "kind": "a/b", "name": ""}}),
            expect![[r#"
            spec.defaultBackend.resource.apiGroup: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.defaultBackend.resource.kind: Invalid value: "a/b": may not contain '/'
            spec.defaultBackend.resource.name: Required value
        "#]],
        ),
    ] {
        check_create(&Ingress, ingress(json!({"defaultBackend": backend})), expected);
    }
}

#[test]
fn the_old_annotation_warns_and_must_not_disagree() {
    let mut old = ingress(json!({"defaultBackend": backend()}));
    old["metadata"]["annotations"] = json!({OLD_CLASS: "a"});
    check_create(
        &Ingress,
        old.clone(),
        expect![[r#"
        warning: annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead
    "#]],
    );
    old["spec"]["ingressClassName"] = json!("b");
    check_create(
        &Ingress,
        old.clone(),
        expect![[r#"
        annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified
    "#]],
    );
    check_update(&Ingress, old.clone(), old, expect![[""]]);
}

#[test]
fn values_that_were_accepted_earlier_may_stay() {
    let old = ingress(json!({"rules": [{"host": "*.a.b", "http": {"paths": []}}], "tls": [{"secretName": "B_"}]}));
    check_update(&Ingress, old.clone(), old.clone(), expect![[""]]);
    check_update(
        &Ingress,
        old,
        ingress(json!({"rules": [{"host": "*.a.b"}]})),
        expect![[r#"
        spec.rules[0].http.paths: Required value
        spec.tls[0].secretName: Invalid value: "B_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
}

#[test]
fn the_status_has_addresses_and_names() {
    let status = |points: Value| {
        let mut object = ingress(json!({"defaultBackend": backend()}));
        object["status"] = json!({"loadBalancer": {"ingress": points}});
        object
    };
    let bad = json!([{"ip": "1.2.3"}, {"ip": "010.0.0.1"}, {"hostname": "1.2.3.4"}, {"hostname": "A_"}]);
    check_status(
        &Ingress,
        status(bad),
        status(json!([])),
        expect![[r#"
        status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        status.loadBalancer.ingress[1].ip: Invalid value: "010.0.0.1": must not have leading 0s
        status.loadBalancer.ingress[2].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
        status.loadBalancer.ingress[3].hostname: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
    let known = json!([{"ip": "010.0.0.1"}]);
    check_status(&Ingress, status(known.clone()), status(known), expect![[""]]);
}
