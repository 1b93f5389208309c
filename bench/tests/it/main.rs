//! The program as users run it, as far as it works without kube-apiserver and etcd.

use std::{
    path::Path,
    process::{Command, Output},
};

fn bench(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-bench"));
    command.args(args).arg("--data").arg(folder.join("data")).output().expect("the program must start")
}

#[test]
fn the_whole_load_runs_against_the_floor_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    for kind in ["configmap", "widget"] {
        let small = ["--objects", "32", "--gets", "64", "--lists", "2", "--watchers", "8", "--watch-events", "10"];
        let mut args = vec!["--only", "floor", "--kind", kind, "--json", json.to_str().unwrap()];
        args.extend(small);
        let output = bench(folder.path(), &args);
        let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{errors}");
        assert!(table.contains("| get "), "{table}");
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let floor = &result["servers"]["floor"];
        assert!(floor["get"]["value"].as_f64().unwrap() > 0.0, "{floor}");
        assert!((1750.0..1850.0).contains(&floor["get"]["answerBytes"].as_f64().unwrap()), "{floor}");
        assert!(floor["memory after the load"]["value"].as_f64().unwrap() > 1e6, "{floor}");
        assert_eq!(floor["server-side apply"].is_object(), kind == "widget", "{floor}");
    }
    assert!(std::fs::read_dir(folder.path().join("data")).unwrap().next().is_none(), "data was left behind");
}

#[test]
fn a_missing_peer_is_an_error_that_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["--only", "kubernetes", "--peers", folder.path().to_str().unwrap()]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("etcd does not exist: build it with `cargo xtask peers`"), "{errors}");
}

#[test]
fn definitions_are_measured_only_where_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let error = |args: &[&str]| {
        let output = bench(folder.path(), args);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let floor = error(&["definitions", "--only", "floor"]);
    assert!(floor.contains("the floor has no CRDs: remove `--only floor`"), "{floor}");
    let none = error(&["definitions", "--only", "windlass", "--samples", "0"]);
    assert!(none.contains("--samples, --definitions and --kubernetes-definitions must be at least 1"), "{none}");
}

#[test]
fn kills_without_clients_or_objects_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--kills", "--kills-per-history", "--clients", "--keys"] {
        let output = bench(folder.path(), &["kills", option, "0", "--windlass", "none"]);
        assert!(!output.status.success());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("--kills, --kills-per-history, --clients and --keys must be at least 1"), "{errors}");
    }
}

#[test]
fn faults_without_servers_rounds_or_clients_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--servers", "--rounds", "--clients", "--keys"] {
        let output = bench(folder.path(), &["faults", option, "0", "--windlass", "none"]);
        assert!(!output.status.success());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("--servers, --rounds, --clients and --keys must be at least 1"), "{errors}");
    }
}
