//! Failures and their error messages.

use std::{fs, net::TcpListener, os::unix::fs::DirBuilderExt as _, process::Stdio};

use crate::process::{Up, output, windlass};

/// Runs a command that must fail with this exit code, and returns its standard error.
#[track_caller]
fn failure(arguments: &[&str], code: i32) -> String {
    let output = output(windlass().args(arguments));
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_second_server_on_a_data_directory_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]);
    let before = fs::read_to_string(data_dir.join("kubeconfig")).unwrap();
    for store in ["embedded", "memory"] {
        let said = failure(&["up", "--port", "0", "--store", store, "--data-dir", data_dir.to_str().unwrap()], 1);
        let pid = up.pid();
        assert_eq!(
            said,
            format!(
                "error: a control plane is already running in {0}: {1} (process {pid})\n\
                 hint: stop it with `windlass down --data-dir {0}`, use it with `windlass kubectl-env --data-dir {0}`, or \
                 choose another --data-dir\n",
                data_dir.display(),
                up.url()
            )
        );
    }
    assert_eq!(fs::read_to_string(data_dir.join("kubeconfig")).unwrap(), before);
    up.admin().await.apiserver_version().await.unwrap();
}

#[test]
fn a_port_in_use_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port().to_string();
    let said = failure(&["up", "--port", &port, "--data-dir", folder.path().to_str().unwrap()], 1);
    assert!(said.starts_with(&format!("error: failed to listen on {address}: Address already in use")), "{said}");
    let hint = "\nhint: the port is in use: choose another one, or 0 for any free port\n";
    assert!(said.ends_with(hint), "{said}");
}

#[test]
fn a_directory_that_cannot_be_created_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let data_dir = file.join("data");
    let said = failure(&["up", "--port", "0", "--data-dir", data_dir.to_str().unwrap()], 1);
    assert!(said.starts_with(&format!("error: failed to create data directory {}: ", data_dir.display())), "{said}");
    assert!(said.ends_with("\nhint: choose a data directory that you can write to\n"), "{said}");
}

#[test]
fn a_damaged_certificate_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    Up::start(&data_dir, &["--store", "memory"]).stop("TERM");
    fs::write(data_dir.join("pki/server.crt"), "damaged").unwrap();
    let said = failure(&["up", "--port", "0", "--data-dir", data_dir.to_str().unwrap()], 1);
    let pki = data_dir.join("pki");
    let pki = pki.display();
    assert!(said.starts_with(&format!("error: {pki}/server.crt is not a certificate in PEM")), "{said}");
    let hint = format!("\nhint: remove {pki}/server.crt and {pki}/server.key to recreate them\n");
    assert!(said.ends_with(&hint), "{said}");
}

#[test]
fn a_damaged_store_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    fs::DirBuilder::new().mode(0o700).create(&data_dir).unwrap();
    fs::write(data_dir.join("store.redb"), "not a database, but long enough to be looked at".repeat(100)).unwrap();
    let said = failure(&["up", "--port", "0", "--data-dir", data_dir.to_str().unwrap()], 1);
    let store = data_dir.join("store.redb");
    assert!(said.starts_with(&format!("error: failed to open store {}", store.display())), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
}

#[test]
fn without_a_home_directory_data_dir_is_required() {
    let output = output(windlass().arg("up").env_remove("HOME").env_remove("XDG_DATA_HOME"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().ends_with("hint: choose one with --data-dir\n"));
}

#[test]
fn an_unknown_controller_is_reported_with_the_known_ones() {
    let said = failure(&["up", "--controllers", "*,-deployments"], 1);
    assert!(
        said.starts_with("error: unknown controller \"deployments\"\nhint: known controllers: namespace-controller, "),
        "{said}"
    );
    assert!(said.contains(", deployment-controller, "), "{said}");
}

#[test]
fn invalid_stages_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stages.yaml");
    let path = file.to_str().unwrap();
    let said = failure(&["up", "--stages", path], 1);
    assert!(said.starts_with(&format!("error: cannot read {path}: ")), "{said}");
    fs::write(
        &file,
        "apiVersion: windlass.dev/v1alpha1\nkind: Stage\nmetadata: {name: mine}\nspec: {next: {stats: {}}}\n",
    )
    .unwrap();
    let said = failure(&["up", "--stages", path], 1);
    assert!(said.starts_with(&format!("error: cannot use {path}: stage mine: unknown field `stats`")), "{said}");
}

#[test]
fn wrong_usage_exits_with_code_2() {
    for arguments in [
        &["up", "--store", "etcd"][..],
        &["up", "--port", "65536"],
        &["up", "--nodes", "-1"],
        &["up", "--runtime", "docker"],
        &["up", "--address", "nowhere"],
        &["down", "--wait", "-1"],
        &["kubectl-env", "--shell", "cmd"],
        &["status", "-o", "xml"],
        &[],
        &["completion", "sh"],
    ] {
        assert!(!failure(arguments, 2).is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_closed_pipe_is_ignored_and_a_full_disk_is_an_error() {
    // A pipe whose reader has closed it.
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    for arguments in [&["completion", "bash"][..], &["version"], &["demo", "--fast"]] {
        let silent = windlass().args(arguments).stdout(gone()).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(silent.stderr).unwrap();
        assert_eq!((silent.status.code(), err.as_str()), (Some(0), ""), "{arguments:?}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let failed = windlass().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.starts_with("error: failed to write to standard output: "), "{err}");
    }
    let deaf = windlass().args(["status", "--data-dir", "/nothing/there"]).stderr(gone()).output().unwrap();
    assert_eq!(deaf.status.code(), Some(1));
}

#[test]
fn version_and_completions_go_to_standard_output() {
    let version = output(windlass().arg("version"));
    let expected = format!("windlass v{} (Kubernetes v1.36)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((version.status.code(), version.stdout), (Some(0), expected.into_bytes()));
    for shell in ["bash", "zsh", "fish"] {
        let completion = output(windlass().args(["completion", shell]));
        assert!(completion.status.success());
        assert!(String::from_utf8(completion.stdout).unwrap().contains("ready-file"), "{shell}");
    }
}

#[test]
fn a_token_key_that_cannot_be_used_is_reported_with_a_hint_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let path = data_dir.join("pki/sa.key");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir.join("pki")).unwrap();
    fs::write(&path, "hello").unwrap();
    let said = failure(&["up", "--port", "0", "--data-dir", data_dir.to_str().unwrap()], 1);
    let problem = "contains no private key in PEM (PKCS #8, PKCS #1 or SEC 1)";
    assert!(said.starts_with(&format!("error: {} {problem}\nhint: restore the file", path.display())), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
}
