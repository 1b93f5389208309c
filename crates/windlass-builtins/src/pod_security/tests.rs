use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

const LATEST: PolicyVersion = PolicyVersion::Latest;

fn found(level: Level, version: PolicyVersion, metadata: &Value, spec: &Value) -> String {
    details(&violations(LevelVersion { level, version }, metadata, spec))
}

/// Compares a spec with `baseline:latest`.
#[track_caller]
fn baseline(spec: Value, expected: Expect) {
    expected.assert_eq(&found(Level::Baseline, LATEST, &json!({}), &spec));
}

/// Checks a pod with one container that satisfies `restricted:latest`, except for the given fields.
#[track_caller]
fn restricted(changes: Value, expected: Expect) {
    let mut spec = hardened();
    merge(&mut spec, changes);
    expected.assert_eq(&found(Level::Restricted, LATEST, &json!({}), &spec));
}

fn hardened() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
    })
}

/// Merges objects; everything else is replaced, and null removes.
fn merge(value: &mut Value, changes: Value) {
    match (value, changes) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(fields.entry(key).or_insert(Value::Null), change);
            }
        }
        (Value::Array(items), Value::Array(changes)) if items.len() == 1 && changes.len() == 1 => {
            changes.into_iter().for_each(|change| merge(&mut items[0], change));
        }
        (value, change) => *value = change,
    }
}

fn contexts(contexts: &[(&str, Value)]) -> Value {
    let containers = contexts.iter().map(|(name, context)| json!({"name": name, "securityContext": context}));
    json!({"containers": containers.collect::<Vec<_>>()})
}

#[test]
fn privileged_allows_everything() {
    let spec = json!({"hostPID": true, "containers": [{"name": "c", "securityContext": {"privileged": true}}]});
    assert_eq!(found(Level::Privileged, LATEST, &json!({}), &spec), "");
}

