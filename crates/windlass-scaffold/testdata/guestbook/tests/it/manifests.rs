//! What is in `deploy` is what the program says about itself.

use std::{env, fs, path::Path};

use guestbook::operator::operator;
use windlass::manifests::{Part, to_yaml};

/// The files, and what is in them.
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

/// Files that are not there yet are written; with `UPDATE=1`, all are.
#[test]
fn the_manifests_are_those_of_the_program() {
    let mut manifests = operator().manifests("guestbook-system", "guestbook:latest");
    manifests.network_policy = true;
    manifests.service_monitor = true;
    let manifests = manifests.build().unwrap();
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    for (name, parts) in FILES {
        let text = to_yaml(manifests.iter().filter(|manifest| parts.contains(&manifest.part)));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
        let there = fs::read_to_string(&file).unwrap_or_default();
        if is_set("UPDATE") || (there.is_empty() && !is_set("CI")) {
            if !text.is_empty() {
                fs::write(&file, text).unwrap();
            }
        } else {
            let hint = "`windlass generate` or `UPDATE=1 cargo test manifests` writes it";
            assert!(there == text, "deploy/{name} is stale: {hint}");
        }
    }
}
