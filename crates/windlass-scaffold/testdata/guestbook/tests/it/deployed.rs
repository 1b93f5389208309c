//! The deployed operator: its image, its manifests and its permissions.
//!
//! `windlass deploy --image IMAGE && cargo test deployed -- --ignored` uses the cluster of the current kubeconfig.

use std::process::Command;

/// Samples of resources that the operator reconciles.
const SAMPLES: &[&str] = &["deploy/samples/guestbook_v1.yaml"];

/// Runs kubectl in the directory of the project.
fn kubectl(arguments: &[&str]) -> bool {
    let mut command = Command::new("kubectl");
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.status().expect("kubectl must be installed").success()
}

#[test]
#[ignore = "requires a cluster to which the operator is deployed"]
fn samples_become_ready() {
    let files: Vec<&str> = SAMPLES.iter().flat_map(|sample| ["-f", sample]).collect();
    let run = |arguments: &[&str]| kubectl(&[arguments, &files[..]].concat());
    let applied = run(&["apply"]);
    let ready = applied && run(&["wait", "--for=condition=Ready", "--timeout=3m"]);
    if !ready {
        run(&["describe"]);
        kubectl(&["logs", "--namespace=guestbook-system", "--tail=100", "deployment/guestbook"]);
    }
    run(&["delete", "--ignore-not-found"]);
    assert!(applied, "the samples must be accepted");
    assert!(ready, "the samples must become ready");
}
