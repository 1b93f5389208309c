//! `windlass doctor` on this machine.

use serde_json::Value;

use crate::process::{output, windlass};

fn doctor(folder: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    let mut command = windlass();
    command.current_dir(folder).env("KUBECONFIG", "/nowhere");
    output(command.args(["doctor", "--data-dir", "data"]).args(arguments))
}

#[test]
fn checks_are_listed_and_problems_fail() {
    let folder = tempfile::tempdir().unwrap();
    let found = doctor(folder.path(), &["-o", "json"]);
    let report: Value = serde_json::from_slice(&found.stdout).unwrap();
    let check = |report: &Value, name: &str| {
        report["checks"].as_array().unwrap().iter().find(|check| check["check"] == name).unwrap().clone()
    };
    // Rust is installed where tests run.
    for name in ["cargo", "data", "clock", "cluster"] {
        assert_eq!(check(&report, name)["result"], "ok", "{report}");
    }
    assert_eq!(found.status.code(), Some(0), "{report}");

    std::fs::write(folder.path().join("PROJECT"), "nonsense").unwrap();
    let found = doctor(folder.path(), &["-o", "json"]);
    let report: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(check(&report, "project")["result"], "problem", "{report}");
    assert_eq!((found.status.code(), found.stderr.as_slice()), (Some(1), &b""[..]));
    let table = String::from_utf8(doctor(folder.path(), &[]).stdout).unwrap();
    assert!(table.contains("problem  project") && table.contains("hint: "), "{table}");
}
