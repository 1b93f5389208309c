//! Full disks, lost data directories, and snapshots.

use std::{fs, path::Path, process::Output};

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::process::{Up, output, windlass};

fn config_map(name: &str, size: usize) -> ConfigMap {
    let data = json!({"key": "x".repeat(size)});
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

async fn create(maps: &Api<ConfigMap>, name: &str, size: usize) -> Result<ConfigMap, kube::core::Status> {
    match maps.create(&PostParams::default(), &config_map(name, size)).await {
        Ok(created) => Ok(created),
        Err(kube::Error::Api(status)) => Err(*status),
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Returns the code of a GET, and the body if it succeeds.
async fn get(client: &Client, path: &str) -> (u16, String) {
    match client.request_text(Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(text) => (200, text),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(error) => panic!("{path}: {error}"),
    }
}

fn limit_file_size(up: &Up, limit: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(up.pid()).unwrap()).unwrap();
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: limit, maximum: None }).unwrap();
}

#[tokio::test]
async fn a_full_disk_is_reported_by_health_checks_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &["--controllers", "", "--nodes", "0"]);
    let client = up.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut acknowledged = vec![create(&maps, "first", 10).await.unwrap()];

    limit_file_size(&up, Some(fs::metadata(data_dir.join("store.redb")).unwrap().len()));
    let rejected = loop {
        assert!(acknowledged.len() < 1000, "the limit must be reached");
        match create(&maps, &format!("map-{}", acknowledged.len()), 500_000).await {
            Ok(created) => acknowledged.push(created),
            Err(status) => break status,
        }
    };
    assert_eq!((rejected.code, rejected.reason.as_str()), (500, "InternalError"), "{rejected:?}");
    assert!(rejected.message.contains("the store rejects writes after an I/O error"), "{rejected:?}");
    // The server is alive, reports it, and serves reads.
    for path in ["/healthz", "/livez", "/readyz", "/readyz/etcd"] {
        assert_eq!(get(&client, path).await.0, 500, "{path}");
    }
    assert_eq!(get(&client, "/livez/ping").await, (200, "ok".to_owned()));
    assert_eq!(maps.get("first").await.unwrap(), acknowledged[0]);

    limit_file_size(&up, None);
    while get(&client, "/readyz").await.0 != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    acknowledged.push(create(&maps, "after", 500_000).await.unwrap());
    let names = |maps: &[ConfigMap]| {
        let mut names: Vec<_> = maps.iter().filter_map(|map| map.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let stored = maps.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(names(&stored), names(&acknowledged));
    up.stop("KILL");

    let up = Up::start(&data_dir, &["--controllers", "", "--nodes", "0"]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    let stored = maps.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(names(&stored), names(&acknowledged));
}

#[tokio::test]
async fn a_server_whose_data_directory_is_deleted_or_replaced_exits() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let quiet = ["--controllers", "", "--nodes", "0"];

    let up = Up::start(&data_dir, &quiet);
    fs::remove_dir_all(&data_dir).unwrap();
    let (exit, log) = up.ended();
    assert_eq!(exit.code(), Some(3), "{log}");
    let said =
        format!("error: data directory {} was deleted or replaced while it was in use\nhint: ", data_dir.display());
    assert!(log.contains(&said), "{log}");

    // Only the store's file: writes to it are no longer acknowledged.
    let up = Up::start(&data_dir, &quiet);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    fs::remove_file(data_dir.join("store.redb")).unwrap();
    if let Ok(created) = maps.create(&PostParams::default(), &config_map("lost", 1)).await {
        panic!("a write was acknowledged and lost: {created:?}");
    }
    let (exit, log) = up.ended();
    assert_eq!(exit.code(), Some(3), "{log}");
    assert!(log.contains("error: the control plane cannot continue: the store has failed: "), "{log}");

    // Another server may start in the new directory at once.
    let up = Up::start(&data_dir, &quiet);
    fs::rename(&data_dir, folder.path().join("moved")).unwrap();
    let other = Up::start(&data_dir, &quiet);
    let (exit, _) = up.ended();
    assert_eq!(exit.code(), Some(3));
    let maps: Api<ConfigMap> = Api::namespaced(other.admin().await, "default");
    create(&maps, "kept", 1).await.unwrap();
    assert_eq!(other.stop("TERM").0.code(), Some(0));
}

fn snapshot(arguments: &[&str], file: &Path, data_dir: Option<&Path>) -> Output {
    let mut command = windlass();
    command.env_remove("KUBECONFIG").arg("snapshot").args(arguments).arg(file);
    if let Some(data_dir) = data_dir {
        command.arg("--data-dir").arg(data_dir);
    }
    output(&mut command)
}

#[track_caller]
fn succeeds(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    (out, err)
}

#[track_caller]
fn fails(output: &Output) -> String {
    let err = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    err
}

#[tokio::test]
async fn a_snapshot_is_saved_verified_and_restored_into_a_new_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, file) = (folder.path().join("data"), folder.path().join("backup.snapshot"));
    let up = Up::start(&data_dir, &["--controllers", "", "--nodes", "0"]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    let kept = create(&maps, "kept", 1000).await.unwrap();
    let (out, said) = succeeds(&snapshot(&["save"], &file, Some(&data_dir)));
    assert_eq!(out, "");
    assert!(said.starts_with("saved ") && said.contains(" objects at revision "), "{said}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let later = create(&maps, "later", 1).await.unwrap();
    let seen = later.metadata.resource_version.clone().unwrap();
    up.stop("TERM");

    let (out, _) = succeeds(&snapshot(&["verify", "-o", "json"], &file, None));
    let verified: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(verified["bytes"].as_u64(), Some(fs::metadata(&file).unwrap().len()));
    let exists = fails(&snapshot(&["restore"], &file, Some(&data_dir)));
    assert!(exists.contains("exists already\nhint: choose a new directory"), "{exists}");
    let restored = folder.path().join("restored");
    let (_, said) = succeeds(&snapshot(&["restore"], &file, Some(&restored)));
    assert!(said.contains("; revision 1000") && said.contains("start it with `windlass up --data-dir"), "{said}");

    let up = Up::start(&restored, &["--controllers", "", "--nodes", "0"]);
    let client = up.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert_eq!(maps.get_opt("later").await.unwrap(), None);
    let next = create(&maps, "next", 1).await.unwrap();
    let number = |version: &str| version.parse::<u64>().unwrap();
    assert!(number(next.metadata.resource_version.as_deref().unwrap()) > number(&seen));
    // A client that has seen the lost object must list again.
    let watch = format!("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1&resourceVersion={seen}");
    let (_, events) = get(&client, &watch).await;
    assert!(events.contains("\"code\":410"), "{events}");
    up.stop("TERM");

    // Without a running server, the same objects are read from the directory.
    let again = folder.path().join("again.snapshot");
    succeeds(&snapshot(&["save"], &again, Some(&restored)));
    let (out, _) = succeeds(&snapshot(&["verify", "-o", "json"], &again, None));
    let second: Value = serde_json::from_str(&out).unwrap();
    assert!(second["revision"].as_u64() > verified["revision"].as_u64().map(|revision| revision + 1_000_000_000));
}

#[test]
fn damaged_snapshots_are_rejected_and_nothing_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, file) = (folder.path().join("data"), folder.path().join("backup"));
    let missing = fails(&snapshot(&["save"], &file, Some(&data_dir)));
    assert!(missing.contains("has no stored objects\nhint: "), "{missing}");
    Up::start(&data_dir, &["--controllers", "", "--nodes", "0"]).stop("TERM");
    succeeds(&snapshot(&["save"], &file, Some(&data_dir)));

    let intact = fs::read(&file).unwrap();
    let mut damaged = intact.clone();
    damaged[intact.len() / 2] ^= 1;
    let new = folder.path().join("new");
    for (content, said) in [
        (&intact[..intact.len() - 10], "is cut off after"),
        (&damaged, "is damaged at byte"),
        (b"kind: ConfigMap", "not a snapshot of windlass"),
    ] {
        fs::write(&file, content).unwrap();
        for arguments in [(&["verify"][..], None), (&["restore"][..], Some(new.as_path()))] {
            let error = fails(&snapshot(arguments.0, &file, arguments.1));
            assert!(error.contains(said) && error.contains("\nhint: "), "{error}");
        }
    }
    assert!(!new.exists());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("tmp")), "{left:?}");
}

#[tokio::test]
async fn a_used_quota_rejects_creates_and_accepts_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--controllers", "", "--nodes", "0", "--quota-backend-bytes", "2000000"];
    let up = Up::start(&folder.path().join("data"), &arguments);
    let client = up.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut created = 0;
    let rejected = loop {
        match create(&maps, &format!("map-{created}"), 300_000).await {
            Ok(_) => created += 1,
            Err(status) => break status,
        }
    };
    assert_eq!((rejected.code, rejected.message.as_str()), (500, "etcdserver: mvcc: database space exceeded"));
    assert_eq!(get(&client, "/readyz").await.0, 200);
    maps.delete("map-0", &kube::api::DeleteParams::default()).await.unwrap();
    let (_, metrics) = get(&client, "/metrics").await;
    assert!(metrics.contains("\netcd_server_quota_backend_bytes 2000000\n"), "{metrics}");
}
