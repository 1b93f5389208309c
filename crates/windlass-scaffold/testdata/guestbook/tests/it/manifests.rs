//! The manifests in `deploy` match the operator.

use std::{env, fs, path::Path};

use guestbook::operator::operator;
use windlass::manifests::{Part, to_yaml};

/// Generated files and the parts they contain.
const FILES: &[(&str, &[Part])] = &[
    ("crd/crds.yaml", &[Part::Crds]),
    (
        "manager/manager.yaml",
        &[Part::Namespace, Part::Services, Part::Deployment],
    ),
    ("metrics/monitor.yaml", &[Part::Monitoring]),
    ("network-policy/policy.yaml", &[Part::NetworkPolicy]),
    ("rbac/rbac.yaml", &[Part::Rbac]),
    ("webhook/webhooks.yaml", &[Part::Webhooks]),
];

/// Missing files are written; with `UPDATE=1`, all files are rewritten.
#[test]
fn the_manifests_are_up_to_date() {
    let mut manifests = operator().manifests("guestbook-system", "guestbook:latest");
    manifests.network_policy = true;
    manifests.service_monitor = true;
    let manifests = manifests.build().unwrap();
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    for (name, parts) in FILES {
        let text = to_yaml(manifests.iter().filter(|manifest| parts.contains(&manifest.part)));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
        let current = fs::read_to_string(&file).unwrap_or_default();
        if is_set("UPDATE") || (current.is_empty() && !is_set("CI")) {
            if !text.is_empty() {
                fs::write(&file, text).unwrap();
            }
        } else {
            let hint = "run `windlass generate` or `UPDATE=1 cargo test manifests`";
            assert!(current == text, "deploy/{name} is out of date: {hint}");
        }
    }
}