#[test]
fn a_plain_pod_is_baseline_and_a_hardened_one_restricted() {
    baseline(json!({"containers": [{"name": "c"}]}), expect![""]);
    restricted(json!({}), expect![""]);
    let plain = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}], "ephemeralContainers": [{"name": "e"}]});
    expect![[r#"allowPrivilegeEscalation != false (containers "i", "c", "e" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers "i", "c", "e" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or containers "i", "c", "e" must set securityContext.runAsNonRoot=true), seccompProfile (pod or containers "i", "c", "e" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#]]
    .assert_eq(&found(Level::Restricted, LATEST, &json!({}), &plain));
}

#[test]
fn baseline_rejects_access_to_the_node() {
    baseline(
        json!({"hostNetwork": true, "hostIPC": true, "hostPID": false}),
        expect!["host namespaces (hostNetwork=true, hostIPC=true)"],
    );
    let volumes = json!([{"name": "a", "hostPath": {"path": "/"}}, {"name": "b"}, {"name": "c", "hostPath": {}}]);
    baseline(json!({"volumes": volumes}), expect![[r#"hostPath volumes (volumes "a", "c")"#]]);
    baseline(
        json!({"containers": [{"name": "a", "ports": [{"hostPort": 9}, {"hostPort": 10}, {"hostPort": 0}]}]}),
        expect![[r#"hostPort (container "a" uses hostPorts 10, 9)"#]],
    );
    baseline(
        json!({"containers": [{"name": "a", "ports": [{"hostPort": 9}]}, {"name": "b", "ports": [{"hostPort": 9}]}]}),
        expect![[r#"hostPort (containers "a", "b" use hostPort 9)"#]],
    );
    let probing = json!([
        {"name": "b", "livenessProbe": {"httpGet": {"host": "h2"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "h1"}}}},
        {"name": "a", "startupProbe": {"tcpSocket": {"host": ""}}},
    ]);
    baseline(
        json!({"containers": probing}),
        expect![[r#"probe or lifecycle host (container "b" uses probe or lifecycle hosts "h1", "h2")"#]],
    );
    let windows = json!({"windowsOptions": {"hostProcess": true}});
    let mut spec = contexts(&[("a", windows.clone())]);
    spec["securityContext"] = windows;
    baseline(
        spec,
        expect![[
            r#"hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)"#
        ]],
    );
}

#[test]
fn baseline_rejects_privileges() {
    baseline(
        contexts(&[("a", json!({"privileged": true})), ("b", json!({"privileged": false}))]),
        expect![[r#"privileged (container "a" must not set securityContext.privileged=true)"#]],
    );
    let add = |capabilities: &[&str]| json!({"capabilities": {"add": capabilities}});
    baseline(
        contexts(&[("a", add(&["SYS_ADMIN", "CHOWN"])), ("b", add(&["NET_RAW"])), ("c", add(&["KILL"]))]),
        expect![[
            r#"non-default capabilities (containers "a", "b" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#
        ]],
    );
    baseline(
        contexts(&[("a", json!({"procMount": "Unmasked"})), ("b", json!({"procMount": "Default"}))]),
        expect![[r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#]],
    );
    let mut own_users = contexts(&[("a", json!({"procMount": "Unmasked"}))]);
    own_users["hostUsers"] = json!(false);
    baseline(own_users.clone(), expect![""]);
    let old = found(Level::Baseline, PolicyVersion::Minor(34), &json!({}), &own_users);
    expect![[r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#]].assert_eq(&old);
}

#[test]
fn baseline_rejects_profiles_that_protect_less() {
    let mut spec = contexts(&[
        ("a", json!({"seLinuxOptions": {"type": "bad_t", "user": "u"}})),
        ("b", json!({"seLinuxOptions": {"role": "r", "type": "container_t"}})),
    ]);
    spec["securityContext"] = json!({"seLinuxOptions": {"level": "s0"}});
    baseline(
        spec,
        expect![[
            r#"seLinuxOptions (containers "a", "b" set forbidden securityContext.seLinuxOptions: type "bad_t"; user may not be set; role may not be set)"#
        ]],
    );
    let engine = contexts(&[("a", json!({"seLinuxOptions": {"type": "container_engine_t"}}))]);
    baseline(engine.clone(), expect![""]);
    assert_ne!(found(Level::Baseline, PolicyVersion::Minor(30), &json!({}), &engine), "");
    let mut spec = contexts(&[("a", json!({"seccompProfile": {"type": "Unconfined"}}))]);
    spec["securityContext"] = json!({"seccompProfile": {"type": "Localhost"}});
    baseline(
        spec,
        expect![[r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#]],
    );
    let annotations = json!({"annotations": {
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/x",
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "x\"y",
        "container.seccomp.security.alpha.kubernetes.io/no-container": "x",
    }});
    let mut spec = contexts(&[("a", json!({"appArmorProfile": {"type": "Unconfined"}}))]);
    spec["securityContext"] = json!({"appArmorProfile": {"type": "Unconfined"}});
    expect![[r#"forbidden AppArmor profiles (pod and container "a" and annotation must not set AppArmor profile type to "Unconfined", "container.apparmor.security.beta.kubernetes.io/a="unconfined"")"#]]
    .assert_eq(&found(Level::Baseline, LATEST, &annotations, &spec));
    expect![[r#"seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/a="x\"y", seccomp.security.alpha.kubernetes.io/pod="unconfined")"#]]
    .assert_eq(&found(Level::Baseline, PolicyVersion::Minor(18), &json!({"annotations": {
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "x\"y",
    }}), &contexts(&[("a", json!({}))])));
}

#[test]
fn sysctls_are_allowed_since_a_version() {
    for (name, since) in [
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_wmem", 32),
    ] {
        let spec = json!({"securityContext": {"sysctls": [{"name": name}]}});
        let at = |minor| found(Level::Baseline, PolicyVersion::Minor(minor), &json!({}), &spec);
        assert_eq!(at(since), "", "{name}");
        if since > 0 {
            assert_eq!(at(since - 1), format!("forbidden sysctls ({name})"));
        }
    }
    let spec = json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "a"}]}});
    baseline(spec, expect!["forbidden sysctls (kernel.msgmax, a)"]);
}

#[test]
fn restricted_rejects_privileges() {
    let context = |context: Value| json!({"containers": [{"securityContext": context}]});
    restricted(
        context(json!({"allowPrivilegeEscalation": true})),
        expect![[
            r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)"#
        ]],
    );
    restricted(context(json!({"capabilities": {"add": ["NET_BIND_SERVICE"]}})), expect![""]);
    restricted(
        context(json!({"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"], "drop": ["KILL"]}})),
        expect![[
            r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" must not include "CHOWN" in securityContext.capabilities.add)"#
        ]],
    );
    restricted(
        json!({"hostUsers": false, "containers": [{"securityContext": {"procMount": "Unmasked"}}]}),
        expect![[r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#]],
    );
    restricted(
        json!({"volumes": [{"name": "a", "nfs": {}}, {"name": "b", "emptyDir": {}}, {"name": "c", "hostPath": {}}, {"name": "d"}]}),
        expect![[
            r#"restricted volume types (volumes "a", "c", "d" use restricted volume types "hostPath", "nfs", "unknown")"#
        ]],
    );
}

#[test]
fn restricted_rejects_root() {
    restricted(
        json!({"securityContext": {"runAsNonRoot": false}, "containers": [{"securityContext": {"runAsNonRoot": false}}]}),
        expect![[r#"runAsNonRoot != true (pod and container "c" must not set securityContext.runAsNonRoot=false)"#]],
    );
    restricted(
        json!({"securityContext": {"runAsNonRoot": null}}),
        expect![[r#"runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)"#]],
    );
    let own =
        json!({"securityContext": {"runAsNonRoot": null}, "containers": [{"securityContext": {"runAsNonRoot": true}}]});
    restricted(own, expect![""]);
    restricted(
        json!({"securityContext": {"runAsUser": 0}, "containers": [{"securityContext": {"runAsUser": 1}}]}),
        expect!["runAsUser=0 (pod must not set runAsUser=0)"],
    );
    let own_users = json!({"hostUsers": false, "securityContext": {"runAsUser": 0, "runAsNonRoot": false}});
    restricted(own_users, expect![""]);
}

#[test]
fn restricted_requires_a_seccomp_profile() {
    restricted(
        json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        expect![[r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#]],
    );
    restricted(
        json!({"securityContext": {"seccompProfile": null}}),
        expect![[
            r#"seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
        ]],
    );
    let own = json!({"containers": [{"securityContext": {"seccompProfile": {"type": "Localhost"}}}]});
    let own = |mut changes: Value| {
        changes["containers"] = own["containers"].clone();
        changes
    };
    restricted(own(json!({"securityContext": {"seccompProfile": null}})), expect![""]);
}

#[test]
fn windows_pods_need_no_linux_fields_since_1_25() {
    let spec =
        json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]});
    assert_eq!(found(Level::Restricted, PolicyVersion::Minor(25), &json!({}), &spec), "");
    let old = found(Level::Restricted, PolicyVersion::Minor(24), &json!({}), &spec);
    assert!(old.starts_with("allowPrivilegeEscalation != false"), "{old}");
}

#[test]
fn each_version_has_the_checks_of_its_release() {
    let reasons_at = |level, minor| {
        let spec = json!({
            "securityContext": {"runAsUser": 0},
            "volumes": [{"name": "v", "hostPath": {}}],
            "containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}, "securityContext": {
                "capabilities": {"add": ["NET_RAW"]}, "procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"},
            }}],
        });
        reasons(&violations(LevelVersion { level, version: PolicyVersion::Minor(minor) }, &json!({}), &spec))
    };
    expect!["non-default capabilities, hostPath volumes, procMount"].assert_eq(&reasons_at(Level::Baseline, 0));
    expect!["non-default capabilities, procMount, restricted volume types, runAsNonRoot != true"]
        .assert_eq(&reasons_at(Level::Restricted, 7));
    expect!["non-default capabilities, procMount, allowPrivilegeEscalation != false, restricted volume types, runAsNonRoot != true"]
        .assert_eq(&reasons_at(Level::Restricted, 8));
    expect!["procMount, allowPrivilegeEscalation != false, unrestricted capabilities, restricted volume types, runAsNonRoot != true, runAsUser=0, seccompProfile"]
        .assert_eq(&reasons_at(Level::Restricted, 23));
    expect!["probe or lifecycle host, allowPrivilegeEscalation != false, unrestricted capabilities, procMount, restricted volume types, runAsNonRoot != true, runAsUser=0, seccompProfile"]
        .assert_eq(&reasons_at(Level::Restricted, 35));
    assert_eq!(reasons_at(Level::Restricted, 35), reasons_at(Level::Restricted, 99), "there is nothing newer");
}

#[test]
fn an_update_is_significant_if_it_changes_containers() {
    let pod = json!({"spec": {"containers": [{"name": "a", "image": "i"}], "ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let changed = |pointer: &str, value: Value| {
        let mut new = pod.clone();
        *new.pointer_mut(pointer).expect("a field") = value;
        is_significant_update(&new, &pod)
    };
    assert!(!is_significant_update(&pod, &pod));
    assert!(!changed("/spec/containers/0/name", json!("b")));
    assert!(changed("/spec/containers/0/image", json!("j")));
    assert!(changed("/spec/containers", json!([])));
    assert!(changed("/spec/ephemeralContainers/0/image", json!("j")));
    assert!(changed("/spec/ephemeralContainers/0/name", json!("f")));
    assert!(!changed("/spec/ephemeralContainers", json!([])), "removing one is not");
}
