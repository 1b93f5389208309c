//! Restrictions on the secrets that a pod may reference.

use serde_json::Value;

use crate::object::{is_set, items, text};

/// Checks that a mirror pod references no secrets.
///
/// # Errors
/// Returns why the pod is forbidden.
pub fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if names_a_secret(pod) {
        return Err("a mirror pod may not reference secrets");
    }
    let projected = items(pod, "/spec/volumes").iter().flat_map(|volume| items(volume, "/projected/sources"));
    match projected.into_iter().any(|source| is_set(source, "/serviceAccountToken")) {
        true => Err("a mirror pod may not use ServiceAccountToken volume projections"),
        false => Ok(()),
    }
}

fn names_a_secret(pod: &Value) -> bool {
    const VOLUMES: [&str; 10] = [
        "/secret",
        "/azureFile",
        "/cephfs/secretRef",
        "/cinder/secretRef",
        "/flexVolume/secretRef",
        "/rbd/secretRef",
        "/scaleIO/secretRef",
        "/iscsi/secretRef",
        "/storageos/secretRef",
        "/csi/nodePublishSecretRef",
    ];
    let of_volume = |volume: &Value| {
        VOLUMES.iter().any(|field| is_set(volume, field))
            || items(volume, "/projected/sources").iter().any(|source| is_set(source, "/secret"))
    };
    let of_container = |container: &Value| {
        items(container, "/env").iter().any(|env| is_set(env, "/valueFrom/secretKeyRef"))
            || items(container, "/envFrom").iter().any(|from| is_set(from, "/secretRef"))
    };
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    !items(pod, "/spec/imagePullSecrets").is_empty()
        || items(pod, "/spec/volumes").iter().any(of_volume)
        || containers.iter().any(|kind| items(pod, &format!("/spec/{kind}")).iter().any(of_container))
}

/// Checks that a pod references only secrets that its service account lists. `kinds` are the container lists to check.
///
/// # Errors
/// Returns why the pod is forbidden.
pub fn check_secrets(pod: &Value, account: &Value, kinds: &[&str]) -> Result<(), String> {
    let who = text(account, "/metadata/name");
    let listed = |list: &str, name: &str| items(account, list).iter().any(|secret| text(secret, "/name") == name);
    let mountable = |name: &str| listed("/secrets", name);
    let reason = format!("is not allowed because service account {who} does not reference that secret");
    let whole = !kinds.contains(&"ephemeralContainers");
    for volume in items(pod, "/spec/volumes").iter().filter(|volume| whole && is_set(volume, "/secret")) {
        let name = text(volume, "/secret/secretName");
        if !mountable(name) {
            return Err(format!("volume with secret.secretName=\"{name}\" {reason}"));
        }
    }
    for kind in kinds {
        let title = match *kind {
            "initContainers" => "init container",
            "ephemeralContainers" => "ephemeral container",
            _ => "container",
        };
        for container in items(pod, &format!("/spec/{kind}")) {
            let title = format!("{title} {}", text(container, "/name"));
            for env in items(container, "/env").iter().filter(|env| is_set(env, "/valueFrom/secretKeyRef")) {
                let name = text(env, "/valueFrom/secretKeyRef/name");
                if !mountable(name) {
                    let variable = text(env, "/name");
                    return Err(format!(
                        "{title} with envVar {variable} referencing secret.secretName=\"{name}\" {reason}"
                    ));
                }
            }
            for from in items(container, "/envFrom").iter().filter(|from| is_set(from, "/secretRef")) {
                let name = text(from, "/secretRef/name");
                if !mountable(name) {
                    return Err(format!("{title} with envFrom referencing secret.secretName=\"{name}\" {reason}"));
                }
            }
        }
    }
    for (at, secret) in items(pod, "/spec/imagePullSecrets").iter().enumerate().filter(|_| whole) {
        let name = text(secret, "/name");
        if !listed("/imagePullSecrets", name) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account {who} does not reference \
                 that imagePullSecret"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_references_only_secrets_of_its_service_account() {
        let account =
            json!({"metadata": {"name": "bot"}, "secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "pull"}]});
        let kinds = ["initContainers", "containers"];
        let env = |name: &str| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
        for (spec, expected) in [
            (json!({"volumes": [{"secret": {"secretName": "mine"}}], "imagePullSecrets": [{"name": "pull"}]}), None),
            (json!({"volumes": [{"secret": {"secretName": "x"}}]}), Some("volume with secret.secretName=\"x\"")),
            (
                json!({"containers": [{"name": "c", "env": env("x")}]}),
                Some("container c with envVar E referencing secret.secretName=\"x\""),
            ),
            (
                json!({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                Some("init container i with envFrom referencing secret.secretName=\"x\""),
            ),
            (json!({"imagePullSecrets": [{"name": "x"}]}), Some("imagePullSecrets[0].name=\"x\"")),
        ] {
            let checked = check_secrets(&json!({"spec": spec}), &account, &kinds);
            match expected {
                None => assert_eq!(checked, Ok(())),
                Some(beginning) => {
                    assert!(checked.as_ref().is_err_and(|why| why.starts_with(beginning)), "{checked:?}")
                }
            }
        }
    }

    #[test]
    fn a_mirror_pod_references_no_secret() {
        assert_eq!(check_mirror(&json!({"spec": {"volumes": [{"emptyDir": {}}]}})), Ok(()));
        for spec in [
            json!({"serviceAccountName": "bot"}),
            json!({"volumes": [{"secret": {"secretName": "x"}}]}),
            json!({"imagePullSecrets": [{"name": "x"}]}),
            json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]}),
        ] {
            assert!(check_mirror(&json!({"spec": spec})).is_err(), "{spec}");
        }
    }
}
